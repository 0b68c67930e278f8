"""Percentile bootstrap of quantiles and of their ratio, whole conversations at a time.

Turns of one conversation resemble each other, so conversations are drawn, with replacement, and a
turn counts as often as its conversation was drawn (Davison and Hinkley, *Bootstrap Methods and
their Application*, ch. 2 and 8).  Quantiles are nearest-rank, as everywhere.  The same seed gives
the same interval.  Not for extreme quantiles of few turns: there order statistics refuse
(`quantiles.rank_interval`), and so must the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

RESAMPLES = 2_000
CELLS = 200_000
"""The most weights held at once."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Resampled ratios of one quantile, ascending."""

    resampled: FloatArray

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The percentile interval."""
        return ends(self.resampled, confidence)

    def p_above(self, limit: float) -> float:
        """One-sided p of "the ratio is at most ``limit``": never less than the resamples allow."""
        at_most = int(np.searchsorted(self.resampled, limit, side="right"))
        return (at_most + 1) / (self.resampled.size + 1)

    def p_below(self, limit: float) -> float:
        """One-sided p of "the ratio is at least ``limit``"."""
        at_least = self.resampled.size - int(np.searchsorted(self.resampled, limit, side="left"))
        return (at_least + 1) / (self.resampled.size + 1)


def ratio(base: FloatArray, new: FloatArray) -> Ratio:
    """The ratio new / base of one quantile from the resamples of both sides, in any order."""
    return Ratio(np.sort(new / base))


def quantiles(
    values: FloatArray,
    conversations: IntArray,
    shares: Sequence[Fraction],
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> FloatArray:
    """Resampled quantiles of ``values``: a row a resample, a column a share.

    ``conversations`` tells which values belong together.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    _, codes = np.unique(conversations[order], return_inverse=True)
    number = int(codes.max()) + 1
    numerators = np.array([share.numerator for share in shares])
    denominators = np.array([share.denominator for share in shares])
    generator = np.random.default_rng(seed)
    found = np.empty((resamples, len(shares)))
    step = max(1, CELLS // values.size)
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        drawn = generator.integers(0, number, size=(rows, number))
        drawn += np.arange(rows)[:, None] * number
        times = np.bincount(drawn.ravel(), minlength=rows * number).reshape(rows, number)
        seen = np.cumsum(times[:, codes], axis=1, dtype=np.int32)
        for row, counted in enumerate(seen, begin):
            ranks = -(-int(counted[-1]) * numerators // denominators)
            found[row] = ordered[np.searchsorted(counted, np.maximum(ranks, 1))]
    return found


def shares(
    good: NDArray[np.bool_],
    conversations: IntArray,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> FloatArray:
    """Resampled shares of ``good``, ascending; conversations are drawn whole.

    Conversations with as many turns, of them as many good, are the same: how many of each kind are
    drawn is multinomial, whatever their number.
    """
    _, codes = np.unique(conversations, return_inverse=True)
    sizes = np.bincount(codes)
    kinds, number = np.unique(
        np.column_stack([np.bincount(codes, good), sizes]), axis=0, return_counts=True
    )
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(sizes.size, number / sizes.size, size=resamples)
    found: FloatArray = (drawn @ kinds[:, 0]) / (drawn @ kinds[:, 1])
    return np.sort(found)


def ends(resampled: FloatArray, confidence: float = 0.95) -> tuple[float, float]:
    """The percentile interval of resamples."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)
