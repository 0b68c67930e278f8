"""What happened when on the run's time axis, so that a change of the latencies has its reason
beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import axis
from loadgen.clock import NS_PER_S
from loadgen.events import PromptKind
from loadgen.journal import RunData
from loadgen.metrics import Row
from loadgen.turn import Outcome

Json = dict[str, Any]
FloatArray = NDArray[np.float64]


class Occasion(StrEnum):
    """Things that happen to single turns."""

    PROMPT = "prompt"
    LOST = "connection lost"
    BACK = "connection back"
    FAILED = "turn failed"
    DROPPED = "arrival dropped"


def find(run: RunData, table: pd.DataFrame) -> dict[Occasion, FloatArray]:
    """When each of them happened, in s into the run, ascending; what never did is absent.
    ``table`` is `frame.turns`.
    """
    some = (table["prompts"] > 0) | (table["losses"] > 0)
    told = table.loc[some, ["row", "begin_s"]].sort_values("row")
    found: dict[Occasion, list[float]] = {}
    for row, begin_s in zip(run.rows_at(told["row"]), told["begin_s"], strict=True):
        for occasion, at_ms in _within(row):
            found.setdefault(occasion, []).append(begin_s + at_ms / 1000)
    bad = table[table["asked"] & ~table["outcome"].isin([Outcome.COMPLETED, Outcome.CUT_OFF])]
    found[Occasion.FAILED] = list(bad["end_s"])
    found[Occasion.DROPPED] = list(table.loc[~table["asked"], "scheduled_s"])
    placed = {
        occasion: np.sort(np.array([at for at in found.get(occasion, ()) if not math.isnan(at)]))
        for occasion in Occasion
    }
    return {occasion: times for occasion, times in placed.items() if times.size}


def stages(run: RunData, table: pd.DataFrame) -> list[Json]:
    """Where the load of the plan changed: ``at_s`` into the run a stage ended at the level ``to``.

    They are counted from when arrivals began, or where nothing arrives from the first turn; what
    was due after the last turn's end is left out.
    """
    says = (run.manifest.get("plan") or {}).get("load") or {}
    begun = axis.parse_ns((run.manifest.get("load") or {}).get("arrivals_began_at", ""))
    at_s = (begun - axis.origin_ns(run)) / NS_PER_S
    if math.isnan(at_s):
        at_s = float(table["begin_s"].min()) if len(table) else math.nan
    last = float(table["end_s"].max()) if len(table) else math.nan
    found: list[Json] = []
    for stage in says.get("stages") or ():
        at_s += stage["over_s"]
        if at_s <= last:
            found.append({"at_s": round(at_s, 3), "to": stage["to"]})
    return found


def _within(row: Mapping[str, Any] | Row) -> Iterator[tuple[Occasion, float]]:
    for prompt in row.get("prompts", ()):
        if prompt["kind"] != PromptKind.NOTIFICATION:
            yield Occasion.PROMPT, prompt["paused_ms"]
    for loss in row.get("losses", ()):
        yield Occasion.LOST, loss["lost_ms"]
        if "recovered_ms" in loss:
            yield Occasion.BACK, loss["recovered_ms"]
