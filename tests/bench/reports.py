"""How long a report and a gate over many turns take, and how much memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench import bulk
from tests.bench.process import BenchFailure

WANTED_S, WANTED_GIB, WANTED_MB = 30.0, 3.0, 6.0
"""Of a report over a million turns: time, resident memory, size of the page."""

_BASE_TURNS = 10_000
_FINE = (0, 3, 4, 6)
"""Exit codes of a gate that came to an answer."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One command: ``wall_s``, ``cpu_s`` of all its processors, ``gib`` of resident memory."""

    wall_s: float
    cpu_s: float
    gib: float


@dataclass(frozen=True, slots=True)
class Step:
    """A run of ``turns``; ``html_mb`` is the size of its page."""

    turns: int
    report: Cost
    gate: Cost
    html_mb: float


def measure(sizes: tuple[int, ...], folder: Path, say: Callable[[str], None]) -> tuple[Step, ...]:
    """Report and gate, against a blessed run of 10,000 turns, over generated runs."""
    results = folder / "bulk"
    base = bulk.make(results / "20260921T000000Z-base", _BASE_TURNS, seed=2)
    _timed("bless", base, "--name", "bench", "--results", str(results))
    return tuple(_step(turns, results, say) for turns in sizes)


def _step(turns: int, results: Path, say: Callable[[str], None]) -> Step:
    say(f"reports: a run of {turns:,} turns")
    run = bulk.make(results / f"20260922T000000Z-{turns}", turns, slower=1.2)
    report = _timed("report", run)
    size = (run / "report.html").stat().st_size / 1e6
    options = ("--baseline", "bench", "--results", str(results), "--allow", "load")
    gate = _timed("gate", run, *options, "--out", str(run))
    if not (run / "comparison.json").exists():
        raise BenchFailure(f"gate of {turns:,} turns made no comparison")
    shutil.rmtree(run)
    return Step(turns, report, gate, size)


def _timed(verb: str, run: Path, *options: str) -> Cost:
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "loadgen", verb, str(run), *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode not in _FINE:
        raise BenchFailure(f"loadgen {verb} exited with {process.returncode}: {said.strip()}")
    return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20)
