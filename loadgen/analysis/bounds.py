"""Asymptotic bounds of a closed system: what no number of analysts can exceed.

X <= min(N / (D + Z), 1 / Dmax) and R >= max(D, N Dmax - Z); the two meet at N* = (D + Z) / Dmax.
D is the time that a turn takes when nobody is in its way, Z what an analyst spends between turns
and at prompts, 1 / Dmax the throughput of whatever saturates first.  Source: Lazowska, Zahorjan,
Graham and Sevcik, *Quantitative System Performance* (1984), ch. 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 0.05
"""Throughput may be above its bound by this part: think times are drawn anew at each level."""

_FREE = 0.8
"""Saturated: the most analysts brought no more than this part of what they could if nobody waited.
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds, and turns a second.

    ``most`` is the highest throughput seen; ``saturated``: the most analysts brought much less than
    they could, so that it is 1 / Dmax and ``crossing`` is N*.  Else both may be higher.
    """

    demand_s: float
    think_s: float
    most: float
    saturated: bool

    @property
    def crossing(self) -> float:
        """N*: with fewer analysts nobody has to wait, with more somebody must."""
        return (self.demand_s + self.think_s) * self.most

    def throughput(self, analysts: float) -> float:
        """The most turns a second of so many analysts."""
        free = analysts / (self.demand_s + self.think_s)
        return min(free, self.most) if self.saturated else free

    def response_s(self, analysts: float) -> float:
        """The least mean response time of so many analysts."""
        waits = analysts / self.most - self.think_s if self.saturated else 0.0
        return max(self.demand_s, waits)


@dataclass(frozen=True, slots=True)
class Point:
    """What so many analysts saw: turns a second, mean response and think time in s.

    ``least_per_s`` is the lower end of the throughput's interval; 0 where it has none.
    """

    analysts: float
    per_s: float
    response_s: float
    think_s: float
    least_per_s: float = 0.0


def find(points: Sequence[Point]) -> Bounds | None:
    """The bounds from the lightest level on; None of nothing."""
    usable = sorted((p for p in points if p.per_s > 0), key=lambda point: point.analysts)
    if not usable:
        return None
    lightest = usable[0]
    most = max(point.per_s for point in usable)
    round_s = lightest.response_s + lightest.think_s
    saturated = round_s > 0 and most <= _FREE * usable[-1].analysts / round_s
    return Bounds(lightest.response_s, lightest.think_s, most, saturated)


def broken(bounds: Bounds, points: Sequence[Point]) -> list[Point]:
    """Points whose throughput lies above what is possible: we count wrongly, or think times
    changed.
    """
    free = bounds.demand_s + bounds.think_s
    return [
        point
        for point in points
        if free > 0 and point.least_per_s > (1 + TOLERANCE) * point.analysts / free
    ]
