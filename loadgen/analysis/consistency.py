"""Do the numbers of a run add up?  What does not is a fault of ours, and no evidence.

Outcomes against started turns, the rows of each process against its own count of what ended, and
turns that were under way when the stop was asked for against what became of them.  Little's law in
the steady window stands beside them: where it is off, the window was not steady.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from loadgen.analysis import axis, numerals
from loadgen.analysis.check import Check
from loadgen.analysis.window import LITTLE_WITHIN, Little, Window
from loadgen.journal import RunData
from loadgen.turn import Outcome


def inspect(run: RunData, table: pd.DataFrame) -> list[Check]:
    """The sums of a run; what cannot be known is no failure, and says so."""
    return [_outcomes(table), _rows(run, table), _under_way(run, table)]


def law(window: Window | None, found: Little | None) -> Check:
    """Little's law as a line of the report."""
    if window is None or found is None:
        return Check("Little's law", True, "not looked at: the run has no steady window")
    facts = (
        f"{found.in_flight:.1f} turns under way on average, "
        f"{found.per_s:.2f} a second times {numerals.duration(found.wall_s * 1000)} is "
        f"{found.per_s * found.wall_s:.1f}: {numerals.share(found.off)} apart"
    )
    if found.ok is None:
        return Check("Little's law", True, f"{facts}; the window is too short to judge that")
    return Check("Little's law", found.ok, f"{facts}, allowed {numerals.share(LITTLE_WITHIN)}")


def as_json(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """As they stand in the summary."""
    return [{"check": c.check, "ok": c.ok, "detail": c.detail} for c in checks]


def _outcomes(table: pd.DataFrame) -> Check:
    known = table[table["outcome"].isin([outcome.value for outcome in Outcome])]
    dropped = int((known["outcome"] == Outcome.DROPPED.value).sum())
    started = int(table["asked"].sum())
    ended = len(known) - dropped
    if ended == started and table["turn"].is_unique:
        return Check(
            "sum of outcomes", True, f"outcomes add up to {numerals.count(started)} started turns"
        )
    return Check(
        "sum of outcomes", False,
        f"{numerals.count(ended)} turns have an outcome, {numerals.count(started)} were started",
    )  # fmt: skip


def _rows(run: RunData, table: pd.DataFrame) -> Check:
    """Each process counts the turns that end in it, once a second, apart from its journal."""
    lost = set(run.manifest.get("lost_workers") or ())
    counted = {
        process: sum(row.get("turns", 0) for row in rows)
        for process, rows in run.health.items()
        if process != axis.MASTER and process not in lost and _whole(rows)
    }
    if not counted:
        return Check("sum of rows", True, "no process kept a count of its own")
    found = table["worker"].value_counts()
    off = [
        f"{process} {numerals.count(int(found.get(process, 0)))} of {numerals.count(number)}"
        for process, number in counted.items()
        if int(found.get(process, 0)) != number
    ]
    if off:
        return Check("sum of rows", False, f"rows are missing or too many: {', '.join(off)}")
    total = numerals.count(sum(counted.values()))
    return Check(
        "sum of rows", True, f"rows of {len(counted)} processes add up to the {total} they counted"
    )


def _under_way(run: RunData, table: pd.DataFrame) -> Check:
    """What was open at the stop has ended since, or was cut off: nothing is open at the end."""
    lost = set(run.manifest.get("lost_workers") or ())
    stopped = left = 0
    for process, rows in run.health.items():
        if process in lost or not _whole(rows):
            continue
        drained = [row for row in rows if row.get("draining")]
        before = rows[len(rows) - len(drained) - 1] if drained else rows[-1]
        stopped += before.get("in_flight", 0)
        left += rows[-1].get("in_flight", 0)
    if left:
        return Check(
            "in flight at the stop", False,
            f"{numerals.of(left, 'turn')} that were under way have no row",
        )  # fmt: skip
    cut = int((table["outcome"] == Outcome.CUT_OFF.value).sum())
    return Check(
        "in flight at the stop", True,
        f"{numerals.count(stopped)} turns were under way when the stop was asked for, all have "
        f"ended, {numerals.count(cut)} of them cut off",
    )  # fmt: skip


def _whole(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the process came to write its last row: it counts only what it was there for."""
    return bool(rows) and any(row.get("draining") for row in rows)
