"""The table of clocks: of each its population, n, what is missing, percentiles and their intervals.

Percentiles are success-only here; of the marks the same stand beside them over all started turns,
where a failed one never comes (``started``).  One that n is too small for is refused, with the n
that it needs.  Intervals are order statistics; where turns of one conversation resemble each other
whole conversations are resampled instead (method: bootstrap), and the table says which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import bootstrap, frame
from loadgen.analysis.censoring import CENSORED, Sample, of_values, sample
from loadgen.analysis.quantiles import SHARES, least
from loadgen.analysis.shift import design_effect
from loadgen.analysis.slo import ALIKE
from loadgen.metrics import HAPPENINGS, MARKS, TITLES, TURN_CLOCKS, Clock

Json = dict[str, Any]
FloatArray = NDArray[np.float64]

MOST_RESAMPLED = 20_000
"""Of more turns some conversations are resampled, and the interval is made as much narrower."""

_TINY_MS = 0.001
_SEED = 1


def table(turns: pd.DataFrame, items: pd.DataFrame) -> Json:
    """Every clock that there is anything of, on `frame.turns` and `frame.happened`."""
    plain = frame.plain(turns, *frame.CLOCK_COLUMNS, "conversation_number")
    metrics = {
        clock.value: mark(clock, turns)
        if clock in CENSORED
        else metric(clock, plain, "completed turns")
        for clock in TURN_CLOCKS
    }
    waited = plain[plain["human_ms"] > 0]
    metrics[Clock.HUMAN.value] = metric(Clock.HUMAN, waited, "completed turns with a pause")
    for clock, population in HAPPENINGS.items():
        metrics[clock.value] = metric(clock, items[items["clock"] == clock.value], population)
    return {
        name: found
        for name, found in metrics.items()
        if name in MARKS or found["n"] or found["missing"]
    }


def metric(clock: Clock, rows: pd.DataFrame, population: str) -> Json:
    """A clock over ``rows``, all of which ended."""
    column = "value_ms" if clock in HAPPENINGS else f"{clock}_ms"
    found = of_values(rows[column], rows["conversation_number"])
    most = found.maximum
    return {
        "title": TITLES[clock], "population": population, **_row(found),
        "max_ms": None if most is None else ms(most[0]),
    }  # fmt: skip


def mark(clock: Clock, turns: pd.DataFrame) -> Json:
    """A mark that turns which were cut off may have reached or not.  ``at_least``: the true value
    may be larger; ``censored`` of the n turns had not reached it when they were cut off.
    """
    completed = sample(clock, turns)
    if completed.cut_off:
        found: Json = {
            "title": TITLES[clock], "population": "completed and cut-off turns",
            "censored": int(completed.bounds.size), **_row(completed), **_largest(completed),
        }  # fmt: skip
    else:
        found = metric(
            clock, frame.plain(turns, f"{clock}_ms", "conversation_number"), "completed turns"
        )
    started = sample(clock, turns, failures=True)
    row = {"population": "started turns", "lost": started.lost, **_row(started)}
    return found | {"started": row | _largest(started)}


def ms(value: float | None) -> float | None:
    """Rounded to the microsecond, which is finer than any stamp is good for."""
    return None if value is None else round(value, 3)


def _row(found: Sample) -> Json:
    effect = _effect(found)
    drawn = _resampled(found) if effect > ALIKE else None
    row: Json = {
        "n": found.size, "missing": found.missing, "design_effect": round(effect, 3),
        "interval": "order statistics" if drawn is None else "conversations",
    }  # fmt: skip
    for name, share in SHARES.items():
        ends = None if drawn is None else drawn[name]
        row[name] = _cell(found.quantile(share), found.size, least(share), ends)
    return row


def _cell(
    found: Mapping[str, Any] | None, n: int, needs: int, ends: tuple[float, float] | None
) -> Json | None:
    if found is None:
        return None
    if n < needs:
        return {"value_ms": None, "low_ms": None, "high_ms": None, "needs_n": needs}
    value, low, high = found["value"], found["low"], found["high"]
    if ends is not None and found["needs"] is None:
        low, high = ends
    cell = {
        "value_ms": _finite(value), "low_ms": _finite(low), "high_ms": _finite(high),
        "needs_n": found["needs"],
    }  # fmt: skip
    if found["at_least"]:
        cell["at_least"] = True
    if math.isinf(value):
        cell["never"] = True
    return cell


def _largest(found: Sample) -> Json:
    """The largest that came; it may be larger where turns were cut off."""
    most, at_least = found.maximum or (None, False)
    return {"max_ms": ms(most), "max_at_least": at_least}


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else ms(value)


def _effect(found: Sample) -> float:
    """How much turns of a conversation resemble each other, on log time."""
    known = np.maximum(np.concatenate([found.values, found.bounds]), _TINY_MS)
    if not known.size:
        return 1.0
    return design_effect(np.log(known), found.conversations[: known.size])


def _resampled(found: Sample) -> dict[str, tuple[float, float]]:
    """Both ends of each percentile: the lower one as if turns had ended when they were cut off,
    the upper one as if they never had.
    """
    kept = _kept(found.conversations)
    shares = list(SHARES.values())
    both = []
    for values in (found.early, found.late):
        drawn = bootstrap.quantiles(values[kept], found.conversations[kept], shares, seed=_SEED)
        narrower = math.sqrt(kept.sum() / kept.size)
        middle = np.array([found.point(values, share) for share in shares])
        with np.errstate(invalid="ignore"):
            both.append(np.where(np.isinf(drawn), drawn, middle + (drawn - middle) * narrower))
    return {
        name: (
            bootstrap.ends(np.sort(both[0][:, column]))[0],
            bootstrap.ends(np.sort(both[1][:, column]))[1],
        )
        for column, name in enumerate(SHARES)
    }


def _kept(conversations: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which values are resampled: those of as many conversations as there is room for."""
    if conversations.size <= MOST_RESAMPLED:
        return np.ones(conversations.size, dtype=bool)
    names, codes = np.unique(conversations, return_inverse=True)
    share = MOST_RESAMPLED / conversations.size
    return (np.random.default_rng(_SEED).random(names.size) < share)[codes]
