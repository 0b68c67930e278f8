"""M/M/c: how long turns wait that arrive at random for one of c places.

Erlang's formulas, B by its stable recursion and C from it.  Source: L. Kleinrock, *Queueing
Systems*, vol. 1 (1975), ch. 3; A. K. Erlang, 1917.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queue at rest: ``busy`` is the share of the places in use, ``waits`` that of the turns
    which have to wait, ``mean_s`` the mean wait of all.
    """

    busy: float
    waits: float
    mean_s: float
    per_place_s: float

    def share_above(self, wait_s: float) -> float:
        """The share of turns that wait longer than ``wait_s``."""
        return self.waits * math.exp(-wait_s / self.per_place_s)

    def quantile_s(self, share: float) -> float:
        """The wait that ``share`` of the turns do not exceed."""
        left = 1 - share
        return 0.0 if left >= self.waits else self.per_place_s * math.log(self.waits / left)


def blocked(places: int, load: float) -> float:
    """Erlang B: the share of arrivals lost when nobody may wait; ``load`` in Erlangs."""
    share = 1.0
    for number in range(1, places + 1):
        share = load * share / (number + load * share)
    return share


def delayed(places: int, load: float) -> float:
    """Erlang C: the share of arrivals that have to wait; 1 from saturation on."""
    if load >= places:
        return 1.0
    lost = blocked(places, load)
    return lost / (1 - load / places * (1 - lost))


def waiting(places: int, per_s: float, service_s: float) -> Waiting | None:
    """``per_s`` turns arrive a second, each takes ``service_s`` on average of one place; None where
    the queue grows for ever.
    """
    load = per_s * service_s
    if load >= places:
        return None
    waits = delayed(places, load)
    emptying_s = service_s / (places - load)
    return Waiting(load / places, waits, waits * emptying_s, emptying_s)


def analysts(places: int, service_s: float, think_s: float) -> float:
    """How many analysts keep ``places`` just busy: c (S + Z) / S."""
    return places * (service_s + think_s) / service_s
