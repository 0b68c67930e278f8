"""NAT over server-sent events: one POST for each turn, prompts answered by a POST of their own.

The turn ends as its route ends (`ENDS`): ``/v1/chat/stream`` with the clean end of the answer,
``/chat/stream`` with ``[DONE]``.  A status other than 200 is judged by the table of
`loadgen.dialects.refusal`.  What the stream says:

==============================  ================================================================
frame                           event
==============================  ================================================================
``data:`` chunk with content    `Answer`
reasoning, tool arguments       `Progress` (``reasoning``, ``tool_call``)
role, empty or null delta,      `Notice`; a tool delta without arguments is only a promise
finish_reason, usage
``intermediate_data:``          `Started` for the first, `Notice` for its echo, else `Progress`
``observability_trace:``        `Notice`
``event: interaction_required`` `Prompt`; its key is the path to reply to
``event: oauth_required``       `Failed`: nobody consents, the server would wait 300 s
``event: error``, a bare JSON   `Failed`, not final: the end of the stream makes it so
error, ``data: {"error":...}``
anything else                   `Notice`, ``undecodable`` or ``unknown``
==============================  ================================================================

=======================  =========================================  ============================
the answer               without a failure before it                outcome, cause
=======================  =========================================  ============================
reached its end          with answer text                           completed
reached its end          without a word of answer                   failed, empty_answer
ended clean              in mid-event, or without its ``[DONE]``    incomplete, stream_cut
was cut                                                             incomplete, stream_cut
=======================  =========================================  ============================

An event that lacks only its blank line at the end of the stream counts, with a `Notice`, when it is
whole (JSON and ``[DONE]`` show that by themselves); the standard would drop it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import orjson

from loadgen.dialects import nat
from loadgen.dialects.chunk import Chunks
from loadgen.dialects.contract import Ask, Identity, Reply, Wire
from loadgen.dialects.refusal import brief, outcome_of, refused
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Completed, Event, Failed, Notice, PromptKind
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import AnyFrame, End, Frame, Garbage, Head, Request

DONE = "[DONE]"


class Terminator(Enum):
    """What ends a turn on a route."""

    CONNECTION_END = "the clean end of the answer"
    DONE_EVENT = "data: [DONE]"


ENDS = {
    "/v1/chat/stream": Terminator.CONNECTION_END,
    "/chat/stream": Terminator.DONE_EVENT,
}
"""The routes whose end is known; a prefix before them (a proxy's ``root_path``) does not matter."""

_REPLY_STATUS = {
    400: "the prompt is already resolved, it timed out",
    404: "the server does not know the prompt: already answered, or another process holds it",
    422: "the reply is malformed, the prompt stays open",
}


class NatSse:
    """The dialect ``nat-sse``.

    ``origin`` (``http://host:port``) is what an absolute ``response_url`` must point to; without it
    only paths are accepted.  Raises `ConfigError` for a route that is not in `ENDS`.
    """

    name = "nat-sse"
    wire = Wire.HTTP

    def __init__(self, route: str | None = None, origin: str | None = None) -> None:
        self.route = route or "/v1/chat/stream"
        self._origin = origin
        self._terminator = _terminator(self.route)

    def upgrade(self, identity: Identity, resume: str | None) -> Request:
        """There is no socket to open."""
        raise GeneratorError("nat-sse has no socket to open")

    def login(self, identity: Identity) -> str | None:
        """Identity travels with each request."""
        return None

    def ask(self, ask: Ask, identity: Identity) -> Request:
        """The question with the conversation before it: the server remembers none."""
        messages = []
        for question, answer in ask.history:
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": answer})
        messages.append({"role": "user", "content": ask.text})
        headers = {
            "accept": "text/event-stream",
            "user-message-id": ask.turn,
            "conversation-id": ask.conversation,
        }
        return _post(self.route, headers, {"messages": messages, "stream": True}, identity)

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> Request:
        """The reply to a prompt, to the path that the prompt named.

        A value that was not offered is sent as an option of its own: the server does not check.
        """
        kind, value = reply.prompt.kind, reply.value
        response: dict[str, Any] = {"type": kind.value}
        if kind is PromptKind.NOTIFICATION:
            raise GeneratorError("a notification wants no reply")
        if kind is PromptKind.TEXT:
            response["text"] = value
        else:
            offered = (o for o in reply.prompt.options if o.value == value)
            option = next(offered, None)
            response["selected_option"] = {
                "id": option.id if option else value,
                "label": option.label if option else value,
                "value": value,
            }
        headers = {"conversation-id": ask.conversation}
        return _post(reply.prompt.key, headers, {"response": response}, identity)

    def decoder(self) -> SseDecoder:
        """A decoder for one answer."""
        return SseDecoder(self._terminator, self._reply_path)

    def replied(self, status: int, body: str) -> Event:
        """204 accepts a reply, whatever it says; the rest is a failure, the stream decides."""
        if 200 <= status < 300:
            return Notice("reply accepted")
        outcome, cause = outcome_of(status)
        if status in (400, 404):
            outcome, cause = Outcome.FAILED, Cause.AGENT_ERROR
        because = _REPLY_STATUS.get(status) or brief(body)
        return Failed(outcome, cause, f"reply got HTTP {status}: {because}", final=False)

    def _reply_path(self, url: Any) -> str | None:
        """``response_url`` as a path of our own target; None when it leads anywhere else."""
        if type(url) is not str or not url.isascii() or not url.isprintable() or " " in url:
            return None
        here = self._origin or "http://target.invalid"
        try:
            parts = urlsplit(urljoin(here + self.route, url))
            same = _place(parts.scheme, parts.hostname, parts.port) == _origin_place(here)
        except ValueError:
            return None
        if not url or not same or (self._origin is None and "://" in url.partition("?")[0]):
            return None
        return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"


class SseDecoder:
    """The frames of one answer to events; see the module's tables."""

    __slots__ = (
        "_body", "_chunks", "_cut", "_failure", "_head", "_over", "_reply_path", "_steps",
        "_terminator",
    )  # fmt: skip

    def __init__(self, terminator: Terminator, reply_path: Callable[[Any], str | None]) -> None:
        self._terminator = terminator
        self._reply_path = reply_path
        self._steps = nat.Steps()
        self._chunks = Chunks()
        self._head: Head | None = None
        self._body = ""
        self._failure: Failed | None = None
        self._cut = False
        self._over = False

    def begin(self, turn: str) -> None:
        """Nothing to do: the answer is the turn's own."""

    def __call__(self, frame: AnyFrame) -> tuple[Event, ...]:
        """What ``frame`` means."""
        if self._over:
            return () if type(frame) is End else (Notice("late"),)
        if type(frame) is Frame:
            if self._head is not None:
                self._body = self._body or frame.data
                return (Notice("body"),)
            handle = _FRAMES.get(frame.kind)
            return (Notice("unknown", frame.kind),) if handle is None else handle(self, frame.data)
        if type(frame) is Head:
            return self._headers(frame)
        if type(frame) is End:
            return self._end(frame)
        if type(frame) is Garbage:
            self._over = True
            detail = brief(frame.detail)
            return (Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, detail),)
        return (Notice("unknown", type(frame).__name__),)

    def _headers(self, head: Head) -> tuple[Event, ...]:
        # A header that is written twice comes joined by a comma.
        media = head.headers.get("content-type", "").replace(",", ";").partition(";")[0]
        if head.status != 200 or media.strip().lower() != "text/event-stream":
            self._head = head
        seen = Notice("headers", str(head.status))
        coding = head.headers.get("content-encoding")
        return (seen, Notice("encoding", coding)) if coding else (seen,)

    def _message(self, data: str) -> tuple[Event, ...]:
        if data == DONE:
            return self._done()
        chunk = nat.parse(data)
        if chunk is None:
            return (nat.undecodable(data),)
        if error := chunk.get("error"):
            return self._fail(f"in-band error {nat.error_text(error)}")
        if "choices" not in chunk and nat.is_error(chunk):
            return self._fail(nat.error_text(chunk))
        return self._chunks.events(chunk)

    def _step(self, data: str) -> tuple[Event, ...]:
        step = nat.parse_step(data, "}")
        if step is None:
            return (nat.undecodable(data),)
        return (self._steps.event(step, step.get("name")),)

    def _trace(self, data: str) -> tuple[Event, ...]:
        return (Notice("trace"),)

    def _interaction(self, data: str) -> tuple[Event, ...]:
        asked = nat.parse(data)
        if asked is None:
            return (nat.undecodable(data),)
        url = asked.get("response_url")
        path = self._reply_path(url)
        if path is None:
            detail = f"response_url {brief(repr(url))} is not of this target"
            return self._give_up(Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, detail))
        execution = asked.get("execution_id")
        execution = execution if type(execution) is str else None
        event = nat.prompt(asked.get("prompt"), path, execution)
        return self._give_up(event) if type(event) is Failed else (event,)

    def _oauth(self, data: str) -> tuple[Event, ...]:
        return self._give_up(Failed(Outcome.FAILED, Cause.AGENT_ERROR, "oauth required"))

    def _error(self, data: str) -> tuple[Event, ...]:
        error = nat.parse(data)
        return self._fail(nat.error_text(data if error is None else error))

    def _line(self, data: str) -> tuple[Event, ...]:
        bare = nat.parse(data)
        if bare is not None and nat.is_error(bare):
            return self._fail(nat.error_text(bare))
        if bare is not None and bare.get("error"):
            return self._fail(nat.error_text(bare["error"]))
        return (nat.undecodable(data),)

    def _fail(self, detail: str) -> tuple[Event, ...]:
        """The agent said that it failed; the first time counts, the end of the stream ends it."""
        failure = Failed(Outcome.FAILED, Cause.AGENT_ERROR, detail)
        self._failure = self._failure or failure
        return (replace(failure, final=False),)

    def _give_up(self, failure: Failed) -> tuple[Event, ...]:
        """Waiting would be in vain: the turn ends here, and the connection with it."""
        self._over = True
        return (failure,)

    def _done(self) -> tuple[Event, ...]:
        if self._terminator is not Terminator.DONE_EVENT:
            return (Notice("done"),)
        self._over = True
        return (self._verdict(),)

    def _end(self, end: End) -> tuple[Event, ...]:
        events = self._unfinished(end.pending) if end.pending and self._head is None else ()
        if self._over:
            return events
        self._over = True
        return (*events, self._ending(end))

    def _ending(self, end: End) -> Event:
        if self._head is not None:
            return refused(*self._head, self._body or end.pending, "an event stream")
        if self._failure is not None:
            return self._failure
        if not end.clean:
            return Failed(Outcome.INCOMPLETE, Cause.STREAM_CUT, "the connection was cut")
        if self._terminator is Terminator.DONE_EVENT:
            return Failed(Outcome.INCOMPLETE, Cause.STREAM_CUT, f"no {DONE}")
        if self._cut:
            return Failed(Outcome.INCOMPLETE, Cause.STREAM_CUT, "ends in the middle of an event")
        return self._verdict()

    def _verdict(self) -> Event:
        if self._failure is not None:
            return self._failure
        if not self._chunks.answered:
            return Failed(Outcome.FAILED, Cause.EMPTY_ANSWER, "the answer has no text")
        return Completed()

    def _unfinished(self, pending: str) -> tuple[Event, ...]:
        """What stood without its blank line: counted as an event if it is whole."""
        kind, data = "message", []
        for line in pending.split("\n"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                kind = value or kind
            elif field == "data":
                data.append(value)
            elif field in ("intermediate_data", "observability_trace"):
                kind, data = f"field:{field}", [value]
            elif line.startswith("{"):
                kind, data = "line", [line]
        text, flag = "\n".join(data), Notice("unterminated", brief(pending))
        handle = _FRAMES.get(kind)
        if handle is None or not (text == DONE or nat.parse(text) is not None):
            self._cut = True
            return (flag,)
        return (flag, *handle(self, text))


_FRAMES: dict[str, Callable[[SseDecoder, str], tuple[Event, ...]]] = {
    "message": SseDecoder._message,
    "field:intermediate_data": SseDecoder._step,
    "field:observability_trace": SseDecoder._trace,
    "interaction_required": SseDecoder._interaction,
    "oauth_required": SseDecoder._oauth,
    "error": SseDecoder._error,
    "line": SseDecoder._line,
}


def _terminator(route: str) -> Terminator:
    path = route.partition("?")[0]
    for known, terminator in ENDS.items():
        if path.endswith(known):
            return terminator
    raise ConfigError(
        f"nat-sse does not know how the route {route!r} ends; known are {', '.join(ENDS)}"
    )


def _post(path: str, headers: dict[str, str], body: Any, identity: Identity) -> Request:
    """A JSON request in the analyst's name.

    ``session`` in the identity's query becomes the cookie that it stands for: only the server's
    socket reads it from the query.
    """
    query = dict(identity.query)
    sent = {"content-type": "application/json", **headers, **identity.headers}
    session = query.pop("session", None)
    if session is not None:
        name = next((name for name in sent if name.lower() == "cookie"), "cookie")
        cookies = sent.get(name, "")
        if "nat-session=" not in cookies:
            sent[name] = "; ".join(filter(None, (cookies, f"nat-session={session}")))
    if query:
        path = f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"
    return Request("POST", path, sent, orjson.dumps(body))


def _origin_place(origin: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(origin)
    return _place(parts.scheme, parts.hostname, parts.port)


def _place(scheme: str, host: str | None, port: int | None) -> tuple[str, str | None, int | None]:
    return scheme, host, port or {"http": 80, "https": 443}.get(scheme)
