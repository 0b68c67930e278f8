"""Figures of a run under way: what ended in the last seconds and in all, without a row kept.

A `Tally` counts the turns that ended in some time; a `Window` holds one for each of the last
seconds and one for the whole run.  Tallies of two processes can be added, so workers send theirs to
the master.  A turn counts when it has ended; what is under way is counted by looking (`Standing`).

Populations are those of the report: percentiles and targets over turns that completed without
losing their connection in between; in a target a turn that failed has missed it, and one that was
cut off or dropped is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.fitness import Fitness
from loadgen.histogram import Histogram, Scale, bounds_ms
from loadgen.metrics import INTENDED, MARKS, Clock, Row, happenings, marks, served
from loadgen.phase import Standing
from loadgen.plan import Plan
from loadgen.turn import Outcome

WINDOW_S = 30
"""How far the live figures look back, in seconds."""

_NOT_JUDGED = frozenset({Outcome.CUT_OFF, Outcome.DROPPED})

FAILED = frozenset(Outcome) - _NOT_JUDGED - {Outcome.COMPLETED}
"""Outcomes that say that the agent, or we, could not do it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target of the plan that can be followed live: ``share`` of the turns within ``within_ms``
    of ``clock``.
    """

    clock: Clock
    within_ms: float
    share: float


@dataclass(frozen=True, slots=True)
class Measures:
    """What is counted in a run: its clocks and targets, and the scale of all histograms.

    ``marks`` are the four clocks that people watch: those that count from when a turn was due,
    where turns arrive.
    """

    marks: tuple[Clock, ...]
    clocks: tuple[Clock, ...]
    targets: tuple[Target, ...]
    scale: Scale

    @property
    def arrives(self) -> bool:
        """Whether turns arrive, so that each clock has a twin from when its turn was due."""
        return self.marks != MARKS

    def bounds_ms(self, clock: Clock) -> tuple[float, ...]:
        """Limits of the few buckets in which ``clock`` is told to others."""
        return bounds_ms(t.within_ms for t in self.targets if t.clock is clock)


def measures_of(plan: Plan) -> Measures:
    """The four clocks, their twins from the intended start where turns arrive, and recovery.

    Targets on other clocks, and those of one dialect, scenario or group, are left to the report.
    """
    closed = plan.load.is_closed
    marks = MARKS if closed else tuple(INTENDED[clock] for clock in MARKS)
    clocks = (*dict.fromkeys((*MARKS, *marks)), Clock.RECOVERY)
    targets = tuple(
        Target(_seen(Clock(slo.clock), closed), round(slo.within_s * 1000, 6), slo.share)
        for slo in plan.slo
        if slo.clock in MARKS and not (slo.dialect or slo.scenario or slo.group or slo.each)
    )
    limits = {limit for clock in clocks for limit in _limits(clock, targets)}
    return Measures(marks, clocks, targets, Scale(limits))


def _seen(mark: Clock, closed: bool) -> Clock:
    return mark if closed else INTENDED[mark]


def _limits(clock: Clock, targets: Iterable[Target]) -> tuple[float, ...]:
    return bounds_ms(target.within_ms for target in targets if target.clock is clock)


class Tally:
    """The turns that ended in some time.

    ``ends`` counts them by outcome and cause ("" where there is none); ``recovered`` of the
    completed ones had lost their connection; ``losses`` and ``returns`` count connections lost in
    mid-turn and those that came back.
    """

    __slots__ = ("clocks", "ends", "losses", "prompts", "recovered", "returns")

    def __init__(self) -> None:
        self.ends: dict[tuple[str, str], int] = {}
        self.clocks: dict[Clock, Histogram] = {}
        self.recovered = self.losses = self.returns = self.prompts = 0

    def add(self, row: Row, measures: Measures) -> None:
        """One more turn, as its journal has it."""
        key = row["outcome"], row.get("cause", "")
        self.ends[key] = self.ends.get(key, 0) + 1
        self.prompts += len(row.get("prompts", ()))
        if "losses" in row:
            self._add_losses(row, measures)
        if row.get("recovered"):
            self.recovered += 1
        elif row["outcome"] == Outcome.COMPLETED:
            lag_ms = -row.get("scheduled_ms", 0.0)
            for clock, at_ms in marks(row).items():
                value_ms = served(row, at_ms)
                self._note(clock, value_ms, measures.scale)
                if measures.arrives:
                    self._note(INTENDED[clock], value_ms + lag_ms, measures.scale)

    def _add_losses(self, row: Row, measures: Measures) -> None:
        for item in happenings(row):
            if item.clock is Clock.RECOVERY:
                self.losses += 1
                if item.value_ms is not None:
                    self.returns += 1
                    self._note(item.clock, item.value_ms, measures.scale)

    def _note(self, clock: Clock, value_ms: float, scale: Scale) -> None:
        if clock not in self.clocks:
            self.clocks[clock] = Histogram(scale)
        self.clocks[clock].add(value_ms)

    def merge(self, other: Tally) -> None:
        """All turns of ``other``."""
        for key, count in other.ends.items():
            self.ends[key] = self.ends.get(key, 0) + count
        for clock, histogram in other.clocks.items():
            if clock not in self.clocks:
                self.clocks[clock] = Histogram(histogram.scale)
            self.clocks[clock].merge(histogram)
        self.recovered += other.recovered
        self.losses += other.losses
        self.returns += other.returns
        self.prompts += other.prompts

    def subtract(self, other: Tally) -> None:
        """Without the turns of ``other``, all of which were merged into this one."""
        for key, count in other.ends.items():
            self.ends[key] -= count
            if not self.ends[key]:
                del self.ends[key]
        for clock, histogram in other.clocks.items():
            self.clocks[clock].subtract(histogram)
            if not self.clocks[clock].n:
                del self.clocks[clock]
        self.recovered -= other.recovered
        self.losses -= other.losses
        self.returns -= other.returns
        self.prompts -= other.prompts

    def copy(self) -> Tally:
        """The same turns, to be changed on their own."""
        made = Tally()
        made.ends = dict(self.ends)
        made.clocks = {clock: histogram.copy() for clock, histogram in self.clocks.items()}
        made.recovered, made.losses = self.recovered, self.losses
        made.returns, made.prompts = self.returns, self.prompts
        return made

    def count(self, outcome: Outcome) -> int:
        """How many turns ended so."""
        return sum(count for (name, _), count in self.ends.items() if name == outcome)

    @property
    def turns(self) -> int:
        """Turns that were asked and have ended."""
        return sum(self.ends.values()) - self.count(Outcome.DROPPED)

    @property
    def failed(self) -> int:
        """Turns that did not complete, but for those that the end of the run cut off."""
        return self.judged - self.count(Outcome.COMPLETED)

    @property
    def judged(self) -> int:
        """Turns that say something about the agent."""
        return sum(self.ends.values()) - sum(self.count(outcome) for outcome in _NOT_JUDGED)

    def within(self, target: Target) -> tuple[int, int]:
        """How many turns met ``target``, and how many were judged on it."""
        histogram = self.clocks.get(target.clock)
        met = 0 if histogram is None else histogram.at_most(target.within_ms)
        return met, self.judged - self.recovered

    def pack(self) -> list[Any]:
        """Plain lists and numbers, to travel."""
        return [
            [[*key, count] for key, count in self.ends.items()],
            [[clock.value, histogram.pack()] for clock, histogram in self.clocks.items()],
            [self.recovered, self.losses, self.returns, self.prompts],
        ]

    @classmethod
    def unpack(cls, packed: Sequence[Any], scale: Scale) -> Tally:
        """What `pack` gave in another process of the same run."""
        ends, clocks, counts = packed
        found = cls()
        found.ends = {(outcome, cause): count for outcome, cause, count in ends}
        found.clocks = {Clock(name): Histogram.unpack(scale, flat) for name, flat in clocks}
        found.recovered, found.losses, found.returns, found.prompts = counts
        return found


class Window:
    """A tally for each of the last `WINDOW_S` seconds, one of all these, and one of the whole run.

    Seconds are whole ones of any clock that does not go back.
    """

    def __init__(self) -> None:
        self.whole = Tally()
        self._recent = Tally()
        self._slots: dict[int, Tally] = {}

    def add(self, tally: Tally, second: int) -> None:
        """What ended in ``second``; that of another process may come a few seconds late."""
        self.whole.merge(tally)
        self._recent.merge(tally)
        if second in self._slots:
            self._slots[second].merge(tally)
        else:
            self._slots[second] = tally.copy()

    def recent(self, second: int) -> Tally:
        """What ended in the `WINDOW_S` seconds before ``second`` and in it so far."""
        past = [at for at in self._slots if at < second - WINDOW_S]
        for at in past:
            self._recent.subtract(self._slots.pop(at))
        if past:
            for clock, histogram in self._recent.clocks.items():
                slots = (
                    slot.clocks[clock] for slot in self._slots.values() if clock in slot.clocks
                )
                histogram.max_ms = max(slot.max_ms for slot in slots)
        return self._recent.copy()


@dataclass(frozen=True, slots=True)
class Scope:
    """The turns of all analysts, or those asked of one side of an A/B run, called ``name``."""

    name: str
    recent: Tally
    whole: Tally


@dataclass(frozen=True, slots=True)
class Figures:
    """A run at one instant.

    ``draining``: no turn starts any more; ``over``: none is under way either.  ``left_s`` is None
    where nothing says when it ends; ``analysts`` are there, ``wanted`` in the end; ``standing``
    counts the turns under way; ``recent`` is the last `WINDOW_S` seconds.  ``sides`` are those of
    an A/B run: two agents, whose clocks are never added up.
    """

    run: str
    elapsed_s: float
    left_s: float | None
    draining: bool
    over: bool
    analysts: int
    wanted: int
    standing: Mapping[Standing, int]
    recent: Tally
    whole: Tally
    fitness: Fitness
    measures: Measures
    sides: tuple[Scope, ...] = ()

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What has clocks and targets of its own: each side, or the whole run."""
        return self.sides or (Scope("", self.recent, self.whole),)

    @property
    def in_flight(self) -> int:
        """Turns under way."""
        return sum(self.standing.values())
