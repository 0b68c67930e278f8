"""Percentiles of turns some of which the end of the run cut off.

Such a turn has lasted longer than it was watched, and nobody knows how much: it counts as "longer
than this" and never disappears.  A percentile is known if it is the same wherever the cut-off turns
end up, from the moment they were cut off to never; else the lowest it can be is given, as "at
least".

With ``failures`` a turn that failed stands among them as infinitely late: what analysts waited for
and did not get is not left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis.frame import completed
from loadgen.analysis.quantiles import nearest_rank, needed, rank, rank_interval
from loadgen.metrics import INTENDED, MARKS, Clock
from loadgen.turn import Outcome

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CENSORED = (*MARKS, *INTENDED.values())
"""The clocks that a turn which was cut off may have reached or not."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Ascending ms: what was measured, and how long the others had lasted when they were cut off.

    ``missing`` completed turns never reached the mark; ``cut_off`` turns are among the sample, and
    so are ``lost`` ones, which never come.  ``conversations`` numbers those of the values, of the
    bounds and of the lost, in this order.
    """

    values: FloatArray
    bounds: FloatArray
    missing: int
    cut_off: int
    lost: int
    conversations: IntArray

    @property
    def size(self) -> int:
        """How many turns the percentiles are over."""
        return self.values.size + self.bounds.size + self.lost

    @property
    def early(self) -> FloatArray:
        """All of them, as if those that were cut off had ended then."""
        return np.concatenate([self.values, self.bounds, np.full(self.lost, np.inf)])

    @property
    def late(self) -> FloatArray:
        """All of them, as if those that were cut off never had."""
        return np.concatenate([self.values, np.full(self.bounds.size + self.lost, np.inf)])

    @property
    def maximum(self) -> tuple[float, bool] | None:
        """The largest that came, and whether it is only a lower bound; None of nothing."""
        if not self.values.size and not self.bounds.size:
            return None
        most = max(*self.values[-1:], *self.bounds[-1:], -np.inf)
        return float(most), bool(self.bounds.size)

    @staticmethod
    def point(values: FloatArray, share: Fraction) -> float:
        """The percentile of ``early`` or ``late``."""
        found = nearest_rank(np.sort(values), share)
        assert found is not None
        return found

    def quantile(self, share: Fraction) -> Mapping[str, Any] | None:
        """``value low high needs at_least``; ``high`` is None where it may be anything, ``value``
        and ``low`` are infinite where so many were lost.
        """
        if not self.size:
            return None
        early = self.values
        if self.bounds.size:
            early = np.sort(np.concatenate([self.values, self.bounds]))
        place = rank(self.size, share)
        value = _at(early, place)
        ranks = rank_interval(self.size, share)
        high = None if ranks is None else _at(self.values, ranks[1])
        return {
            "value": value,
            "low": None if ranks is None else _at(early, ranks[0]),
            "high": None if high is None or np.isinf(high) else high,
            "needs": needed(share) if ranks is None else None,
            "at_least": value != _at(self.values, place),
        }


def _at(ordered: FloatArray, place: int) -> float:
    """The value of that rank; what lies behind them all never comes."""
    return float(ordered[place - 1]) if place <= ordered.size else np.inf


def of_values(values: pd.Series[float], conversations: pd.Series[int]) -> Sample:
    """A sample of which nothing was cut off; NaN is missing."""
    nothing = np.zeros(0), np.zeros(0, dtype=np.int64)
    measured = values.to_numpy(np.float64), conversations.to_numpy(np.int64)
    return _sample(measured, nothing, nothing[1], 0)


def sample(clock: Clock, table: pd.DataFrame, failures: bool = False) -> Sample:
    """``clock`` over the completed turns that kept their connection and those that were cut off.

    With ``failures`` over all started turns: recovered ones count with their time, failed ones and
    those that completed without the mark never come.
    """
    asked, done = table["asked"].to_numpy(), completed(table).to_numpy()
    cut = asked & (table["outcome"] == Outcome.CUT_OFF.value).to_numpy()
    value, lasted = table[f"{clock}_ms"].to_numpy(), table["elapsed_ms"].to_numpy()
    whose = table["conversation_number"].to_numpy()
    if clock in INTENDED.values():
        lasted = lasted + table["lag_ms"].to_numpy()
    known = ~np.isnan(value)
    chosen = (done if failures else done & ~table["recovered"].to_numpy()) | (cut & known)
    still = cut & ~known & ~np.isnan(lasted)
    lost = whose[asked & ~cut & ~(done & known)] if failures else whose[:0]
    return _sample(
        (value[chosen], whose[chosen]), (lasted[still], whose[still]), lost, int(cut.sum())
    )


def _sample(
    measured: tuple[NDArray[Any], NDArray[Any]],
    cut: tuple[NDArray[Any], NDArray[Any]],
    lost: NDArray[Any],
    cut_off: int,
) -> Sample:
    """From values and their conversations, in any order."""
    known = ~np.isnan(measured[0])
    values, whose = measured[0][known], measured[1][known]
    first, second = np.argsort(values), np.argsort(cut[0])
    return Sample(
        values[first], cut[0][second], int((~known).sum()), cut_off, len(lost),
        np.concatenate([whose[first], cut[1][second], lost]),
    )  # fmt: skip
