"""One time axis for all processes of a run.

Stamps of a process are on its own monotonic clock.  Where the master measured how far a worker's
clock is from its own (`offset_ns`, known to `offset_error_ns`), that places them; else the worker's
first pair of wall and monotonic clock does.  The first, so that a wall clock that is set later
moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.journal import RunData

MASTER = "master"
_WANTED_NS = NS_PER_S // 2
"""An offset that is known no better than half a bin of the charts places nothing."""


def offsets(run: RunData) -> dict[str, int]:
    """Wall minus monotonic clock in ns, by worker."""
    found = {}
    for worker in run.manifest.get("workers") or ():
        if "anchor_wall_ns" in worker and "anchor_mono_ns" in worker:
            found[worker["worker"]] = worker["anchor_wall_ns"] - worker["anchor_mono_ns"]
    for process, rows in run.health.items():
        found[process] = rows[0]["wall_ns"] - rows[0]["mono_ns"]
    if MASTER in found:
        for worker in run.manifest.get("workers") or ():
            if _is_known(worker):
                found[worker["worker"]] = found[MASTER] - worker["offset_ns"]
    return found


def origin_ns(run: RunData) -> float:
    """The run's start on the wall clock, NaN if the manifest does not tell."""
    return parse_ns(run.manifest.get("started_at", ""))


def parse_ns(text: str) -> float:
    """An ISO 8601 time as ns since the epoch, NaN if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp() * 1000 * NS_PER_MS
    except ValueError:
        return float("nan")


def _is_known(worker: Mapping[str, Any]) -> bool:
    return "offset_ns" in worker and worker.get("offset_error_ns", _WANTED_NS) < _WANTED_NS
