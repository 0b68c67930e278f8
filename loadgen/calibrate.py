"""``loadgen calibrate``: how wrong are we, what do we cost, and how many analysts can we hold?

The wanted crowd is measured first.  Then the number of analysts is doubled until it is no longer
held (or halved until it is) and bisected, as long as there is time.  Held: the error of every
clock is below `LIMIT_MS` at p99, no check of the generator fails, and all but `BAD` of the turns
complete.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from loadgen.calibration import fingerprint, host_facts
from loadgen.clock import NS_PER_S, now_ns, utc_text, wall_ns
from loadgen.trial import Crowd, Trial

LIMIT_MS = 1.0
BAD = 0.01
MOST = 8000
FEWEST = 10
PRECISION = 0.1
_MOCK_LATE_MS = 25.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """``wanted`` is the trial of the crowd that was asked for, ``best`` the largest that was held.

    ``limit`` is what the smallest crowd above `best` failed for: ``generator``, ``mock agent`` (it
    could not keep its own schedule, so `best` is a lower bound) or ``time`` (none was tried).
    """

    wanted: Trial
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The largest crowd that was held."""
        return max(filter(held, self.trials), key=lambda t: t.crowd.analysts, default=None)

    @property
    def limit(self) -> str:
        """Why there is no larger one."""
        floor = self.best.crowd.analysts if self.best else 0
        failed = [t for t in self.trials if not held(t) and t.crowd.analysts > floor]
        if not failed:
            return "time"
        smallest = min(failed, key=lambda trial: trial.crowd.analysts)
        return "mock agent" if smallest.late_p99_ms > _MOCK_LATE_MS else "generator"

    @property
    def processes(self) -> int | None:
        """How many processes the wanted crowd takes; None if not even a small one was held."""
        if self.best is None:
            return None
        each = self.best.crowd.analysts / self.best.crowd.processes
        return math.ceil(self.wanted.crowd.analysts / each)

    def as_json(self) -> dict[str, Any]:
        """For the manifest of later runs."""
        best = self.best
        return {
            "fingerprint": fingerprint(),
            "host": host_facts(),
            "made_at": utc_text(wall_ns()),
            "limit_ms": LIMIT_MS,
            "wanted": _trial_json(self.wanted),
            "most_analysts": best.crowd.analysts if best else 0,
            "most_processes": best.crowd.processes if best else self.wanted.crowd.processes,
            "most_events_per_s": round(best.events_per_s, 1) if best else 0.0,
            "limit": self.limit,
            "processes": self.processes,
            "cpus": os.cpu_count(),
            "trials": [
                {"analysts": t.crowd.analysts, "held": held(t), "why": why_not(t)}
                for t in self.trials
            ],
        }


def held(trial: Trial) -> bool:
    """Whether the generator was good enough for this crowd."""
    return why_not(trial) == ""


def why_not(trial: Trial) -> str:
    """What a trial failed for, in a few words; nothing if it was held."""
    if trial.error_p99_ms > LIMIT_MS:
        shown = "no turn to compare" if math.isinf(trial.error_p99_ms) else ""
        return shown or f"an error of {trial.error_p99_ms:.2f} ms at p99"
    if trial.bad > BAD * trial.turns:
        return f"{trial.bad} of {trial.turns} turns did not complete"
    return trial.unfit[0] if trial.unfit else ""


def calibrate(crowd: Crowd, budget_s: float, attempt: Callable[[Crowd], Trial]) -> Calibration:
    """Measure ``crowd``, then search; no trial is begun that would not end within ``budget_s``."""
    until_ns = now_ns() + round(budget_s * NS_PER_S)
    trials: list[Trial] = []

    def try_one(analysts: int) -> bool | None:
        """Whether so many are held; None when there is no time left to try.  What others do on this
        machine is no limit of ours: a trial that fails is made once more.
        """
        chosen = replace(crowd, analysts=analysts)
        for _ in range(2):
            if trials and now_ns() + chosen.trial_s * NS_PER_S > until_ns:
                return None
            trials.append(attempt(chosen))
            if held(trials[-1]):
                return True
        return False

    search(crowd.analysts, bool(try_one(crowd.analysts)), try_one)
    wanted = [trial for trial in trials if trial.crowd == crowd]
    return Calibration(next(filter(held, wanted), wanted[-1]), tuple(trials))


def search(start: int, is_held: bool, try_one: Callable[[int], bool | None]) -> None:
    """Double or halve from ``start`` until the answer turns, then bisect to `PRECISION`."""
    low, high = (start, None) if is_held else (None, start)
    while high is None and low is not None and low < MOST:
        answer = try_one(min(2 * low, MOST))
        if answer is None:
            return
        low, high = (min(2 * low, MOST), None) if answer else (low, min(2 * low, MOST))
    while low is None and high is not None and high > FEWEST:
        answer = try_one(max(high // 2, FEWEST))
        if answer is None:
            return
        low, high = (max(high // 2, FEWEST), high) if answer else (None, max(high // 2, FEWEST))
    while low is not None and high is not None and high - low > max(1.0, PRECISION * low):
        middle = (low + high) // 2
        answer = try_one(middle)
        if answer is None:
            return
        low, high = (middle, high) if answer else (low, middle)


def _trial_json(trial: Trial) -> dict[str, Any]:
    return {
        "analysts": trial.crowd.analysts,
        "rate": trial.crowd.rate,
        "processes": trial.crowd.processes,
        "turns": trial.turns,
        "bad": trial.bad,
        "events_per_s": round(trial.events_per_s, 1),
        "us_per_event": None if trial.us_per_event is None else round(trial.us_per_event, 2),
        "hub_lag_p99_ms": trial.hub_lag_p99_ms,
        "held": held(trial),
        "why": why_not(trial),
        "errors": {
            dialect: {
                clock: {
                    key: value if key == "n" or value is None else round(value, 4)
                    for key, value in asdict(found).items()
                }
                for clock, found in clocks.items()
            }
            for dialect, clocks in trial.errors.items()
        },
    }
