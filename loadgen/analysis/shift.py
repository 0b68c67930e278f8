"""How much larger one sample is than another: the Hodges-Lehmann shift and its interval.

The shift is the median of all differences ``new_j - base_i``.  Its interval is the Mann-Whitney
test turned round: the differences at ranks q and mn + 1 - q, with q from the exact distribution of
U where both sides have at most 50 values without ties, otherwise from the normal approximation with
tie correction (Hollander and Wolfe, *Nonparametric Statistical Methods*, ch. 4).  No assumption is
made on the shape of the samples; on the logarithm of times the shift is a ratio.

The differences are never all written down: `_select` counts those below a pivot in two sorted
samples, O(m + n) a step, until few enough are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

FloatArray = NDArray[np.float64]

EXACT_UP_TO = 50
"""The most values a side for the exact distribution of U."""

FEW = 1_000_000
"""So many differences may be written down."""

HL_LOSS = 1.023
"""Root of pi / 3: how much wider the shift of normal samples scatters than the mean."""

Z_95 = 1.959963984540054
Z_POWER = 1.6448536269514722
"""Of a two-sided 95 % interval, and of 95 % power."""


@dataclass(frozen=True, slots=True)
class Shift:
    """``value`` = median of (new - base); ``low`` and ``high`` are None when no pair of ranks has
    the confidence.  ``exact`` says where the ranks came from.
    """

    value: float
    low: float | None
    high: float | None
    exact: bool


def shift(
    base: ArrayLike, new: ArrayLike, confidence: float = 0.95, inflation: float = 1.0
) -> Shift:
    """The shift from ``base`` to ``new``, both without NaN and not empty.

    ``inflation`` >= 1 is how much the variance of U grows because values come in clusters (Kish's
    design effect); above 1 the normal approximation is used.
    """
    x, y = _sorted(base), _sorted(new)
    pairs, exact = x.size * y.size, _is_exact(x, y, inflation)
    if exact:
        low_rank = max(1, _exact_quantile((1 - confidence) / 2, x.size, y.size))
        covered = 1 - 2 * exact_cdf(low_rank - 1, x.size, y.size) >= confidence - 1e-12
    else:
        z = float(norm.isf((1 - confidence) / 2))
        low_rank = math.floor(pairs / 2 - z * _spread(x, y, inflation))
        covered = low_rank >= 1
    middle = ((pairs + 1) // 2, pairs // 2 + 1)
    if not covered:
        left, right = _differences(x, y, middle)
        return Shift((left + right) / 2, None, None, exact)
    left, right, low, high = _differences(x, y, (*middle, low_rank, pairs + 1 - low_rank))
    return Shift((left + right) / 2, low, high, exact)


def p_beyond(base: ArrayLike, new: ArrayLike, limit: float, inflation: float = 1.0) -> float:
    """One-sided p of "the shift is at most ``limit``": small when ``new`` lies above it."""
    x, y = _sorted(base), _sorted(new)
    moved = y - limit
    below = np.searchsorted(x, moved, side="left")
    ties = np.searchsorted(x, moved, side="right") - below
    u = float(below.sum()) + float(ties.sum()) / 2
    if _is_exact(x, y, inflation) and not ties.any():
        return 1.0 - exact_cdf(int(u) - 1, x.size, y.size)
    spread = _spread(x, y, inflation)
    if not spread:
        return 0.0 if u > x.size * y.size / 2 else 1.0
    return float(norm.sf((u - x.size * y.size / 2) / spread))


def exact_cdf(u: int, m: int, n: int) -> float:
    """P(U <= u) of the Mann-Whitney statistic of ``m`` and ``n`` values without ties."""
    if u < 0:
        return 0.0
    counts = _counts(min(m, n), max(m, n))
    return sum(counts[: u + 1]) / math.comb(m + n, m)


def turns_needed(sigma: float, effect: float, tolerance: float) -> int:
    """Turns a side that show, with 95 % power, on which side of ``tolerance`` a true ratio of
    ``effect`` lies; ``sigma`` is that of log time.  Both are ratios, 1.05 is + 5 %.
    """
    gap = abs(math.log(effect) - math.log(tolerance))
    return math.ceil(2 * (HL_LOSS * sigma * (Z_95 + Z_POWER) / gap) ** 2)


def design_effect(values: FloatArray, clusters: NDArray[np.int64]) -> float:
    """How many times the variance of a mean grows because values of one cluster resemble each
    other: Kish's 1 + (m - 1) rho, with rho by analysis of variance; at least 1.
    """
    codes, names = pd.factorize(clusters)
    sizes = np.bincount(codes, minlength=len(names))
    n, k = values.size, sizes.size
    if k < 2 or k == n:
        return 1.0
    means = np.bincount(codes, values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (k - 1)
    within = float(((values - means[codes]) ** 2).sum()) / (n - k)
    typical = (n - float((sizes**2).sum()) / n) / (k - 1)
    total = between + (typical - 1) * within
    rho = (between - within) / total if total else 0.0
    weighted = float((sizes**2).sum()) / n
    return max(1.0, 1 + (weighted - 1) * rho)


def _sorted(values: ArrayLike) -> FloatArray:
    return np.sort(np.asarray(values, dtype=np.float64))


def _is_exact(x: FloatArray, y: FloatArray, inflation: float) -> bool:
    if inflation > 1 or max(x.size, y.size) > EXACT_UP_TO:
        return False
    return np.unique(np.concatenate([x, y])).size == x.size + y.size


def _spread(x: FloatArray, y: FloatArray, inflation: float) -> float:
    """Standard deviation of U with ties: mn/12 ((N + 1) - sum(t^3 - t) / (N (N - 1)))."""
    _, ties = np.unique(np.concatenate([x, y]), return_counts=True)
    total = x.size + y.size
    lost = float((ties.astype(np.float64) ** 3 - ties).sum()) / (total * (total - 1))
    return math.sqrt(max(0.0, inflation * x.size * y.size / 12 * (total + 1 - lost)))


@lru_cache(maxsize=64)
def _counts(m: int, n: int) -> tuple[int, ...]:
    """In how many of the C(m + n, m) orders U is 0, 1, ..., mn: the coefficients of the Gaussian
    binomial, the product over i of (1 - q^(n + i)) / (1 - q^i), in exact integers.
    """
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for u in range(m * n, n + i - 1, -1):
            counts[u] -= counts[u - n - i]
        for u in range(i, m * n + 1):
            counts[u] += counts[u - i]
    return tuple(counts)


def _exact_quantile(p: float, m: int, n: int) -> int:
    """The smallest u with P(U <= u) >= p."""
    wanted, seen = p * math.comb(m + n, m), 0
    for u, count in enumerate(_counts(min(m, n), max(m, n))):
        seen += count
        if seen >= wanted:
            return u
    return m * n


def _differences(x: FloatArray, y: FloatArray, ranks: Sequence[int]) -> list[float]:
    """The differences ``y_j - x_i`` at some ranks, from 1."""
    if x.size * y.size > FEW:
        found = {rank: _select(x, y, rank) for rank in set(ranks)}
        return [found[rank] for rank in ranks]
    places = [rank - 1 for rank in ranks]
    ordered = np.partition((y[:, None] - x[None, :]).ravel(), places)
    return [float(ordered[place]) for place in places]


def _select(x: FloatArray, y: FloatArray, rank: int) -> float:
    """The ``rank``-th smallest (from 1) of all ``y_j - x_i``; ``x`` and ``y`` ascend.

    Halving an interval of values leaves those differences that are not known to lie below or above
    it; equal values cannot be told apart any further, and then the interval is a point.
    """
    low, high = float(y[0] - x[-1]), float(y[-1] - x[0])
    first, last = np.zeros(y.size, dtype=np.int64), np.full(y.size, x.size, dtype=np.int64)
    below = 0
    while int((last - first).sum()) > FEW:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return high
        # y_j - x_i <= middle where x_i >= y_j - middle: from this place of x on.
        place = np.searchsorted(x, y - middle, side="left")
        place = np.clip(place, first, last)
        at_most = below + int((last - place).sum())
        if rank <= at_most:
            high, first = middle, place
        else:
            low, last, below = middle, place, at_most
    sizes = last - first
    starts = np.repeat(first - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    left = np.repeat(y, sizes) - x[starts + np.arange(int(sizes.sum()))]
    return float(np.partition(left, rank - below - 1)[rank - below - 1])
