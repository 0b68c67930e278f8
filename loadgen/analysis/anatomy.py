"""Where the time of turns went: the mean of each stage, human pauses among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loadgen.analysis.phases import Phase, phases
from loadgen.metrics import Row

STAGES = {
    Phase.SETUP: "setup",
    Phase.PREPARING: "setup",
    Phase.CONNECTING: "setup",
    Phase.AUTHENTICATING: "setup",
    Phase.LOST: "setup",
    Phase.QUEUEING: "queueing",
    Phase.WORKING: "work",
    Phase.ANSWERING: "answer",
    Phase.HUMAN: "human",
}
"""What each phase counts as: getting there, waiting for the first step, steps, answer, pauses."""

ORDER = ("setup", "queueing", "work", "answer", "human")


def stages(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Mean ms of a turn in each stage, and its share of the whole; None of no turns."""
    spent = dict.fromkeys(ORDER, 0.0)
    number = 0
    for row in rows:
        spans = phases(row)
        number += bool(spans)
        for span in spans:
            spent[STAGES[span.phase]] += span.end_ms - span.begin_ms
    total = sum(spent.values())
    if not total:
        return None
    return {
        "turns": number,
        "mean_ms": {name: round(value / number, 3) for name, value in spent.items()},
        "share": {name: round(value / total, 5) for name, value in spent.items()},
    }
