"""Progress Agentic RAG over HTTP: one POST for each turn, answered by one frame a line (NDJSON).

=============================  =================================================================
what comes                     event
=============================  =================================================================
status and headers             `Notice`
a line                         as in the table of `loadgen.dialects.arag_frames`
a request to the user          `Failed`: nothing can be replied here.  The server says so itself
                               before it asks, in an ERROR line
the clean end without DONE     the `Failed` that came before; after the whole answer `Notice`
                               ``no DONE`` and `Completed`; else incomplete, stream_cut
the connection is cut          the `Failed` that came before, else incomplete, stream_cut
another status than 200        `Failed`, by the table of `loadgen.dialects.refusal`
=============================  =================================================================

DONE ends the turn; the end of the answer behind it is not waited for.
"""

from __future__ import annotations

import orjson

from loadgen.dialects import arag
from loadgen.dialects.arag_frames import AnswerFrames, Heard
from loadgen.dialects.contract import (
    Ask,
    Identity,
    Opening,
    Options,
    Plain,
    PlainDecoder,
    Preparation,
    Reply,
    Site,
    Wire,
    read_options,
)
from loadgen.dialects.refusal import brief, refused
from loadgen.events import Event, Failed, Notice
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import AnyFrame, End, Frame, Garbage, Head, Request
from loadgen.wire.ndjson import MEDIA_TYPES, media_type

_CUT = Failed(Outcome.INCOMPLETE, Cause.STREAM_CUT, "the connection was cut")
_NO_DONE = Failed(Outcome.INCOMPLETE, Cause.STREAM_CUT, "ends without DONE")


class AragHttp(Plain):
    """The dialect ``arag-http``: identity is sent with each request, no token is needed."""

    name = "arag-http"
    wire = Wire.HTTP

    def __init__(
        self, route: str | None = None, site: Site | None = None, options: Options | None = None
    ) -> None:
        given = read_options(arag.AragOptions, self.name, options or {})
        self._service = arag.Service.of(self.name, route, given)
        self.route = self._service.route

    def preparations(self, opening: Opening) -> tuple[Preparation, ...]:
        """The session, where one is to be created."""
        return self._service.sessions(opening)

    def granted(self, name: str, status: int, body: str) -> str | Failed:
        """The session's id, or why there is none."""
        return self._service.granted(name, status, body)

    def farewell(self, opening: Opening) -> Request | None:
        """The request that deletes a session that was created."""
        return self._service.farewell(opening)

    def ask(self, ask: Ask, identity: Identity) -> Request:
        """The question."""
        path = self._service.path(ask.conversation, query=dict(identity.query))
        headers = {
            "accept": "application/x-ndjson",
            "content-type": "application/json",
            **identity.headers,
        }
        return Request("POST", path, headers, orjson.dumps(self._service.question(ask)))

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> Request:
        """Nothing can be replied over HTTP, and no event asks for it."""
        raise self._cannot("reply")

    def decoder(self) -> LineDecoder:
        """A decoder for one answer."""
        return LineDecoder()


class LineDecoder(PlainDecoder):
    """The frames of one answer to events; see the module's table."""

    __slots__ = ("_body", "_frames", "_head")

    def __init__(self) -> None:
        self._frames = AnswerFrames(Heard())
        self._frames.begin("")
        self._head: Head | None = None
        self._body = ""

    def begin(self, turn: str) -> None:
        """Nothing to do: the answer is the turn's own."""

    def __call__(self, frame: AnyFrame) -> tuple[Event, ...]:
        """What ``frame`` means."""
        if type(frame) is Frame:
            if self._head is None and frame.kind == "line":
                return self._frames(frame.data)
            self._body = self._body or frame.data
            return (Notice("body"),)
        if type(frame) is End:
            return self._end(frame) if self._frames.open else ()
        if not self._frames.open:
            return (Notice("late"),)
        if type(frame) is Head:
            return self._headers(frame)
        if type(frame) is Garbage:
            self._frames.open = False
            return (Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, brief(frame.detail)),)
        return (Notice("unknown", type(frame).__name__),)

    def _headers(self, head: Head) -> tuple[Event, ...]:
        if head.status != 200 or media_type(head.headers) not in MEDIA_TYPES:
            self._head = head
        seen = Notice("headers", str(head.status))
        coding = head.headers.get("content-encoding")
        return (seen, Notice("encoding", coding)) if coding else (seen,)

    def _end(self, end: End) -> tuple[Event, ...]:
        if self._head is not None:
            self._frames.open = False
            return (refused(*self._head, self._body or end.pending, "NDJSON"),)
        ending = self._frames.unfinished(whole=end.clean)
        if ending is None:
            self._frames.open = False
            ending = (_NO_DONE if end.clean else _CUT,)
        return ending
