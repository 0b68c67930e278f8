"""Percentiles by nearest rank, with order-statistic intervals.

The p-quantile of n values is the ``ceil(n p)``-th smallest: an observed value, monotone in p, and
defined with infinities (numpy's ``inverted_cdf``).  Ranks are computed on rationals, since
``0.95 * n`` in floats can land on the wrong side.  Intervals: Hahn & Meeker, *Statistical
Intervals*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

FloatArray = NDArray[np.float64]

CONFIDENCE = 0.95

SHARES: Mapping[str, Fraction] = {
    "p50": Fraction(50, 100),
    "p90": Fraction(90, 100),
    "p95": Fraction(95, 100),
    "p99": Fraction(99, 100),
}
"""The percentiles of every table."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A percentile of ``n`` values and its two-sided interval.

    ``low`` and ``high`` are None when ``n`` is too small for one; ``needs`` is the n it takes.
    """

    value: float
    low: float | None
    high: float | None
    needs: int | None


def exact(share: float) -> Fraction:
    """The rational that a person meant by ``0.95``."""
    return Fraction(str(share))


def ascending(values: ArrayLike) -> NDArray[np.float64]:
    """``values`` sorted, without the missing ones (NaN)."""
    array = np.asarray(values, dtype=np.float64)
    return np.sort(array[~np.isnan(array)])


def rank(n: int, share: Fraction) -> int:
    """The 1-based rank of the quantile among ``n`` >= 1 values."""
    return max(1, math.ceil(n * share))


def nearest_rank(ordered: NDArray[np.float64], share: Fraction) -> float | None:
    """The quantile of ascending values, None of none."""
    return float(ordered[rank(ordered.size, share) - 1]) if ordered.size else None


@lru_cache(maxsize=1024)
def rank_interval(
    n: int, share: Fraction, confidence: float = CONFIDENCE
) -> tuple[int, int] | None:
    """Ranks (l, u) whose values enclose the true quantile with at least ``confidence``.

    l = max{i : P(Bin(n,p) <= i-1) <= a/2}, u = min{i : P(Bin(n,p) <= i-1) >= 1-a/2}; None when one
    of them is not among 1..n.
    """
    tail, p = (1 - confidence) / 2, float(share)
    low = int(binom.ppf(tail, n, p)) + 1
    while low >= 1 and binom.cdf(low - 1, n, p) > tail:
        low -= 1
    high = int(binom.ppf(1 - tail, n, p)) + 1
    return (low, high) if low >= 1 and high <= n else None


def needed(share: Fraction, confidence: float = CONFIDENCE) -> int:
    """The smallest n for which `rank_interval` exists: p**n <= a/2 on the side of the tail."""
    if share >= 1:
        return 1
    tail = (1 - confidence) / 2
    return math.ceil(math.log(tail) / math.log(float(max(share, 1 - share))))


def least(share: Fraction, confidence: float = CONFIDENCE) -> int:
    """The smallest n for which the percentile itself is worth printing: from then on its largest
    (of a low one the smallest) value bounds the true one on one side, n >= ln a / ln p (Wilks).
    """
    if share >= 1:
        return 1
    return math.ceil(math.log(1 - confidence) / math.log(float(max(share, 1 - share))))


def quantile(ordered: NDArray[np.float64], share: Fraction) -> Quantile | None:
    """The quantile of ascending values with its interval, None of none."""
    value = nearest_rank(ordered, share)
    if value is None:
        return None
    ranks = rank_interval(ordered.size, share)
    if ranks is None:
        return Quantile(value, None, None, needed(share))
    return Quantile(value, float(ordered[ranks[0] - 1]), float(ordered[ranks[1] - 1]), None)
