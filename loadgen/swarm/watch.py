"""The run under way, watched from inside one process.

Turns are counted once each, when their record is made.  What is under way is counted only when
somebody looks: once a second at most, or with a worker's report.  Nothing is done per event.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from loadgen.clock import NS_PER_MS, NS_PER_S, now_ns
from loadgen.fitness import fitness
from loadgen.live import WINDOW_S, Figures, Scope, Tally, Window, measures_of
from loadgen.metrics import Row
from loadgen.phase import Standing
from loadgen.plan import Plan
from loadgen.side import Side
from loadgen.swarm.agent import Agent

_KEPT_NS = 500 * NS_PER_MS
"""How long figures are good enough for the next who asks."""

_STALE_NS = 12 * NS_PER_S
"""A worker that has said nothing for so long has no turns under way that we know of."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many analysts there are, how many are wanted, and what is left of the run in s."""

    analysts: int
    wanted: int
    left_s: float | None


class Watch:
    """One run, as this process sees it; a master adds what its workers report.

    ``crowd`` says what only Locust knows; ``reports``: what ends here is told to a master;
    ``rivals``: it is an A/B run.
    """

    def __init__(
        self,
        run: str,
        plan: Plan,
        crowd: Callable[[], Crowd],
        *,
        reports: bool = False,
        rivals: bool = False,
    ) -> None:
        self.run = run
        self.measures = measures_of(plan)
        self.draining = False
        self._closed = False
        self._limit_ms = plan.fitness.hub_lag_ms
        self._crowd = crowd
        self._reports = reports
        self._begun_ns = now_ns()
        self._agents: WeakSet[Agent] = WeakSet()
        self._windows = {side: Window() for side in (Side if rivals else ("",))}
        self._open, self._second = self._opened(), _second(self._begun_ns)
        self._unsent: list[tuple[int, str, Tally]] = []
        self._workers: dict[str, tuple[int, Mapping[Standing, int]]] = {}
        self._health: dict[str, deque[Mapping[str, Any]]] = {}
        self._last: tuple[int, Figures] | None = None

    def seat(self, agent: Agent) -> None:
        """An analyst sat down."""
        self._agents.add(agent)

    def note(self, row: Row) -> None:
        """A turn of this process has ended."""
        second = _second(now_ns())
        if second != self._second:
            self._shut(second)
        self._open[row.get("side", "")].add(row, self.measures)

    def add_health(self, row: Mapping[str, Any]) -> None:
        """A row of health, of this process or of a worker."""
        self._health.setdefault(row["process"], deque(maxlen=WINDOW_S)).append(row)

    def pack(self) -> dict[str, Any]:
        """A worker's figures since it was last asked: they ride its report to the master."""
        second = _second(now_ns())
        self._shut(second)
        unsent, self._unsent = self._unsent, []
        return {
            "ended": [[second - at, side, tally.pack()] for at, side, tally in unsent],
            "standing": {name.value: count for name, count in self._look().items()},
        }

    def take(self, worker: str, packed: Mapping[str, Any]) -> None:
        """A worker's report has come."""
        at_ns = now_ns()
        for age, side, tally in packed["ended"]:
            found = Tally.unpack(tally, self.measures.scale)
            self._windows[side].add(found, _second(at_ns) - age)
        counts = {Standing(name): count for name, count in packed["standing"].items()}
        self._workers[worker] = at_ns, counts

    def close(self) -> None:
        """The run is over: its figures stay as they are now."""
        self._closed = True
        self._last = now_ns(), self._figures(now_ns())

    def figures(self) -> Figures:
        """The run as it is now; asked again within half a second the same."""
        at_ns = now_ns()
        if self._closed and self._last is not None:
            return self._last[1]
        if self._last is None or at_ns - self._last[0] > _KEPT_NS:
            self._last = at_ns, self._figures(at_ns)
        return self._last[1]

    def _figures(self, at_ns: int) -> Figures:
        second, crowd = _second(at_ns), self._crowd()
        self._shut(second)
        standing = Counter(self._look())
        for told_ns, counts in self._workers.values():
            if at_ns - told_ns < _STALE_NS:
                standing.update(counts)
        scopes = [
            Scope(Side(side).role if side else "", window.recent(second), window.whole)
            for side, window in self._windows.items()
        ]
        return Figures(
            run=self.run,
            elapsed_s=(at_ns - self._begun_ns) / NS_PER_S,
            left_s=crowd.left_s,
            draining=self.draining,
            over=self._closed,
            analysts=crowd.analysts,
            wanted=crowd.wanted,
            standing={name: standing[name] for name in Standing},
            recent=_total(scope.recent for scope in scopes),
            whole=_total(scope.whole for scope in scopes),
            fitness=fitness(self._health, self._limit_ms),
            measures=self.measures,
            sides=tuple(scopes) if len(scopes) > 1 else (),
        )

    def _look(self) -> Counter[Standing]:
        found = (agent.standing for agent in list(self._agents))
        return Counter(standing for standing in found if standing is not None)

    def _opened(self) -> dict[str, Tally]:
        return {side: Tally() for side in self._windows}

    def _shut(self, second: int) -> None:
        """What ended up to now belongs to the second that was open."""
        for side, tally in self._open.items():
            if tally.ends and self._reports:
                self._unsent.append((self._second, side, tally))
            elif tally.ends:
                self._windows[side].add(tally, self._second)
        self._open, self._second = self._opened(), second


def _total(tallies: Iterable[Tally]) -> Tally:
    first, *others = tallies
    if not others:
        return first
    found = first.copy()
    for tally in others:
        found.merge(tally)
    return found


def _second(at_ns: int) -> int:
    return at_ns // NS_PER_S
