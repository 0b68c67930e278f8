"""What our whole product costs beside a bare hub callback, at three loads and over both wires.

The floor only splits and parses JSON (`floors.py`); everything else is ours.  Rounds are
interleaved as in `cost`.  At 1,000 streams the clock has to hold as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tests.bench import cost
from tests.bench.cost import Costs
from tests.bench.machine import Pins

WANTED_RATIO = 1.6
WANTED_P99_MS = 1.0
FIELD = ("ours-sse", "hub-sse", "ours-ws", "hub-ws")
FLOORS = {"ours-sse": "hub-sse", "ours-ws": "hub-ws"}


@dataclass(frozen=True, slots=True)
class Load:
    """One load: its costs by contender."""

    costs: Costs

    @property
    def title(self) -> str:
        """Streams and their rate."""
        scale = self.costs.scale
        return f"{scale.streams:,} x {scale.rate:g}"

    def ratio(self, ours: str) -> float:
        """How many times the floor's cost ours is."""
        return self.costs.us(ours) / self.costs.us(FLOORS[ours])

    def error_p99_ms(self, ours: str) -> float | None:
        """Error of our first answers, p99, median of the rounds."""
        found = next(entry for entry in self.costs.costs if entry.name == ours)
        errors = [r.error.p99 for r in found.readings if r.error.p99 is not None]
        return median(errors) if errors else None

    def fitness(self, ours: str) -> str:
        """What our own report says of the generator in the rounds, with the first doubt."""
        found = next(entry for entry in self.costs.costs if entry.name == ours)
        doubts = [reading.unfit for reading in found.readings]
        valid = doubts.count(())
        if valid == len(doubts):
            return "VALID"
        first = next(doubt for doubt in doubts if doubt)
        return f"{valid} of {len(doubts)} rounds VALID: {'; '.join(first)}"


@dataclass(frozen=True, slots=True)
class Budget:
    """All loads, in the order they were run."""

    loads: tuple[Load, ...]


def measure(
    scales: Sequence[cost.Scale],
    pins: Pins,
    folder: Path,
    say: Callable[[str], None],
    rounds: int | None = None,
) -> Budget:
    """Measure each of ``scales``; ``rounds`` replaces theirs."""
    loads = []
    for scale in scales:
        if rounds is not None:
            scale = replace(scale, rounds=rounds)
        say(f"budget: {scale.streams} streams x {scale.rate:g} events a second")
        loads.append(Load(cost.measure(scale, pins, folder, say, FIELD)))
    return Budget(tuple(loads))
