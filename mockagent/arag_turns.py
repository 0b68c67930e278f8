"""Turns of Progress agents: made from questions, performed beside the connection, found again."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace

from loadgen.clock import now_ns
from mockagent.agent import Agent, steers
from mockagent.arag_acts import Acts
from mockagent.arag_consent import Consent
from mockagent.arag_frames import AragFrames
from mockagent.arag_oauth import AragOAuth
from mockagent.arag_performance import AragPart, AragPerformance
from mockagent.arag_reference import reference, scenario_of
from mockagent.arag_requests import InteractionRequest
from mockagent.arag_sessions import AragSessions
from mockagent.arag_stage import AragStage, SocketStage
from mockagent.arag_tokens import Tokens
from mockagent.arag_words import AragWords
from mockagent.arag_workflow import work
from mockagent.faults import Faults
from mockagent.script import Script
from mockagent.stage import ClientGone
from mockagent.truth import Outcome, TurnTruth
from mockagent.words import read_words

_STEERING = frozenset(word.name for word in fields(AragWords))
_ID_HEADER = "user-message-id"
"""NAT's header that names a turn; here it may also be one of the question's own headers."""
_REMEMBERED = 100_000
_RESUMABLE = 10_000
_BROKEN = (Outcome.CUT, Outcome.EOF)
"""The agent's process did not live to remember what it said."""
_log = logging.getLogger("mockagent")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question is asked."""

    agent: str
    workflow: str
    session: str
    path: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to become of a question; ``script`` None: the reference agent answers."""

    script: Script | None
    faults: Faults
    words: AragWords
    tag: str

    @property
    def fail(self) -> str:
        """Where the agent fails."""
        return self.script.fail if self.script is not None else ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn under way, or over."""

    question: str
    stage: SocketStage
    performance: AragPerformance
    task: asyncio.Task[None]


class Arag:
    """What all Progress routes of a mock share."""

    def __init__(self, agent: Agent) -> None:
        settings = agent.settings.arag
        self.agent = agent
        self.tokens = Tokens(settings.token_life_s, settings.single_use_token)
        self.sessions = AragSessions(settings.memory)
        self.oauth = AragOAuth()
        self.orphans: dict[str, list[Turn]] = {}
        """Running turns by session whose clients may come back, in order of their loss."""
        self._resumable: dict[tuple[str, str], Turn] = {}
        self._asked: Counter[str] = Counter()

    def plan(self, question: str) -> Plan:
        """What to do about ``question``."""
        words = read_words(question)
        more = AragWords.from_words(words)
        tag = Script.from_words(words).tag
        plain = self.agent.settings.arag.reference and not steers(words, _STEERING)
        script: Script | None = None
        faults = self.agent.faults(words)
        if not (plain or scenario_of(question)):
            script, faults = self.agent.plan(question, _STEERING)
        return Plan(script, self._only_once(question, faults, more), more, tag)

    def begin(
        self,
        asked: InteractionRequest,
        plan: Plan,
        place: Place,
        transport: str,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> TurnTruth:
        """The truth of a turn that was received just now."""
        named = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers}
        id_ = asked.headers.get(_ID_HEADER) or named.get(_ID_HEADER)
        truth = self.agent.truth.begin(id_, place.session, transport, place.path, now_ns())
        truth.tag = plan.tag
        return truth

    def performance(
        self,
        asked: InteractionRequest,
        plan: Plan,
        place: Place,
        stage: AragStage,
        truth: TurnTruth,
    ) -> AragPerformance:
        """A turn, ready to be performed."""
        settings = self.agent.settings
        frames = AragFrames(settings.edition, settings.arag.resume)
        truth.id = truth.id or frames.uuid
        history = asked.chat_history
        known = self.sessions.history(place.session) if history is None else len(history)
        part = AragPart(
            asked.question, place.session, asked.streaming, self._acts(asked, plan), frames,
            plan.faults, plan.words, plan.fail, known,
        )  # fmt: skip
        consents = self.agent.consents
        consent = Consent(
            self.oauth, consents.origin if consents else None, place.agent, place.workflow,
            place.session, frames.uuid, settings.edition.documented,
        )  # fmt: skip
        return AragPerformance(self.agent, part, stage, truth, consent)

    def launch(
        self, performance: AragPerformance, question: str, place: Place, truth: TurnTruth
    ) -> asyncio.Task[None]:
        """Perform a turn to its end, whoever listens, beside everything else."""

        def settle(_: asyncio.Task[None]) -> None:
            if not truth.ended_ns:  # it was cancelled before it could begin
                self.agent.truth.end(truth, self._cancelled(performance))

        task = self.agent.spawn(self._perform(performance, question, place, truth))
        task.add_done_callback(settle)
        return task

    def keep(self, place: Place, turn: Turn) -> None:
        """Let a client find this turn again by session and question."""
        if self.agent.settings.arag.resume:
            if len(self._resumable) >= _RESUMABLE:
                del self._resumable[next(iter(self._resumable))]
            self._resumable[place.session, turn.question] = turn

    def resumable(self, place: Place, question: str) -> Turn | None:
        """The turn of this session and question."""
        return self._resumable.get((place.session, question))

    def lose(self, place: Place, turn: Turn) -> None:
        """A running turn has lost its client; by the documentation it may come back."""
        if self.agent.settings.edition.documented:
            self.orphans.setdefault(place.session, []).append(turn)

    def adopt(self, place: Place) -> Turn | None:
        """The oldest running turn of the session that has lost its client."""
        orphans = self.orphans.get(place.session, [])
        while orphans:
            turn = orphans.pop(0)
            if not turn.task.done():
                return turn
        self.orphans.pop(place.session, None)
        return None

    async def _perform(
        self, performance: AragPerformance, question: str, place: Place, truth: TurnTruth
    ) -> None:
        agent = self.agent
        outcome = Outcome.FAILED
        try:
            async with agent.users.shared:
                outcome = await performance.run()
            if outcome not in _BROKEN:
                self.sessions.remember(place.session, question, performance.final or "")
        except asyncio.CancelledError:
            outcome = self._cancelled(performance)
            return
        except Exception:  # noqa: BLE001 - the boundary of a task: nobody else would see it
            _log.exception("a turn broke: this is a fault of the mock")
        finally:
            agent.truth.end(truth, outcome)
        with suppress(ClientGone):
            await performance.part_company()

    def _cancelled(self, performance: AragPerformance) -> Outcome:
        if self.agent.stopping:
            return Outcome.STOPPED
        return Outcome.CLIENT_GONE if performance.alone else Outcome.CANCELLED

    def _acts(self, asked: InteractionRequest, plan: Plan) -> Acts:
        if plan.script is None:
            return reference(asked.question, asked.streaming)
        return work(asked.question, plan.script, plan.faults, plan.words)

    def _only_once(self, question: str, faults: Faults, words: AragWords) -> Faults:
        if not words.once:
            return faults
        if len(self._asked) >= _REMEMBERED:
            self._asked.clear()
        self._asked[question] += 1
        if self._asked[question] == 1:
            return faults
        return replace(faults, cut=-1, drop_ws=-1, eof=-1, stall=-1, status=0, html=0)
