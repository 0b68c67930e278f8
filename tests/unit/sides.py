"""Sides of a comparison made from a seed: no run folder, only what a comparison looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadgen.analysis.evidence import Evidence, Vector

FACTS: dict[str, Any] = {
    "host": {"hostname": "bench", "cpus": 2},
    "plan": {"hash": "0123456789", "name": "analysts"},
    "load": {"model": "closed", "users": 180, "spawn_rate": 25, "run_time_s": 60},
    "dialects": {"nat-sse": 200, "nat-ws": 100},
    "transport": {"schemes": ["http"], "routes": ["/v1/chat/stream"], "stamps": "kernel"},
    "versions": {"loadgen": "0.1.0"},
}


def lognormal(
    seed: int, turns: int = 300, sigma: float = 0.3, median_ms: float = 4000.0
) -> NDArray[np.float64]:
    """Times in ms."""
    return median_ms * np.random.default_rng(seed).lognormal(0, sigma, turns)


def side(
    run: str = "base",
    clocks: Mapping[str, NDArray[np.float64]] | None = None,
    failed: int = 0,
    judged: int = 300,
    facts: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Evidence:
    """A closed run of independent turns; ``facts`` replace those of the same name."""
    vectors = {
        clock: Vector(values, np.arange(values.size)) for clock, values in (clocks or {}).items()
    }
    made = Evidence(
        run=run, started_at="2026-09-21T14:13:20Z", verdict="PASS", reasons=(), unfinished=False,
        closed=True, facts=FACTS | dict(facts or {}), clocks=vectors, judged=judged, failed=failed,
    )  # fmt: skip
    return replace(made, **changes)


def timed(
    run: str, seed: int, turns: int = 300, sigma: float = 0.3, times: float = 1.0
) -> Evidence:
    """A side whose first answers are lognormal, ``times`` as slow."""
    return side(run, {"ttfa": times * lognormal(seed, turns, sigma)}, judged=turns)
