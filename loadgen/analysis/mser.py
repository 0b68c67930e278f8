"""MSER-5: how many values at the begin of a series are warm-up.

Of batch means of five, the cut d in the first half that makes the standard error of what is left
smallest: d* = argmin sum_{j>d} (Z_j - mean)^2 / (k - d)^2 (White, Cobb and Spratt 2000).  When d*
is as large as it may be, the series never settled (Hoad, Robinson and Davies, AutoSimOA).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BATCH = 5
LEAST = 100
"""Of fewer values nothing is said: of 20 batches, within the 10 to 30 that suffice for a variance
(Schmeiser, Operations Research 30, 1982), 4 of 100 series without a warm-up seem unsteady by
chance, of 60 batches none.
"""

_NOISE = 1e-12


@dataclass(frozen=True, slots=True)
class Warmup:
    """``cut`` of ``n`` values are warm-up; not ``steady``: no cut made the rest settle."""

    n: int
    cut: int
    steady: bool


def mser5(values: NDArray[np.float64], worth: float = 0.0) -> Warmup | None:
    """The warm-up of values in the order in which they were seen; None of too few.

    Where nearly all values are the same, the rule cuts behind any outlier of the first half.  A cut
    whose mean lies within ``worth`` of that of the rest, as a share of it, is no warm-up.
    """
    n = int(values.size)
    if n < LEAST:
        return None
    number = n // BATCH
    batches = values[: number * BATCH].reshape(number, BATCH).mean(axis=1)
    batches = batches - batches.mean()
    left = number - np.arange(number // 2 + 1)
    sums = np.cumsum(batches[::-1])[::-1][: left.size]
    squares = np.cumsum(batches[::-1] ** 2)[::-1][: left.size]
    spread = np.maximum(squares - sums**2 / left, 0.0)
    spread[spread <= _NOISE * max(1.0, float(squares[0]))] = 0.0
    cut = int(np.argmin(spread / left.astype(np.float64) ** 2))
    if cut and worth:
        before, rest = values[: cut * BATCH].mean(), values[cut * BATCH :].mean()
        if abs(before - rest) <= worth * abs(rest):
            return Warmup(n, 0, True)
    return Warmup(n, cut * BATCH, cut < number // 2)
