"""NAT over server-sent events: one POST for each turn, prompts answered by a POST of their own.

The routes are the table `STREAMS`; a turn ends as its route ends.  A status other than 200 is
judged by the table of `loadgen.dialects.refusal`.  What the stream says:

==============================  ================================================================
frame                           event
==============================  ================================================================
``data:`` chunk with content,   `Answer`
``{"value": ...}``
reasoning, tool arguments       `Progress` (``reasoning``, ``tool_call``)
role, empty or null delta or    `Notice`; a tool delta without arguments is only a promise
value, finish_reason, usage
``intermediate_data:``          `Started` for the first, `Notice` for its echo, else `Progress`:
                                `loadgen.dialects.nat.Steps`, on ``/full`` routes `RawSteps`
``observability_trace:``        `Notice`; ``/full`` routes put it into a value
``event: interaction_required`` `Prompt`; its key says where to reply
``event: oauth_required``       `Prompt` of kind ``oauth_consent``; its key is the URL to open
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

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import orjson
from pydantic import Field, field_validator

from loadgen.dialects import nat, nat_http
from loadgen.dialects.chunk import Chunks
from loadgen.dialects.contract import (
    Ask,
    Identity,
    OptionModel,
    Options,
    Plain,
    PlainDecoder,
    Reply,
    Site,
    Wire,
    read_options,
)
from loadgen.dialects.nat_http import Body
from loadgen.dialects.refusal import brief, refused
from loadgen.events import Answer, Completed, Event, Failed, Notice, Prompt
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import AnyFrame, End, Frame, Garbage, Head, Request

DONE = "[DONE]"
COMPLETIONS = "/v1/chat/completions"

_FILTER = re.compile(r"[A-Z_]+(,[A-Z_]+)*|(?i:none)")
_TRACE = '{"observability_trace_id"'


class Terminator(Enum):
    """What ends a turn on a route."""

    CONNECTION_END = "the clean end of the answer"
    DONE_EVENT = "data: [DONE]"


@dataclass(frozen=True, slots=True)
class Stream:
    """A streaming route.  ``interactive``: its runs have an id, and may ask the human.  ``full``:
    its steps are raw, and can be filtered.
    """

    body: Body
    end: Terminator
    interactive: bool
    full: bool = False


STREAMS: Mapping[str, Stream] = {
    "/v1/chat/stream": Stream(Body.CHAT, Terminator.CONNECTION_END, True),
    "/chat/stream": Stream(Body.CHAT, Terminator.DONE_EVENT, False),
    COMPLETIONS: Stream(Body.CHAT, Terminator.DONE_EVENT, False),
    "/v1/workflow/stream": Stream(Body.WORKFLOW, Terminator.CONNECTION_END, True),
    "/generate/stream": Stream(Body.WORKFLOW, Terminator.CONNECTION_END, False),
    "/v1/workflow/full": Stream(Body.WORKFLOW, Terminator.CONNECTION_END, True, full=True),
    "/generate/full": Stream(Body.WORKFLOW, Terminator.CONNECTION_END, False, full=True),
}
"""Streaming routes as the server calls them; a proxy's prefix before them does not matter.

``/v1/workflow/atif`` is not among them: its streams never end.
"""


class NatSseOptions(OptionModel):
    """``input``: the workflow's input parameter; ``messages`` sends the conversation.
    ``filter_steps``: the types of steps to be sent, with commas between them, or ``none``.
    ``extensions``: the server has ``enable_interactive_extensions``, so completions end without
    ``[DONE]``.
    """

    input: str = Field(nat_http.INPUT, min_length=1)
    filter_steps: str | None = None
    extensions: bool = False

    @field_validator("filter_steps")
    @classmethod
    def _exact(cls, value: str | None) -> str | None:
        """The server compares exact names: any other spelling would filter everything away."""
        if value is not None and not _FILTER.fullmatch(value):
            raise ValueError("must be types like LLM_END,TOOL_END, without blanks, or none")
        return value


class NatSse(Plain):
    """The dialect ``nat-sse``.

    Raises `ConfigError` for a route that is not in `STREAMS`, and for an option that does nothing
    on its route.
    """

    name = "nat-sse"
    wire = Wire.HTTP

    def __init__(
        self, route: str | None = None, site: Site | None = None, options: Options | None = None
    ) -> None:
        self.route = route or "/v1/chat/stream"
        self._route = nat_http.find_route(self.name, self.route, STREAMS, site or Site())
        self._options = read_options(NatSseOptions, self.name, options or {})
        self._stream = _stream(self._route, self._options)
        wanted = self._options.filter_steps
        query = {} if wanted is None else {"filter_steps": wanted}
        self._path = nat_http.with_query(self.route, query)

    def ask(self, ask: Ask, identity: Identity) -> Request:
        """The question as the route takes it."""
        body, parameter = self._stream.body, self._options.input
        return nat_http.question(self._path, body, parameter, ask, identity, stream=True)

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> Request:
        """The reply to a prompt; the stream goes on meanwhile."""
        return nat_http.reply(reply, ask, identity)

    def decoder(self) -> SseDecoder:
        """A decoder for one answer."""
        return SseDecoder(self._stream, self._route)

    def replied(self, status: int, body: str) -> Event:
        """What the answer to a reply means; the stream decides."""
        return nat_http.replied(status, body)

    def reconcile(self, execution: str, ask: Ask, identity: Identity) -> Request | None:
        """The request for what became of a run that had asked the human."""
        if not self._stream.interactive:
            return None
        return nat_http.reconcile(self._route, execution, ask, identity)

    def state(self, status: int, body: str) -> str:
        """What the server says of the run."""
        return nat_http.state(status, body)


class SseDecoder(PlainDecoder):
    """The frames of one answer to events; see the module's tables."""

    __slots__ = (
        "_body", "_chunks", "_cut", "_failure", "_head", "_over", "_raw", "_route", "_steps",
        "_terminator",
    )  # fmt: skip

    def __init__(self, stream: Stream, route: nat_http.Route) -> None:
        self._terminator = stream.end
        self._route = route
        self._raw = nat.RawSteps() if stream.full else None
        self._steps = nat.Steps()
        self._chunks = Chunks()
        self._head: Head | None = None
        self._body = ""
        self._failure: Failed | None = None
        self._cut = False
        self._over = False

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

    def usual(self, message: bytes) -> str | None:
        """The content of a chunk that has nothing else to say."""
        if self._over or self._head is not None:
            return None
        try:
            chunk = orjson.loads(message)
            delta = chunk["choices"][0]["delta"]
            content = delta["content"]
        except (ValueError, LookupError, TypeError):
            return None
        if (
            type(content) is not str
            or not content
            or "error" in chunk
            or delta.get("tool_calls")
            or delta.get("reasoning_content")
            or delta.get("reasoning")
        ):
            return None
        self._chunks.answered = True
        return content

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
        if "value" in chunk and "choices" not in chunk:
            return (self._value(chunk["value"]),)
        if error := chunk.get("error"):
            return self._fail(f"in-band error {nat.error_text(error)}")
        if "choices" not in chunk and nat.is_error(chunk):
            return self._fail(nat.error_text(chunk))
        return self._chunks.events(chunk)

    def _value(self, value: Any) -> Event:
        """A part of a workflow's answer, which may be any JSON."""
        if value is None or value == "":
            return Notice("empty delta")
        text = nat.text_of(value)
        if self._raw is not None and text.startswith(_TRACE):
            trace = nat.parse(text)
            if trace is not None and len(trace) == 1:
                return Notice("trace")
        self._chunks.answered = True
        return Answer(text)

    def _step(self, data: str) -> tuple[Event, ...]:
        step = nat.parse_step(data, "}")
        if step is None:
            return (nat.undecodable(data),)
        if self._raw is None:
            return (self._steps.event(step, step.get("name")),)
        if "type" not in step:
            step = nat.parse(data) or step
        return (self._raw.event(step),)

    def _trace(self, data: str) -> tuple[Event, ...]:
        return (Notice("trace"),)

    def _interaction(self, data: str) -> tuple[Event, ...]:
        asked = nat.parse(data)
        if asked is None:
            return (nat.undecodable(data),)
        return self._asked(self._route.prompt(asked))

    def _oauth(self, data: str) -> tuple[Event, ...]:
        asked = nat.parse(data)
        if asked is None:
            return (nat.undecodable(data),)
        return self._asked(nat_http.consent(asked))

    def _asked(self, event: Prompt | Failed) -> tuple[Event, ...]:
        """A prompt that nobody can answer ends the turn: the server would wait for ever."""
        return self._give_up(event) if type(event) is Failed else (event,)

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
            detail = f"no {DONE}"
            if self._route.known == COMPLETIONS:
                detail = f"{detail}; if the server has the extensions on: options.extensions"
            return Failed(Outcome.INCOMPLETE, Cause.STREAM_CUT, detail)
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


def _stream(route: nat_http.Route, options: NatSseOptions) -> Stream:
    """The row of ``route`` as the options leave it."""
    stream = STREAMS[route.known]
    able = {
        "input": [name for name, one in STREAMS.items() if one.body is Body.WORKFLOW],
        "filter_steps": [name for name, one in STREAMS.items() if one.full],
        "extensions": [COMPLETIONS],
    }
    for option in sorted(options.model_fields_set):
        if route.known not in able[option]:
            raise nat_http.only_on(NatSse.name, option, able[option], route.path)
    if options.extensions:
        return replace(stream, end=Terminator.CONNECTION_END, interactive=True)
    return stream
