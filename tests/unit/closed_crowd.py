"""A simulated search: a crowd in front of a service with so many places, journalled as a run is.

Nothing waits: the clock of the simulation is advanced by the test, which plays the generator.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadgen.advisor import Advisor
from loadgen.clock import NS_PER_MS, NS_PER_S, utc_text
from loadgen.journal import Journal, new_run_folder, write_manifest
from tests.unit.synthetic import BEGIN_MONO, BEGIN_WALL, manifest, row

PLAN: dict[str, Any] = {
    "name": "crowd",
    "slo": [{"clock": "ttfp", "within_s": 1.0, "share": 0.95}],
    "failure_budget": 0.05,
    "human": {"think_s": {"median": 2.0}, "turns_per_conversation": 5},
}


@dataclass
class Crowd:
    """Analysts that ask, wait, think ``think_s`` and ask again.

    ``places`` turns run at a time for ``service_s`` each, first come first served; ``works`` says
    whether the service answers at a time.  Its first step tells that a turn has got its place.
    """

    folder: Path
    places: int
    service_s: float = 1.0
    think_s: float = 2.0
    works: Callable[[float], bool] = lambda _: True
    seed: int = 1
    users: int = 0
    now_s: float = 0.0
    _due: list[tuple[float, int]] = field(default_factory=list)
    _free: list[float] = field(default_factory=list)
    _present: set[int] = field(default_factory=set)
    _written: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)
    _open: list[tuple[float, float]] = field(default_factory=list)
    _turns: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._free = [0.0] * self.places
        self._journal = Journal.open(self.folder, "local")
        self._health = Journal.open(self.folder, "local", "health")
        self._rows = 0

    def resize(self, users: int) -> None:
        for user in range(users):
            if user not in self._present:
                begin = self.now_s + self._rng.random() * self.think_s
                heapq.heappush(self._due, (begin, user))
        self._present = set(range(users))
        self.users = users

    def advance(self, seconds: float) -> None:
        """Let time go by, and write what ends in it."""
        self.now_s += seconds
        while self._due and self._due[0][0] <= self.now_s:
            begin, user = heapq.heappop(self._due)
            if user in self._present:
                end = self._turn(begin, user)
                heapq.heappush(self._due, (end + self._think(), user))
        while self._written and self._written[0][0] <= self.now_s:
            self._journal.append(heapq.heappop(self._written)[2])
        self._open = [span for span in self._open if span[1] > self.now_s]
        at_ns = round(self.now_s * NS_PER_S)
        self._health.append(
            {"process": "local", "n": self._rows, "wall_ns": BEGIN_WALL + at_ns,
             "mono_ns": BEGIN_MONO + at_ns, "span_ms": 1000 * seconds, "lags_ms": [0.1] * 20,
             "in_flight": sum(begin <= self.now_s for begin, _ in self._open)}
        )  # fmt: skip
        self._rows += 1

    def _think(self) -> float:
        return self._rng.expovariate(1 / self.think_s) if self.think_s else 0.0

    def _turn(self, begin: float, user: int) -> float:
        self._turns += 1
        facts: dict[str, Any] = {
            "user": f"analyst-{user}", "conversation": f"c{user}", "worker": "local",
            "started_at": utc_text(BEGIN_WALL + round(begin * NS_PER_S)), "status": 200,
            "started_mono_ns": BEGIN_MONO + round(begin * 1000) * NS_PER_MS, "scheduled_ms": None,
            "first_byte_ms": 2.0,
        }  # fmt: skip
        if not self.works(begin):
            gone = dict.fromkeys(("first_progress_ms", "first_answer_ms", "last_answer_ms",
                                  "first_byte_ms", "sent_ms", "status"))  # fmt: skip
            facts |= gone | {"outcome": "refused", "cause": "connect_failed", "ended_ms": 5.0}
            end = begin + 0.005
        else:
            place = min(range(self.places), key=self._free.__getitem__)
            started = max(begin, self._free[place])
            end = self._free[place] = started + self.service_s
            step = 1000 * (started - begin) + 2.0
            facts |= {"first_step_ms": step, "first_progress_ms": step + 100,
                      "first_answer_ms": step + 500, "last_answer_ms": 1000 * (end - begin),
                      "ended_ms": 1000 * (end - begin)}  # fmt: skip
        self._open.append((begin, end))
        heapq.heappush(self._written, (end, self._turns, row(f"t{self._turns:06d}", **facts)))
        return end


def run_folder(results: Path, **facts: Any) -> Path:
    """An open run folder of a search."""
    made = new_run_folder(results, "crowd", utc_text(BEGIN_WALL))
    plain = {"plan": PLAN, "ended_at": None, "load": {"model": "closed"}, "run": made.name}
    write_manifest(made, manifest(**plain | facts))
    return made


def end(folder: Path, **facts: Any) -> None:
    """Write the manifest of a search that is over."""
    own = {"worker": "local", "anchor_wall_ns": BEGIN_WALL, "anchor_mono_ns": BEGIN_MONO}
    write_manifest(
        folder,
        manifest(plan=PLAN, load={"model": "closed", "users": 1}, workers=[own], run=folder.name,
                 **facts),
    )  # fmt: skip


def play(advisor: Advisor, crowd: Crowd, most_s: float = 20_000.0) -> str:
    """Play the generator until the adviser says that it is over; gives how it ended."""
    order = advisor.begin()
    while "over" not in order and crowd.now_s < most_s:
        if round(order["level"]) != crowd.users:
            crowd.resize(round(order["level"]))
        crowd.advance(1.0)
        wall_ns = BEGIN_WALL + round(crowd.now_s * NS_PER_S)
        order = advisor.tick(wall_ns, crowd.folder, everybody=True)
    return str(order.get("over", "nothing"))
