"""What the mock really did, and when: the yardstick of the generator's own error.

Times are monotonic ns of this host, comparable with another process's on Linux; each is taken right
after the write of its frame was handed to the transport.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from loadgen.clock import now_ns, wall_ns


class Outcome(StrEnum):
    """How a turn ended, as the server saw it."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    REFUSED = "refused"
    """No identity, or a scripted refusal: the workflow never ran."""
    CLIENT_GONE = "client_gone"
    CANCELLED = "cancelled"
    """Another message on the same socket took its place."""
    CUT = "cut"
    EOF = "eof"
    STOPPED = "stopped"
    """The mock was stopped."""


class PromptTruth:
    """One prompt; 0 means it did not happen."""

    __slots__ = ("answered_ns", "kind", "sent_ns")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.sent_ns = 0
        self.answered_ns = 0


class TurnTruth:
    """One turn as it goes; 0 means it has not happened.

    ``max_late_ns`` is how far the latest answer chunk was behind its own schedule.
    """

    __slots__ = (
        "chunks", "conversation", "crossed", "ended_ns", "first_answer_ns", "first_progress_ns",
        "first_step_ns", "id", "last_answer_ns", "max_late_ns", "prompts", "received_ns", "route",
        "slot_ns", "steps", "tag", "transport", "wall_anchor_ns",
    )  # fmt: skip

    def __init__(
        self, id_: str | None, conversation: str | None, transport: str, route: str, at_ns: int
    ) -> None:
        self.id = id_
        self.conversation = conversation
        self.tag = ""
        self.crossed: str | None = None
        """The turn that this one has changed its answer with."""
        self.transport = transport
        self.route = route
        self.received_ns = at_ns
        self.wall_anchor_ns = wall_ns() - now_ns()
        self.slot_ns = self.first_step_ns = self.first_progress_ns = 0
        self.first_answer_ns = self.last_answer_ns = self.ended_ns = 0
        self.chunks = self.steps = self.max_late_ns = 0
        self.prompts: list[PromptTruth] = []

    def line(self, outcome: Outcome) -> bytes:
        """The turn as a JSON line; what did not happen is null."""
        row: dict[str, Any] = {name: getattr(self, name) or None for name in _TIMES}
        row |= {name: getattr(self, name) for name in _FACTS}
        row["prompts"] = [
            {"kind": p.kind, "sent_ns": p.sent_ns or None, "answered_ns": p.answered_ns or None}
            for p in self.prompts
        ]
        row["outcome"] = outcome.value
        return orjson.dumps(row) + b"\n"


_TIMES = (
    "received_ns", "slot_ns", "first_step_ns", "first_progress_ns", "first_answer_ns",
    "last_answer_ns", "ended_ns",
)  # fmt: skip
_FACTS = (
    "id", "conversation", "tag", "transport", "route", "chunks", "steps", "max_late_ns",
    "wall_anchor_ns", "crossed",
)  # fmt: skip


class TruthLog:
    """All turns and all happenings on sockets, in bounded memory: the oldest go first, counted."""

    def __init__(self, limit: int) -> None:
        self.received = 0
        self.outcomes: dict[str, int] = {}
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self._dropped = 0
        self._running: set[TurnTruth] = set()
        self._sockets: deque[dict[str, Any]] = deque()
        self._sockets_dropped = 0

    def begin(
        self, id_: str | None, conversation: str | None, transport: str, route: str, at_ns: int
    ) -> TurnTruth:
        """A turn has been received, at ``at_ns``."""
        turn = TurnTruth(id_, conversation, transport, route, at_ns)
        self.received += 1
        self._running.add(turn)
        return turn

    def end(self, turn: TurnTruth, outcome: Outcome) -> None:
        """A turn is over."""
        self._running.discard(turn)
        if not turn.ended_ns:
            turn.ended_ns = now_ns()
        self.outcomes[outcome.value] = self.outcomes.get(outcome.value, 0) + 1
        self._lines.append(turn.line(outcome))
        if len(self._lines) > self._limit:
            self._lines.popleft()
            self._dropped += 1

    def lines(self, since: int, running: bool) -> Iterator[bytes]:
        """JSON lines of ended turns from the one with number ``since`` on, in order of their ends;
        then of the running ones, if wanted.
        """
        yield from islice(self._lines, max(since - self._dropped, 0), None)
        if running:
            for turn in sorted(self._running, key=lambda turn: turn.received_ns):
                yield turn.line(Outcome.RUNNING)

    def happened(self, what: str, socket: int, conversation: str | None, **facts: Any) -> None:
        """Something happened on a socket.  ``facts`` must never hold a credential."""
        row = {"event": what, "ns": now_ns(), "socket": socket, "conversation": conversation}
        self._sockets.append(row | facts)
        if len(self._sockets) > self._limit:
            self._sockets.popleft()
            self._sockets_dropped += 1

    def sockets(self) -> Iterator[bytes]:
        """JSON lines of what happened on sockets, in order."""
        for row in self._sockets:
            yield orjson.dumps(row) + b"\n"

    def summary(self) -> dict[str, Any]:
        """Counts: ``turns`` received, ``running`` of them, ended ones by outcome, lines dropped."""
        return {
            "turns": self.received,
            "running": len(self._running),
            "outcomes": self.outcomes,
            "next": self._dropped + len(self._lines),
            "dropped": self._dropped,
            "sockets_dropped": self._sockets_dropped,
        }


def resident_bytes() -> int | None:
    """How much memory this process holds; None where the system does not say (proc(5))."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
