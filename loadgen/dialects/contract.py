"""What a dialect is: a wire language between its frames and our events.  Pure: no socket, no clock,
no randomness.

Adding one: a module with a class like `NatSse`, made from (route, origin), an entry in
`loadgen.dialects.DIALECTS`, a recording in ``tests/recordings`` with its row in the table of
expectations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from loadgen.events import Event, Prompt
from loadgen.wire.frame import AnyFrame, Request


class Wire(Enum):
    """Which codec carries the dialect."""

    HTTP = "http"
    """A request for each turn on a kept-alive connection."""

    WEBSOCKET = "websocket"
    """A socket that outlives the turn."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the analyst is, to the server.  ``login`` is sent in `auth_message`; headers and query go
    on every request.

    ``secrets`` are the texts that must never be recorded or printed.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    login: Mapping[str, str] | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """One question as a dialect needs it.  ``history`` holds (question, answer) pairs of the
    conversation, oldest first.
    """

    turn: str
    conversation: str
    text: str
    history: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The analyst's answer to a prompt: ``value`` is the text, or the chosen option's value."""

    prompt: Prompt
    value: str


class Decoder(Protocol):
    """Frames of one connection (socket) or of one answer (HTTP) to events.

    Total: never raises, whatever the peer sent, and every frame becomes at least one event (but for
    the end of an HTTP answer whose turn is already over).
    """

    def begin(self, turn: str) -> None:
        """A question was put, or its turn is being resumed here: from now on frames belong to
        ``turn``.  The owner calls it before it feeds the first frame of the turn; decoders of one
        HTTP answer need not care.
        """

    def __call__(self, frame: AnyFrame) -> tuple[Event, ...]:
        """What ``frame`` means."""


class Dialect(Protocol):
    """An agent's wire language."""

    name: str
    wire: Wire
    route: str

    def upgrade(self, identity: Identity, resume: str | None) -> Request:
        """The opening request of a socket; ``resume`` is the conversation to take up again.
        WebSocket dialects only.
        """

    def login(self, identity: Identity) -> str | None:
        """The message that must be answered by `Login` before anything else is sent; None when
        there is nothing to say.
        """

    def ask(self, ask: Ask, identity: Identity) -> Request | str:
        """The question: a request for `Wire.HTTP`, a text message for `Wire.WEBSOCKET`."""

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> Request | str:
        """The answer to a prompt: a request for a connection of its own, or a message on the
        socket.
        """

    def decoder(self) -> Decoder:
        """A fresh decoder."""

    def replied(self, status: int, body: str) -> Event:
        """What the answer to a reply request means: `Notice` when accepted, else `Failed` (not
        final: the stream decides).
        """
