"""How far our clocks are from the truth: turns of a run against the log of the mock agent.

Both are on CLOCK_MONOTONIC of one host.  The mock stamps after it has handed a frame to its event
loop, so some microseconds of the error are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from loadgen.analysis.quantiles import ascending, nearest_rank
from loadgen.clock import NS_PER_MS
from loadgen.turn import Outcome

Row = Mapping[str, Any]
Truths = Mapping[str, Mapping[str, Any]]

MILESTONES = {"ttfp": "first_progress", "ttfa": "first_answer", "ttc": "ended"}
"""The clocks that can be compared, and the milestone that each of them runs to."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Nearest-rank percentiles of ``n`` magnitudes, in ms; None of none."""

    n: int
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


def spread(values_ns: Sequence[float]) -> Spread:
    """Percentiles of the magnitudes of ``values_ns``."""
    ordered = ascending([abs(value) / NS_PER_MS for value in values_ns])
    p50, p95, p99, top = (nearest_rank(ordered, Fraction(p, 100)) for p in (50, 95, 99, 100))
    return Spread(int(ordered.size), p50, p95, p99, top)


def instant(row: Row, milestone: str) -> int:
    """When ``milestone`` of a journal row happened, in monotonic ns; 0 if it did not."""
    offset = row.get(f"{milestone}_ms")
    return 0 if offset is None else round(row["started_mono_ns"] + offset * NS_PER_MS)


def errors(rows: Iterable[Row], truths: Truths) -> dict[str, Spread]:
    """The error of each clock over the completed turns that the log knows."""
    known = [r for r in rows if r["outcome"] == Outcome.COMPLETED and r["turn"] in truths]
    return {clock: spread(_errors_ns(known, truths, mark)) for clock, mark in MILESTONES.items()}


def _errors_ns(rows: Sequence[Row], truths: Truths, milestone: str) -> list[int]:
    pairs = [(instant(row, milestone), truths[row["turn"]][f"{milestone}_ns"]) for row in rows]
    return [ours - theirs for ours, theirs in pairs if ours and theirs]
