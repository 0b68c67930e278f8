"""How many deployments like the measured one it takes, and what would change that.

Replicas are taken to be independent of each other behind a balancer: nothing that they share (a
model endpoint, a database, a licence) was tried with more than one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.analysis.usl import FARTHEST, Usl

THINK_FACTORS = (0.5, 1.0, 2.0)
SLO_FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
PROMPT_SHARES = (0.0, 0.1, 0.2, 0.4)


@dataclass(frozen=True, slots=True)
class Size:
    """So many replicas with so much load each.

    ``per_s`` is the throughput that the fitted law gives a replica, None where it says nothing.
    ``headroom``: how much more load they take, as a share of what is needed; negative: too few.
    """

    replicas: int
    each: float
    per_s: float | None
    headroom: float
    cost: float | None


@dataclass(frozen=True, slots=True)
class Sizing:
    """For ``need`` of the unit: ``replicas`` of what was measured to hold ``proven`` each.

    ``at_best``: enough if a replica holds just less than the lowest level that failed; None where
    none did.
    """

    need: float
    proven: float
    replicas: int
    at_best: int | None
    table: tuple[Size, ...]


def size(
    need: float,
    proven: float,
    failed: float | None,
    law: Usl | None = None,
    tested: float = 0.0,
    cost: float | None = None,
) -> Sizing:
    """Replicas for ``need`` where one held ``proven`` and not ``failed``; both above 0."""
    replicas = math.ceil(need / proven - 1e-9)
    at_best = None if failed is None else math.ceil(need / failed + 1e-9)
    around = sorted({max(1, replicas + more) for more in (-1, 0, 1, 2)})

    def row(number: int) -> Size:
        each = need / number
        known = law is not None and each <= FARTHEST * tested
        return Size(
            number,
            each,
            law(each) if law is not None and known else None,
            number * proven / need - 1,
            None if cost is None else number * cost,
        )

    return Sizing(need, proven, replicas, at_best, tuple(map(row, around)))


@dataclass(frozen=True, slots=True)
class Limit:
    """A deployment at the largest level that met its targets; means in s, per turn.

    ``busy_s`` is how long a turn keeps its place, pauses of its analyst included; None where turns
    do not queue for one, so that a pause costs nothing.  ``pause_s`` is one pause.
    """

    per_s: float
    response_s: float
    human_s: float
    think_s: float
    prompt_share: float
    pause_s: float
    busy_s: float | None = None

    def analysts(self) -> float:
        """Whom the throughput serves: N = X (R + Z) (Lazowska et al. 1984, ch. 3)."""
        return self.per_s * (self.response_s + self.human_s + self.think_s)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change, the value it is changed to, and the analysts that would then be served."""

    what: str
    value: float
    analysts: float


def other_think(limit: Limit) -> list[WhatIf]:
    """Analysts that think longer or shorter, at the same throughput."""
    return [
        WhatIf(
            "think time",
            limit.think_s * factor,
            limit.per_s * (limit.response_s + limit.human_s + limit.think_s * factor),
        )
        for factor in THINK_FACTORS
    ]


def other_prompts(limit: Limit, shares: Sequence[float] = PROMPT_SHARES) -> list[WhatIf]:
    """More or fewer turns that ask their analyst something; a turn that waits keeps its place."""
    found = []
    for share in shares:
        more_s = (share - limit.prompt_share) * limit.pause_s
        per_s = limit.per_s
        if limit.busy_s is not None:
            per_s *= limit.busy_s / max(limit.busy_s + more_s, 1e-9)
        stay_s = limit.response_s + max(0.0, limit.human_s + more_s) + limit.think_s
        found.append(WhatIf("prompt share", share, per_s * stay_s))
    return found
