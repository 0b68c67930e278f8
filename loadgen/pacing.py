"""Who starts when: pure functions of a seed, in ns after the start of the arrivals.

A Poisson process of a changing rate is made by inverting its integrated rate at the points of a
unit process: with a steady rate the gaps are -ln(U)/rate, and nothing is rescaled to hit a count.
Each of k workers runs rate/k from a stream of its own (`numpy.random.SeedSequence.spawn`); the
superposition of k Poisson processes is a Poisson process.  Sources: Cinlar, *Introduction to
Stochastic Processes* (1975), ch. 4 (inversion); method of the MLPerf LoadGen (fixed seeds).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, count, pairwise, repeat
from typing import Any, Literal

from loadgen.clock import NS_PER_S
from loadgen.load import Load

_BLOCK = 512
_TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """The ``number``-th (from 0) of ``of`` processes that carry a load together."""

    number: int = 0
    of: int = 1


@dataclass(frozen=True)
class Profile:
    """A level over time: straight lines between ``points`` of (seconds, level).

    Two points at one time are a step.  ``endless``: the last level stays for ever; else the
    profile ends with its last point.
    """

    points: tuple[tuple[float, float], ...]
    endless: bool = False

    @property
    def ends_s(self) -> float | None:
        """When it ends; None: never."""
        return None if self.endless else self.points[-1][0]

    @property
    def peak(self) -> float:
        """The highest level."""
        return max(level for _, level in self.points)

    def level(self, at_s: float) -> float:
        """The level at ``at_s``; at a step the one behind it."""
        before = self.points[0][1]
        for (begin, low), (end, high) in pairwise(self.points):
            if begin <= at_s < end:
                return low + (high - low) * (at_s - begin) / (end - begin)
            before = high if end <= at_s else before
        return before

    def when(self, area: float) -> float | None:
        """When the integral of the level passes ``area``, in s; None if it never does."""
        for index, reached in enumerate(self._areas[1:]):
            if area < reached:
                return self._within(index, area - self._areas[index])
        (end, level), beyond = self.points[-1], area - self._areas[-1]
        return end + beyond / level if self.endless and level > 0 else None

    def _within(self, index: int, area: float) -> float:
        """Solve low x + slope x^2 / 2 = area; in this form a slope of 0 is no special case."""
        (begin, low), (end, high) = self.points[index], self.points[index + 1]
        slope = (high - low) / (end - begin)
        if area <= 0:
            return begin
        return begin + 2 * area / (low + math.sqrt(max(0.0, low * low + 2 * slope * area)))

    @cached_property
    def _areas(self) -> list[float]:
        pieces = ((y - x) * (low + high) / 2 for (x, low), (y, high) in pairwise(self.points))
        return list(accumulate(pieces, initial=0.0))


def profile_of(load: Load) -> Profile:
    """What ``load`` says: analysts over time in the closed model, arrivals a second else."""
    begin = load.rate or 0.0
    if not load.stages:
        return Profile(((0.0, begin),), endless=True)
    points, at_s = [(0.0, begin)], 0.0
    for stage in load.stages:
        at_s += stage.over_s
        points.append((at_s, stage.to))
    return Profile(tuple(points))


def users_wanted(profile: Profile, at_s: float, run_time_s: float | None = None) -> int | None:
    """Users of a staged crowd for the second from ``at_s`` on; None at its end, which is that of
    the profile or of ``run_time_s``.

    Locust asks once a second and spawns in one go, so the level is that of the second's end.
    """
    ends_s = min(profile.ends_s or math.inf, run_time_s or math.inf)
    if at_s >= ends_s:
        return None
    level = profile.level(min(at_s + _TICK_S, ends_s))
    return math.ceil(round(level, 6))


def arrivals(
    profile: Profile, process: Literal["poisson", "constant"], part: Part, seed: int
) -> Iterator[int]:
    """Ascending offsets in ns at which this part's arrivals are due.

    ``constant``: the n-th arrival of all parts comes when the integrated rate has reached n, the
    first one at once; each part has every k-th of them.
    """
    if process == "constant":
        areas: Iterable[float] = map(float, count(part.number, part.of))
    else:
        areas = accumulate(gap * part.of for gap in _exponentials(seed, part))
    for area in areas:
        at_s = profile.when(area)
        if at_s is None:
            return
        yield round(at_s * NS_PER_S)


def lengths(kind: Literal["fixed", "geometric"], mean: int, part: Part, seed: int) -> Iterator[int]:
    """Turns of each conversation: always ``mean``, or geometric on 1, 2, ... with that mean."""
    if kind == "fixed" or mean == 1:
        yield from repeat(mean)
    generator = _generator(seed, part, 1)
    while True:
        yield from map(int, generator.geometric(1 / mean, _BLOCK))


def _exponentials(seed: int, part: Part) -> Iterator[float]:
    generator = _generator(seed, part, 0)
    while True:
        yield from map(float, generator.standard_exponential(_BLOCK))


def _generator(seed: int, part: Part, use: int) -> Any:
    """The stream of ``part`` for one ``use``: the same for the same seed and number of parts."""
    # Only the models that need it pay for numpy: 0.1 s and 25 MB in each process.
    from numpy.random import SeedSequence, default_rng

    own = SeedSequence(seed % 2**64).spawn(part.of)[part.number]
    return default_rng(own.spawn(use + 1)[use])
