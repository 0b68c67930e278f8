"""Goodput: turns that were good to their analyst, as a share and by the second.

A turn is good if it completed and met every target that is about it (DistServe, OSDI 2024): all of
its marks in time, and all of its logins, replies and recoveries, if there are targets for those.
Turns that the end of the run cut off before a limit are no evidence either way.  The interval of
the share resamples whole conversations (`bootstrap`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import bootstrap, tally, target
from loadgen.analysis.frame import completed
from loadgen.analysis.slo import limit_ms
from loadgen.metrics import HAPPENINGS, Clock

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Goodput:
    """``good`` of ``judged`` started turns; ``undecided`` more were cut off before a limit.

    ``attained`` is the share with its 95 % interval; ``per_s`` are good turns a second over
    ``seconds``, ``throughput_per_s`` all that completed.
    """

    judged: int
    good: int
    undecided: int
    attained: float | None
    low: float | None
    high: float | None
    seconds: float
    per_s: float | None
    throughput_per_s: float | None


def good_turns(
    targets: Sequence[Mapping[str, Any]], table: pd.DataFrame, items: pd.DataFrame
) -> tuple[Mask, Mask]:
    """Which turns of ``table`` are good, and of which nobody knows; ``targets`` as judged."""
    done = completed(table).to_numpy()
    good: Mask = done.copy()
    unknown: Mask = np.zeros_like(good)
    for one in targets:
        clock, limit = Clock(one["clock"]), limit_ms(one)
        rows = target.chosen(one, table)
        rows = rows[rows["asked"]]
        places = table.index.get_indexer(rows.index)
        if clock in HAPPENINGS:
            chosen = target.chosen(one, items)
            chosen = chosen[chosen["clock"] == clock.value]
            late = chosen[~(chosen["value_ms"] <= limit)]
            good[places] &= ~rows["turn"].isin(late["turn"]).to_numpy()
            continue
        found = tally.of_turns(clock, rows, limit)
        bad = found.missed | (found.recovered & ~found.recovered_met)
        good[places] &= ~bad
        unknown[places] |= found.undecided
    return good, unknown & ~done


def find(
    targets: Sequence[Mapping[str, Any]],
    table: pd.DataFrame,
    items: pd.DataFrame,
    within: tuple[float, float] | None = None,
) -> Goodput | None:
    """The goodput of a run, or of the turns that ended ``within`` two moments of it, in s."""
    good, unknown = good_turns(targets, table, items)
    asked = table["asked"].to_numpy()
    ends, begins = table["end_s"].to_numpy(np.float64), table["begin_s"].to_numpy(np.float64)
    if within is not None:
        asked = asked & (ends >= within[0]) & (ends <= within[1])
    if not asked.any():
        return None
    judged: Mask = asked & ~unknown
    begin, end = within or (np.nanmin(begins[asked]), np.nanmax(ends[asked]))
    seconds = float(end - begin)
    number, right = int(judged.sum()), int((good & judged).sum())
    low, high = _interval(good[judged], table["conversation_number"].to_numpy()[judged])
    done = int((completed(table).to_numpy() & asked).sum())
    return Goodput(
        number, right, int((asked & unknown).sum()), right / number if number else None, low, high,
        seconds, right / seconds if seconds > 0 else None, done / seconds if seconds > 0 else None,
    )  # fmt: skip


def as_json(found: Goodput | None) -> dict[str, Any] | None:
    """As it stands in the summary."""
    if found is None:
        return None
    rounded = {"seconds", "per_s", "throughput_per_s"}
    return {
        key: round(value, 3) if key in rounded and value is not None else value
        for key, value in asdict(found).items()
    }


def _interval(good: Mask, conversations: NDArray[np.int64]) -> tuple[float | None, float | None]:
    return bootstrap.ends(bootstrap.shares(good, conversations)) if good.size else (None, None)
