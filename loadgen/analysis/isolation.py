"""Answers that crossed to another analyst: whose, and to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from loadgen.analysis import numerals
from loadgen.journal import RunData
from loadgen.metrics import Row
from loadgen.turn import Cause

Json = dict[str, Any]

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Violation:
    """``turn`` got an answer with the tag of ``other``, which is empty if no turn of this run has
    that tag.
    """

    turn: str
    user: str
    tag_seen: str
    other: str
    other_user: str


def find(run: RunData, table: pd.DataFrame) -> list[Violation]:
    """All violations, in the order of the journals.  ``table`` is `frame.turns`."""
    crossed = table.loc[table["cause"] == Cause.ISOLATION.value, "row"].sort_values()
    if crossed.empty:
        return []
    by_tag = {row["tag"]: row for row in run.rows if row.get("tag")}
    return [_violation(row, by_tag) for row in run.rows_at(crossed)]


def _violation(row: Row, by_tag: Mapping[str, Row]) -> Violation:
    seen = row.get("tag_seen", "")
    other = by_tag.get(seen, {})
    return Violation(
        row["turn"], row.get("user", ""), seen, other.get("turn", ""), other.get("user", "")
    )


def reason(found: Sequence[Violation]) -> str | None:
    """Why the run fails whatever its latencies are; None: it does not."""
    if not found:
        return None
    first = found[0]
    whose = f"turn {first.other} ({first.other_user})" if first.other else "a turn of no analyst"
    return (
        f"isolation: {numerals.count(len(found))} turns got the answer of another one; "
        f"the first: turn {first.turn} ({first.user}) got that of {whose}"
    )


def as_json(found: Sequence[Violation]) -> Json:
    """As it stands in the summary; all are counted, the first ones named."""
    return {"violations": len(found), "named": [asdict(item) for item in found[:SHOWN]]}
