"""How far our clocks are from the truth: records of a run against the mock agent's own log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.journal import read_run
from tests.bench.contender import CONTENDERS, plan_file
from tests.bench.machine import Pins
from tests.bench.meter import Order
from tests.bench.process import BenchFailure, measured, serving, truth
from tests.bench.reading import Spread, instant, run_folder, spread

WANTED_P99_MS = 1.0

_CLOCKS = {"ttfp": "first_progress", "ttfa": "first_answer", "ttc": "ended"}
_DIALECTS = ("nat-sse", "nat-ws")
_THINK = "{ median = 1.0, sigma = 0.6, max = 5.0 }"
"""Spreads the starts of the turns, and with them the phases of the streams."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run; times in seconds."""

    analysts: int
    tokens: int
    token_ms: int
    warm_s: float
    window_s: float


@dataclass(frozen=True, slots=True)
class ClockError:
    """Client's instant of a milestone against the server's, for the turns of one dialect."""

    dialect: str
    clock: str
    error: Spread


@dataclass(frozen=True, slots=True)
class Accuracy:
    """``kernel``: share of turns stamped by the kernel throughout; ``merged``: share of the reads
    that held more than one event; ``bad``: turns that did not complete.
    """

    scale: Scale
    turns: int
    bad: int
    kernel: float
    merged: float
    clocks: tuple[ClockError, ...]


def measure(scale: Scale, pins: Pins, folder: Path) -> Accuracy:
    """Run both dialects at once against the bundled mock agent."""
    question = (
        f"accuracy first_ms=200 steps=2 step_ms=200 think_ms=200"
        f" tokens={scale.tokens} token_ms={scale.token_ms}"
    )
    plan = plan_file(folder, _DIALECTS, question, _THINK)
    with serving("mockagent", pins) as url:
        rate = 1000 / scale.token_ms
        order = Order(url, "", scale.analysts, 0, rate, scale.warm_s, scale.window_s, str(plan))
        taken, work = measured(CONTENDERS["ours-sse"].command, order, pins, folder)
        truths = truth(url)
    rows = [row for row in read_run(run_folder(work)).rows if row["turn"] in truths]
    settled = [row for row in rows if row["started_mono_ns"] >= taken["from_ns"]]
    if not settled:
        raise BenchFailure("no turn began and ended in the window")
    reads: Counter[str] = Counter()
    for row in settled:
        reads.update({name: row.get(name, 0) for name in ("reads", "merged_reads")})
    return Accuracy(
        scale=scale,
        turns=len(settled),
        bad=sum(row["outcome"] != "completed" for row in settled),
        kernel=sum(row["stamp"] == "kernel" for row in settled) / len(settled),
        merged=reads["merged_reads"] / max(1, reads["reads"]),
        clocks=tuple(
            ClockError(dialect, clock, _error(settled, truths, dialect, milestone))
            for dialect in _DIALECTS
            for clock, milestone in _CLOCKS.items()
        ),
    )


def _error(
    rows: list[dict[str, Any]],
    truths: Mapping[str, Mapping[str, Any]],
    dialect: str,
    milestone: str,
) -> Spread:
    return spread(
        [
            instant(row, milestone) - truths[row["turn"]][f"{milestone}_ns"]
            for row in rows
            if row["dialect"] == dialect and row["outcome"] == "completed"
        ]
    )
