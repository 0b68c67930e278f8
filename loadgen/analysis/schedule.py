"""When turns were due, and how late the generator was with them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import axis, ledger
from loadgen.clock import NS_PER_S
from loadgen.journal import RunData

FloatArray = NDArray[np.float64]


def due_s(run: RunData, facts: pd.DataFrame, begin_s: FloatArray) -> FloatArray:
    """SCHEDULED of each row on the run's time axis, also of arrivals that were dropped.  ``facts``
    is `ledger.Ledger.turns`.
    """
    at = begin_s - facts["lag_ms"].to_numpy() / 1000
    mono, origin = facts["scheduled_mono_ns"].to_numpy(), axis.origin_ns(run)
    known = mono != ledger.UNKNOWN
    for worker, offset in axis.offsets(run).items() if known.any() else ():
        here = known & (facts["worker"] == worker).to_numpy()
        at[here] = (mono[here] + offset - origin) / NS_PER_S
    return np.asarray(at)


def placed(table: pd.DataFrame) -> pd.DataFrame:
    """``table``, in the order of the turns' starts, with two more columns.

    ``first``: the turn is its analyst's first one.  ``late_ms``: how long after it could have begun
    it did.  A turn that came due while its own analyst still had another one under way (in a
    replay) waited for that, which is in its lag, but not the generator's fault.
    """
    asked = table[table["asked"]]
    before_s = asked.groupby("user")["end_s"].shift()
    before_s = before_s.where(before_s <= asked["begin_s"])
    held_ms = ((before_s - asked["scheduled_s"]) * 1000).fillna(0.0).clip(lower=0.0)
    return table.assign(
        first=table["asked"] & ~asked["user"].duplicated().reindex(table.index, fill_value=True),
        late_ms=(asked["lag_ms"] - held_ms).clip(lower=0.0).reindex(table.index),
    )
