"""Does the service, or the generator, change while the load does not?  Drift and leaks.

Theil-Sen slope (Sen, J. Am. Stat. Assoc. 63, 1968) over the steady part of the run, significant by
Mann and Kendall's test (Kendall's tau against time, scipy) at `ALPHA`, and worth a word from
`WORTH` of the level on (method: steady state).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau, theilslopes

from loadgen.analysis import axis, frame, numerals
from loadgen.clock import NS_PER_S
from loadgen.journal import RunData
from loadgen.metrics import Clock

Json = dict[str, Any]
FloatArray = NDArray[np.float64]

ALPHA = 0.01
WORTH = 0.1
LEAST = 20
"""Fewer points say nothing about a trend."""

POINTS = 500
"""More points than these are first made medians of neighbours: pairs of them are looked at."""

LEAST_GROWTH = 16.0
"""Memory that grew by less than this, in MiB, is no leak."""

CLOCKS = (Clock.TTFA, Clock.TTC)
TARGET = "target"
_HOUR_S = 3600.0
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Trend:
    """How a quantity changed over ``span_s``.

    ``first`` and ``last`` are the ends of the fitted line; ``per_hour`` is its slope; ``change``
    the share by which it rose; ``p`` of no trend at all.  ``trend``: it is significant and worth
    a word.
    """

    n: int
    span_s: float
    first: float
    last: float
    per_hour: float
    change: float
    p: float
    trend: bool


def trend(at_s: FloatArray, values: FloatArray, least: float = 0.0) -> Trend | None:
    """The trend of ``values`` over ``at_s``; None of too few.  It must reach ``least``, too."""
    known = ~(np.isnan(at_s) | np.isnan(values))
    at, seen = at_s[known], values[known]
    n = int(at.size)
    if n < LEAST or np.ptp(at) == 0:
        return None
    order = np.argsort(at, kind="stable")
    at, seen = _medians(at[order]), _medians(seen[order])
    # With many ties in time the variance behind its interval, which nobody reads here, rounds to
    # below nothing.
    with np.errstate(invalid="ignore"):
        slope, intercept = theilslopes(seen, at)[:2]
    p = float(kendalltau(at, seen).pvalue) if np.ptp(seen) else 1.0
    first, last = (float(intercept + slope * at[place]) for place in (0, -1))
    grown = last - first
    change = grown / first if first > 0 else 0.0
    counts = p < ALPHA and abs(change) > WORTH and abs(grown) >= least
    span = float(at[-1] - at[0])
    return Trend(n, span, first, last, float(slope) * _HOUR_S, change, p, counts)


def clocks(
    table: pd.DataFrame, begin_s: float | None = None, end_s: float = np.inf
) -> dict[Clock, Trend]:
    """How the latencies of plain turns drifted between two moments, or once the crowd had grown.

    ``table`` is `frame.turns`.
    """
    chosen = frame.plain(table, "begin_s", *(f"{clock}_ms" for clock in CLOCKS))
    begin = steady_from(table) if begin_s is None else begin_s
    chosen = chosen[(chosen["begin_s"] >= begin) & (chosen["begin_s"] <= end_s)]
    at_s = chosen["begin_s"].to_numpy(np.float64)
    found = {clock: trend(at_s, chosen[f"{clock}_ms"].to_numpy(np.float64)) for clock in CLOCKS}
    return {clock: made for clock, made in found.items() if made is not None}


def memory(run: RunData, table: pd.DataFrame) -> dict[str, Trend]:
    """How the memory of each process of the generator, and of a mock of ours, grew; in MiB."""
    begin_s, origin = steady_from(table), axis.origin_ns(run)
    sources: dict[str, Sequence[Mapping[str, Any]]] = dict(run.health)
    if run.target:
        sources[TARGET] = run.target
    found = {}
    for name, rows in sources.items():
        kept = [row for row in rows if row.get("rss") and "wall_ns" in row]
        at_s = np.array([(row["wall_ns"] - origin) / NS_PER_S for row in kept], dtype=np.float64)
        rss = np.array([row["rss"] / _MIB for row in kept], dtype=np.float64)
        made = trend(at_s[at_s >= begin_s], rss[at_s >= begin_s], LEAST_GROWTH)
        if made is not None:
            found[name] = made
    return found


def steady_from(table: pd.DataFrame) -> float:
    """When the last analyst had its first turn behind it: the crowd has stopped growing.

    Where analysts come and go all the time that is never, so a quarter of the run must do.
    """
    ended = table.loc[table["asked"], ["user", "begin_s", "end_s"]].dropna()
    if ended.empty:
        return 0.0
    grown = float(ended.groupby("user")["end_s"].min().max())
    first, last = float(ended["begin_s"].min()), float(ended["begin_s"].max())
    return min(grown, first + (last - first) / 4)


def sentences(drifts: Mapping[Clock, Trend], grown: Mapping[str, Trend]) -> Iterator[str]:
    """What a careful reader wants to know."""
    for clock, made in drifts.items():
        if made.trend:
            yield (
                f"{clock.value} drifted: {numerals.duration(made.first)} at the beginning and "
                f"{numerals.duration(made.last)} at the end of {numerals.fixed(made.span_s)} s of "
                "steady load: its percentiles describe no one state"
            )
    for name, made in grown.items():
        if made.trend and made.change > 0:
            owner = "the mock agent" if name == TARGET else f"the generator's process {name}"
            yield (
                f"{owner} grew: {_mib(made.first)} at the beginning and {_mib(made.last)} at the "
                f"end of {numerals.fixed(made.span_s)} s of steady load, "
                f"{_mib(made.per_hour)} an hour"
            )


def as_json(made: Trend) -> Json:
    """As it stands in the summary."""
    facts = asdict(made) | {"change_percent": made.change * 100}
    del facts["change"]
    rounded = {key: round(v, 3) if isinstance(v, float) else v for key, v in facts.items()}
    return rounded | {"p": float(f"{made.p:.3g}")}


def _mib(size: float) -> str:
    return f"{numerals.fixed(size)} MiB"


def _medians(values: FloatArray) -> FloatArray:
    if values.size <= POINTS:
        return values
    parts = np.array_split(values, POINTS)
    return np.array([np.median(part) for part in parts], dtype=np.float64)
