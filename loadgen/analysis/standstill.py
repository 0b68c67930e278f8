"""Stretches in which nothing arrived for any open turn: the target, or the network, stood still.

Silence is nothing unusual: agents think.  So it is weighed.  For each turn that was open, how
likely is it that what it waited for took as long as that?  The answer is the share of the run's
other turns whose same wait lasted at least as long, of those that had lasted until then (the
empirical survival function).  The product over all open turns is how likely a common silence is;
where a crowd marches in step it is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import numerals
from loadgen.turn import Outcome

FloatArray = NDArray[np.float64]

LEAST_S = 1.0
"""A shorter silence is not looked at."""

FEWEST = 3
"""With fewer open turns nothing is said."""

LIKELIHOOD = 1e-6
"""A silence that is likelier than that is chance."""

_MOST = 200
_THEIRS = (Outcome.COMPLETED, Outcome.FAILED, Outcome.INCOMPLETE)
"""Turns that the target ended; the end of any other is no sign of life."""


@dataclass(frozen=True, slots=True)
class Standstill:
    """From ``begin_s`` to ``end_s`` on the run's axis nothing arrived for ``turns`` open turns."""

    begin_s: float
    end_s: float
    turns: int

    @property
    def sentence(self) -> str:
        """What a reader should know."""
        return (
            f"the target, or the network, stood still for "
            f"{numerals.duration((self.end_s - self.begin_s) * 1000)} at "
            f"{numerals.seconds(round(self.begin_s, 1))} into the run: nothing arrived for any of "
            f"{numerals.count(self.turns)} open turns"
        )


_COLUMNS = (
    "begin_s", "first_byte_ms", "first_step_ms", "visible_s", "answer_s", "end_s", "outcome",
    "dialect", "max_gap_ms",
)  # fmt: skip


def find(table: pd.DataFrame) -> list[Standstill]:
    """The standstills of a run in their order.  ``table`` is `frame.turns`."""
    alone = table["asked"] & (table["prompts"] == 0)
    turns = table.loc[alone, [*_COLUMNS]].dropna(subset=["begin_s", "end_s"])
    if len(turns) < FEWEST:
        return []
    watch = _Watch(turns)
    return [found for begin, end in watch.silences() if (found := watch.weigh(begin, end))]


def as_json(found: Standstill) -> dict[str, Any]:
    """For the summary; s on the run's time axis."""
    rounded = {"begin_s": round(found.begin_s, 3), "end_s": round(found.end_s, 3)}
    return asdict(found) | rounded | {"lasted_s": round(found.end_s - found.begin_s, 3)}


class _Watch:
    """All waits of all turns: from one mark of a turn to its next."""

    def __init__(self, turns: pd.DataFrame) -> None:
        begin = turns["begin_s"].to_numpy()
        theirs = turns["outcome"].isin([o.value for o in _THEIRS]).to_numpy()
        marks = np.column_stack([
            begin,
            begin + turns["first_byte_ms"].to_numpy() / 1000,
            begin + turns["first_step_ms"].to_numpy() / 1000,
            turns["visible_s"].to_numpy(), turns["answer_s"].to_numpy(), turns["end_s"].to_numpy(),
        ])  # fmt: skip
        arrived = marks[:, 1:].copy()
        arrived[~theirs, -1] = np.nan
        self.arrivals = np.unique(arrived[~np.isnan(arrived)])
        kinds = pd.factorize(turns["dialect"])[0] * marks.shape[1]
        chunks = turns["max_gap_ms"].to_numpy() / 1000
        self.since, self.until, self.kind, self.gap = _waits(marks, kinds, chunks)

    def silences(self) -> Iterator[tuple[float, float]]:
        """The longest stretches between two arrivals, in order."""
        lasted = np.diff(self.arrivals)
        long = np.flatnonzero(lasted >= LEAST_S)
        chosen = np.sort(long[np.argsort(-lasted[long], kind="stable")][:_MOST])
        for index in chosen:
            yield float(self.arrivals[index]), float(self.arrivals[index + 1])

    def weigh(self, begin: float, end: float) -> Standstill | None:
        """A standstill, if the silence from ``begin`` to ``end`` is not likely."""
        inside = (self.since < end) & (self.until >= end)
        apart = (self.until <= begin) | (self.since >= end)
        silent_s = end - np.maximum(self.since[inside], begin)
        # Chunks of an answer are no marks: its longest gap tells whether any came.
        if inside.sum() < FEWEST or (self.gap[inside] < silent_s).any():
            return None
        total = 0.0
        for kind in np.unique(self.kind[inside]):
            others = np.sort((self.until - self.since)[apart & (self.kind == kind)])
            mine = inside & (self.kind == kind)
            until_then = np.maximum(begin - self.since[mine], 0.0)
            older = others.size - np.searchsorted(others, until_then, side="right")
            oldest = others.size - np.searchsorted(others, end - self.since[mine], side="right")
            total += float(np.log((oldest + 1) / (older + 1)).sum())
        likely = total > math.log(LIKELIHOOD)
        return None if likely else Standstill(begin, end, int(inside.sum()))


def _waits(marks: FloatArray, kinds: FloatArray, chunks: FloatArray) -> FloatArray:
    """Begin, end, kind of each wait of the turns, and the longest gap of those that were given
    chunks then: four rows.  ``marks`` has a row a turn, NaN where one was not reached.
    """
    answer = marks.shape[1] - 2
    longest = {answer: np.where(np.isnan(chunks), np.inf, chunks)}
    never = np.full(len(marks), np.inf)
    found = []
    after = marks[:, -1]
    for at in range(answer, -1, -1):
        here = marks[:, at]
        wait = ~np.isnan(here) & ~np.isnan(after)
        gaps = longest.get(at, never)
        found.append(np.stack([here, after, kinds + float(at), gaps])[:, wait])
        after = np.where(np.isnan(here), after, here)
    return np.concatenate(found, axis=1)
