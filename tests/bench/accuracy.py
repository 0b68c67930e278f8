"""How far our clocks are from the truth: records of a run against the mock agent's own log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from loadgen.analysis.truth import Spread, errors
from loadgen.journal import read_run
from tests.bench.contender import CONTENDERS, plan_file
from tests.bench.machine import Pins
from tests.bench.meter import Order
from tests.bench.process import BenchFailure, measured, serving, truth
from tests.bench.reading import run_folder

WANTED_P99_MS = 1.0

_DIALECTS = ("nat-sse", "nat-ws")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run; times in seconds.

    ``think_s`` is the median of a lognormal: it spreads the starts of the turns, and with them the
    phases of the streams.
    """

    analysts: int
    tokens: int
    token_ms: int
    warm_s: float
    window_s: float
    think_s: float = 1.0
    dialects: tuple[str, ...] = _DIALECTS


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
    """Run the dialects at once against the bundled mock agent."""
    question = (
        f"accuracy first_ms=200 steps=2 step_ms=200 think_ms=200"
        f" tokens={scale.tokens} token_ms={scale.token_ms}"
    )
    think = f"{{ median = {scale.think_s}, sigma = 0.6, max = {5 * scale.think_s} }}"
    plan = plan_file(folder, scale.dialects, question, think)
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
            ClockError(dialect, clock, error)
            for dialect in scale.dialects
            for clock, error in errors(
                [row for row in settled if row["dialect"] == dialect], truths
            ).items()
        ),
    )
