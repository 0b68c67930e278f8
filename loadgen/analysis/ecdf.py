"""The interval of an empirical distribution function, at each point by itself.

Clopper and Pearson, Biometrika 26 (1934): exact, and never narrower than it says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from loadgen.analysis.quantiles import CONFIDENCE

FloatArray = NDArray[np.float64]


def interval(
    reached: NDArray[np.int64], n: int, confidence: float = CONFIDENCE
) -> tuple[FloatArray, FloatArray]:
    """Low and high of the share of which ``reached`` (>= 1) of ``n`` is the estimate."""
    tail = (1 - confidence) / 2
    low = beta.ppf(tail, reached, n - reached + 1)
    high = np.nan_to_num(beta.ppf(1 - tail, reached + 1, n - reached), nan=1.0)
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
