"""What the load server plays: turns under way, each with its next event at its time."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Any, Protocol

import orjson

from loadgen.clock import NS_PER_S, cpu_ns, now_ns
from mockagent.deadlines import Deadlines
from tests.bench.frames import Frames

_GOLDEN = 0.6180339887498949
_ROUND = 256
"""Writes before the event loop gets a turn to read requests."""
_WATCH_S = 0.05


class Outlet(Protocol):
    """The connection that a turn is shown on."""

    open: bool
    begun: bool
    """Whether a turn was shown on it before."""

    def write(self, data: bytes) -> None:
        """Send ``data`` now."""


class Turn:
    """One answer being played; times in ns, 0 means not yet."""

    __slots__ = (
        "chunk", "door", "due_ns", "ended_ns", "ending", "events", "first_answer_ns",
        "first_progress_ns", "id", "interval_ns", "openings", "played",
    )  # fmt: skip

    def __init__(self, door: Outlet, id_: str, frames: Frames, events: int, rate: float) -> None:
        self.door = door
        self.id = id_
        self.events = events
        self.interval_ns = int(NS_PER_S / rate)
        self.due_ns = self.played = 0
        self.first_progress_ns = self.first_answer_ns = self.ended_ns = 0
        self.openings, self.chunk, self.ending = frames.openings, frames.chunk, frames.ending

    def play(self, at_ns: int) -> bool:
        """Write the next event; False after the last one."""
        played = self.played
        if played >= self.events:
            self.ended_ns = at_ns
            self.door.write(self.ending)
            return False
        self.played = played + 1
        if played > 1:
            if played == 2:
                self.first_answer_ns = at_ns
            self.door.write(self.chunk)
        else:
            if played == 1:
                self.first_progress_ns = at_ns
            self.door.write(self.openings[played])
        return True

    def line(self) -> bytes:
        """The truth about this turn."""
        row = {
            "id": self.id,
            "first_progress_ns": self.first_progress_ns,
            "first_answer_ns": self.first_answer_ns,
            "ended_ns": self.ended_ns,
            "chunks": self.events - 2,
            "outcome": "completed",
        }
        return orjson.dumps(row) + b"\n"


class Stage:
    """All turns under way, in the order of their next events, and what was written when."""

    def __init__(self) -> None:
        self.sent_ns = array("q")
        self.late_ns = array("q")
        self.ended: list[bytes] = []
        self.cpu: list[tuple[int, int]] = []
        self._heap: list[tuple[int, int, Turn]] = []
        self._order = count()
        self._deadlines = Deadlines()
        self._tasks: set[asyncio.Task[None]] = set()
        self._playing: object | None = None

    def begin(self, turn: Turn, at_ns: int) -> None:
        """Play ``turn`` from now on."""
        number = next(self._order)
        share = number * _GOLDEN % 1
        # The first turn also shifts all that follow it: else the turns would march in step.
        span_ns = turn.interval_ns if turn.door.begun else turn.interval_ns * turn.events
        turn.door.begun = True
        turn.due_ns = at_ns + int(span_ns * share)
        heappush(self._heap, (turn.due_ns, number, turn))
        if self._playing is None or self._heap[0][2] is turn:
            task = asyncio.get_running_loop().create_task(self._play())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _play(self) -> None:
        """Play until nothing is left, or a task for an earlier turn has taken over."""
        me = self._playing = object()
        heap = self._heap
        while heap and self._playing is me:
            await self._deadlines.until(heap[0][0])
            if self._playing is me:
                self._round()
        if self._playing is me:
            self._playing = None

    def _round(self) -> None:
        heap, sent, late = self._heap, self.sent_ns, self.late_ns
        for _ in range(_ROUND):
            if not heap:
                return
            due_ns, number, turn = heap[0]
            at_ns = now_ns()
            if due_ns > at_ns:
                return
            if not turn.door.open:
                heappop(heap)
            elif turn.play(at_ns):
                sent.append(at_ns)
                late.append(at_ns - due_ns)
                heapreplace(heap, (due_ns + turn.interval_ns, number, turn))
            else:
                heappop(heap)
                self.ended.append(turn.line())

    def report(self, from_ns: int, to_ns: int) -> dict[str, Any]:
        """What was written in a window, and how busy this process was."""
        low, high = bisect_left(self.sent_ns, from_ns), bisect_left(self.sent_ns, to_ns)
        late = sorted(self.late_ns[low:high])
        return {
            "events": high - low,
            "late_p50_ns": late[len(late) // 2] if late else None,
            "late_p99_ns": late[len(late) * 99 // 100] if late else None,
            "cpu": self._busy(from_ns, to_ns),
        }

    async def watch(self) -> None:
        """Note this process's CPU time every now and then."""
        while True:
            self.cpu.append((now_ns(), cpu_ns()))
            await asyncio.sleep(_WATCH_S)

    def _busy(self, from_ns: int, to_ns: int) -> float | None:
        """The share of a processor used, between the first and the last note of a window."""
        notes = [note for note in self.cpu if from_ns <= note[0] <= to_ns]
        if len(notes) < 2:
            return None
        (began_ns, before), (ended_ns, after) = notes[0], notes[-1]
        return (after - before) / (ended_ns - began_ns)
