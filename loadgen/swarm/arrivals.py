"""The arrivals of a run in one process: from the timetable to the pool, on an absolute schedule."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gevent

from loadgen import dialects
from loadgen.clock import NS_PER_S, now_ns, utc_text, wall_ns
from loadgen.errors import ConfigError
from loadgen.pacing import Part
from loadgen.plan import Group, Plan
from loadgen.replay import Entry
from loadgen.swarm.pool import Place, Pool, wait_until
from loadgen.timetable import Arrival, timetable
from loadgen.turn import Cause, Milestone, Outcome, Timeline, TurnRecord

_log = logging.getLogger(__name__)

_READY_S = 30.0
"""How long the users have to take their places before the arrivals begin without them."""


@dataclass(frozen=True, slots=True)
class Reports:
    """Who is told what: each dropped arrival as a record, the end of a replay, a fault of ours."""

    sink: Callable[[TurnRecord], None]
    on_end: Callable[[], None]
    on_fault: Callable[[Exception], None]


class Arrivals:
    """What arrives in this process while one run lasts."""

    def __init__(self, plan: Plan, worker: str, reports: Reports) -> None:
        self._plan = plan
        self._worker = worker
        self._reports = reports
        self._groups = {group.name: group for group in plan.analysts}
        self._pool = Pool(self._drop)
        self._pacer: Pacer | None = None
        self._part = Part()
        self._all_offered = False

    @property
    def begun(self) -> bool:
        """Whether arrivals have begun."""
        return self._pacer is not None

    def place(self, group: str) -> Place:
        """The place of a new user, an analyst of ``group``."""
        return self._pool.join(group)

    def begin(self, entries: Sequence[Entry], part: Part, users: int) -> None:
        """Let arrivals come as soon as the ``users`` of this process wait for them.

        Blocks until then.  Groups without anybody in the pool are a fault: all of their arrivals
        would be dropped.
        """
        pool = self._pool
        ready_ns = now_ns() + round(_READY_S * NS_PER_S)
        while sum(pool.free_by_group().values()) < users and now_ns() < ready_ns:
            gevent.sleep(0.005)
        if pool.closed or self.begun:
            return
        absent = self._wanted(entries, part) - pool.free_by_group().keys()
        if absent:
            self._reports.on_fault(
                ConfigError(
                    f"no analyst of {', '.join(sorted(absent))} among the {users} users of this "
                    "process: all of their arrivals would be dropped; give more users (-u)"
                )
            )
            return
        limit = self._plan.load.max_in_flight
        pool.limit = None if limit is None else share_of(limit, part)
        pool.on_idle = self._check_end
        arrivals = timetable(self._plan, entries, part)
        self._part = part
        self._pacer = Pacer(arrivals, pool, self._offered, self._reports.on_fault)

    def change(self, per_s: float, number: int) -> None:
        """From now on ``per_s`` arrive, of all processes together.

        ``number`` gives each rate of a run arrivals of its own; nothing that was due is lost.
        """
        if self._pacer is None or self._pool.closed:
            return
        self._pacer.stop()
        load = self._plan.load.model_copy(update={"rate": per_s})
        plan = self._plan.model_copy(update={"load": load, "seed": self._plan.seed + number})
        arrivals = timetable(plan, (), self._part)
        self._pacer = Pacer(arrivals, self._pool, self._offered, self._reports.on_fault)

    def close(self) -> None:
        """The run is over: nothing arrives any more, and no turn starts."""
        if self._pool.closed:
            return
        self._pool.close()
        if self._pacer is not None:
            self._pacer.stop()

    def _wanted(self, entries: Sequence[Entry], part: Part) -> set[str]:
        """The groups that something arrives for."""
        if self._plan.load.model == "replay":
            return {arrival.group for arrival in timetable(self._plan, entries, part)}
        return {group.name for group in self._plan.analysts if group.weight}

    def _offered(self) -> None:
        self._all_offered = True
        self._check_end()

    def _check_end(self) -> None:
        """A replay ends with its last turn; what has stages or none at all ends by its time."""
        replayed = self._plan.load.model == "replay"
        if replayed and self._all_offered and not self._pool.busy and not self._pool.closed:
            self._reports.on_end()

    def _drop(self, arrival: Arrival, due_ns: int, why: str) -> None:
        group = self._groups[arrival.group]
        self._reports.sink(dropped(self._plan, group, self._worker, due_ns, why))


class Pacer:
    """Goes through a timetable; every instant counts from the start, none from the one before.

    ``on_end`` is called when all arrivals have been offered, ``on_fault`` when we are at fault.
    """

    def __init__(
        self,
        arrivals: Iterator[Arrival],
        pool: Pool,
        on_end: Callable[[], None],
        on_fault: Callable[[Exception], None],
    ) -> None:
        self._arrivals = arrivals
        self._pool = pool
        self._on_end = on_end
        self._on_fault = on_fault
        self._next: Arrival | None = None
        self._origin_ns = now_ns()
        self._greenlet: Any = gevent.spawn(self._run)

    def stop(self) -> None:
        """No more arrivals.  Those that were due before now and not yet offered are offered still:
        to a closed pool, which drops them.
        """
        at_ns = now_ns()
        self._greenlet.kill()
        arrival, self._next = self._next, None
        while arrival is not None and self._origin_ns + arrival.at_ns <= at_ns:
            self._pool.offer(arrival, self._origin_ns + arrival.at_ns)
            arrival = next(self._arrivals, None)

    def _run(self) -> None:
        try:
            for arrival in self._arrivals:
                self._next = arrival
                due_ns = self._origin_ns + arrival.at_ns
                wait_until(due_ns)
                self._next = None
                self._pool.offer(arrival, due_ns)
            self._on_end()
        except Exception as error:  # noqa: BLE001 - the task boundary
            _log.exception("the arrivals broke off")
            self._on_fault(error)


def dropped(plan: Plan, group: Group, worker: str, due_ns: int, why: str) -> TurnRecord:
    """The record of an arrival that no analyst could take; it has SCHEDULED and nothing else."""
    record = TurnRecord(
        turn=uuid4().hex,
        user="",
        conversation="",
        scenario=plan.name,
        dialect=group.dialect,
        route=dialects.create(group.dialect, group.route, options=group.options).route,
        worker=worker,
        timeline=Timeline(),
        started_at=utc_text(wall_ns()),
        outcome=Outcome.DROPPED,
        cause=Cause.NO_SLOT,
        detail=why,
        analyst_group=group.name,
    )
    record.timeline.mark(Milestone.SCHEDULED, due_ns)
    return record


def share_of(total: int, part: Part) -> int:
    """What ``part`` has of ``total`` things."""
    return total // part.of + (part.number < total % part.of)
