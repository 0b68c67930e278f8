"""Each target by the parts of the crowd: a dialect that misses it can hide behind the others.

Beside the verdict, not in it: a plan that wants every part to hold says so (``each``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from loadgen.analysis import frame, numerals, slo, target
from loadgen.analysis.verdict import Verdict
from loadgen.metrics import TITLES, Clock

Json = dict[str, Any]

MOST = 20
"""The most parts of a kind that are shown."""

_COLUMNS = (
    *target.PARTS.values(), *frame.CLOCK_COLUMNS, "elapsed_ms", "asked", "outcome", "recovered",
    "conversation_number",
)  # fmt: skip

_KEPT = ("clock", "title", "within_s", "share", "unit", "judged", "met", "attained", "low", "high")


def find(
    targets: Sequence[Mapping[str, Any]], table: pd.DataFrame, items: pd.DataFrame
) -> list[Json]:
    """A row a target and part, of targets about all turns, where there are parts."""
    # Of a million turns each copy of all columns takes a tenth of a second.
    table = table[[*_COLUMNS]]
    return [
        row
        for by in target.PARTS
        if 1 < len(named := target.names(table, by)) <= MOST
        for one in targets
        if not target.whose(one)
        for name in named
        for row in _row(one, by, name, table, items)
    ]


def sentences(rows: Sequence[Json], results: Sequence[slo.SloResult]) -> Iterator[str]:
    """Parts that miss what the whole does not."""
    held = {
        (result.clock, result.within_s)
        for result in results
        if result.verdict is not Verdict.FAIL and not (result.dialect or result.scenario)
    }
    for row in rows:
        if row["verdict"] == Verdict.FAIL and (row["clock"], row["within_s"]) in held:
            yield (
                f"{row['title']} within {numerals.seconds(row['within_s'])}: {row['by']} "
                f"{row['name']} alone misses it, {numerals.share(row['attained'], row['share'])} "
                f"of {numerals.count(row['judged'])} {row['unit']}"
            )


def _row(
    one: Mapping[str, Any], by: str, name: str, table: pd.DataFrame, items: pd.DataFrame
) -> Iterator[Json]:
    found = slo.judge({**one, by: name}, table, items)
    if found.judged:
        told = {key: getattr(found, key) for key in _KEPT}
        whole = {"title": TITLES[Clock(one["clock"])], "by": by, "name": name}
        yield told | whole | {"verdict": found.verdict.value}
