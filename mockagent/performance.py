"""A turn performed: the workflow's acts, each at its time, on whatever stage shows them.

Deadlines are absolute: an act is due at the slot's instant plus all pauses before it, however late
its forerunners were, so lateness does not add up.  A human's answer moves the base.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Any

from loadgen.clock import NS_PER_MS, now_ns, wall_ns
from mockagent import payloads, prompts
from mockagent.deadlines import Deadlines
from mockagent.faults import Break
from mockagent.ids import new_id
from mockagent.payloads import Written
from mockagent.stage import Form, Part, Stage
from mockagent.truth import Outcome, PromptTruth, TurnTruth
from mockagent.workflow import (
    Act,
    Acts,
    Ask,
    Block,
    Chunk,
    InBandError,
    Pause,
    Step,
    Trace,
    WorkflowFailure,
    work,
)

_FOREVER_MS = 86_400_000.0
_GRACE_S = 5
"""NAT waits so much longer for a human than the prompt says."""


class _Mark(Enum):
    OPENING = auto()
    WORK = auto()
    CLOSING = auto()
    ANSWER = auto()
    PROMPT = auto()
    NOTHING = auto()


class _Broken(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class Performance:
    """One turn on a stage."""

    def __init__(self, part: Part, stage: Stage, truth: TurnTruth, deadlines: Deadlines) -> None:
        self._part = part
        self._stage = stage
        self._truth = truth
        self._deadlines = deadlines
        self._due = 0
        self._steps: deque[tuple[Step, _Mark]] = deque()
        self._written: list[Written] = []
        self._waiting: Written | None = None
        self._held: list[tuple[Any, _Mark]] = []
        self._hold_until = 0
        self._burst = part.faults.burst
        self._break = part.faults.breaking(stage.websocket)
        self._plain = not (self._burst or self._break or part.faults.hold_ms)
        self._asides: list[tuple[int, Callable[[], Awaitable[None]]]] = []

    async def run(self) -> Outcome:
        """Perform from the moment the slot is there to the end.

        Raises:
            ClientGone: the client left.
        """
        part, stage = self._part, self._stage
        self._truth.slot_ns = self._due = now_ns()
        root = new_id()
        opening = payloads.function_start(part.given)
        self._step(Step(root, "root", "Function Start: <workflow>", opening), _Mark.OPENING)
        self._plan_asides()
        try:
            await self._play(work(part.question, part.script, part.faults, root))
            result = await self._deliver()
            closing = payloads.function_complete(part.given, result)
            self._step(Step(root, "root", "Function Complete: <workflow>", closing), _Mark.CLOSING)
            await self._show_steps()
            await self._finish(stage.completed(self._truth.chunks))
        except WorkflowFailure as failure:
            await self._show_chunk()
            self._steps.clear()
            await self._finish(stage.failed(failure))
            return Outcome.FAILED
        except _Broken as broken:
            return broken.outcome
        return Outcome.COMPLETED

    async def _play(self, acts: Acts) -> None:
        try:
            act = next(acts)
            while True:
                try:
                    value = await self._perform(act)
                except WorkflowFailure as failure:
                    act = acts.throw(failure)
                else:
                    act = acts.send(value)
        except StopIteration:
            return

    async def _perform(self, act: Act) -> str | None:
        if isinstance(act, Pause):
            if act.ms > 0:
                await self._pause(act.ms)
        elif isinstance(act, Chunk):
            await self._chunk(act.text)
        elif isinstance(act, Step):
            self._step(act, _Mark.WORK)
        elif isinstance(act, Ask):
            return await self._ask(act)
        elif isinstance(act, Block):
            if act.ms > 0:
                threading.Event().wait(act.ms / 1000)
        elif isinstance(act, Trace):
            frame = self._stage.trace(act.id)
            if frame is not None:
                await self._show_all()
                await self._emit(frame, _Mark.NOTHING)
        elif isinstance(act, InBandError):
            await self._inband_error()
        return None

    async def _pause(self, ms: float) -> None:
        if self._waiting is not None:
            await self._show_chunk()
        if self._steps:
            await self._show_steps()
        self._due += int(min(ms, _FOREVER_MS) * NS_PER_MS)
        if self._asides:
            await self._do_asides(self._due)
        await self._deadlines.until(self._due)

    async def _do_asides(self, due_ns: int) -> None:
        while self._asides and self._asides[0][0] <= due_ns:
            at_ns, aside = self._asides.pop(0)
            await self._deadlines.until(at_ns)
            await aside()

    def _step(self, step: Step, mark: _Mark) -> None:
        """Queue a step.

        In NAT prompts go straight to the client, chunks through a queue, steps through one more: of
        what the workflow does in one instant a prompt leaves first, then a chunk, then the steps.
        A failure in that instant loses the steps.
        """
        self._steps.append((step, mark))

    async def _chunk(self, text: str) -> None:
        """Queue a chunk; a prompt may still overtake it, no other act does."""
        written = Written(new_id(), text, wall_ns())
        self._written.append(written)
        if self._part.form is Form.STREAM:
            if self._waiting is not None:
                await self._show_chunk()
            self._waiting = written

    async def _show_chunk(self) -> None:
        written, self._waiting = self._waiting, None
        if written is None:
            return
        if self._plain:
            await self._stage.send((self._stage.chunk(written),))
            self._stamp(_Mark.ANSWER, now_ns())
            return
        await self._answer(written)

    async def _show_steps(self) -> None:
        while self._steps:
            step, mark = self._steps.popleft()
            await self._emit(self._stage.step(step), mark)

    async def _show_all(self) -> None:
        await self._show_chunk()
        await self._show_steps()

    async def _deliver(self) -> str:
        """What the workflow returns, as its closing step prints it; answers in one piece are shown
        here.
        """
        if self._part.form is Form.STREAM:
            await self._show_chunk()
            return payloads.chunks_text(self._written)
        text = "".join(written.text for written in self._written)
        whole = Written(new_id(), text, wall_ns())
        await self._show_steps()
        await self._answer(whole)
        if self._part.form is Form.WHOLE_CHAT:
            return payloads.response_text(whole)
        return payloads.value_text(whole)

    async def _answer(self, written: Written) -> None:
        if self._break is not None and self._break[1] == 0:
            await self._break_off(self._break[0])
        await self._emit(self._stage.chunk(written), _Mark.ANSWER)
        if self._break is not None and self._shown() == self._break[1]:
            await self._break_off(self._break[0])

    def _shown(self) -> int:
        held = sum(mark is _Mark.ANSWER for _, mark in self._held)
        return self._truth.chunks + held

    async def _emit(self, frame: Any, mark: _Mark) -> None:
        bursting = self._burst and (self._held or mark is _Mark.ANSWER)
        if not self._hold_until and not bursting:
            await self._stage.send((frame,))
            self._stamp(mark, now_ns())
            return
        self._held.append((frame, mark))
        if not self._hold_until and self._shown() >= self._burst:
            self._burst = 0
            await self._release()

    async def _release(self) -> None:
        held, self._held = self._held, []
        if held:
            await self._stage.send([frame for frame, _ in held])
            at_ns = now_ns()
            for _, mark in held:
                self._stamp(mark, at_ns)

    def _stamp(self, mark: _Mark, at_ns: int) -> None:
        truth = self._truth
        if mark is _Mark.ANSWER:
            truth.chunks += 1
            truth.last_answer_ns = at_ns
            truth.first_answer_ns = truth.first_answer_ns or at_ns
            truth.max_late_ns = max(truth.max_late_ns, at_ns - self._due)
        elif mark is _Mark.PROMPT:
            truth.prompts[-1].sent_ns = at_ns
        elif mark is not _Mark.NOTHING:
            truth.steps += 1
            if mark is _Mark.OPENING:
                truth.first_step_ns = at_ns
            elif mark is _Mark.WORK:
                truth.first_progress_ns = truth.first_progress_ns or at_ns

    async def _ask(self, ask: Ask) -> str:
        prompt = prompts.prompt(ask.kind, ask.timeout_s)
        frame, answer = self._stage.ask(ask.kind, prompt)
        truth = PromptTruth(ask.kind)
        self._truth.prompts.append(truth)
        try:
            if frame is not None:
                await self._emit(frame, _Mark.PROMPT)
            if answer is None:
                return prompts.ACKNOWLEDGED
            await self._show_all()
            await self._end_holding()
            value = await self._wait(answer, ask.timeout_s)
            truth.answered_ns = now_ns()
            return value
        finally:
            self._stage.asked()
            self._due = now_ns()

    async def _wait(self, answer: asyncio.Future[str], timeout_s: int | None) -> str:
        """The human's value.  The future is not cancelled with the turn: an execution whose client
        has left still takes an answer.
        """
        limit = None if timeout_s is None else timeout_s + _GRACE_S
        done, _ = await asyncio.wait((answer,), timeout=limit)
        if done:
            return answer.result()
        answer.cancel()
        raise WorkflowFailure(
            "TimeoutError", f"HITL prompt timed out after {timeout_s}s waiting for human response"
        )

    def _plan_asides(self) -> None:
        """What happens at a time of its own, whatever the workflow does."""
        faults = self._part.faults
        if faults.role_chunk:
            role_ns = self._due + int(faults.role_ms * NS_PER_MS)
            self._asides.append((role_ns, self._show_role))
        if faults.hold_ms > 0:
            self._hold_until = self._due + int(faults.hold_ms * NS_PER_MS)
            self._asides.append((self._hold_until, self._end_holding))
        self._asides.sort(key=lambda aside: aside[0])

    async def _show_role(self) -> None:
        await self._show_all()
        frame = self._stage.role()
        if frame is not None:
            await self._emit(frame, _Mark.NOTHING)

    async def _end_holding(self) -> None:
        """Let everything go that is held back, when its time has come."""
        if self._hold_until:
            await self._deadlines.until(self._hold_until)
        self._hold_until = self._burst = 0
        await self._release()

    async def _inband_error(self) -> None:
        frames = self._stage.inband_error()
        if frames:
            await self._show_all()
            await self._finish(frames)
            raise _Broken(Outcome.FAILED)

    async def _finish(self, frames: Sequence[Any]) -> None:
        await self._end_holding()
        for frame in frames:
            await self._stage.send((frame,))
        await self._stage.end()
        self._truth.ended_ns = now_ns()

    async def _break_off(self, how: Break) -> None:
        await self._show_steps()
        await self._end_holding()
        await self._stage.break_off(how)
        raise _Broken(Outcome.EOF if how is Break.EOF else Outcome.CUT)
