"""Frames on their way to the stage: held back, bunched, broken off, stamped as they leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Any, Protocol

from loadgen.clock import NS_PER_MS, now_ns
from mockagent.deadlines import Deadlines
from mockagent.faults import Break, Faults
from mockagent.truth import Outcome, TurnTruth


class Mark(Enum):
    """What a frame is to the truth."""

    OPENING = auto()
    WORK = auto()
    CLOSING = auto()
    ANSWER = auto()
    PROMPT = auto()
    NOTHING = auto()


class Outlet(Protocol):
    """The part of a stage that lets frames go; `stage.Stage` has the meanings."""

    websocket: bool

    async def send(self, frames: Sequence[Any]) -> None:
        """Hand frames to the transport in one write."""

    async def end(self) -> None:
        """End the turn cleanly."""

    async def break_off(self, how: Break) -> None:
        """Break the connection off."""


class Broken(Exception):
    """The turn was broken off as its faults say."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class Delivery:
    """The frames of one turn."""

    def __init__(
        self,
        stage: Outlet,
        truth: TurnTruth,
        faults: Faults,
        deadlines: Deadlines,
        before_break: Callable[[], Awaitable[None]],
        swapped: Callable[[Any, bool], Any] | None = None,
    ) -> None:
        self.stage = stage
        self.truth = truth
        self.hold_until_ns = 0
        self._deadlines = deadlines
        self._held: list[tuple[Any, Mark]] = []
        self._burst = faults.burst
        self._before_break = before_break
        self._swapped = swapped
        self._break = faults.breaking(stage.websocket)
        self._plain = not (self._burst or self._break or faults.hold_ms or swapped)

    async def answer(self, frame: Any, due_ns: int) -> None:
        """Show an answer chunk that is due at ``due_ns``.

        Raises:
            Broken: the turn ends here.
        """
        if self._plain:
            await self.stage.send((frame,))
            self._stamp(Mark.ANSWER, now_ns(), due_ns)
            return
        if self._break is not None and self._break[1] == 0:
            await self._break_off(self._break[0])
        await self.emit(frame, Mark.ANSWER, due_ns)
        if self._break is not None and self._shown() == self._break[1]:
            await self._break_off(self._break[0])

    async def emit(self, frame: Any, mark: Mark, due_ns: int = 0) -> None:
        """Show a frame, now or with those that are held back."""
        if self._swapped is not None:
            frame = self._swapped(frame, mark is Mark.ANSWER)
        bursting = self._burst and (self._held or mark is Mark.ANSWER)
        if not self.hold_until_ns and not bursting:
            await self.stage.send((frame,))
            self._stamp(mark, now_ns(), due_ns)
            return
        self._held.append((frame, mark))
        if not self.hold_until_ns and self._shown() >= self._burst:
            self._burst = 0
            await self._release(due_ns)

    async def end_holding(self, due_ns: int) -> None:
        """Let everything go that is held back, when its time has come."""
        if self.hold_until_ns:
            await self._deadlines.until(self.hold_until_ns)
        self.hold_until_ns = self._burst = 0
        await self._release(due_ns)

    async def finish(self, frames: Sequence[Any], due_ns: int) -> None:
        """Show the last frames, and end."""
        await self.end_holding(due_ns)
        for frame in frames:
            shown = frame if self._swapped is None else self._swapped(frame, False)
            await self.stage.send((shown,))
        await self.stage.end()
        self.truth.ended_ns = now_ns()

    def _shown(self) -> int:
        held = sum(mark is Mark.ANSWER for _, mark in self._held)
        return self.truth.chunks + held

    async def _release(self, due_ns: int) -> None:
        held, self._held = self._held, []
        if held:
            await self.stage.send([frame for frame, _ in held])
            at_ns = now_ns()
            for _, mark in held:
                self._stamp(mark, at_ns, due_ns)

    def _stamp(self, mark: Mark, at_ns: int, due_ns: int) -> None:
        truth = self.truth
        if mark is Mark.ANSWER:
            truth.chunks += 1
            truth.last_answer_ns = at_ns
            truth.first_answer_ns = truth.first_answer_ns or at_ns
            truth.max_late_ns = max(truth.max_late_ns, at_ns - due_ns)
        elif mark is Mark.PROMPT:
            truth.prompts[-1].sent_ns = at_ns
        elif mark is not Mark.NOTHING:
            truth.steps += 1
            if mark is Mark.OPENING:
                truth.first_step_ns = truth.first_step_ns or at_ns
            elif mark is Mark.WORK:
                truth.first_progress_ns = truth.first_progress_ns or at_ns

    async def _break_off(self, how: Break) -> None:
        await self._before_break()
        await self.end_holding(now_ns())
        await self.stage.break_off(how)
        raise Broken(Outcome.EOF if how is Break.EOF else Outcome.CUT)


def hold_until(faults: Faults, from_ns: int) -> int:
    """Until when everything is held back; 0 if nothing is."""
    return from_ns + int(faults.hold_ms * NS_PER_MS) if faults.hold_ms > 0 else 0
