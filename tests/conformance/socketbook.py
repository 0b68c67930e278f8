"""The WebSocket dialogues of the suite: each is a row, played on both servers and compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from httpbook import OWN_QUESTIONS, PROMPT_KINDS, QUESTIONS, RACING, STEADY, STILL
from sockettalk import Consent, Drop, Open, Quiet, Reply, Row, Say, Step, Until

SCHEMAS = ("chat_stream", "chat", "generate_stream", "generate")
PROMPT = Until("system_interaction_message")
RESPONSE = Until("system_response_message")
STEP = Until("system_intermediate_message")
END: tuple[Step, ...] = (Until(), Quiet())
KEY = (("authorization", "Bearer key-{me}"),)
RESUMING = "/websocket?conversation_id={me}"


def ask(words: str, schema: str = "chat_stream", **more: Any) -> Say:
    """A good question; ``more`` are further members, or others."""
    return Say(_question(words, schema) | more)


def _question(words: str, schema: str) -> dict[str, Any]:
    return {
        "type": "user_message",
        "schema_type": schema,
        "id": "turn",
        "conversation_id": "{me}",
        "content": {"messages": [said(words)]},
    }


def said(words: str) -> dict[str, Any]:
    """A message of the user's."""
    return {"role": "user", "content": [{"type": "text", "text": words}]}


def without(name: str) -> dict[str, Any]:
    """A question that lacks a member."""
    return {key: value for key, value in _question(STILL, "chat_stream").items() if key != name}


def auth(**payload: Any) -> Say:
    """A login."""
    return Say({"type": "auth_message", "payload": payload})


def _questions() -> Iterator[Row]:
    for schema in SCHEMAS:
        for about, words in QUESTIONS.items():
            if about != "asks":
                racing = about in RACING
                yield Row(f"{schema}: {about}", [ask(words, schema), *END], racing=racing)
        for kind in PROMPT_KINDS:
            calm = f"{STILL} think_ms=300 hitl={kind}"
            answers = [] if kind == "notification" else [PROMPT, Reply()]
            yield Row(f"{schema}: asks {kind}", [ask(calm, schema), *answers, *END])
        twice = [ask(STILL, schema), Until(), ask(STILL, schema), *END]
        yield Row(f"{schema}: two turns", twice)
    dialogue = [said(STILL), {**said("an answer"), "role": "assistant"}, said(STEADY)]
    for schema in SCHEMAS:
        content = {"messages": dialogue}
        yield Row(f"{schema}: a dialogue", [ask("", schema, content=content), *END])


def _prompts() -> Iterator[Row]:
    for where in ("start", "mid", "end"):
        words = f"{STILL} hitl=text hitl_at={where}"
        yield Row(f"at {where}", [ask(words), PROMPT, Reply(), *END], racing=where == "mid")
    two = f"{STILL} hitl=text,radio"
    yield Row("one after the other", [ask(two), PROMPT, Reply(), PROMPT, Reply(), *END])
    calm = f"{STILL} think_ms=400 hitl=radio"
    yield Row("a value not offered", [ask(calm), PROMPT, Reply("pigeon"), *END])
    yield Row("an empty reply", [ask(calm), PROMPT, Reply(""), *END])
    timed = f"{STILL} hitl=text hitl_timeout=1"
    yield Row("nobody replies", [ask(timed), *END])
    yield Row("nobody replies, and it goes on", [ask(f"{timed} hitl_catch=1"), *END])
    failing = f"{STILL} hitl=text fail=answer"
    yield Row("a failure behind a reply", [ask(failing), PROMPT, Reply(), *END])
    usable = [ask(STILL), *END]
    yield Row("a reply twice", [ask(calm), PROMPT, Reply(), RESPONSE, Reply(), Quiet(1.0), *usable])
    late = [ask(f"{timed} hitl_catch=1 think_ms=3000"), PROMPT, Quiet(7.5), Reply(), Quiet(1.0)]
    yield Row("a late reply", [*late, *usable])
    yield Row("a reply before any question", [Reply(), Quiet(1.0), *usable])
    yield Row("a reply after the turn", [*usable, Reply(), Quiet(1.0), *usable])
    yield Row(
        "a reply to a turn that asked nothing",
        [ask(f"{STILL} think_ms=900"), STEP, Reply(), Quiet(1.5), *usable],
    )
    running = ask(f"{STILL} tokens=30 token_ms=40")
    other = ask(STILL, id="other")
    yield Row("another question while one runs", [running, RESPONSE, other, *END])
    yield Row("another question at a prompt", [ask(calm), PROMPT, other, *END])
    yield Row("a reply behind another question", [ask(calm), PROMPT, other, Reply(), Quiet(1.0)])


BAD_MESSAGES: dict[str, Any] = {
    "no type": without("type"),
    "a type that nobody knows": without("type") | {"type": "telepathy"},
    "no schema": without("schema_type"),
    "a schema that nobody knows": without("schema_type") | {"schema_type": "poem"},
    "no content": without("content"),
    "content that is a text": without("content") | {"content": "question"},
    "content of a message that is a text": without("content")
    | {"content": {"messages": [{"role": "user", "content": STILL}]}},
    "a message with another member": without("content")
    | {"content": {"messages": [said(STILL) | {"mood": "good"}]}},
    "a part with another member": without("content")
    | {"content": {"messages": [{"role": "user", "content": [
        {"type": "text", "text": STILL, "mood": "good"}]}]}},
    "a role that nobody plays": without("content")
    | {"content": {"messages": [said(STILL) | {"role": "critic"}]}},
    "another member": without("user") | {"mood": "good"},
    "an empty object": {},
    "a number": "7",
    "null": "null",
    "a JSON text": '"question"',
    "a list": "[]",
    "no JSON": "{question",
    "an empty text": "",
    "bytes": b"{}",
    "a number for an id": without("id") | {"id": 7},
    "a reply without content": {"type": "user_interaction_message", "id": "r"},
    "a step of the server's": {"type": "system_intermediate_message", "content": {}},
    "a response of the server's": {"type": "system_response_message", "content": {"text": "x"}},
}  # fmt: skip


def _bad_messages() -> Iterator[Row]:
    for about, message in BAD_MESSAGES.items():
        yield Row(about, [Say(message), Quiet(0.6), ask(STILL), *END])
    for name in ("id", "conversation_id"):
        yield Row(f"no {name}", [Say(without(name)), *END])
    for schema in SCHEMAS:
        for about, messages in {
            "no messages": [],
            "no text of the user's": [{**said(STILL), "role": "assistant"}],
            "no parts": [{"role": "user", "content": []}],
        }.items():
            if about == "no parts" and schema.startswith("chat"):
                continue  # a turn without words: each server has defaults of its own
            bad = ask("", schema, content={"messages": messages})
            yield Row(f"{schema}: {about}", [bad, Quiet(1.0), ask(STILL), *END])
    for about, path in {
        "an unknown path": "/nothing",
        "a path of HTTP's": "/v1/chat",
        "a session": "/websocket?session=ann",
        "a session with other characters": "/websocket?session=a%20b",
        "an empty session": "/websocket?session=",
        "something else in the query": "/websocket?mood=good",
    }.items():
        yield Row(f"at {about}", [Open(path), ask(STILL), *END])


LOGINS: dict[str, Say] = {
    "an API key": auth(method="api_key", token="key"),
    "a JWT": auth(method="jwt", token="eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.c2ln"),
    "a JWT of an e-mail": auth(
        method="jwt", token="eyJhbGciOiJub25lIn0.eyJlbWFpbCI6ImFubkBleC5vcmcifQ.c2ln"
    ),
    "name and password": auth(method="basic", username="ann", password="word"),
    "no JWT": auth(method="jwt", token="no-jwt"),
    "a JWT that cannot be read": auth(method="jwt", token="a.b.c"),
    "a JWT of nobody": auth(method="jwt", token="eyJhbGciOiJub25lIn0.e30.c2ln"),
    "a method that nobody knows": auth(method="telepathy", token="key"),
    "an empty key": auth(method="api_key", token=""),
    "no key": auth(method="api_key"),
    "another member": auth(method="api_key", token="key", mood="good"),
    "no password": auth(method="basic", username="ann"),
    "an empty password": auth(method="basic", username="ann", password=""),
    "no payload": Say({"type": "auth_message"}),
    "a wish for redirects": auth(method="oauth_mode_preference", mode="redirect"),
    "a wish for popups": auth(method="oauth_mode_preference", mode="popup"),
    "a wish for smoke signs": auth(method="oauth_mode_preference", mode="smoke"),
}
TOKEN = "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.c2ln"
WHO: dict[str, tuple[tuple[str, str], ...]] = {
    "nobody": (),
    "a session": (("cookie", "nat-session=ann"),),
    "an API key": (("authorization", "Bearer key"),),
    "a token": (("authorization", TOKEN),),
    "a key header": (("x-api-key", "key"),),
    "name and password": (("authorization", "Basic YW5uOnB3"),),
    "no token": (("authorization", "Bearer a.b.c"),),
    "a token of nobody": (("authorization", "Bearer eyJhbGciOiJub25lIn0.e30.c2ln"),),
    "no name and password": (("authorization", "Basic !!!"),),
    "another scheme": (("authorization", "Digest x"),),
    "a session and a key": (("cookie", "nat-session=ann"), ("authorization", "Bearer key")),
    "a session and no token": (("cookie", "nat-session=ann"), ("authorization", "Bearer a.b.c")),
    "a proxy's word": (("x-user-id", "ann"),),
    "a proxy's empty word": (("x-user-id", ""),),
    "a proxy's words": (("x-user-id", "ann"), ("x-user-id", "bob")),
}


def _identities() -> Iterator[Row]:
    for kind in ("", "strict", "header", "peruser"):
        usual = kind or "usual"
        for about, login in LOGINS.items():
            who = WHO["a proxy's word"] if kind == "header" else ()
            does = [login, Quiet(0.6), ask(STILL), *END]
            yield Row(f"{usual} server, login with {about}", does, kind=kind, who=who)
        for about, who in WHO.items():
            does = [Quiet(0.4), ask(STILL), *END]
            yield Row(f"{usual} server, handshake with {about}", does, kind=kind, who=who)
        path = Open("/websocket?session=ann")
        does = [path, Quiet(0.4), ask(STILL), *END]
        yield Row(f"{usual} server, handshake with a session in the query", does, kind=kind)
    for schema in SCHEMAS:
        for about, words in OWN_QUESTIONS.items():
            answers = [PROMPT, Reply()] if about == "asks" else []
            does = [ask(words, schema), *answers, *END]
            yield Row(f"a workflow of one's own, {schema}: {about}", does, "peruser", who=KEY)
    key, word = LOGINS["an API key"], LOGINS["name and password"]
    yield Row("two logins", [key, Quiet(), word, Quiet(), ask(STILL), *END])
    long = ask(f"{STILL} tokens=30 token_ms=30")
    yield Row("a login while a turn runs", [long, RESPONSE, key, *END])


def _resumes() -> Iterator[Row]:
    prompted = [ask(f"{STILL} hitl=text think_ms=300"), PROMPT, Quiet(0.6), Drop()]
    again = Open(RESUMING, KEY, "b")
    rest: tuple[Step, ...] = (Until(on="b"), Quiet(on="b"))
    wait = Until("system_interaction_message", on="b")
    good = [Open(headers=KEY), *prompted]
    yield Row("at a prompt", [*good, again, wait, Reply(on="b"), *rest])
    timed = ask(f"{STILL} hitl=radio hitl_timeout=30 think_ms=300")
    yield Row(
        "at a prompt with a time limit",
        [Open(headers=KEY), timed, PROMPT, Quiet(0.6), Drop(), again, wait, Reply(on="b"), *rest],
    )
    third = Open(RESUMING, KEY, "c")
    yield Row(
        "at a prompt, twice",
        [
            *good,
            again,
            wait,
            Quiet(0.6, "b"),
            Drop("b"),
            third,
            Until("system_interaction_message", on="c"),
            Reply(on="c"),
            Until(on="c"),
        ],
    )
    login = Say(
        {"type": "auth_message", "payload": {"method": "api_key", "token": "key-{me}"}}, "b"
    )
    yield Row("by a login", [*good, Open(RESUMING, on="b"), login, wait, Reply(on="b"), *rest])
    session = Open("/websocket?session={me}")
    yield Row(
        "by a session",
        [
            session,
            *prompted,
            Open(f"{RESUMING}&session={{me}}", on="b"),
            wait,
            Reply(on="b"),
            *rest,
        ],
    )
    yield Row(
        "then the next turn",
        [
            *good,
            again,
            wait,
            Reply(on="b"),
            *rest,
            Say(_question(STILL, "chat_stream"), "b"),
            *rest,
        ],
    )
    silent = ask(f"{STILL} step_ms=1500")
    yield Row("in a silent step", [Open(headers=KEY), silent, Quiet(0.4), Drop(), again, *rest])
    talking = ask(f"{STILL} tokens=100 token_ms=20")
    yield Row(
        "when something was said to nobody",
        [Open(headers=KEY), talking, RESPONSE, Drop(), Quiet(), again, Quiet(3.0, "b")],
    )
    yield Row(
        "while the first socket is open",
        [Open(headers=KEY), silent, Quiet(0.4), again, *rest, Quiet(0.3)],
    )
    two = ask(f"{STILL} hitl=text,radio")
    yield Row(
        "then a second prompt",
        [
            Open(headers=KEY),
            two,
            PROMPT,
            Quiet(0.6),
            Drop(),
            again,
            wait,
            Reply(on="b"),
            wait,
            Reply(on="b"),
            Quiet(1.5, "b"),
        ],
    )
    for about, other in {
        "as somebody else": Open(RESUMING, (("authorization", "Bearer other-{me}"),), "b"),
        "as nobody": Open(RESUMING, on="b"),
        "another conversation": Open("/websocket?conversation_id=other-{me}", KEY, "b"),
        "no conversation": Open("/websocket", KEY, "b"),
    }.items():
        yield Row(
            about, [*good, other, Quiet(1.2, "b"), Say(_question(STILL, "chat_stream"), "b"), *rest]
        )
    yield Row("a turn of nobody", [Open(), *prompted, again, Quiet(1.2, "b")])
    ended = [Open(headers=KEY), ask(STILL), *END, Drop()]
    yield Row("a turn that has ended", [*ended, again, Quiet(1.0, "b")])
    failing = ask(f"{STILL} hitl=text fail=answer")
    yield Row(
        "a turn that fails",
        [Open(headers=KEY), failing, PROMPT, Quiet(0.6), Drop(), again, wait, Reply(on="b"), *rest],
    )


def _consents() -> Iterator[Row]:
    words = f"{STILL} oauth=1 think_ms=300"
    for schema in SCHEMAS:
        does = [ask(words, schema), PROMPT, Consent(), Until(), ask(words, schema), *END]
        yield Row(f"{schema}: given once", does, kind="full", who=KEY)
        does = [ask(words, schema), PROMPT, Consent(deny=True), *END]
        yield Row(f"{schema}: refused", does, kind="full", who=KEY)
        yield Row(f"{schema}: of nobody", [ask(words, schema), *END], kind="full")
    for mode in ("redirect", "popup"):
        wish = auth(method="oauth_mode_preference", mode=mode)
        does = [wish, Quiet(), ask(words), PROMPT, Consent(), *END]
        yield Row(f"by {mode}", does, kind="full", who=KEY)


CHAPTERS = {
    "questions": _questions,
    "prompts": _prompts,
    "bad messages": _bad_messages,
    "identities": _identities,
    "resumes": _resumes,
    "consents": _consents,
}
ROWS = {f"ws {name}: {row.name}": row for name, rows in CHAPTERS.items() for row in rows()}
