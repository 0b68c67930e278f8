"""The search for the largest level that meets its targets: which level comes next, and when to end.

A pure function of what was seen so far, so that an interrupted search goes on where it was: double
from the start until a level fails (or halve until one passes), bisect until the gap is 5 % or one
analyst, measure the lowest level that failed once more (a machine that stalled for a moment fails
any level), then try twice of what passed, which tells what happens at twice the load and finds out
a level that passes above one that failed.  A level that stays INCONCLUSIVE leads to the side on
which its share of good turns lies; only levels that PASS are answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from loadgen.analysis.verdict import Verdict

EXTENSIONS = 3
"""How often a level that settles nothing is given as much time again."""

_NEAR = 0.9
"""A level above this part of twice the answer tells what happens at twice the load."""


class End(StrEnum):
    """Why a search is over."""

    FOUND = "found"
    AT_MOST = "passed at the upper bound"
    BELOW = "failed at the lower bound"
    SWEPT = "all levels were measured"
    INVALID = "a level is INVALID"
    DIED = "the target no longer answers"
    TIME = "the time is used up"
    STOPPED = "it was stopped"


@dataclass(frozen=True, slots=True)
class Scheme:
    """What is searched: analysts, or conversations a minute.

    ``step``: the finest difference; ``precision``: the gap at the end as a part of the level.
    ``levels``: measure these and no others.  ``budget_s`` None: as long as it takes.
    """

    start: float = 10
    least: float = 1
    most: float = 1000
    precision: float = 0.05
    step: float = 1
    levels: tuple[float, ...] = ()
    confirm: bool = True
    twice: bool = True
    budget_s: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A level and what became of it.

    ``leans``: as far as it goes, the targets were met.  ``dead``: not one turn completed.
    """

    level: float
    verdict: Verdict
    leans: bool = False
    dead: bool = False

    @property
    def good(self) -> bool:
        """The side of the search on which it lies."""
        if self.verdict is Verdict.INCONCLUSIVE:
            return self.leans
        return self.verdict is Verdict.PASS


@dataclass(frozen=True, slots=True)
class Try:
    """Measure this level next."""

    level: float


@dataclass(frozen=True, slots=True)
class Over:
    """The search has ended."""

    end: End


@dataclass(frozen=True, slots=True)
class Bracket:
    """``low`` met its targets (None: no level did), ``high`` is the lowest that did not.

    ``proven`` is the largest PASS up to ``low``; ``odd`` are levels that passed above ``high``.
    """

    low: float | None
    high: float | None
    proven: float | None
    odd: tuple[float, ...]


def next_step(scheme: Scheme, seen: Sequence[Seen], spent_s: float = 0.0) -> Try | Over:
    """What comes after ``seen``, in the order in which it was measured."""
    if seen and seen[-1].verdict is Verdict.INVALID:
        return Over(End.INVALID)
    if seen and seen[-1].dead and any(not one.dead for one in seen):
        return Over(End.DIED)
    if scheme.budget_s is not None and spent_s >= scheme.budget_s:
        return Over(End.TIME)
    if scheme.levels:
        left = [level for level in scheme.levels if level not in {one.level for one in seen}]
        return Try(left[0]) if left else Over(End.SWEPT)
    return _searched(scheme, seen)


def bracket(seen: Sequence[Seen]) -> Bracket:
    """Between which levels the answer lies; a level that was repeated counts as it was last."""
    last = {one.level: one for one in seen if one.verdict is not Verdict.INVALID}
    high = min((one.level for one in last.values() if not one.good), default=None)
    below = [one for one in last.values() if one.good and (high is None or one.level < high)]
    passed = [one.level for one in below if one.verdict is Verdict.PASS]
    odd = [
        one.level
        for one in last.values()
        if high is not None and one.level > high and one.verdict is Verdict.PASS
    ]
    low = max((one.level for one in below), default=None)
    return Bracket(low, high, max(passed, default=None), tuple(sorted(odd)))


def gap(scheme: Scheme, low: float) -> float:
    """How far apart the two sides may be at the end."""
    return max(scheme.step, scheme.precision * low)


def _searched(scheme: Scheme, seen: Sequence[Seen]) -> Try | Over:
    if not seen:
        return Try(min(max(scheme.start, scheme.least), scheme.most))
    found = bracket(seen)
    low, high = found.low, found.high
    if low is None:
        assert high is not None
        if high <= scheme.least:
            return Over(End.BELOW)
        return Try(max(scheme.least, _rounded(scheme, high / 2)))
    if high is None:
        return Over(End.AT_MOST) if low >= scheme.most else Try(min(scheme.most, 2 * low))
    if high - low > gap(scheme, low) + 1e-9:
        middle = (low + high) / 2
        rounded = _rounded(scheme, middle)
        return Try(rounded if rounded > low else middle)
    if scheme.confirm and sum(one.level == high for one in seen) == 1:
        return Try(high)
    beyond = min(scheme.most, 2 * low)
    if scheme.twice and max(one.level for one in seen) < _NEAR * beyond:
        return Try(beyond)
    return Over(End.FOUND)


def _rounded(scheme: Scheme, level: float) -> float:
    """Down to whole steps."""
    return math.floor(level / scheme.step + 1e-9) * scheme.step
