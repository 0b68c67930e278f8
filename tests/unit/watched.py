"""Rows, tallies and figures of runs that never were."""

from __future__ import annotations

import dataclasses
from typing import Any

from loadgen.fitness import fitness
from loadgen.live import Figures, Measures, Tally, measures_of
from loadgen.phase import Standing
from loadgen.plan import parse_plan

RAW: dict[str, Any] = {
    "questions": {"texts": ["?"]},
    "analysts": [{"name": "browser", "dialect": "nat-sse", "weight": 1}],
    "slo": [
        {"clock": "ttfv", "within_s": 2.0, "share": 0.95},
        {"clock": "resume", "within_s": 1.0},
        {"clock": "ttfv", "within_s": 1.0, "each": "group"},
        {"clock": "ttc", "within_s": 9.0, "dialect": "nat-sse"},
    ],
}
CLOSED = measures_of(parse_plan(RAW, "plan"))
OPEN = measures_of(parse_plan({**RAW, "load": {"model": "open", "rate": 5.0}}, "plan"))


def row(progress_ms: float | None = 700.0, ended_ms: float = 6_000.0, **more: Any) -> Any:
    found = {"outcome": "completed", "started_mono_ns": 5, "first_answer_ms": 4_000.0} | more
    if progress_ms is not None:
        found["first_progress_ms"] = progress_ms
    return found | {"ended_ms": ended_ms}


def tally(*rows: Any, measures: Measures = CLOSED) -> Tally:
    found = Tally()
    for each in rows:
        found.add(each, measures)
    return found


LOST = {"losses": [{"lost_ms": 900.0, "during": "turn", "recovered_ms": 1_400.0}]}


def health(n: int, lag_ms: float = 1.0, cpu: float = 0.3, **more: Any) -> dict[str, Any]:
    return {"n": n, "lags_ms": [lag_ms] * 20, "cpu": cpu, **more}


def figures(**changed: Any) -> Figures:
    whole = tally(*[row()] * 97, *[row(outcome="failed", cause="agent_error")] * 3)
    base = Figures(
        run="r", elapsed_s=75.2, left_s=3_600.0, draining=False, over=False,
        analysts=60, wanted=180,
        standing={**dict.fromkeys(Standing, 0), Standing.WORKING: 40, Standing.HUMAN: 2},
        recent=tally(row()), whole=whole, fitness=fitness({"local": [health(9)]}, 25.0),
        measures=CLOSED,
    )  # fmt: skip
    return dataclasses.replace(base, **changed)
