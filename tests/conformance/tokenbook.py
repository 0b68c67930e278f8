"""The rows about verified tokens: what a server that checks JWTs on its sockets says to each."""

from __future__ import annotations

from collections.abc import Iterator

import exchange
import sockettalk
from httpbook import STILL, chat, flow
from socketbook import END, LOGINS, PROMPT, RESUMING, WHO, ask, auth
from sockettalk import Drop, Open, Quiet, Reply, Step, Until
from tokens import OF_SEVERAL, TOKENS

LOOK = Quiet(1.0)
"""Time enough for a refusal, even if the keys are to be fetched first."""

TOLD = Until("auth_response_message")
TURN: tuple[Step, ...] = (ask(STILL), *END)
NAMES = {"jwt": list(TOKENS), "jwts": [f"several/{name}" for name in OF_SEVERAL]}
"""The tokens that are shown to the servers of each kind."""


def bearer(name: str) -> tuple[tuple[str, str], ...]:
    """The header that shows a token."""
    return (("authorization", f"Bearer {{token:{name}}}"),)


def login(name: str) -> sockettalk.Say:
    """The login that shows a token."""
    return auth(method="jwt", token=f"{{token:{name}}}")


def _sockets() -> Iterator[sockettalk.Row]:
    for kind, names in NAMES.items():
        for name in names:
            yield sockettalk.Row(f"handshake, {name}", [LOOK, *TURN], kind, who=bearer(name))
            yield sockettalk.Row(f"login, {name}", [login(name), TOLD, *TURN], kind)
    for about, who in WHO.items():
        yield sockettalk.Row(f"handshake with {about}", [LOOK, *TURN], "jwt", who=who)
    for about, say in LOGINS.items():
        yield sockettalk.Row(f"login with {about}", [say, LOOK, *TURN], "jwt")
    for about, other in {
        "a session": ("cookie", "nat-session=ann"),
        "a key header": ("x-api-key", "key"),
    }.items():
        does = [LOOK, *TURN]
        both = (other, *bearer("expired"))
        yield sockettalk.Row(f"handshake, expired, beside {about}", does, "jwt", who=both)
    small = (("authorization", "bearer  {token:expired}"),)
    yield sockettalk.Row("handshake, expired, in small letters", [LOOK, *TURN], "jwt", who=small)


def _users() -> Iterator[sockettalk.Row]:
    each = [step for name in ("good", "good, of bob", "with scp") for step in (login(name), TOLD)]
    yield sockettalk.Row("two users", [*each, *TURN], "jwt")
    key = auth(method="api_key", token="ann")
    does = [login("good"), TOLD, key, TOLD, *TURN]
    yield sockettalk.Row("a key of the same text", does, "jwt")
    does = [login("good"), TOLD, login("expired"), TOLD, *TURN]
    yield sockettalk.Row("a refused login behind a good one", does, "jwt", who=bearer("good"))
    does = [login("expired"), TOLD, login("good"), TOLD, *TURN]
    yield sockettalk.Row("a good login behind a refused one", does, "jwt")
    began = [ask(f"{STILL} hitl=text think_ms=300"), PROMPT, Quiet(0.6), Drop()]
    wait = Until("system_interaction_message", on="b")
    rest = (wait, Reply(on="b"), Until(on="b"), Quiet(on="b"))
    for about, opening, goes_on in (
        ("by another token", [Open(RESUMING, bearer("with scp"), "b")], True),
        ("by a login", [Open(RESUMING, on="b"), sockettalk.Say(login("good").message, "b")], True),
        ("as somebody else", [Open(RESUMING, bearer("good, of bob"), "b")], False),
        ("by a key of the same text", [Open(RESUMING, (("x-api-key", "ann"),), "b")], False),
    ):
        ending = rest if goes_on else (Quiet(1.2, "b"),)
        does = [Open(headers=bearer("good")), *began, *opening, *ending]
        yield sockettalk.Row(f"taken up {about}", does, "jwt")


def _requests() -> Iterator[exchange.Row]:
    """No route but the socket verifies: whatever can be read is believed."""
    routes = {"/v1/chat": chat, "/v1/workflow/full": flow, "/chat/stream": chat, "/generate": flow}
    for name in TOKENS:
        for path, body in routes.items():
            headers = dict(bearer(name))
            yield exchange.Row(f"{path}, {name}", path, body(STILL), headers=headers, kind="jwt")


CHAPTERS = {"ws tokens": _sockets, "ws users of tokens": _users, "tokens": _requests}
ROWS: dict[str, exchange.Row | sockettalk.Row] = {
    f"{chapter}: {row.name}": row for chapter, rows in CHAPTERS.items() for row in rows()
}
