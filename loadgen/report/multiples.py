"""The same small chart for each dialect and each group of analysts, on one axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from loadgen.analysis import frame
from loadgen.report import distribution
from loadgen.report.charts import Chart

MOST = 12
"""Charts of one kind; the table has all."""


def multiples(table: pd.DataFrame, summary: Mapping[str, Any], kind: str) -> list[Chart]:
    """Of `kind`, ``dialects`` or ``groups`` of the summary; none when there is only one, which the
    large chart shows already.
    """
    found = summary[kind]
    axis = distribution.span(table, summary)
    if len(found) < 2 or axis is None:
        return []
    narrow = table[["outcome", "recovered", *frame.CLOCK_COLUMNS]]
    column = {"dialects": "dialect", "groups": "group"}[kind]
    return [
        distribution.small(
            f"{kind}-{number}", name or "no name", narrow[table[column] == name], group["metrics"],
            summary, axis, _part(kind, name),
        )
        for number, (name, group) in enumerate(list(found.items())[:MOST], 1)
    ]  # fmt: skip


def _part(kind: str, name: str) -> dict[str, str]:
    """Which targets are about these turns; a group's name has its scenario before it."""
    if kind == "dialects":
        return {"dialect": name}
    scenario, _, group = name.rpartition(" / ")
    return {"scenario": scenario or name, "group": group}
