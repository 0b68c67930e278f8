"""Histograms of durations: small enough to travel with a heartbeat, exact at the limits that count.

Buckets grow by 2 %, so a percentile is off by at most 1 % (the idea of DDSketch: Masson et al.,
VLDB 2019).  Limits that somebody asks about are edges of buckets as well: how many values lie
within a target is counted, not estimated.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction

_LEAST_MS, _MOST_MS = 1.0, 3_600_000.0
_GROWTH = 1.02

COARSE_MS = (
    50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 20_000.0, 30_000.0, 60_000.0,
    120_000.0, 300_000.0,
)  # fmt: skip
"""Limits of the few buckets that are shown where no target says what counts."""

AROUND = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0)
"""Multiples of a target that are limits as well."""


def bounds_ms(targets_ms: Iterable[float]) -> tuple[float, ...]:
    """Ascending limits in ms of a few buckets: coarse ones, and finer around each target."""
    around = {round(target * part, 6) for target in targets_ms for part in AROUND}
    return tuple(sorted({*COARSE_MS, *around}))


class Scale:
    """The edges of the buckets, in ms; ``limits_ms`` are among them.

    Bucket ``i`` holds what is above edge ``i - 1`` and at most edge ``i``.
    """

    __slots__ = ("edges",)

    def __init__(self, limits_ms: Iterable[float] = ()) -> None:
        steps = math.ceil(math.log(_MOST_MS / _LEAST_MS) / math.log(_GROWTH))
        grid = (_LEAST_MS * _GROWTH**step for step in range(steps + 1))
        self.edges = tuple(sorted({*grid, *limits_ms}))

    def bucket(self, value_ms: float) -> int:
        """Where ``value_ms`` belongs."""
        return bisect_left(self.edges, value_ms)

    def middle_ms(self, bucket: int) -> float:
        """What stands for the values of a bucket: the geometric mean of its edges."""
        edges = self.edges
        if bucket == 0:
            return edges[0]
        if bucket >= len(edges):
            return edges[-1]
        return math.sqrt(edges[bucket - 1] * edges[bucket])


class Histogram:
    """How many values lie in each bucket of a `Scale`, with their number, sum and maximum."""

    __slots__ = ("buckets", "max_ms", "n", "scale", "sum_ms")

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.buckets: dict[int, int] = {}
        self.n = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def add(self, value_ms: float) -> None:
        """One more value."""
        bucket = self.scale.bucket(value_ms)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.n += 1
        self.sum_ms += value_ms
        self.max_ms = max(self.max_ms, value_ms)

    def merge(self, other: Histogram) -> None:
        """All values of ``other``, which has the same scale."""
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.n += other.n
        self.sum_ms += other.sum_ms
        self.max_ms = max(self.max_ms, other.max_ms)

    def subtract(self, other: Histogram) -> None:
        """Without the values of ``other``, all of which were added; ``max_ms`` stays."""
        for bucket, count in other.buckets.items():
            left = self.buckets[bucket] - count
            if left:
                self.buckets[bucket] = left
            else:
                del self.buckets[bucket]
        self.n -= other.n
        self.sum_ms -= other.sum_ms

    def copy(self) -> Histogram:
        """The same values, to be changed on their own."""
        made = Histogram(self.scale)
        made.buckets = dict(self.buckets)
        made.n, made.sum_ms, made.max_ms = self.n, self.sum_ms, self.max_ms
        return made

    def quantile(self, share: Fraction) -> float | None:
        """The ``ceil(n share)``-th smallest value, within 1 %; None without values."""
        return self.quantiles((share,))[0] if self.n else None

    def quantiles(self, shares: Sequence[Fraction]) -> list[float]:
        """Several at once, of ascending ``shares``; there must be values."""
        found: list[float] = []
        ranks = [max(1, math.ceil(self.n * share)) for share in shares]
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            while len(found) < len(ranks) and seen >= ranks[len(found)]:
                found.append(min(self.scale.middle_ms(bucket), self.max_ms))
        return found

    def at_most(self, limit_ms: float) -> int:
        """How many values are at most ``limit_ms``, one of the scale's limits."""
        last = self.scale.bucket(limit_ms)
        return sum(count for bucket, count in self.buckets.items() if bucket <= last)

    def pack(self) -> list[float]:
        """Plain numbers, to travel: sum, maximum, then bucket and count in turns."""
        flat = (number for pair in self.buckets.items() for number in pair)
        return [round(self.sum_ms, 3), round(self.max_ms, 3), *flat]

    @classmethod
    def unpack(cls, scale: Scale, packed: Sequence[float]) -> Histogram:
        """What `pack` gave in another process whose scale was made from the same limits."""
        found = cls(scale)
        found.sum_ms, found.max_ms = float(packed[0]), float(packed[1])
        for bucket, count in zip(packed[2::2], packed[3::2], strict=True):
            found.buckets[int(bucket)] = int(count)
        found.n = sum(found.buckets.values())
        return found
