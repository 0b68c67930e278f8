"""One level of a search: the crowd grows, settles, and is held until there is evidence.

Sans I/O: it is told the time and what was found, and tells what to wait for.  A level is looked at
when it was held for `Terms.hold_s`, and after each of at most `EXTENSIONS` extensions of the same
length: few looks, since each look at a test is another chance to be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from loadgen.analysis.search import EXTENSIONS
from loadgen.analysis.verdict import Verdict

SURE = 0.999
"""A level fails before its time only with this confidence, since it is looked at all the time."""


class Phase(StrEnum):
    """What a level waits for: its analysts, the queue that they make, evidence."""

    RAMP = "ramp"
    SETTLE = "settle"
    HOLD = "hold"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds: how long a ramp and the settling may take at most, and how long a hold is."""

    ramp_s: float
    settle_s: float
    hold_s: float


@dataclass(slots=True)
class Hold:
    """A level since ``begun_s``; ``opened_s`` is where its window opens."""

    terms: Terms
    begun_s: float
    phase: Phase = Phase.RAMP
    grown_s: float = 0.0
    opened_s: float = 0.0
    due_s: float = 0.0
    extensions: int = 0

    def tick(self, now_s: float, *, everybody: bool, cycled: bool) -> bool:
        """Time goes on; True when it is time to look.

        ``everybody``: the crowd is as large as it should be.  ``cycled``: all of it have had a
        turn since (asked for only from then on).
        """
        if self.phase is Phase.RAMP and (everybody or now_s - self.begun_s >= self.terms.ramp_s):
            self.phase, self.grown_s = Phase.SETTLE, now_s
        elif self.phase is Phase.SETTLE and (cycled or now_s - self.grown_s >= self.terms.settle_s):
            self.phase, self.opened_s = Phase.HOLD, now_s
            self.due_s = now_s + self.terms.hold_s
        return self.phase is Phase.HOLD and now_s >= self.due_s

    def look(self, now_s: float, verdict: Verdict) -> bool:
        """What was found when it was time to look; True when the level is done."""
        if verdict is Verdict.INCONCLUSIVE and self.extensions < EXTENSIONS:
            self.extensions += 1
            self.due_s = now_s + self.terms.hold_s
            return False
        self.phase = Phase.DONE
        return True

    def left_s(self, now_s: float) -> float:
        """How long this phase may last yet, in s."""
        ends = {
            Phase.RAMP: self.begun_s + self.terms.ramp_s,
            Phase.SETTLE: self.grown_s + self.terms.settle_s,
            Phase.HOLD: self.due_s,
            Phase.DONE: now_s,
        }
        return max(0.0, ends[self.phase] - now_s)
