"""Frames: what the wire codecs make of bytes, and what a codec must offer.

A codec (`Link`) is sans-I/O, as websockets' and h11's connections are: feed it bytes, get frames;
give it something to
send, collect the bytes.  It never raises for what a peer sends: a breach of the protocol becomes a
`Garbage` frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Frame(NamedTuple):
    """One unit of content: an SSE event or field, a WebSocket message.

    ``kind`` is the SSE event type (``message`` by default), ``field:NAME`` for an SSE field the
    standard does not know,
    ``line`` for a line of an event stream that has no field name of letters, digits, ``_`` or ``-``
    before its colon
    (``data`` is then the whole line) and for one of NDJSON, ``body`` for the whole body of an
    answer that is no stream, ``text`` or ``binary``
    (``data`` decoded as latin-1) for a WebSocket message.
    """

    kind: str
    data: str


class Head(NamedTuple):
    """Status and headers of an HTTP answer; header names are lower-case, repeated values joined by
    ``", "``.
    """

    status: int
    headers: Mapping[str, str]


class Open(NamedTuple):
    """The WebSocket handshake is done."""


class End(NamedTuple):
    """The HTTP answer ended.  ``clean``: by its own framing (last chunk, content-length); else the
    connection was cut.

    ``pending`` is what stood unfinished in the event stream (an event without its blank line), for
    the record.
    """

    clean: bool
    pending: str = ""


class Close(NamedTuple):
    """The WebSocket is closed; ``code`` 1006 when there was no close frame."""

    code: int
    reason: str


class Refused(NamedTuple):
    """The WebSocket handshake was answered with something else than 101; ``headers`` lower-case,
    ``body`` at most 2 KiB.
    """

    status: int
    headers: Mapping[str, str]
    body: str


class Garbage(NamedTuple):
    """The peer broke the wire protocol (not HTTP, bad chunking, bad frame, over a limit); nothing
    more will come.
    """

    detail: str


AnyFrame = Frame | Head | Open | End | Close | Refused | Garbage


@dataclass(frozen=True, slots=True)
class Request:
    """An outbound HTTP request (or the opening request of a WebSocket, whose ``body`` is empty).

    ``path`` starts with ``/`` and holds the query.  ``headers`` are added to host, content-length
    and accept-encoding.  ``origin`` (``http://host:port``): another one than the target's.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    origin: str | None = None


class Link(Protocol):
    """One connection's codec.

    After each call of a method that can produce output, the owner must write ``data_to_send()`` to
    the socket.
    ``reusable`` tells whether another request (HTTP) or message (WebSocket) may follow.
    """

    comments: int
    """SSE comments or pings seen."""

    unasked: bool
    """Whether received data can make output: a pong, the answer to a close."""

    answered: bool
    """Whether any byte of the current answer came (HTTP); always true on a socket."""

    def receive_data(self, data: bytes) -> list[AnyFrame]:
        """Frames completed by ``data``; in order, none lost."""

    def usual(self, data: bytes) -> bytes | None:
        """The one message that ``data`` is, if it is of the commonest form and nothing else: the
        JSON of an event, a text message.  Changes nothing: such ``data`` may be fed or not.
        """

    def receive_eof(self) -> list[AnyFrame]:
        """Frames completed by the end of the byte stream."""

    def send(self, outbound: Request | str) -> None:
        """Queue a request (HTTP) or a text message (WebSocket)."""

    def close(self) -> None:
        """Queue the protocol's goodbye, if it has one and the state allows it."""

    def data_to_send(self) -> bytes:
        """Bytes to write now; empty when there are none."""

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another exchange."""

    @property
    def trailing(self) -> bool:
        """Whether it can once the end of the answer, which told all it had to, has come."""
