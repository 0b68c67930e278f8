"""The difference of two shares, and whether it is settled.

Newcombe's interval from two Wilson intervals (*Statistics in Medicine* 17, 1998, method 10): it
holds with few turns and with no failure at all, where the usual one has no width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import norm

from loadgen.analysis.shift import Z_95

_FARTHEST = 1 << 30
_STEPS = 60


@dataclass(frozen=True, slots=True)
class Difference:
    """``value`` = share of new - share of base, with its interval."""

    value: float
    low: float
    high: float


def difference(
    base: tuple[float, float], new: tuple[float, float], z: float = Z_95, inflation: float = 1.0
) -> Difference:
    """The difference between ``(part, whole)`` of two sides; both wholes above 0.

    ``inflation``: see `shift.design_effect`; it takes turns away.
    """
    p, whole_p = new[0] / new[1], new[1] / inflation
    q, whole_q = base[0] / base[1], base[1] / inflation
    (low_p, high_p), (low_q, high_q) = score(p, whole_p, z), score(q, whole_q, z)
    return Difference(
        p - q,
        p - q - math.hypot(p - low_p, high_q - q),
        p - q + math.hypot(high_p - p, q - low_q),
    )


def score(rate: float, whole: float, z: float) -> tuple[float, float]:
    """Wilson's score interval of ``rate`` of ``whole``."""
    middle = (rate + z * z / (2 * whole)) / (1 + z * z / whole)
    reach = z * math.sqrt(rate * (1 - rate) / whole + z * z / (4 * whole**2)) / (1 + z * z / whole)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def p_above(base: tuple[float, float], new: tuple[float, float], limit: float) -> float:
    """One-sided p of "the difference is at most ``limit``": the tail at which the interval's lower
    end would lie on it.
    """
    if difference(base, new).value <= limit:
        return 1.0
    near, far = 0.0, 40.0
    for _ in range(_STEPS):
        z = (near + far) / 2
        near, far = (z, far) if difference(base, new, z).low > limit else (near, z)
    return float(norm.sf(near))


def turns_needed(base: tuple[float, float], new: tuple[float, float], limit: float) -> int | None:
    """Turns a side with which the same shares would lie on one side of ``limit``; None where they
    are too near to it.
    """
    p, q = new[0] / new[1], base[0] / base[1]

    def settled(turns: int) -> bool:
        found = difference((q * turns, turns), (p * turns, turns))
        return found.low > limit or found.high < limit

    if not settled(_FARTHEST):
        return None
    too_few, enough = 0, _FARTHEST
    while enough - too_few > 1:
        turns = (too_few + enough) // 2
        too_few, enough = (too_few, turns) if settled(turns) else (turns, enough)
    return enough
