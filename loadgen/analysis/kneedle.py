"""Where a curve bends: the knee, or none.

On both axes scaled to 0..1 the knee is where the curve is farthest from its chord.  Source:
Satopaa, Albrecht, Irwin and Raghavan, *Finding a "Kneedle" in a haystack* (ICDCS workshops 2011),
offline and without smoothing; a distance below `LEAST` is taken for a straight line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

LEAST = 0.2
LEAST_POINTS = 4
_FALL = 0.05
"""A curve that grows may fall by this part of its range and still count as growing."""


@dataclass(frozen=True, slots=True)
class Knee:
    """The point of the curve, and its distance from the chord on axes scaled to 1."""

    x: float
    y: float
    distance: float


def knee(x: ArrayLike, y: ArrayLike, *, concave: bool) -> Knee | None:
    """The knee of a growing curve over ascending ``x``; None where it has none.

    ``concave``: it grows ever slower (throughput); else ever faster (a latency).  What lies behind
    the peak of a concave curve is left out: there it falls, which is not a bend.
    """
    at, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if concave and values.size:
        grown = values >= values.max() - _FALL * np.ptp(values)
        end = int(np.flatnonzero(grown)[-1]) + 1
        at, values = at[:end], values[:end]
    if at.size < LEAST_POINTS or not np.ptp(at) or not np.ptp(values):
        return None
    along = (at - at.min()) / np.ptp(at)
    up = (values - values.min()) / np.ptp(values)
    distance = up - along if concave else along - up
    place = int(distance.argmax())
    if distance[place] < LEAST:
        return None
    return Knee(float(at[place]), float(values[place]), float(distance[place]))
