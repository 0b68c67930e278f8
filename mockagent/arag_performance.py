"""A Progress turn performed: the agent's acts, each at its time, on whatever stage shows them.

Deadlines are absolute, as in `performance`.  A client that leaves does not end the turn: the agent
goes on, and speaks to nobody.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any

from loadgen.clock import NS_PER_MS, NS_PER_S, now_ns
from mockagent import arag_questions as questions
from mockagent.agent import Agent
from mockagent.arag_acts import (
    Act,
    Acts,
    Answered,
    Credentials,
    Feedback,
    Found,
    History,
    Reasoned,
    Replied,
    Silence,
    Worked,
    Writing,
    Written,
)
from mockagent.arag_consent import Consent
from mockagent.arag_frames import AragFrames, AragParts, citations, visualization
from mockagent.arag_stage import AragStage, NotOverHttp
from mockagent.arag_words import AragWords, Moment
from mockagent.arag_workflow import StageFailure
from mockagent.delivery import Broken, Delivery, Mark, hold_until
from mockagent.faults import Break, Faults
from mockagent.ids import new_hex
from mockagent.stage import ClientGone
from mockagent.truth import Outcome, PromptTruth, TurnTruth
from mockagent.workflow import Block, Pause, WorkflowFailure

_FOREVER_MS = 86_400_000.0
_SILENT = "Agent has stopped responding. Please, try again."
_OUTCOMES = {Break.CUT: Outcome.CUT, Break.EOF: Outcome.EOF, Break.STALL: Outcome.CLIENT_GONE}


@dataclass(frozen=True, slots=True)
class AragPart:
    """What is to be performed.  ``history``: how many exchanges the agent knows of."""

    question: str
    session: str
    streaming: bool
    acts: Acts
    frames: AragFrames
    faults: Faults
    words: AragWords
    fail: str
    history: int


class AragPerformance:
    """One turn on a stage."""

    def __init__(
        self, agent: Agent, part: AragPart, stage: AragStage, truth: TurnTruth, consent: Consent
    ) -> None:
        self.final: str | None = None
        """The answer, as the session remembers it."""
        self._agent = agent
        self._part = part
        self._stage = stage
        self._truth = truth
        self._consent = consent
        self._frames = part.frames
        self._parts = AragParts(part.frames.uuid, part.question)
        self._moment = part.words.moment
        self._break = part.faults.breaking(stage.websocket)
        counted = part.faults
        if self._moment is not None:
            counted = replace(counted, cut=-1, drop_ws=-1, eof=-1, stall=-1)
        swapped = agent.crosstalk.take(truth)
        self._delivery = Delivery(
            stage, truth, counted, agent.deadlines, _nothing_waits, swapped=swapped
        )
        self._due = self._slept_ns = 0
        self._lost = 0
        self._context = ""
        self._citations: dict[str, Any] | None = None
        self._charts: list[dict[str, Any]] = []

    async def run(self) -> Outcome:
        """Perform from the moment the slot is there to the end."""
        self._truth.slot_ns = self._due = now_ns()
        try:
            return await self._run()
        except Broken as broken:
            return broken.outcome
        except ClientGone:
            return Outcome.CLIENT_GONE

    async def part_company(self) -> None:
        """Break the connection off behind the DONE frame, if that is asked for."""
        if self._moment is Moment.CLOSE and self._break is not None:
            await self._stage.break_off(self._break[0])

    @property
    def alone(self) -> bool:
        """Whether the client has left."""
        return self._stage.gone

    @property
    def parts(self) -> bool:
        """Whether the connection's end is not the usual one."""
        return self._moment is Moment.CLOSE and self._break is not None

    async def _run(self) -> Outcome:
        frames, outcome = self._frames, Outcome.COMPLETED
        await self._break_at(Moment.OPEN)
        try:
            if self._part.fail == "activation":
                raise StageFailure("scripted failure at activation", None)
            if await self._show(frames.start(), Mark.NOTHING):
                self._truth.first_step_ns = now_ns()
            await self._break_at(Moment.START)
            self._delivery.hold_until_ns = hold_until(self._part.faults, self._due)
            await self._play(self._part.acts)
            await self._answer()
        except NotOverHttp as impossible:
            await self._finish(frames.error(str(impossible)))
            return Outcome.FAILED
        except _Died:
            await self._finish(frames.error(_SILENT))
            return Outcome.FAILED
        except WorkflowFailure as failure:
            stage = failure.stage if isinstance(failure, StageFailure) else "context"
            self.final = None if stage is None else f"Error in {stage}"
            begun = self._part.fail != "activation"
            error = frames.failure if begun else frames.error
            await self._show(error(str(failure), self.final), Mark.NOTHING)
            outcome = Outcome.FAILED
        await self._break_at(Moment.DONE)
        await self._finish(frames.done())
        return outcome

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

    async def _perform(self, act: Act) -> Any:
        if isinstance(act, Pause):
            await self._pause(act.ms)
        elif isinstance(act, Written):
            await self._chunk(act)
        elif isinstance(act, Block):
            if act.ms > 0:
                threading.Event().wait(act.ms / 1000)
        elif isinstance(act, Feedback):
            asked = questions.question(act.kind, self._part.session, act.timeout_s)
            return await self.ask(asked, act.kind)
        elif isinstance(act, Credentials):
            return await self._consent.obtain(act.own_provider, self)
        elif isinstance(act, History):
            return self._part.history
        elif isinstance(act, Silence):
            raise _Died
        else:
            await self._tell(act)
        return None

    async def _tell(self, act: Worked | Found | Writing | Reasoned | Answered) -> None:
        """Acts that are a frame each."""
        frames, parts = self._frames, self._parts
        if isinstance(act, Worked):
            took_s = self._slept_ns / NS_PER_S if act.took_s is None else act.took_s
            step = parts.step(act.module, act.title, act.value, took_s, act.reason)
            await self._show(frames.step(step), Mark.WORK)
        elif isinstance(act, Found):
            self._context = new_hex()
            if not act.hidden:
                context = parts.context(self._context, act.text)
                await self._show(frames.context(context), Mark.WORK)
        elif isinstance(act, Reasoned):
            await self._show(frames.reasoning(act.text), Mark.WORK)
        elif isinstance(act, Answered):
            self._citations = citations(self._context) if act.cited and self._context else None
            self.final = act.text
            charts = [visualization() for _ in range(act.charts)]
            self._charts += charts
            chart = charts[0] if charts else None
            answer = parts.possible_answer(act.text, act.agent_path, self._citations, chart)
            await self._show(frames.possible_answer(answer), Mark.WORK)
        elif self._part.streaming or act.always:
            frame = frames.source(act.agent) if act.begins else frames.chunk("", last=True)
            await self._show(frame, Mark.NOTHING)

    async def _pause(self, ms: float) -> None:
        self._slept_ns = int(min(ms, _FOREVER_MS) * NS_PER_MS) if ms > 0 else 0
        if self._slept_ns:
            self._due += self._slept_ns
            hold_ns = self._delivery.hold_until_ns
            if hold_ns and hold_ns <= self._due:
                await self._safely(self._delivery.end_holding(hold_ns))
            await self._agent.deadlines.until(self._due)

    async def _chunk(self, written: Written) -> None:
        if not (self._part.streaming or written.always):
            return
        if self._lost < self._part.words.drop_chunks:
            self._lost += 1
            return
        await self._safely(self._delivery.answer(self._frames.chunk(written.text), self._due))

    async def _answer(self) -> None:
        """The frame with the answer; it is the answer's first when there were no chunks."""
        frame = self._frames.answer(self.final, self._citations, self._charts)
        if self._truth.chunks or self.final is None:
            await self._show(frame, Mark.NOTHING)
        else:
            await self._safely(self._delivery.answer(frame, self._due))

    async def ask(self, feedback: dict[str, Any], kind: str) -> Replied:
        """Ask the user.  After the timeout the agent goes on, and what it says from then on is
        withheld until a reply comes; by the documentation it is not.
        """
        prompt = PromptTruth(kind)
        self._truth.prompts.append(prompt)
        await self._safely(self._delivery.end_holding(self._due))
        reply = self._stage.expect(prompt)
        await self._show(self._frames.feedback(feedback), Mark.PROMPT)
        self._stage.hold()
        asked_ns = now_ns()
        limit_ns = asked_ns + feedback["timeout_ms"] * NS_PER_MS
        await asyncio.wait((reply,), timeout=feedback["timeout_ms"] / 1000)
        if reply.done():
            self._due = now_ns()
            return Replied(reply.result(), (self._due - asked_ns) / NS_PER_S)
        await self._agent.deadlines.until(limit_ns)
        if self._agent.settings.edition.documented:
            self._stage.forget()
        self._due = limit_ns
        return Replied(None, (limit_ns - asked_ns) / NS_PER_S)

    async def send_away(self, url: str, payload: asyncio.Future[str]) -> str:
        """Send the user to ``url``, wait for the payload that the browser brings back.

        Raises:
            StageFailure: it never came.
        """
        prompt = PromptTruth("oauth_consent")
        self._truth.prompts.append(prompt)
        if not self._stage.websocket:
            self._stage.expect(prompt)
        await self._safely(self._delivery.end_holding(self._due))
        await self._show(self._frames.oauth(url), Mark.PROMPT)
        timeout_s = self._agent.settings.oauth_timeout_s
        await asyncio.wait((payload,), timeout=timeout_s)
        self._due = now_ns()
        if not payload.done():
            raise StageFailure(f"OAuth callback timed out after {timeout_s} s", "context")
        prompt.answered_ns = self._due
        return payload.result()

    async def restored(self) -> None:
        """Wait for the client's connection: the one there is, or one that takes its place.

        Raises:
            StageFailure: it never came.
        """
        timeout_s = self._agent.settings.oauth_timeout_s
        try:
            await asyncio.wait_for(self._stage.restored(), timeout_s)
        except TimeoutError:
            raise StageFailure(f"no connection within {timeout_s} s", "context") from None
        self._due = now_ns()

    async def _show(self, frame: str, mark: Mark) -> bool:
        return await self._safely(self._delivery.emit(frame, mark))

    async def _finish(self, frame: str) -> None:
        """The last frame."""
        await self._delivery.end_holding(self._due)
        if self.parts:
            await self._stage.send((frame,))
            self._truth.ended_ns = now_ns()
        else:
            await self._delivery.finish((frame,), self._due)

    async def _safely(self, showing: Awaitable[None]) -> bool:
        """Show something to whoever is there; the agent does not notice when nobody is."""
        try:
            await showing
        except ClientGone:
            if self._agent.settings.arag.stop_on_leave:
                raise
            return False
        return True

    async def _break_at(self, moment: Moment) -> None:
        if self._moment is moment and self._break is not None:
            await self._delivery.end_holding(self._due)
            await self._stage.break_off(self._break[0])
            raise Broken(_OUTCOMES[self._break[0]])


class _Died(Exception):
    """The agent's process is gone."""


async def _nothing_waits() -> None:
    """Frames are shown at once here: none is left over when the turn breaks off."""
