"""One analyst: the persona, its conversation and the driver that carries it.

Blocking and plain: a locustfile calls `Agent.ask` and gets the turn's record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from uuid import uuid4

from loadgen import dialects
from loadgen.clock import NS_PER_S
from loadgen.conversation import Conversation, Labels
from loadgen.identity import resolve_identity
from loadgen.net.driver import Driver, Wiring
from loadgen.persona import Persona, script_question
from loadgen.plan import Group, Plan
from loadgen.turn import Outcome, TurnRecord


@dataclass(frozen=True, slots=True)
class Seat:
    """What an agent is given: who it is and where it sends its records."""

    number: int
    worker: str
    wiring: Wiring
    sink: Callable[[TurnRecord], None]
    interrupted: Callable[[], Outcome]


class Agent:
    """An analyst of ``group``.

    ``seed`` repeats its choices, but not its ids: a server may still know those of an earlier run.
    """

    def __init__(
        self, plan: Plan, group: Group, questions: tuple[str, ...], seat: Seat, seed: str
    ) -> None:
        self.persona = Persona(plan.human, group, Random(f"{seed}/persona"))
        self.turns = 0
        self._hurried = False
        self._plan = plan
        self._questions = questions
        self._rng = Random(f"{seed}/choices")
        dialect = dialects.create(group.dialect, group.route, seat.wiring.site, group.options)
        conversation = Conversation(
            dialect,
            resolve_identity(group.identity, seat.number, dialect.wire),
            plan.deadlines,
            plan.reconnect,
            self.persona,
            Random(f"{seed}/network"),
            Labels(f"{seat.worker}/{seat.number}", plan.name, seat.worker, group.name),
            uuid4().hex,
            keep_answers=plan.keep_answers,
        )
        self._driver = Driver(seat.wiring, conversation, seat.sink, seat.interrupted)

    def question(self) -> str:
        """One of the plan's questions."""
        return self._rng.choice(self._questions)

    def ask(self, question: str, *, scheduled_ns: int | None = None) -> TurnRecord:
        """Put ``question``, with the plan's script words, and wait for the turn's end.

        After `turns_per_conversation` turns a new conversation begins; between two turns the
        connection is sometimes lost, as the plan says.
        """
        if self.turns and self.turns % self._plan.human.turns_per_conversation == 0:
            self._driver.conversation.restart(uuid4().hex)
        if self.turns and self.persona.drops_between_turns():
            self._driver.drop()
        self.turns += 1
        turn = uuid4().hex
        text, tag = script_question(question, self._plan.script, turn[:12], self._rng)
        record = self._driver.ask(turn, text, tag=tag, scheduled_ns=scheduled_ns)
        self._hurried = "interrupted" in record.notices
        return record

    def think_s(self) -> float:
        """The pause before the next question, in seconds; none when the last one was put aside for
        it.
        """
        thinking = self.persona.think_ns() / NS_PER_S
        return 0.0 if self._hurried else thinking

    def close(self) -> None:
        """The analyst leaves."""
        self._driver.close()
