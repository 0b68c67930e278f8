"""How each turn stands to one target: met, missed, or nobody knows.

A turn that failed has missed every target.  One that the end of the run cut off counts with its
value where it reached the mark, misses where it had already waited longer than the limit, and is no
evidence either way otherwise.  One that recovered from a lost connection is kept apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis.frame import completed
from loadgen.metrics import INTENDED, MARKS, Clock
from loadgen.turn import Outcome

Mask = NDArray[np.bool_]

_OPEN_ENDED = {Clock.WALL, Clock.HUMAN, Clock.MAX_GAP}
_REQUIRED = {*MARKS, *INTENDED.values()}


@dataclass(frozen=True, slots=True)
class Tally:
    """Masks over the rows of one table; ``met``, ``missed``, ``undecided`` and ``recovered`` are
    disjoint, and a row in none of them has nothing of that clock.

    ``failed`` of the missed ones did not complete, ``unreached`` of them completed without the
    milestone; ``recovered_met`` of the recovered ones met the target.
    """

    met: Mask
    missed: Mask
    failed: Mask
    unreached: Mask
    undecided: Mask
    recovered: Mask
    recovered_met: Mask

    def counts(self) -> dict[str, int]:
        """How many of each."""
        return {name: int(getattr(self, name).sum()) for name in self.__slots__}


def of_turns(clock: Clock, asked: pd.DataFrame, limit_ms: float) -> Tally:
    """Turns that were started against a limit for ``clock``."""
    value = asked[f"{clock}_ms"].to_numpy()
    known = ~np.isnan(value)
    fast: Mask = known & (value <= limit_ms)
    recovered = asked["recovered"].to_numpy()
    done: Mask = completed(asked).to_numpy() & ~recovered
    cut: Mask = (asked["outcome"] == Outcome.CUT_OFF.value).to_numpy()
    failed: Mask = ~done & ~cut & ~recovered
    unreached: Mask = done & ~known if clock in _REQUIRED else np.zeros_like(done)

    waited = value if clock in _OPEN_ENDED else asked["elapsed_ms"].to_numpy()
    if clock in INTENDED.values():
        waited = waited + np.nan_to_num(asked["lag_ms"].to_numpy())
    reached: Mask = cut & known if clock not in _OPEN_ENDED else np.zeros_like(cut)
    late: Mask = cut & ~reached & (waited > limit_ms)
    return Tally(
        met=(done | reached) & fast,
        missed=failed | late | unreached | ((done | reached) & known & ~fast),
        failed=failed,
        unreached=unreached,
        undecided=cut & ~reached & ~late,
        recovered=recovered,
        recovered_met=recovered & fast,
    )


def of_happenings(chosen: pd.DataFrame, limit_ms: float) -> Tally:
    """Connections, logins, replies or losses against a limit; one whose other end never came has
    missed it, unless the run ended first.
    """
    value = chosen["value_ms"].to_numpy()
    known = ~np.isnan(value)
    cut: Mask = (chosen["outcome"] == Outcome.CUT_OFF.value).to_numpy()
    met, failed = known & (value <= limit_ms), ~known & ~cut
    none = np.zeros_like(cut)
    return Tally(
        met=met, missed=failed | (known & ~met), failed=failed, unreached=none,
        undecided=~known & cut, recovered=none, recovered_met=none,
    )  # fmt: skip
