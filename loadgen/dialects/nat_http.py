"""What NAT's dialects over HTTP share: routes, requests, replies to prompts, the state of a run.

A prompt's key says where to reply and a `loadgen.events.Pending` key where to ask: a path of the
target, or a whole URL on another origin that the plan allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import urlencode

import orjson

from loadgen.dialects import nat
from loadgen.dialects.contract import Ask, Identity, Reply, Shape, Site
from loadgen.dialects.refusal import brief, outcome_of, shown
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Event, Failed, Notice, Prompt, PromptKind
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import Request

INPUT = "input_message"
"""The parameter in which NAT's agents take one text."""

MESSAGES = "messages"
"""The parameter in which they take a conversation instead."""

_STATES = ("running", "interaction_required", "oauth_required", "completed", "failed")
_SAFE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_REPLY_STATUS = {
    400: "the prompt is already resolved, it timed out",
    404: "the server does not know the prompt: already answered, or another process holds it",
    422: "the reply is malformed, the prompt stays open",
}
_UNANSWERABLE = (PromptKind.NOTIFICATION, PromptKind.OAUTH_CONSENT)


class Body(Enum):
    """What a route takes."""

    CHAT = "chat messages"
    WORKFLOW = "the workflow's own input"


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the plan: ``path`` as it is asked, ``known`` as the server calls it, ``prefix``
    what a proxy wants before it (the server's ``root_path``).
    """

    path: str
    known: str
    prefix: str
    site: Site

    def key(self, url: Any) -> str | None:
        """Where ``url``, which the server gave, leads; None when it is where we do not go.

        The server leaves its ``root_path`` out of the paths that it gives.
        """
        if type(url) is str and url[:1] == "/" and url[:2] != "//":
            inside = url.startswith(f"{self.prefix}/")
            url = url if inside else self.prefix + url
        place = self.site.locate(url, self.path)
        return None if place is None else (place[0] or "") + place[1]

    def prompt(self, told: nat.Json) -> Prompt | Failed:
        """The prompt in an ``interaction_required``, of a stream or of a run that is polled."""
        url = told.get("response_url")
        key = self.key(url)
        if key is None:
            return elsewhere("response_url", url)
        return nat.prompt(told.get("prompt"), key, execution_of(told))


def find_route(dialect: str, route: str, known: Iterable[str], site: Site) -> Route:
    """``route`` as one of ``known``.  Raises `ConfigError` when it ends like none of them."""
    path = route.partition("?")[0]
    served = [one for one in known if path.endswith(one) and path.startswith("/")]
    if not served:
        raise ConfigError(
            f"{dialect} does not know the route {route!r}; known are {', '.join(known)}"
        )
    name = max(served, key=len)
    return Route(route, name, path.removesuffix(name), site)


def elsewhere(name: str, url: Any) -> Failed:
    """The server sends us to a place that is neither its own nor allowed."""
    detail = f"{name} {shown(url)} is not of this target, nor of an origin the plan allows"
    return Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, detail)


def execution_of(told: nat.Json) -> str | None:
    """The id of the run."""
    execution = told.get("execution_id")
    return execution if type(execution) is str and execution else None


def consent(told: nat.Json) -> Prompt | Failed:
    """The demand in an ``oauth_required``."""
    return nat.consent(told.get("auth_url"), execution_of(told))


def only_on(dialect: str, option: str, routes: Iterable[str], route: str) -> ConfigError:
    """The complaint about an option that does nothing on its route."""
    return ConfigError(
        f"options.{option} of {dialect} works on {', '.join(routes)}; the route is {route!r}"
    )


def question(
    path: str, body: Body, parameter: str, ask: Ask, identity: Identity, *, stream: bool
) -> Request:
    """The question, with the conversation before it where the body can carry it: the server
    remembers none.  A workflow takes its ``parameter`` and nothing beside it.
    """
    headers = {
        "accept": "text/event-stream" if stream else "application/json",
        "user-message-id": ask.turn,
        "conversation-id": ask.conversation,
    }
    if body is Body.WORKFLOW and parameter != MESSAGES:
        return _post(path, headers, {parameter: ask.text}, identity)
    messages = []
    for asked, answered in ask.history:
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": answered})
    messages.append({"role": "user", "content": ask.text})
    told: nat.Json = {MESSAGES: messages}
    if body is Body.CHAT:
        told["stream"] = stream
    return _post(path, headers, told, identity)


def reply(reply: Reply, ask: Ask, identity: Identity) -> Request:
    """The reply to a prompt, to where the prompt's key leads."""
    headers = {"conversation-id": ask.conversation}
    return _post(reply.prompt.key, headers, {"response": _response(reply)}, identity)


def look(key: str, ask: Ask, identity: Identity) -> Request:
    """The request for the state of a run at ``key``."""
    origin, path = _address(key)
    path, headers = _signed(path, {"conversation-id": ask.conversation}, identity)
    return Request("GET", path, headers, origin=origin)


def reconcile(route: Route, execution: str, ask: Ask, identity: Identity) -> Request | None:
    """The request for what became of ``execution``; None for an id that is no part of a path."""
    if not _SAFE_ID.fullmatch(execution):
        return None
    return look(f"{route.prefix}/executions/{execution}", ask, identity)


def state(status: int, body: str) -> str:
    """The state in the answer to `look`, or its HTTP status when it tells none."""
    told = nat.parse(body) if status == 200 else None
    word = told.get("status") if told is not None else None
    return word if type(word) is str and word in _STATES else f"HTTP {status}"


def replied(status: int, body: str) -> Event:
    """204 accepts a reply, whatever it says; the rest is a failure, the run has the last word."""
    if 200 <= status < 300:
        return Notice("reply accepted")
    outcome, cause = outcome_of(status)
    if status in (400, 404):
        outcome, cause = Outcome.FAILED, Cause.AGENT_ERROR
    because = _REPLY_STATUS.get(status) or brief(body)
    return Failed(outcome, cause, f"reply got HTTP {status}: {because}", final=False)


def _response(reply: Reply) -> nat.Json:
    """A reply in the server's shape, or in one that provokes it.

    The published documents discriminate by ``input_type``; the server answers 422 to that.  It does
    not check that type and value are those that the prompt asked for, so a value that was not
    offered is sent as an option of its own.
    """
    kind, value = reply.prompt.kind, reply.value
    if kind in _UNANSWERABLE:
        raise GeneratorError(f"a prompt of kind {kind.value} wants no reply")
    if reply.shape is Shape.OTHER_TYPE:
        kind = PromptKind.BINARY_CHOICE if kind is PromptKind.TEXT else PromptKind.TEXT
    name = "input_type" if reply.shape is Shape.MALFORMED else "type"
    if kind is PromptKind.TEXT:
        return {name: kind.value, "text": value}
    option = next((o for o in reply.prompt.options if o.value == value), None)
    selected = {
        "id": option.id if option else value,
        "label": option.label if option else value,
        "value": value,
    }
    return {name: kind.value, "selected_option": selected}


def _post(key: str, headers: dict[str, str], body: Any, identity: Identity) -> Request:
    """A JSON request in the analyst's name."""
    origin, path = _address(key)
    path, sent = _signed(path, {"content-type": "application/json", **headers}, identity)
    return Request("POST", path, sent, orjson.dumps(body), origin)


def _address(key: str) -> tuple[str | None, str]:
    """A key as (other origin or None, path)."""
    if key.startswith("/"):
        return None, key
    scheme, _, rest = key.partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}", f"/{path}"


def _signed(path: str, headers: dict[str, str], identity: Identity) -> tuple[str, dict[str, str]]:
    """Path and headers with the analyst's credentials.

    ``session`` in the identity's query becomes the cookie that it stands for: only the server's
    socket reads it from the query.
    """
    query = dict(identity.query)
    sent = {**headers, **identity.headers}
    session = query.pop("session", None)
    if session is not None:
        name = next((name for name in sent if name.lower() == "cookie"), "cookie")
        cookies = sent.get(name, "")
        if "nat-session=" not in cookies:
            sent[name] = "; ".join(filter(None, (cookies, f"nat-session={session}")))
    return with_query(path, query), sent


def with_query(path: str, query: dict[str, str]) -> str:
    """``path`` with ``query`` behind the one that it has."""
    if not query:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query, safe=',')}"
