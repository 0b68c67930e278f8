"""CPU time of an event: our whole product beside other clients and bare floors, in turns.

All read the same streams of one server process.  Rounds are interleaved (A B C, A B C), so that a
machine that changes its pace changes it for all; medians over the rounds are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.contender import CONTENDERS, Contender, run
from tests.bench.machine import Pins
from tests.bench.meter import Order
from tests.bench.process import serving
from tests.bench.reading import Reading

FIELD = (
    "ours-sse", "httpx", "fast", "hub-sse", "uvloop-sse",
    "ours-ws", "websockets", "hub-ws", "uvloop-ws",
)  # fmt: skip

READERS = ("hub-sse", "into-sse", "small-sse", "plain-sse", "batch-sse", "uvloop-sse")
"""Ways to read a socket, with nothing else done."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run; ``events`` a turn, ``rate`` a second and stream, times in seconds."""

    streams: int
    rate: float
    events: int
    warm_s: float
    window_s: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Cost:
    """One contender: a reading for each round."""

    name: str
    title: str
    wire: str
    readings: tuple[Reading, ...]

    @property
    def us_per_event(self) -> float:
        """CPU time of an event, median of the rounds."""
        return median(reading.us_per_event for reading in self.readings)

    @property
    def wrong(self) -> int:
        """Turns that failed or lacked events."""
        return sum(reading.wrong for reading in self.readings)


@dataclass(frozen=True, slots=True)
class Costs:
    """All contenders at one scale."""

    scale: Scale
    costs: tuple[Cost, ...]

    def us(self, name: str) -> float:
        """CPU time of an event of contender ``name``, in us."""
        return next(cost.us_per_event for cost in self.costs if cost.name == name)


def measure(
    scale: Scale,
    pins: Pins,
    folder: Path,
    say: Callable[[str], None],
    names: Sequence[str] = FIELD,
) -> Costs:
    """Let each of ``names`` run ``scale.rounds`` times, in turns."""
    field = [CONTENDERS[name] for name in names]
    found: dict[str, list[Reading]] = {name: [] for name in names}
    with serving("tests.bench.server", pins) as url:
        order = Order(
            url, "", scale.streams, scale.events, scale.rate, scale.warm_s, scale.window_s
        )
        for number in range(1, scale.rounds + 1):
            for contender in field:
                reading = run(contender, order, pins, folder)
                found[contender.name].append(reading)
                say(f"cost, round {number}: {contender.name} {reading.us_per_event:.1f} us/event")
    return Costs(scale, tuple(_cost(contender, found[contender.name]) for contender in field))


def _cost(contender: Contender, readings: list[Reading]) -> Cost:
    return Cost(contender.name, contender.title, contender.wire, tuple(readings))
