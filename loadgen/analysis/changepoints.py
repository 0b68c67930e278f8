"""At which run did the level change?  E-divisive with t-tests.

Candidates come from the energy statistic of Matteson and James (*Journal of the American
Statistical Association* 109, 2014; arXiv 1306.4933), with a large p first; then those that do not
stand against their neighbours are dropped one by one, as in Fleming et al., *Hunter* (ICPE 2023;
arXiv 2301.03034): a t-test is deterministic where permutations are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

FloatArray = NDArray[np.float64]

P_WEAK = 0.1
P_LEVEL = 0.001
MAGNITUDE = 0.05
"""A smaller relative change of the mean is none."""

FEWEST = 8
"""Fewer runs have no history."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """``index`` is the first run at the new level."""

    index: int
    before: float
    after: float
    p: float


def change_points(
    series: Sequence[float],
    p_level: float = P_LEVEL,
    magnitude: float = MAGNITUDE,
    fewest: int = FEWEST,
) -> list[ChangePoint]:
    """The changes of level in ``series``, in order; none of fewer than ``fewest`` values."""
    values = np.asarray(series, dtype=np.float64)
    if values.size < fewest:
        return []
    places = _weak(values, 0, values.size)
    while True:
        found = _levels(values, places)
        doubtful = [point for point in found if not _stands(point, p_level, magnitude)]
        if not doubtful:
            return found
        worst = max(doubtful, key=lambda point: (point.p, -_size(point)))
        places.remove(worst.index)


def candidate(series: FloatArray) -> tuple[int, int]:
    """Where the energy statistic is largest: the index of the split and the end of its right part.

    ``Q = tau (kappa - tau) / kappa (2 E|X - Y| - E|X - X'| - E|Y - Y'|)``, X the first ``tau``
    values and Y those up to ``kappa``.
    """
    n = series.size
    apart = np.abs(series[:, None] - series[None, :])
    whole = np.zeros((n + 1, n + 1))
    whole[1:, 1:] = apart.cumsum(axis=0).cumsum(axis=1)
    taus = np.arange(1, n)[:, None]
    kappas = np.arange(2, n + 1)[None, :]
    left, right = taus, np.maximum(kappas - taus, 1)
    square = np.diagonal(whole)
    inside_left = square[taus]
    cross = whole[taus, kappas] - inside_left
    inside_right = square[kappas] - inside_left - 2 * cross
    energy = (
        2 * cross / (left * right)
        - inside_left / np.maximum(left * (left - 1), 1)
        - inside_right / np.maximum(right * (right - 1), 1)
    )
    q = np.where(kappas > taus, left * right / kappas * energy, -np.inf)
    tau, kappa = np.unravel_index(int(np.argmax(q)), q.shape)
    return int(tau) + 1, int(kappa) + 2


def t_test(left: FloatArray, right: FloatArray) -> float:
    """Two-sided p of "the same mean": the larger of Welch's and Student's.

    Of a few runs that chance brought near to each other Welch believes the small spread; of one
    outlier among them Student believes the spread of the many.  Fewer than two prove nothing.
    """
    sizes = left.size, right.size
    if min(sizes) < 2:
        return 1.0
    gap = abs(float(left.mean() - right.mean()))
    spreads = [float(side.var(ddof=1)) for side in (left, right)]
    parts = [spread / size for spread, size in zip(spreads, sizes, strict=True)]
    if not sum(spreads):
        return 0.0 if gap and min(sizes) > 2 else 1.0
    pairs = list(zip(parts, spreads, sizes, strict=True))
    freedom = sum(parts) ** 2 / sum(part**2 / (size - 1) for part, _, size in pairs)
    welch = student.sf(gap / math.sqrt(sum(parts)), freedom)
    common = sum((size - 1) * spread for _, spread, size in pairs) / (sum(sizes) - 2)
    error = math.sqrt(common * (1 / sizes[0] + 1 / sizes[1]))
    return float(2 * max(welch, student.sf(gap / error, sum(sizes) - 2)))


def _weak(values: FloatArray, begin: int, end: int) -> list[int]:
    """Splits that are worth a second look, in order."""
    if end - begin < 4:
        return []
    tau, kappa = candidate(values[begin:end])
    split = begin + tau
    if t_test(values[begin:split], values[split : begin + kappa]) > P_WEAK:
        return []
    return [*_weak(values, begin, split), split, *_weak(values, split, end)]


def _levels(values: FloatArray, places: Sequence[int]) -> list[ChangePoint]:
    """Each place with the levels between its neighbours."""
    edges = [0, *places, values.size]
    parts = [values[begin:end] for begin, end in pairwise(edges)]
    return [
        ChangePoint(place, float(left.mean()), float(right.mean()), t_test(left, right))
        for place, (left, right) in zip(places, pairwise(parts), strict=True)
    ]


def _stands(point: ChangePoint, p_level: float, magnitude: float) -> bool:
    return point.p < p_level and _size(point) >= magnitude


def _size(point: ChangePoint) -> float:
    """The relative change of the mean."""
    gap = abs(point.after - point.before)
    return gap / abs(point.before) if point.before else math.inf if gap else 0.0
