"""A turn performed: the workflow's acts, each at its time, on whatever stage shows them.

Deadlines are absolute: an act is due at the slot's instant plus all pauses before it, however late
its forerunners were, so lateness does not add up.  A human's answer moves the base.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from loadgen.clock import NS_PER_MS, now_ns, wall_ns
from mockagent import payloads, prompts
from mockagent.agent import Agent
from mockagent.consents import Refused
from mockagent.delivery import Broken, Delivery, Mark, hold_until
from mockagent.ids import new_id
from mockagent.payloads import WORKFLOW, Written
from mockagent.stage import Form, Part, Stage
from mockagent.truth import Outcome, PromptTruth, TurnTruth
from mockagent.workflow import (
    Act,
    Acts,
    Ask,
    Block,
    Chunk,
    Consent,
    Event,
    InBandError,
    Kind,
    Pause,
    Quoted,
    Trace,
    WorkflowFailure,
    work,
)

_FOREVER_MS = 86_400_000.0
_NAME = "analyst_sim"
"""What the conformance server's workflow is called."""
_NOBODY = "Authentication failed. No resolved user identity is available."

_UNCONVERTED = (
    "Cannot convert type <class 'str'> to <class 'nat.utils.type_utils.OutputArgsSchema'>."
    " No match found."
)
"""1.9.0 cannot give the text of a user's own workflow in one piece, except as a chat response."""


class Performance:
    """One turn on a stage."""

    def __init__(self, agent: Agent, part: Part, stage: Stage, truth: TurnTruth) -> None:
        self._agent = agent
        self._part = part
        self._stage = stage
        self._truth = truth
        self._deadlines = agent.deadlines
        self._delivery = Delivery(
            stage, truth, part.faults, agent.deadlines, before_break=self._show_steps,
            swapped=agent.crosstalk.take(truth),
        )  # fmt: skip
        self._due = 0
        self._steps: deque[tuple[Any, Mark]] = deque()
        self._written: list[Written] = []
        self._waiting: Written | None = None
        self._asides: list[tuple[int, Callable[[], Awaitable[None]]]] = []
        self._trace: str | None = None
        self._acts: Acts | None = None

    async def run(self) -> Outcome:
        """Perform from the moment the slot is there to the end.

        Raises:
            ClientGone: the client left.
        """
        part, stage = self._part, self._stage
        self._truth.slot_ns = self._due = now_ns()
        run, root = new_id(), new_id()
        if part.faults.stray:
            stray = Event(new_id(), new_id(), Kind.FUNCTION_END, WORKFLOW, "", "None")
            self._event(stray, Mark.CLOSING)
        self._event(Event(run, "root", Kind.WORKFLOW_START, _NAME, part.given), Mark.OPENING)
        self._event(Event(root, run, Kind.FUNCTION_START, WORKFLOW, part.given), Mark.OPENING)
        self._plan_asides()
        try:
            self._acts = work(part.question, part.script, part.faults, root)
            await self._play(self._acts)
            self._acts = None
            result = await self._deliver()
            ended = Event(root, run, Kind.FUNCTION_END, WORKFLOW, part.given, result)
            self._event(ended, Mark.CLOSING)
            self._event(Event(run, "root", Kind.WORKFLOW_END, _NAME, "", result), Mark.CLOSING)
            await self._show_steps()
            await self._delivery.finish(stage.completed(self._truth.chunks), self._due)
        except WorkflowFailure as failure:
            await self._show_chunk()
            self._steps.clear()
            await self._delivery.finish(stage.failed(failure), self._due)
            return Outcome.FAILED
        except Broken as broken:
            return broken.outcome
        return Outcome.COMPLETED

    async def haunt(self) -> None:
        """Go on working for nobody: NAT's work of a turn whose client has left ends with the next
        answer chunk.  Only its blocking can be noticed.
        """
        acts = self._acts
        if acts is None:
            return
        self._waiting = None
        self._steps.clear()
        self._asides.clear()
        try:
            act = acts.send(None)
            while isinstance(act, Pause | Block | Event | Trace):
                if isinstance(act, Pause | Block):
                    await self._perform(act)
                act = acts.send(None)
        except (StopIteration, WorkflowFailure):
            pass

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
        elif isinstance(act, Event):
            self._event(act, Mark.WORK)
        elif isinstance(act, Ask):
            return await self._ask(act)
        elif isinstance(act, Block):
            if act.ms > 0:
                threading.Event().wait(act.ms / 1000)
        elif isinstance(act, Consent):
            await self._consent()
        elif isinstance(act, Trace):
            self._trace = act.id
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

    def _event(self, event: Event, mark: Mark) -> None:
        """Queue a step.

        In NAT prompts go straight to the client, chunks through a queue, steps through one more: of
        what the workflow does in one instant a prompt leaves first, then a chunk, then the steps.
        A failure in that instant loses the steps.  A trace id is noticed when the next step comes.
        """
        if self._trace is not None:
            frame, self._trace = self._stage.trace(self._trace), None
            if frame is not None:
                self._steps.append((frame, Mark.NOTHING))
        frame = self._stage.step(event)
        if frame is not None:
            self._steps.append((frame, mark))

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
        if written is not None:
            await self._delivery.answer(self._stage.chunk(written), self._due)

    async def _show_steps(self) -> None:
        while self._steps:
            frame, mark = self._steps.popleft()
            await self._delivery.emit(frame, mark)

    async def _show_all(self) -> None:
        await self._show_chunk()
        await self._show_steps()

    async def _deliver(self) -> Quoted:
        """What the workflow returns, as its closing step quotes it; answers in one piece are shown
        here.
        """
        if self._part.form is Form.STREAM:
            await self._show_chunk()
            return payloads.Chunks(self._written)
        settings = self._agent.settings
        faulty = settings.per_user and not settings.edition.documented
        if faulty and self._part.form is Form.WHOLE_VALUE:
            raise WorkflowFailure("ValueError", _UNCONVERTED)
        text = "".join(written.text for written in self._written)
        whole = Written(new_id(), text, wall_ns())
        await self._delivery.answer(self._stage.chunk(whole), self._due)
        if self._part.form is Form.WHOLE_CHAT:
            return payloads.ChatAnswer(whole)
        return payloads.ValueAnswer(whole)

    async def _ask(self, ask: Ask) -> str:
        prompt = prompts.prompt(ask.kind, ask.timeout_s, self._agent.settings.edition)
        frame, answer = self._stage.ask(ask.kind, prompt)
        truth = PromptTruth(ask.kind)
        self._truth.prompts.append(truth)
        try:
            if frame is not None:
                await self._delivery.emit(frame, Mark.PROMPT)
            if answer is None:
                return prompts.ACKNOWLEDGED
            await self._show_all()
            await self._delivery.end_holding(self._due)
            value = await self._wait(answer, ask.timeout_s)
            truth.answered_ns = now_ns()
            return value
        finally:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                # Else NAT's run waits on out of sight, and its prompt still takes a reply.
                self._stage.asked()
            self._due = now_ns()

    async def _wait(self, answer: asyncio.Future[str], timeout_s: int | None) -> str:
        """The human's value.  The future is not cancelled with the turn: an execution whose client
        has left still takes an answer.
        """
        limit = None if timeout_s is None else timeout_s + self._agent.settings.prompt_grace_s
        done, _ = await asyncio.wait((answer,), timeout=limit)
        if done:
            return answer.result()
        answer.cancel()
        raise WorkflowFailure(
            "TimeoutError", f"HITL prompt timed out after {timeout_s}s waiting for human response"
        )

    async def _consent(self) -> None:
        """Get the user's token: there already, or by asking."""
        consents, user = self._agent.consents, self._part.user
        if consents is None:
            raise WorkflowFailure("ScriptedFailure", "no auth_provider in the configuration")
        if user is None:
            raise WorkflowFailure("RuntimeError", _NOBODY)
        if consents.granted(user):
            return
        flow = consents.begin()
        truth = PromptTruth("oauth_consent")
        try:
            frame = self._stage.consent(flow)
            self._truth.prompts.append(truth)
            if frame is not None:
                await self._delivery.emit(frame, Mark.PROMPT)
            await self._show_all()
            await self._delivery.end_holding(self._due)
            await consents.obtain(user, flow)
            truth.answered_ns = now_ns()
        except TimeoutError:
            why = f"Authentication flow timed out after {consents.timeout_s} seconds."
            raise _no_token(why) from None
        except Refused as refused:
            raise _no_token(str(refused)) from None
        finally:
            consents.end(flow)
            self._due = now_ns()
        self._stage.consented()

    def _plan_asides(self) -> None:
        """What happens at a time of its own, whatever the workflow does."""
        faults = self._part.faults
        if faults.role_chunk:
            role_ns = self._due + int(faults.role_ms * NS_PER_MS)
            self._asides.append((role_ns, self._show_role))
        held_ns = self._delivery.hold_until_ns = hold_until(faults, self._due)
        if held_ns:
            self._asides.append((held_ns, lambda: self._delivery.end_holding(self._due)))
        self._asides.sort(key=lambda aside: aside[0])

    async def _show_role(self) -> None:
        await self._show_all()
        frame = self._stage.role()
        if frame is not None:
            await self._delivery.emit(frame, Mark.NOTHING)

    async def _inband_error(self) -> None:
        frames = self._stage.inband_error()
        if frames:
            await self._show_all()
            await self._delivery.finish(frames, self._due)
            raise Broken(Outcome.FAILED)


def _no_token(why: str) -> WorkflowFailure:
    return WorkflowFailure("RuntimeError", f"Authentication callback failed: {why}")
