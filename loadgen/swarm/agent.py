"""One analyst: the persona, its conversation and the driver that carries it; in an A/B run one of
each for either side.

Blocking and plain: a locustfile calls `Agent.ask` and gets the turn's record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from uuid import uuid4

from loadgen import dialects
from loadgen.clock import NS_PER_S
from loadgen.conversation import Conversation
from loadgen.dialogue import Labels
from loadgen.identity import resolve_identity
from loadgen.net.driver import Driver, Wiring
from loadgen.persona import Persona, script_question
from loadgen.phase import Standing
from loadgen.plan import Group, Plan
from loadgen.side import Side, side_of
from loadgen.turn import Outcome, TurnRecord


@dataclass(frozen=True, slots=True)
class Seat:
    """What an agent is given: who it is, where it sends its records, and of an A/B run how the
    candidate is reached (``wiring`` is the baseline's then).
    """

    number: int
    worker: str
    wiring: Wiring
    sink: Callable[[TurnRecord], None]
    interrupted: Callable[[], Outcome]
    began: Callable[[], None] = lambda: None
    candidate: Wiring | None = None
    traced: bool = False
    """Whether requests say which trace they belong to."""


class Agent:
    """An analyst of ``group``.

    ``seed`` repeats its choices, but not its ids: a server may still know those of an earlier run.
    """

    def __init__(
        self, plan: Plan, group: Group, questions: tuple[str, ...], seat: Seat, seed: str
    ) -> None:
        self.persona = Persona(plan.human, group, Random(f"{seed}/persona"))
        self.group = group.name
        late_s = plan.load.jitter_s if plan.load.is_closed else 0.0
        self.start_delay_s = Random(f"{seed}/start").uniform(0, late_s)
        """How long to wait before the first question: a crowd does not march in step."""
        self.turns = 0
        self._hurried = False
        self._again: str | None = None
        self._began = seat.began
        self._plan = plan
        self._questions = questions
        self._script = group.script or plan.script
        self._rng = Random(f"{seed}/choices")
        self._number = seat.number
        self._conversations = 0
        wirings = {"": seat.wiring}
        if seat.candidate is not None:
            wirings = {Side.BASE: seat.wiring, Side.NEW: seat.candidate}
        self._drivers = {
            side: self._carrier(plan, group, seat, wiring, side, seed)
            for side, wiring in wirings.items()
        }
        self._driver = next(iter(self._drivers.values()))

    def _carrier(
        self, plan: Plan, group: Group, seat: Seat, wiring: Wiring, side: str, seed: str
    ) -> Driver:
        """A driver and a conversation of one side: neither connection nor id is ever shared."""
        dialect = dialects.create(group.dialect, group.route, wiring.site, group.options)
        conversation = Conversation(
            dialect,
            resolve_identity(group.identity, seat.number, dialect.wire),
            plan.deadlines,
            plan.reconnect,
            self.persona,
            Random(f"{seed}/network{side}"),
            Labels(f"{seat.worker}/{seat.number}", plan.name, seat.worker, group.name, side),
            uuid4().hex,
            keep_answers=plan.keep_answers,
        )
        return Driver(wiring, conversation, seat.sink, seat.interrupted, traced=seat.traced)

    def question(self) -> str:
        """One of the plan's questions, or the last one once more if its turn was given up."""
        again, self._again = self._again, None
        if again is not None:
            return again
        return self._rng.choice(self._questions)

    def ask(
        self, question: str, *, scheduled_ns: int | None = None, begins: bool | None = None
    ) -> TurnRecord:
        """Put ``question``, with the plan's script words, and wait for the turn's end.

        A new conversation ``begins``, if None after every `turns_per_conversation` turns; between
        two turns the connection is sometimes lost, as the plan says.  In an A/B run each new
        conversation goes to the side whose turn it is.
        """
        if begins is None:
            begins = self.turns % self._plan.human.turns_per_conversation == 0
        if begins or not self.turns:
            self._take_side()
        if self.turns and begins:
            self._driver.conversation.restart(uuid4().hex)
        if self.turns and self.persona.drops_between_turns():
            self._driver.drop()
        self.turns += 1
        turn = uuid4().hex
        first = self.turns == 1
        text, tag = script_question(question, self._script, turn[:12], self._rng, first=first)
        self._began()
        record = self._driver.ask(turn, text, tag=tag, scheduled_ns=scheduled_ns)
        self._hurried = "interrupted" in record.notices
        if record.outcome is Outcome.ABANDONED and self.persona.asks_again():
            self._again, self._hurried = question, True
        return record

    def think_s(self) -> float:
        """The pause before the next question, in seconds; none when the last one was put aside for
        it.
        """
        thinking = self.persona.think_ns() / NS_PER_S
        return 0.0 if self._hurried else thinking

    @property
    def standing(self) -> Standing | None:
        """Where its turn stands; None while it has none."""
        return self._driver.conversation.standing

    @property
    def connected(self) -> bool:
        """Whether there is a connection to lose: a WebSocket, or a request under way."""
        return any(driver.connected for driver in self._drivers.values())

    def drop(self) -> bool:
        """Lose the connection as a network would; False when there is none."""
        lost = [driver.drop() for driver in self._drivers.values() if driver.connected]
        return any(lost)

    def close(self) -> None:
        """The analyst leaves."""
        for driver in self._drivers.values():
            driver.close()

    def _take_side(self) -> None:
        if len(self._drivers) > 1:
            self._driver = self._drivers[side_of(self._number, self._conversations)]
        self._conversations += 1
