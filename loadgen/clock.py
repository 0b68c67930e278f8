"""The only place that reads a clock.

Durations come from the monotonic clock, in integer nanoseconds.  The wall clock labels things.  On
Linux
``perf_counter_ns`` is CLOCK_MONOTONIC, so stamps of two processes on one host are comparable.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

STEP_NS = 50 * NS_PER_MS
"""What the two clocks may part by between two anchors; more means that the wall clock was set."""

_CLOSE_NS = 20_000
_TRIES = 5

now_ns = time.perf_counter_ns
"""Monotonic time in ns: every stamp and every duration."""

wall_ns = time.time_ns
"""CLOCK_REALTIME in ns: labels, and the origin of kernel arrival stamps."""

cpu_ns = time.process_time_ns
"""CPU time of this process in ns."""


def utc_text(wall: int) -> str:
    """``wall`` (ns since the epoch) as ISO 8601 in UTC with microseconds, ending in ``Z``."""
    seconds, rest = divmod(wall, NS_PER_S)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1_000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Anchor:
    """The wall clock and the monotonic one at the same instant, in ns."""

    wall_ns: int
    mono_ns: int


def anchor(wall: Callable[[], int] = wall_ns, mono: Callable[[], int] = now_ns) -> Anchor:
    """Both clocks, read together.

    A process that is interrupted between two readings would see a step that never was: the wall
    clock is read between two readings of the other, and the closest of a few tries counts.
    """
    best: tuple[int, Anchor] | None = None
    for _ in range(_TRIES):
        before, at_wall, after = mono(), wall(), mono()
        apart = after - before
        if best is None or apart < best[0]:
            best = apart, Anchor(at_wall, before + apart // 2)
        if apart < _CLOSE_NS:
            break
    assert best is not None
    return best[1]


def step_ns(earlier: Anchor, later: Anchor) -> int:
    """By how much the wall clock was set between two anchors, forward or back; 0 if it was not.

    A clock that is slewed (at most 500 ppm) is not set.
    """
    parted = (later.wall_ns - earlier.wall_ns) - (later.mono_ns - earlier.mono_ns)
    return parted if abs(parted) > STEP_NS else 0
