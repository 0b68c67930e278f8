"""What if: the samples that a closed load left out while it waited.

An analyst who waits for a slow answer does not ask what it would have asked meanwhile; with an
expected interval E each value v > E stands for v - E, v - 2E, ... >= E as well.  It is a guess that
is shown and never judged.  Source: Tene, *How NOT to measure latency*;
``HdrHistogram.recordValueWithExpectedInterval``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from loadgen.analysis import frame
from loadgen.analysis.quantiles import SHARES, ascending, nearest_rank
from loadgen.metrics import MARKS

_MOST = 2_000_000
"""With more samples than this the interval is too short to mean anything."""


def backfilled(values: ArrayLike, expected: float) -> NDArray[np.float64]:
    """``values`` (any unit, NaN left out) and what they stand for, ascending."""
    given = ascending(values)
    steps = np.floor(given / expected).astype(np.int64) - 1
    made = [v - expected * np.arange(1, n + 1) for v, n in zip(given, steps, strict=True) if n > 0]
    return np.sort(np.concatenate([given, *made]))


def what_if(table: pd.DataFrame) -> dict[str, Any] | None:
    """The marks with back-fill, in ms; None where no turn was slower than an analyst's usual
    interval from question to question (the median).
    """
    asked = frame.asked(table)
    expected_ms = 1000 * asked.groupby("user")["begin_s"].diff().median()
    plain = frame.plain(table, *(f"{clock}_ms" for clock in MARKS))
    if not expected_ms > 0 or not plain["ttc_ms"].max() >= 2 * expected_ms:
        return None
    if plain["ttc_ms"].sum() / expected_ms > _MOST:
        return None
    metrics = {}
    for clock in MARKS:
        measured = ascending(plain[f"{clock}_ms"])
        if measured.size:
            filled = backfilled(measured, expected_ms)
            found = {name: nearest_rank(filled, share) for name, share in SHARES.items()}
            rounded = {name: None if v is None else round(v, 3) for name, v in found.items()}
            metrics[clock.value] = {
                "n": filled.size, "added": filled.size - measured.size, **rounded,
                "max_ms": round(float(filled[-1]), 3),
            }  # fmt: skip
    return {"expected_interval_ms": round(float(expected_ms), 3), "metrics": metrics}
