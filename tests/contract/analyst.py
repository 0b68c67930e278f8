"""An analyst for contract tests: a driver on real sockets, in this process, unpatched."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from uuid import uuid4

import gevent
from gevent import get_hub

from loadgen import dialects, metrics
from loadgen.clock import NS_PER_MS
from loadgen.conversation import Conversation
from loadgen.dialects.contract import Identity, Options
from loadgen.dialogue import Labels
from loadgen.events import Prompt
from loadgen.net.driver import Driver, Wiring
from loadgen.net.endpoint import Endpoint, resolve
from loadgen.persona import PRESENT, Absence, ConsentPlan, ReplyPlan
from loadgen.plan import Deadlines, Reconnect
from loadgen.turn import Cause, Milestone, Outcome, TurnRecord

QUICK = Deadlines(connect_s=5, auth_s=5, first_event_s=5, silence_s=5, resume_s=5, turn_s=30)
SOON = Reconnect(policy="fixed", base_s=0.05, attempts=3)

LOGIN = Identity(login={"method": "api_key", "token": "analyst-1"})
COOKIE = Identity(headers={"cookie": "nat-session=analyst-1"})
IDENTITIES = {"nat-sse": COOKIE, "nat-poll": COOKIE, "nat-ws": LOGIN}


@dataclass
class Habits:
    """Answers at once unless told otherwise; drops at first deliveries only."""

    reply_ms: float = 0
    drop_ms: float | None = None
    seen: list[tuple[Prompt, int]] = field(default_factory=list)
    at_prompt: Callable[[Prompt], None] = lambda prompt: None

    manner: dict[str, Any] = field(default_factory=dict)
    """Other fields of each `ReplyPlan`."""
    consents: ConsentPlan = field(default_factory=lambda: ConsentPlan("follow", 0))

    away: Absence = PRESENT

    def absence(self) -> Absence:
        return self.away

    def patience_ns(self) -> int | None:
        return None

    def interrupt_ns(self) -> int | None:
        return None

    def consent(self) -> ConsentPlan:
        return self.consents

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        self.seen.append((prompt, deliveries))
        self.at_prompt(prompt)
        value = prompt.options[0].value if prompt.options else "2024"
        drops = self.drop_ms is not None and deliveries == 1
        drop_ns = int(self.drop_ms * NS_PER_MS) if drops else None
        plan = ReplyPlan(int(self.reply_ms * NS_PER_MS), value, drop_ns)
        return replace(plan, **self.manner)


class Analyst:
    """One analyst asking ``url`` in ``dialect``; ``records`` is what the sink was given."""

    def __init__(
        self,
        url: str,
        dialect: str,
        *,
        route: str | None = None,
        identity: Identity | None = None,
        deadlines: Deadlines = QUICK,
        reconnect: Reconnect = SOON,
        habits: Habits | None = None,
        tls: ssl.SSLContext | None = None,
        endpoint: Endpoint | None = None,
        keep_alive_s: float = 4.0,
        options: Options | None = None,
        allow_origins: tuple[str, ...] = (),
        interrupted: Callable[[], Outcome] = lambda: Outcome.CUT_OFF,
        traced: bool = False,
    ) -> None:
        self.records: list[TurnRecord] = []
        self.habits = habits or Habits()
        endpoint = endpoint or resolve(url, tls)
        wiring = Wiring(
            endpoint, keep_alive_s=keep_alive_s, others={o: resolve(o, tls) for o in allow_origins}
        )
        spoken = dialects.create(dialect, route, wiring.site, options or {})
        self.conversation = Conversation(
            spoken,
            identity or IDENTITIES[dialect],
            deadlines,
            reconnect,
            self.habits,
            Random(1),
            Labels("u1", "contract", "local", "group"),
            uuid4().hex,
            keep_answers=True,
        )
        self.driver = Driver(
            wiring,
            self.conversation,
            self.records.append,
            interrupted,
            traced=traced,
        )

    def ask(self, text: str, *, tag: str | None = None, turn: str | None = None) -> TurnRecord:
        """Ask and wait; the record has been to the sink by then, and is possible."""
        words = text if tag is None else f"{text} tag={tag}"
        record = self.driver.ask(turn or uuid4().hex, words, tag=tag)
        assert self.records[-1] is record
        assert metrics.impossible(record.to_row()) is None, record.to_row()
        return record

    def begin(self, text: str) -> gevent.Greenlet:
        """Ask in a greenlet of its own; a turn that is cut off raises in it."""
        return gevent.spawn(self.ask, text)

    def close(self) -> None:
        self.driver.close()


def end(record: TurnRecord) -> tuple[Outcome, Cause | None]:
    """How the turn ended."""
    return record.outcome, record.cause


def by_kernel(record: TurnRecord) -> bool:
    """Whether the kernel stamped what arrived; a wall clock that is set meanwhile costs a read."""
    return 2 * (record.user_reads or 0) < record.reads


def clocks(record: TurnRecord) -> dict[str, float]:
    """The clocks of a turn by name, in ms."""
    return {clock.value: ms for clock, ms in metrics.turn_clocks(record.to_row()).items()}


def story(record: TurnRecord) -> list[Milestone]:
    """The milestones that happened, in the order of their times."""
    at = record.timeline.at
    return sorted((mark for mark in Milestone if at[mark]), key=lambda mark: (at[mark], mark))


def answer(tokens: int, last: str = "end") -> str:
    """The scripted workflow's answer."""
    return "".join(f"w{number} " for number in range(tokens)) + last


def descriptors() -> int:
    """Open files of this process."""
    return len(os.listdir("/proc/self/fd"))


def watchers() -> int:
    """Active watchers and timers of the hub's loop."""
    return int(get_hub().loop.activecnt)
