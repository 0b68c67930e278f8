"""Arrival stamps: the kernel's wall-clock stamp of a segment on our monotonic clock.  Pure."""

from __future__ import annotations


def arrival_ns(stamp_ns: int, earlier_ns: int, wall: int, now: int) -> int | None:
    """When a segment arrived, in monotonic ns; None if its stamp cannot be trusted.

    ``stamp_ns`` is the kernel's stamp and ``earlier_ns`` that of the read before (0: none), both
    on the wall clock; ``wall`` and ``now`` are that clock and the monotonic one after the read.
    Read ``wall`` first: what passes between the two then makes the arrival later, never earlier
    than what caused it.  A stamp in the future, or older than the one before, means that the wall
    clock was set in between.
    """
    if not earlier_ns <= stamp_ns <= wall:
        return None
    return now - (wall - stamp_ns)
