"""Did turns wait inside the service for a place to run, and how many ran at once?

A server that answers with headers at once and sends its first step only when a turn has a place
shows its queue: the time from the request to that first step.  How many ran at once follows from
Little's law, L = lambda * W, on the busy time (first step to end): the busy seconds inside a window
divided by its length.  A turn that waits for its analyst keeps its place, so pauses count as busy.
Source: J. D. C. Little, Operations Research 9 (1961) 383-387.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from loadgen.analysis import frame, numerals
from loadgen.analysis.quantiles import SHARES, ascending, quantile

LEAST_WAIT_MS = 1000.0
"""A shorter median wait is not worth a sentence."""

LEAST_TURNS = 20

_RAMP = 0.25
"""This share of the time in which turns began is left out: the crowd was still growing."""


@dataclass(frozen=True, slots=True)
class Queueing:
    """Over turns that began in the window: medians in ms, and mean numbers of turns.

    ``headers_ms`` is None where no turn has response headers (sockets).
    """

    turns: int
    wait_ms: float
    headers_ms: float | None
    running: float
    in_flight: float

    @property
    def sentence(self) -> str:
        """What a reader should know."""
        headers = ""
        if self.headers_ms is not None:
            headers = f"response headers came within {numerals.duration(self.headers_ms)} while "
        return (
            f"turns queued inside the service: {headers}first steps waited "
            f"{numerals.duration(self.wait_ms)} for a place to run (medians); about "
            f"{self.running:.1f} of {self.in_flight:.1f} open turns ran at a time "
            "(Little's law on busy time)"
        )


_COLUMNS = (
    "begin_s", "end_s", "first_step_ms", "ttfp_ms", "dialect", "sent_ms", "status", "first_byte_ms",
)  # fmt: skip


def find(table: pd.DataFrame) -> Queueing | None:
    """The queue inside the service, if first steps show one.  ``table`` is `frame.turns`."""
    asked = frame.asked(table)[[*_COLUMNS]].dropna(subset=["begin_s", "end_s"])
    if len(asked) < LEAST_TURNS:
        return None
    first, last = float(asked["begin_s"].min()), float(asked["begin_s"].max())
    begin = first + _RAMP * (last - first)
    # A dialect whose first step is always progress too does not tell when a turn got its place.
    before = asked["first_step_ms"] < asked["ttfp_ms"].fillna(float("inf"))
    asked = asked[before.groupby(asked["dialect"], observed=True).transform("any")]
    chosen = asked[asked["begin_s"] >= begin]
    waits = ascending(chosen["first_step_ms"] - chosen["sent_ms"])
    median = quantile(waits, SHARES["p50"])
    if median is None or median.value < LEAST_WAIT_MS or last <= begin:
        return None
    streams = chosen[chosen["status"] > 0]
    headers = quantile(ascending(streams["first_byte_ms"] - streams["sent_ms"]), SHARES["p50"])
    if headers is not None and headers.value > median.value / 2:
        return None
    busy = _mean_open(asked["begin_s"] + asked["first_step_ms"] / 1000, asked["end_s"], begin, last)
    flying = _mean_open(asked["begin_s"], asked["end_s"], begin, last)
    return Queueing(
        len(chosen), median.value, None if headers is None else headers.value, busy, flying
    )


def _mean_open(begins: pd.Series[float], ends: pd.Series[float], begin: float, end: float) -> float:
    """How many of the intervals were open on average between ``begin`` and ``end``, in s."""
    inside = np.minimum(ends.to_numpy(), end) - np.maximum(begins.to_numpy(), begin)
    return float(np.nansum(np.clip(inside, 0.0, None)) / (end - begin))
