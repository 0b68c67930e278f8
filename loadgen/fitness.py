"""Is the generator well enough right now?  A light over the last seconds, and the limits behind it.

The verdict on a run is the analysis' (INVALID or not); this is what a watcher sees before that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NEVER_FREE = 0.4
"""The part of the hub's limit by which it may be late in one moment of ten: more, and it is never
free.
"""

HOT = 0.9
"""The share of a core above which a process is at its limit."""

FEW = 3
"""Fewer bad ticks, seconds or arrivals are an accident: a short run has no percentage worth the
name.
"""

WARM_ROWS = 3
"""Rows of the first 2 s of a process, which say nothing of the run."""

BEATS_MISSED = 2
"""So many heartbeats a worker may be behind."""


class Light(StrEnum):
    """How the generator is."""

    FIT = "fit"
    UNFIT = "unfit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fitness:
    """The light, and why it is not green: a sentence for each process that is at fault."""

    light: Light
    reasons: tuple[str, ...] = ()
    lag_p99_ms: float | None = None
    cpu: float | None = None
    limit_ms: float = 0.0
    """What the plan allows the hub at p99."""


def fitness(recent: Mapping[str, Sequence[Mapping[str, Any]]], limit_ms: float) -> Fitness:
    """Judge the rows of health of the last seconds, by process; ``limit_ms`` is the hub's.

    The figures are those of the worst process.
    """
    reasons: list[str] = []
    lags, cpus = [], []
    for process, all_rows in sorted(recent.items()):
        rows = [row for row in all_rows if row["n"] >= WARM_ROWS and not row.get("draining")]
        # A master asks nothing: what its own hub does touches no turn.
        asking = [row for row in rows if "heartbeats_missed" not in row]
        ticks = sorted(lag for row in asking for lag in row["lags_ms"])
        shares = [row["cpu"] for row in asking if "cpu" in row]
        if ticks:
            lags.append(_rank(ticks, 0.99))
        cpus += [sum(shares) / len(shares)] if shares else []
        reasons += (f"{process}: {why}" for why in _faults(rows, ticks, shares, limit_ms))
    if not lags:
        return Fitness(Light.UNKNOWN, limit_ms=limit_ms)
    light = Light.UNFIT if reasons else Light.FIT
    return Fitness(light, tuple(reasons), max(lags), max(cpus, default=None), limit_ms)


def _faults(
    rows: Sequence[Mapping[str, Any]], ticks: list[float], shares: list[float], limit_ms: float
) -> list[str]:
    found = []
    late, rarely_ms = sum(lag > limit_ms for lag in ticks), NEVER_FREE * limit_ms
    if late >= FEW and late > 0.01 * len(ticks):
        found.append(f"hub {_rank(ticks, 0.99):.0f} ms late at p99, allowed {limit_ms:g} ms")
    elif len(ticks) > 10 * FEW and _rank(ticks, 0.9) > rarely_ms:
        found.append(f"hub {_rank(ticks, 0.9):.0f} ms late at p90, allowed {rarely_ms:g} ms")
    hot = sum(share > HOT for share in shares)
    if hot >= FEW:
        found.append(f"more than {HOT:.0%} of a core in {hot} of {len(shares)} s")
    behind = max((row.get("heartbeats_missed", 0) for row in rows[-1:]), default=0)
    if behind >= BEATS_MISSED:
        found.append(f"a worker is {behind} heartbeats behind")
    return found


def _rank(ascending: Sequence[float], share: float) -> float:
    return ascending[max(0, math.ceil(len(ascending) * share) - 1)]
