"""Tables of a run: one row a turn, and one row a happening inside a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.journal import RunData
from loadgen.metrics import (
    TURN_CLOCKS,
    Clock,
    Row,
    elapsed,
    happenings,
    marks,
    started,
    turn_clocks,
)
from loadgen.turn import Outcome

FloatArray = NDArray[np.float64]

LABELS = (
    "turn", "user", "conversation", "scenario", "dialect", "route", "outcome", "cause",
    "started_at", "worker",
)  # fmt: skip
"""Columns that say which turn it was; text."""

CLOCK_COLUMNS = tuple(f"{clock}_ms" for clock in TURN_CLOCKS)
"""Columns of durations in ms; NaN is missing."""


def turns(run: RunData) -> pd.DataFrame:
    """One row a turn, in the order of their start.

    Beside `LABELS` and `CLOCK_COLUMNS`: ``elapsed_ms`` (server time to the end, whatever the
    outcome), ``asked`` (false for an arrival that was dropped), ``recovered``, ``prompts``,
    ``losses``, ``chunks``, ``stamp``, ``detail``, the facts ``sent_ms first_byte_ms first_step_ms
    status`` as they stand in the row, and the places of ``begin_s visible_s answer_s end_s`` on the
    run's time axis, in seconds after the manifest's ``started_at`` (or the first turn).
    """
    rows = run.rows
    columns: dict[str, Any] = {name: [row.get(name, "") for row in rows] for name in LABELS}
    clocks = [turn_clocks(row) for row in rows]
    nan = float("nan")
    for clock, name in zip(TURN_CLOCKS, CLOCK_COLUMNS, strict=True):
        columns[name] = np.array([found.get(clock, nan) for found in clocks], dtype=np.float64)
    columns["elapsed_ms"] = np.array(
        [nan if (value := elapsed(row)) is None else value for row in rows], dtype=np.float64
    )
    columns["asked"] = np.array([started(row) for row in rows], dtype=bool)
    columns["recovered"] = np.array([bool(row.get("recovered")) for row in rows], dtype=bool)
    for name in ("prompts", "losses"):
        columns[name] = np.array([len(row.get(name, ())) for row in rows], dtype=np.int64)
    columns["chunks"] = np.array([row.get("chunks", 0) for row in rows], dtype=np.int64)
    for name in ("stamp", "detail"):
        columns[name] = [row.get(name, "") for row in rows]
    for name in ("sent_ms", "first_byte_ms", "first_step_ms", "status"):
        columns[name] = np.array([row.get(name, nan) for row in rows], dtype=np.float64)
    columns["begin_s"] = _begin_s(run)
    reached = [marks(row) for row in rows]
    for clock, name in ((Clock.TTFV, "visible_s"), (Clock.TTFA, "answer_s")):
        at = np.array([found.get(clock, nan) for found in reached], dtype=np.float64)
        columns[name] = columns["begin_s"] + at / 1000
    columns["end_s"] = columns["begin_s"] + columns["wall_ms"] / 1000
    table = pd.DataFrame(columns)
    return table.sort_values("begin_s", kind="stable", ignore_index=True)


def happened(run: RunData) -> pd.DataFrame:
    """One row a connection, login, reply or loss: ``turn dialect outcome clock at_ms value_ms``;
    ``value_ms`` is NaN when the other end never came.
    """
    found = [
        (row["turn"], row.get("dialect", ""), row["outcome"], item.clock.value, item.at_ms,
         float("nan") if item.value_ms is None else item.value_ms)
        for row in run.rows if started(row) for item in happenings(row)
    ]  # fmt: skip
    names = ["turn", "dialect", "outcome", "clock", "at_ms", "value_ms"]
    table = pd.DataFrame(found, columns=names)
    return table.astype({"at_ms": np.float64, "value_ms": np.float64})


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """The population of latency figures: completed turns that kept their connection."""
    return table[completed(table) & ~table["recovered"]]


def completed(table: pd.DataFrame) -> pd.Series[bool]:
    """Which turns completed."""
    return table["outcome"] == Outcome.COMPLETED.value


def in_flight(table: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Times in s at which a turn began or ended, and how many turns were open from then on."""
    spans = table.loc[table["asked"], ["begin_s", "end_s"]].dropna()
    at = np.concatenate([spans["begin_s"].to_numpy(), spans["end_s"].to_numpy()])
    step = np.repeat([1.0, -1.0], len(spans))
    order = np.lexsort((step, at))
    return at[order], np.cumsum(step[order])


def derived(row: Row) -> dict[str, float]:
    """The columns that ``export`` adds to a journal row; a missing duration is absent."""
    return {f"{clock}_ms": round(value, 6) for clock, value in turn_clocks(row).items()}


def _begin_s(run: RunData) -> FloatArray:
    """Each worker's monotonic stamps are placed by its own (wall, monotonic) anchor, so that
    workers on different hosts share one axis; without an anchor the turn's wall label serves.
    """
    offsets = _anchor_offsets(run.manifest.get("workers", ()))
    wall = np.array([_wall_ns(row, offsets) for row in run.rows], dtype=np.float64)
    origin = _parse_ns(run.manifest.get("started_at", ""))
    if np.isnan(origin) and wall.size and not np.isnan(wall).all():
        origin = float(np.nanmin(wall))
    return (wall - origin) / NS_PER_S


def _anchor_offsets(workers: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {
        worker["worker"]: worker["anchor_wall_ns"] - worker["anchor_mono_ns"]
        for worker in workers
        if "anchor_wall_ns" in worker and "anchor_mono_ns" in worker
    }


def _wall_ns(row: Row, offsets: Mapping[str, int]) -> float:
    if not started(row):
        return float("nan")
    offset, mono = offsets.get(row.get("worker", "")), row.get("started_mono_ns")
    if offset is not None and mono is not None:
        return float(mono + offset)
    return _parse_ns(row.get("started_at", ""))


def _parse_ns(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() * 1000 * NS_PER_MS
    except ValueError:
        return float("nan")
