"""The only place that reads a clock.

Durations come from the monotonic clock, in integer nanoseconds.  The wall clock labels things.  On
Linux
``perf_counter_ns`` is CLOCK_MONOTONIC, so stamps of two processes on one host are comparable.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

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
