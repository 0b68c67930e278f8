"""Arrival stamps: the kernel's wall-clock stamp of a segment on our monotonic clock.  Pure."""

from __future__ import annotations

_JITTER_NS = 1_000_000
"""What two readings of both clocks may differ by, by an interruption between them."""

_SLEW = 10
"""A clock is slewed by less than one part in 2**10 (NTP: 500 ppm)."""


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


def was_set(apart_ns: int, before_ns: int, passed_ns: int) -> bool:
    """Whether the wall clock was set between two reads.

    ``before_ns`` and ``apart_ns`` are the wall clock less the monotonic one at the earlier and the
    later read, ``passed_ns`` the time between.  What arrived before the setting and is read after
    it bears a stamp of the old clock.
    """
    return abs(apart_ns - before_ns) > _JITTER_NS + (passed_ns >> _SLEW)
