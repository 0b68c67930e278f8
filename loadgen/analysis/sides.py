"""An A/B run: baseline and candidate under one load, each turn a record of one side.

What concerns the generator is judged on all turns; targets on those of the candidate, since the
baseline is not what is in question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from loadgen.analysis.evidence import Evidence, gather
from loadgen.errors import RunError
from loadgen.journal import RunData
from loadgen.side import Side


def has_two(manifest: Mapping[str, Any]) -> bool:
    """Whether it is the manifest of an A/B run."""
    return bool(manifest.get("sides"))


def judged(table: pd.DataFrame, items: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What targets are judged on, of `frame.turns` and `frame.happened`: all, or in an A/B run what
    is not the baseline's.
    """
    base = table["side"] == Side.BASE.value
    if not base.any():
        return table, items
    return table[~base], items[~items["turn"].isin(table.loc[base, "turn"])]


def notes(manifest: Mapping[str, Any]) -> list[str]:
    """What a reader of an A/B run's figures has to know."""
    if not has_two(manifest):
        return []
    return [
        "an A/B run: clocks and outcomes are of both sides together, targets of the candidate alone"
    ]


def evidence(run: RunData, summary: Mapping[str, Any], side: Side) -> Evidence:
    """One side of ``run``, of which ``summary`` is the judgement: INVALID concerns both."""
    target = run.manifest["sides"][side.value]
    part = replace(
        run,
        rows=[row for row in run.rows if row.get("side") == side.value],
        manifest=run.manifest | {"target": target},
    )
    found = gather(part, summary)
    return replace(found, run=f"{side.value} ({target['host']})", one_run=True)


def refuse_two(run: RunData) -> None:
    """Where one run stands for one target.

    :raises RunError: it is an A/B run.
    """
    if has_two(run.manifest):
        raise RunError(
            f"{run.folder.name} is an A/B run: its two sides are compared by: "
            f"loadgen gate {run.folder.name}"
        )
