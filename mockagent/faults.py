"""Words that only a mock can obey: odd timelines, broken transports, refusals.

``README.md`` has them in a table; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from mockagent.words import typed_words


class Break(Enum):
    """How a turn is broken off after some answer chunks."""

    CUT = "cut"
    """The connection ends without its protocol's goodbye."""
    EOF = "eof"
    """A clean end of the transport: last HTTP chunk, WebSocket close 1000."""
    STALL = "stall"
    """Silence for ever, connection open."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong; ``_ms`` in milliseconds, counts in answer chunks, -1 and 0 mean never."""

    first_ms: float = 0.0
    """Silence between the slot and the first real step."""
    service_ms: float = 0.0
    """Mean of one more silence there, which is exponential and drawn anew for each turn."""
    tail_ms: float = 0.0
    """Silence between the last answer chunk and the end of the turn."""
    role_chunk: int = 0
    """1: a role-only, empty delta chunk, ``role_ms`` after the slot; it delays nothing."""
    role_ms: float = 0.0
    usage: int = 0
    """1: a usage chunk before ``[DONE]``, on routes that have it."""
    keepalive_ms: float = 0.0
    """SSE comments at this interval, from the headers to the end."""
    hold_ms: float = 0.0
    """Everything that is due within this time of the slot leaves together at its end."""
    burst: int = 0
    """The first so many answer chunks leave in one write."""
    cut: int = -1
    drop_ws: int = -1
    """As ``cut``, on a WebSocket only."""
    eof: int = -1
    stall: int = -1
    inband_error: int = 0
    """1: after half the chunks ``data: {"error": ...}``, ``data: [DONE]`` and a clean end; SSE."""
    status: int = 0
    """Answer the request with this status (400-599) instead of a stream; HTTP."""
    retry_after: int = 1
    """Seconds in the Retry-After header of a 429 or 503."""
    stray: int = 0
    """1: the closing step of somebody else's abandoned run comes first, as on a real server that
    has just collected its garbage.
    """
    html: int = 0
    """1: 200 with a page of HTML, as a login wall answers; HTTP."""

    @classmethod
    def from_words(cls, words: Sequence[tuple[str, str]]) -> Faults:
        """The faults that ``words`` ask for; unknown words are ignored."""
        return cls(**typed_words(words, cls))

    def breaking(self, websocket: bool) -> tuple[Break, int] | None:
        """The first break to come on this transport, and after how many answer chunks."""
        cut = max(self.cut, self.drop_ws) if websocket else self.cut
        planned = [(self.eof, Break.EOF), (self.stall, Break.STALL), (cut, Break.CUT)]
        due = [(after, how) for after, how in planned if after >= 0]
        if not due:
            return None
        after, how = min(due, key=lambda item: item[0])
        return how, after
