"""Turns of a run for other tools: the journal's facts with the derived durations beside them."""

from __future__ import annotations

from typing import IO

import orjson

from loadgen.analysis.frame import CLOCK_COLUMNS, LABELS, derived, turns
from loadgen.journal import RunData


def write_csv(run: RunData, stream: IO[bytes]) -> None:
    """One line a turn: labels, durations in ms, what happened inside; an empty cell is missing."""
    table = turns(run)
    table = table[[*LABELS, *CLOCK_COLUMNS, "elapsed_ms", "recovered", "prompts", "losses"]]
    stream.write(table.round(6).to_csv(index=False, lineterminator="\n").encode())


def write_jsonl(run: RunData, stream: IO[bytes]) -> None:
    """Each journal row with its derived durations in ms; an absent key did not happen."""
    for row in run.rows:
        stream.write(orjson.dumps(row | derived(row), option=orjson.OPT_APPEND_NEWLINE))
