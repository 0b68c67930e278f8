"""A run window by window: percentiles of a clock over time, and how many turns fell where."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import frame
from loadgen.analysis.quantiles import SHARES, rank
from loadgen.turn import Outcome

FloatArray = NDArray[np.float64]

WINDOWS = 60
"""At most so many over a run."""

TURNS = 10
"""So many turns in the mean window."""

LEVELS = 24
"""Rows of a heat map."""

_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)


@dataclass(frozen=True, slots=True)
class Curve:
    """A clock over the windows that have turns: the middle of each in s into the run, how many
    turns reached the mark in it, and two of their percentiles in ms (nearest rank).
    """

    at_s: FloatArray
    n: NDArray[np.int64]
    p50_ms: FloatArray
    p95_ms: FloatArray


@dataclass(frozen=True, slots=True)
class Heat:
    """``counts[level, window]`` turns; ``edges_ms`` of the levels are in equal ratios."""

    at_s: FloatArray
    width_s: float
    edges_ms: FloatArray
    counts: NDArray[np.int64]


def reached(table: pd.DataFrame) -> pd.DataFrame:
    """Turns whose marks are drawn: completed ones that kept their connection, and those that the
    end of the run cut off, with what they had reached.  ``table`` is `frame.turns`.
    """
    wanted = table["outcome"].isin([Outcome.COMPLETED, Outcome.CUT_OFF])
    columns = ["visible_s", "answer_s", "end_s", *frame.CLOCK_COLUMNS]
    return table.loc[wanted & table["asked"] & ~table["recovered"], columns]


def windows(table: pd.DataFrame) -> FloatArray:
    """Edges in s into the run, as many as the run and its turns are good for.  ``table`` is
    `frame.turns`.
    """
    ended = table.loc[table["asked"], "end_s"].dropna()
    last = float(ended.max()) if len(ended) else 1.0
    for width in _WIDTHS_S:
        number = max(1, math.ceil(last / width))
        if number <= WINDOWS and len(ended) / number >= TURNS:
            break
    else:
        width = max(1, math.ceil(last / WINDOWS)) if len(ended) >= TURNS else math.ceil(last) or 1
    return np.arange(0.0, max(1.0, last) + width, width)


def curve(at_s: FloatArray, values_ms: FloatArray, edges: FloatArray) -> Curve:
    """``values_ms`` of turns that got there at ``at_s``; a missing one (NaN) is in no window."""
    known = ~(np.isnan(at_s) | np.isnan(values_ms))
    places = np.clip(np.searchsorted(edges, at_s[known], side="right") - 1, 0, edges.size - 2)
    order = np.lexsort((values_ms[known], places))
    ordered, places = values_ms[known][order], places[order]
    found, starts = np.unique(places, return_index=True)
    sizes = np.diff(np.append(starts, places.size))
    return Curve(
        (edges[found] + edges[found + 1]) / 2,
        sizes,
        _ranked(ordered, starts, sizes, SHARES["p50"]),
        _ranked(ordered, starts, sizes, SHARES["p95"]),
    )


def heat(at_s: FloatArray, values_ms: FloatArray, edges: FloatArray) -> Heat | None:
    """None without a value."""
    known = ~(np.isnan(at_s) | np.isnan(values_ms)) & (values_ms > 0)
    if not known.any():
        return None
    values = values_ms[known]
    low, high = float(values.min()), float(values.max())
    if high < low * 1.5:
        middle = math.sqrt(low * high)
        low, high = middle / 1.25, middle * 1.25
    levels = np.geomspace(low, high * (1 + 1e-9), LEVELS + 1)
    levels[0] = min(levels[0], low)
    counts, _, _ = np.histogram2d(values, at_s[known], bins=(levels, edges))
    return Heat(
        (edges[:-1] + edges[1:]) / 2, float(edges[1] - edges[0]), levels, counts.astype(np.int64)
    )


def _ranked(
    ordered: FloatArray, starts: NDArray[np.int64], sizes: NDArray[np.int64], share: Fraction
) -> FloatArray:
    ranks = np.array([rank(int(size), share) for size in sizes], dtype=np.int64)
    chosen: FloatArray = ordered[starts + ranks - 1]
    return chosen
