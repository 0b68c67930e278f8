"""One thing that two sides are compared by, with the interval of its change.

Of each clock: the typical turn (Hodges-Lehmann shift on log time) and the tail (ratio of p95), both
judged; p50 and p90 stand beside them.  Of the turns: the share that failed.  With `RUNS_AS_UNIT`
runs a side the run is the unit, since more lies between runs than between turns (Kalibera and
Jones, ISMM 2013); with fewer, turns are pooled and conversations resampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from loadgen.analysis import bootstrap, quantiles, rates, shift
from loadgen.analysis.evidence import EMPTY, Evidence, Vector, pooled, thinned
from loadgen.analysis.quantiles import SHARES, ascending, nearest_rank
from loadgen.metrics import HAPPENINGS, TITLES, Clock

FloatArray = NDArray[np.float64]

RUNS_AS_UNIT = 5
"""From so many runs a side on, what differs from run to run is measured, not assumed away."""

MOST_RESAMPLED = 20_000
"""Turns a side of which the bootstrap makes its resamples."""

FAILURES = "failures"

_CLEAR = 1.05
"""How far beyond its tolerance a change must lie for its needed turns to mean something."""

_AT_LIMIT = 0.002
"""So near to its limit, as a logarithm, no number of turns tells on which side a change lies."""


class Change(StrEnum):
    """What a comparison says of one measure, and of all, from good to bad."""

    OK = "OK"
    IMPROVED = "IMPROVED"
    INCONCLUSIVE = "INCONCLUSIVE"
    REGRESSION = "REGRESSION"


@dataclass(frozen=True, slots=True)
class Terms:
    """What is tolerated, as shares: 0.05 is 5 %.  Of a clock a change below ``least_ms`` is none.

    ``effect`` is the change for which needed turns are told.  ``metrics`` are the clocks (or
    "failures") to compare; None is all, of which `compare.DECIDING` decide.
    """

    typical: float = 0.05
    tail: float = 0.10
    failures: float = 0.02
    least_ms: float = 5.0
    effect: float = 0.20
    metrics: tuple[str, ...] | None = None
    resamples: int = bootstrap.RESAMPLES
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Measure:
    """``value`` is new / base (of failures: new - base) with its 95 % interval; None where there
    are too few for one.  ``limit`` is what is tolerated of it, by ``floor_ms`` where a share of
    ``base`` would be less.

    ``p_worse`` belongs to "within the limit", ``p_better`` to "not improved beyond it"; both None
    for what is shown and not judged.  ``needs`` turns a side would show a change of ``effect``: the
    one of the terms, or the measured one where there are turns enough for that.
    ``unit`` is what ``n_base`` and ``n_new`` count.
    """

    metric: str
    of: str
    title: str
    unit: str
    n_base: int
    n_new: int
    base: float | None
    new: float | None
    value: float | None
    low: float | None
    high: float | None
    limit: float
    effect: float
    needs: int | None
    floor_ms: float | None = None
    p_worse: float | None = None
    p_better: float | None = None
    change: Change | None = None
    decides: bool = False
    reason: str = ""


def of_clock(
    clock: str, base: Sequence[Evidence], new: Sequence[Evidence], terms: Terms
) -> Iterator[Measure]:
    """The measures of one clock."""
    sides = [[side.clocks.get(clock, EMPTY) for side in many] for many in (base, new)]
    x, y = pooled(sides[0]), pooled(sides[1])
    if not x.values.size or not y.values.size:
        unit = HAPPENINGS.get(Clock(clock), "turns")
        sizes = x.values.size, y.values.size
        yield _nothing(clock, unit, sizes, 1 + terms.typical, terms)
    elif all(sum(v.values.size > 0 for v in side) >= RUNS_AS_UNIT for side in sides):
        yield from _between_runs(clock, sides, x, y, terms)
    else:
        yield _typical(clock, x, y, terms)
        yield from _quantiles(clock, x, y, terms)


def of_failures(base: Sequence[Evidence], new: Sequence[Evidence], terms: Terms) -> Measure:
    """The share of started turns that did not complete.

    Turns that were cut off are not counted, but the interval allows for their having failed: an
    agent that stands still until the end of the run is not OK.  Where the run is the unit, the
    wider of two intervals: between runs, and of the pooled turns.
    """
    inflation = max(1.0, *(side.inflation for side in (*base, *new)))
    parts = [
        (sum(s.failed for s in side) / inflation, sum(s.judged for s in side) / inflation)
        for side in (base, new)
    ]
    sizes = [sum(side.judged for side in many) for many in (base, new)]
    if not all(sizes):
        return _nothing(FAILURES, "turns", (sizes[0], sizes[1]), terms.failures, terms)
    found = rates.difference(parts[0], parts[1])
    low, high = found.low, found.high
    p_worse = rates.p_above(parts[0], parts[1], terms.failures)
    p_better = rates.p_above(parts[1], parts[0], terms.failures)
    if min(len(base), len(new)) >= RUNS_AS_UNIT:
        each = [[side.failed / side.judged for side in many if side.judged] for many in (base, new)]
        between = shift.shift(each[0], each[1])
        if between.low is not None and between.high is not None:
            low, high = min(low, between.low), max(high, between.high)
        p_worse = max(p_worse, shift.p_beyond(each[0], each[1], terms.failures))
        p_better = max(p_better, shift.p_beyond(each[1], each[0], terms.failures))
    cut_off = [sum(side.cut_off for side in many) / inflation for many in (base, new)]
    worst = [(bad + lost, whole + lost) for (bad, whole), lost in zip(parts, cut_off, strict=True)]
    low = min(low, rates.difference(worst[0], parts[1]).low)
    high = max(high, rates.difference(parts[0], worst[1]).high)
    needs = rates.turns_needed(parts[0], parts[1], terms.failures)
    return Measure(
        metric=FAILURES, of="share", title="share of failed turns", unit="turns",
        n_base=sizes[0], n_new=sizes[1], base=parts[0][0] / parts[0][1],
        new=parts[1][0] / parts[1][1], value=found.value, low=low, high=high,
        limit=terms.failures, effect=found.value,
        needs=None if needs is None else math.ceil(needs * inflation),
        p_worse=p_worse, p_better=p_better,
    )  # fmt: skip


def title_of(metric: str, of: str) -> str:
    """A measure in words: ``first answer, typical turn``."""
    if metric == FAILURES:
        return "share of failed turns"
    words = {"typical": "typical turn" if Clock(metric) not in HAPPENINGS else "typical"}
    return f"{TITLES[Clock(metric)]}, {words.get(of, of)}"


def _typical(clock: str, x: Vector, y: Vector, terms: Terms) -> Measure:
    """The ratio by which a typical time grew: exp of the shift on log time."""
    base, new = np.log(x.values), np.log(y.values)
    inflation = _inflation(x, y)
    found = shift.shift(base, new, inflation=inflation)
    medians = _at(x.values, "p50"), _at(y.values, "p50")
    limit = _limit(terms.typical, medians[0], terms)
    low, high = _exp(found.low), _exp(found.high)
    return _measure(
        clock, "typical", x, y, medians, (math.exp(found.value), low, high), limit, terms,
        p_worse=shift.p_beyond(base, new, math.log(limit), inflation),
        p_better=shift.p_beyond(new, base, math.log(limit), inflation),
    )  # fmt: skip


def _quantiles(clock: str, x: Vector, y: Vector, terms: Terms) -> Iterator[Measure]:
    """Bootstrap ratios of p50, p90 and p95, the last of them judged."""
    names = ("p50", "p90", "p95")
    shares = [SHARES[name] for name in names]
    drawn = [
        bootstrap.quantiles(some.values, some.conversations, shares, terms.resamples, seed)
        for seed, some in (
            (terms.seed, thinned(x, MOST_RESAMPLED, terms.seed)),
            (terms.seed + 1, thinned(y, MOST_RESAMPLED, terms.seed + 1)),
        )
    ]
    for column, (name, share) in enumerate(zip(names, shares, strict=True)):
        values = _at(x.values, name), _at(y.values, name)
        ratio = bootstrap.ratio(drawn[0][:, column], drawn[1][:, column])
        enough = min(x.values.size, y.values.size) >= quantiles.needed(share)
        low, high = ratio.interval() if enough else (None, None)
        limit = _limit(terms.typical if name == "p50" else terms.tail, values[0], terms)
        judged = name == "p95"
        yield _measure(
            clock, name, x, y, values, (values[1] / values[0], low, high), limit, terms,
            p_worse=(ratio.p_above(limit) if enough else 1.0) if judged else None,
            p_better=(ratio.p_below(1 / limit) if enough else 1.0) if judged else None,
            least=quantiles.needed(share),
        )  # fmt: skip


def _between_runs(
    clock: str, sides: Sequence[Sequence[Vector]], x: Vector, y: Vector, terms: Terms
) -> Iterator[Measure]:
    """Each run is one value, its own quantile; the shift of those values and its interval."""
    for of, name, tolerance in (("typical", "p50", terms.typical), ("p95", "p95", terms.tail)):
        base, new = (
            [math.log(_at(run.values, name)) for run in side if run.values.size] for side in sides
        )
        values = math.exp(float(np.median(base))), math.exp(float(np.median(new)))
        limit = _limit(tolerance, values[0], terms)
        found = shift.shift(base, new)
        yield _measure(
            clock, of, x, y, values, (math.exp(found.value), _exp(found.low), _exp(found.high)),
            limit, terms, runs=(len(base), len(new)),
            p_worse=shift.p_beyond(base, new, math.log(limit)),
            p_better=shift.p_beyond(new, base, math.log(limit)),
        )  # fmt: skip


def _measure(
    clock: str,
    of: str,
    x: Vector,
    y: Vector,
    values: tuple[float, float],
    found: tuple[float, float | None, float | None],
    limit: float,
    terms: Terms,
    p_worse: float | None,
    p_better: float | None,
    least: int = 1,
    runs: tuple[int, int] | None = None,
) -> Measure:
    sizes = runs or (x.values.size, y.values.size)
    effect, needs = _needed(found, sizes, limit, least, terms)
    return Measure(
        metric=clock, of=of, title=title_of(clock, of),
        unit="runs" if runs else HAPPENINGS.get(Clock(clock), "turns"),
        n_base=sizes[0], n_new=sizes[1], base=values[0], new=values[1],
        value=found[0], low=found[1], high=found[2], limit=limit, effect=effect,
        needs=needs, floor_ms=terms.least_ms if _floored(limit, of, terms) else None,
        p_worse=p_worse, p_better=p_better,
    )  # fmt: skip


def _nothing(metric: str, unit: str, sizes: tuple[int, int], limit: float, terms: Terms) -> Measure:
    of = "share" if metric == FAILURES else "typical"
    return Measure(
        metric=metric, of=of, title=title_of(metric, of), unit=unit, n_base=sizes[0],
        n_new=sizes[1], base=None, new=None, value=None, low=None, high=None, limit=limit,
        effect=_effect(limit, terms), needs=None, p_worse=1.0, p_better=1.0,
    )  # fmt: skip


def _limit(tolerance: float, base_ms: float, terms: Terms) -> float:
    """The ratio that is tolerated: of a short time ``least_ms`` is more than a share of it."""
    return max(1 + tolerance, 1 + terms.least_ms / base_ms)


def _floored(limit: float, of: str, terms: Terms) -> bool:
    return limit > 1 + (terms.typical if of in ("typical", "p50") else terms.tail)


def _effect(limit: float, terms: Terms) -> float:
    """The ratio for which needed turns are told; a tolerance near it moves it on."""
    wanted = 1 + terms.effect
    return wanted if wanted >= limit * _CLEAR else limit * wanted


def _needed(
    found: tuple[float, float | None, float | None],
    sizes: tuple[int, int],
    limit: float,
    least: int,
    terms: Terms,
) -> tuple[float, int | None]:
    """An effect and `shift.turns_needed` for it, with the sigma that the interval's width tells.

    What is measured is told of where there are turns enough to show the effect of the terms, unless
    it lies on the limit itself.
    """
    value, low, high = found
    effect = _effect(limit, terms)
    if low is None or high is None:
        return effect, least if least > 1 else None
    scatter = (math.log(high) - math.log(low)) / (2 * shift.Z_95)
    sigma = scatter / shift.HL_LOSS / math.sqrt(1 / sizes[0] + 1 / sizes[1])
    needs = max(least, shift.turns_needed(sigma, effect, limit))
    if needs > 2 / (1 / sizes[0] + 1 / sizes[1]):
        return effect, needs
    if abs(math.log(value / limit)) < _AT_LIMIT:
        return value, None
    return value, max(least, shift.turns_needed(sigma, value, limit))


def _inflation(x: Vector, y: Vector) -> float:
    """How much the conversations of both sides widen the interval, each by its part in it."""
    x_part, y_part = 1 / x.values.size, 1 / y.values.size
    effects = [shift.design_effect(np.log(v.values), v.conversations) for v in (x, y)]
    return (effects[0] * x_part + effects[1] * y_part) / (x_part + y_part)


def _at(values: FloatArray, name: str) -> float:
    value = nearest_rank(ascending(values), SHARES[name])
    assert value is not None
    return value


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)
