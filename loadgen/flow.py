"""How an answer flowed: the gaps between its chunks, and when the bulk of it came.

Gaps are of chunks, not of tokens: a chunk may hold any number of them.  Two chunks of one read have
a gap of 0.  Gaps are counted in buckets whose width is at most 1/32 of their value (the scheme of
HdrHistogram with 5 bits), so that an answer of thousands of chunks fits into a row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from loadgen.clock import NS_PER_S

STALL_NS = NS_PER_S
"""A longer gap is a stall."""

_BITS = 5
_NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Flow:
    """Gaps in ns; ``gaps`` counts them by `bucket`.  ``twentieth_ns`` is when a twentieth of the
    text had arrived: where that is late, the answer came at the end.
    """

    longest_ns: int | None
    gaps: dict[int, int]
    stalls: int
    stalled_ns: int
    twentieth_ns: int


def flow(arrivals_ns: Sequence[int], breaks: Sequence[int], sizes: Sequence[int]) -> Flow | None:
    """The flow of chunks that arrived so, each of so many characters; None of none.

    ``breaks`` are the numbers of chunks that came first after a pause of the analyst: what is
    before them is no gap.
    """
    if not arrivals_ns:
        return None
    # Of two connections the stamps may be a little out of order.
    gaps = [max(0, after - before) for before, after in pairwise(arrivals_ns)]
    for number in reversed(breaks):
        if 0 < number <= len(gaps):
            del gaps[number - 1]
    stalls = [gap for gap in gaps if gap > STALL_NS]
    seen = list(accumulate(sizes))
    place = bisect_left(seen, seen[-1] / 20)
    return Flow(
        longest_ns=max(gaps) if gaps else None,
        gaps=dict(Counter(map(bucket, gaps))),
        stalls=len(stalls),
        stalled_ns=sum(stalls),
        twentieth_ns=arrivals_ns[place],
    )


def bucket(gap_ns: int) -> int:
    """Where a gap belongs; below 64 us each microsecond has a bucket of its own."""
    us = gap_ns // _NS_PER_US
    shift = max(0, us.bit_length() - _BITS - 1)
    return (shift << _BITS) + (us >> shift)


def edges_ms(number: int) -> tuple[float, float]:
    """From where on and up to where a bucket reaches, in ms; the end is not in it."""
    shift = max(0, (number >> _BITS) - 1)
    us = number - (shift << _BITS)
    return (us << shift) / 1000, ((us + 1) << shift) / 1000
