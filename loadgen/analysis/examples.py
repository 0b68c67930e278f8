"""Single turns worth a look: the slowest, those in the middle, and one of each way to fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from loadgen.analysis import frame
from loadgen.analysis.phases import phases
from loadgen.journal import RunData
from loadgen.metrics import Row
from loadgen.turn import Outcome

Json = dict[str, Any]

SLOWEST = 10
MIDDLE = 3
FAILED = 5
DETAIL_CHARS = 200

_MILESTONES = (
    "connected", "authenticated", "sent", "first_byte", "first_step", "first_progress",
    "first_answer", "last_answer", "ended",
)  # fmt: skip
_SPARED = (Outcome.COMPLETED.value, Outcome.CUT_OFF.value)


def find(run: RunData, table: pd.DataFrame) -> dict[str, list[Json]]:
    """``slowest``: what held an analyst up longest (server time), whatever its outcome;
    ``median``: completed turns around the middle one; ``failed``: of each outcome and cause, most
    frequent first, the turn in the middle.  All with their phases and milestones.
    ``table`` is `frame.turns`.
    """
    timed = table.loc[table["elapsed_ms"].notna(), ["row", "elapsed_ms", "outcome", "cause"]]
    timed = timed.sort_values("elapsed_ms", ascending=False, kind="stable")
    done = timed[frame.completed(timed)]
    first = max(0, (len(done) - MIDDLE) // 2)
    return {
        "slowest": _turns(run, timed[:SLOWEST]),
        "median": _turns(run, done[first : first + MIDDLE]),
        "failed": _turns(run, pd.concat([timed[:0], *_failed(timed)][: FAILED + 1])),
    }


def _failed(timed: pd.DataFrame) -> list[pd.DataFrame]:
    """The turn in the middle of each outcome and cause, most frequent first."""
    groups = [
        group
        for _, group in timed[~timed["outcome"].isin(_SPARED)].groupby(
            ["outcome", "cause"], sort=False, observed=True
        )
    ]
    groups.sort(key=len, reverse=True)
    return [group.iloc[[len(group) // 2]] for group in groups]


def _turns(run: RunData, chosen: pd.DataFrame) -> list[Json]:
    rows = run.rows_at(chosen["row"])
    return [_turn(*pair) for pair in zip(chosen["elapsed_ms"].tolist(), rows, strict=True)]


def _turn(elapsed_ms: float, row: Row) -> Json:
    return {
        "turn": row["turn"],
        "user": row.get("user", ""),
        "dialect": row.get("dialect", ""),
        "outcome": row["outcome"],
        "cause": row.get("cause", ""),
        "detail": row.get("detail", "")[:DETAIL_CHARS],
        "elapsed_ms": _ms(elapsed_ms),
        "wall_ms": _ms(row["ended_ms"]),
        "phases": [
            {"phase": s.phase.value, "begin_ms": _ms(s.begin_ms), "end_ms": _ms(s.end_ms)}
            for s in phases(row)
        ],
        "events": [
            {"event": name, "at_ms": _ms(at)}
            for name, at in sorted(_events(row), key=lambda event: event[1])
        ],
    }


def _events(row: Row) -> Iterator[tuple[str, float]]:
    """What happened in the turn and when, in ms from STARTED."""
    for name in _MILESTONES:
        at = row.get(f"{name}_ms")
        if at is not None:
            yield name.replace("_", " "), at
    for prompt in row.get("prompts", ()):
        yield f"prompt ({prompt['kind']})", prompt["paused_ms"]
        if "resumed_ms" in prompt:
            yield "reply", prompt["resumed_ms"]
    for loss in row.get("losses", ()):
        if loss["during"] == "idle":
            continue
        yield "connection lost", loss["lost_ms"]
        if "recovered_ms" in loss:
            yield "recovered", loss["recovered_ms"]


def _ms(value: float) -> float:
    return round(value, 3)
