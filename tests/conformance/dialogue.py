"""An analyst of our product, without Locust: the real conversation, driver and codecs, and habits
that a test chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, Self
from uuid import uuid4

import gevent
from counterparts import Server

from loadgen import dialects
from loadgen.conversation import Conversation
from loadgen.dialects.contract import Identity, Shape, Site
from loadgen.dialogue import Labels
from loadgen.events import Prompt
from loadgen.identity import IdentityPlan, resolve_identity
from loadgen.net.driver import Driver, Wiring
from loadgen.net.endpoint import resolve
from loadgen.persona import PRESENT, Absence, ConsentPlan, ReplyPlan
from loadgen.plan import Deadlines, Reconnect, seconds_ns
from loadgen.turn import Milestone, TurnRecord

Row = dict[str, Any]

DEADLINES = Deadlines(first_event_s=30, silence_s=30, resume_s=5, turn_s=60)
RECONNECT = Reconnect(policy="fixed", base_s=0.1, attempts=3)


@dataclass(frozen=True, slots=True)
class Habits:
    """Replies after ``reply_s`` (None: never) with ``value`` (None: 2024, or the second of the
    options), written in ``shape``, ``twice``, and if it ``insists`` even when the turn is over.

    The first ``drops`` deliveries of a prompt meet a lost connection instead, ``drop_after_s``
    after they came.  Closing at once can lose a run of the real toolkit, so that is not zero.
    ``consent`` is what is done about a login elsewhere; the first question is given up for the next
    one after ``interrupt_s``.
    """

    reply_s: float | None = 0.05
    value: str | None = None
    drops: int = 0
    drop_after_s: float = 0.6
    shape: Shape = Shape.RIGHT
    twice: bool = False
    insists: bool = False
    consent: Literal["follow", "deny", "skip", "fail"] = "follow"
    interrupt_s: float | None = None

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        """What is done at ``prompt``."""
        value = self.value or (prompt.options[1].value if prompt.options else "2024")
        drop = seconds_ns(self.drop_after_s) if deliveries <= self.drops else None
        delay = None if self.reply_s is None else seconds_ns(self.reply_s)
        return ReplyPlan(delay, value, drop, self.shape, self.insists, self.twice)


class Analyst:
    """One analyst at ``server``; turns are tagged ``t1``, ``t2``, ..."""

    def __init__(
        self,
        server: Server,
        dialect: str,
        *,
        identity: IdentityPlan | None = None,
        habits: Habits | None = None,
        keep_alive_s: float = 4.0,
        route: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._habits = habits or Habits()
        self._surprise: Callable[[], None] | None = None
        site = Site(server.origin, server.elsewhere)
        language = dialects.create(dialect, route, site, options)
        self.conversation = Conversation(
            language,
            resolve_identity(identity or IdentityPlan(), 0, language.wire),
            DEADLINES,
            RECONNECT,
            self,
            Random(1),
            Labels("analyst", "conformance", "local", dialect),
            uuid4().hex,
            keep_answers=True,
        )
        others = {origin: resolve(origin, None) for origin in server.elsewhere}
        wiring = Wiring(resolve(server.origin, None), keep_alive_s, others=others)
        self._driver = Driver(wiring, self.conversation, lambda record: None)
        self._turns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.close()

    def ask(self, question: str) -> Row:
        """The row of a turn."""
        self._turns += 1
        tag = f"t{self._turns}"
        record: TurnRecord = self._driver.ask(uuid4().hex, f"{question} tag={tag}", tag=tag)
        return record.to_row()

    def rest(self, seconds: float) -> None:
        """Do nothing; the connection is looked after."""
        gevent.sleep(seconds)

    def lose_connection(self) -> None:
        """As a network would."""
        self._driver.drop()

    def at_a_prompt(self, call: Callable[[], None]) -> None:
        """Make ``call`` when a prompt has come, before anything is done about it."""
        self._surprise = call

    def become(self, identity: Identity) -> None:
        """Show another identity from the next connection on."""
        self.conversation.identity = identity

    def patience_ns(self) -> int | None:
        """Asked by the conversation: for ever."""
        return None

    def interrupt_ns(self) -> int | None:
        """Asked by the conversation, as all below: only the first turn is interrupted."""
        after_s = self._habits.interrupt_s if self._turns == 1 else None
        return None if after_s is None else seconds_ns(after_s)

    def absence(self) -> Absence:
        """It is there all the time."""
        return PRESENT

    def consent(self) -> ConsentPlan:
        """What is done about a login elsewhere, at once."""
        return ConsentPlan(self._habits.consent, seconds_ns(0.05))

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        """What is done at a prompt."""
        if self._surprise is not None:
            self._surprise()
        return self._habits.reply(prompt, deliveries)


def later(seconds: float, call: Callable[[], None]) -> None:
    """Make ``call`` in ``seconds``, while an analyst waits for its answer."""
    gevent.spawn_later(seconds, call)


def facts(row: Row) -> dict[str, Any]:
    """What a row says of the agent, without times, ids and sizes: equal for equal agents."""
    prompts = row.get("prompts", ())
    connections = row.get("connections", ())
    return {
        "outcome": row["outcome"],
        "cause": row.get("cause"),
        "detail": row.get("detail", ""),
        "answer": row.get("answer", ""),
        "tag_seen": row.get("tag_seen"),
        "chunks": row.get("chunks", 0),
        "steps": row.get("steps", 0),
        "progress": row.get("first_progress_kind"),
        "status": row.get("status"),
        "notices": row.get("notices", {}),
        "late_events": row.get("late_events", 0),
        "prompts": [(prompt["kind"], prompt["replied"]) for prompt in prompts],
        "replies": [(p.get("reply_status"), p.get("again_status")) for p in prompts],
        "execution": "execution" in row,
        "state": row.get("execution_state"),
        "polled": bool(row.get("polls")),
        "connections": len(connections),
        "resumed": sum("resumes" in connection for connection in connections),
        "logins": sum("authenticated_ms" in connection for connection in connections),
        "losses": [(loss["during"], loss.get("code")) for loss in row.get("losses", ())],
        "recovered": row.get("recovered", False),
        "milestones": [m.name for m in Milestone if f"{m.name.lower()}_ms" in row],
    }
