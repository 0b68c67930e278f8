"""How many streams of a given rate one processor can read and still tell the time.

A load is *sustained* when the error of the first answers is below `LIMIT_MS` at p99, the client has
finished what the server has ended, and the streams came at their rate.  The load is the number of
streams: doubled until it is not sustained (or halved until it is), then bisected.  A probe that
fails is tried once more, and some times more while others take the client's processor away: that is
no limit of the client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.contender import CONTENDERS, run
from tests.bench.machine import Pins
from tests.bench.meter import Order
from tests.bench.process import BenchFailure, serving
from tests.bench.reading import Reading

LIMIT_MS = 5.0
FINISHED = 0.98
OFFERED = 0.97
_FEWEST = 10
_TRIES = 4
_DISTURBED, _FULL = 0.02, 0.9
_SETTLING_PER_S = 400
"""Streams for which the window opens a second later: connecting them all is a load of its own."""

STARTS = {
    "ours-sse": 800, "ours-sse-user": 400, "httpx": 100, "fast": 100, "hub-sse": 2000,
    "ours-ws": 800, "websockets": 200, "hub-ws": 2000,
}  # fmt: skip
"""The contenders, and the number of streams that the search begins with."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run; ``precision`` is the width of the last bracket as a share of its low end."""

    rate: float
    events: int
    warm_s: float
    window_s: float
    precision: float
    most: int


@dataclass(frozen=True, slots=True)
class Probe:
    """One load tried; no reading: the client could not even be measured."""

    streams: int
    sustained: bool
    reading: Reading | None

    @property
    def disturbed(self) -> bool:
        """Whether others had the client's processor for a share that matters."""
        return self.reading is not None and (self.reading.waited or 0.0) > _DISTURBED

    @property
    def server_limited(self) -> bool:
        """Whether the server could not keep its own schedule."""
        reading = self.reading
        return reading is not None and (
            reading.late_p99_ms > LIMIT_MS or (reading.server_cpu or 0.0) > _FULL
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """One contender's probes, in the order they were made."""

    name: str
    title: str
    wire: str
    probes: tuple[Probe, ...]

    @property
    def best(self) -> Probe | None:
        """The heaviest load that was sustained."""
        sustained = [probe for probe in self.probes if probe.sustained]
        return max(sustained, key=lambda probe: probe.streams, default=None)

    @property
    def events_per_s(self) -> float | None:
        """The event rate of `best`."""
        best = self.best
        return best.reading.offered if best is not None and best.reading is not None else None

    @property
    def limit(self) -> str:
        """What the lightest load above `best` failed for."""
        floor = self.best.streams if self.best else 0
        failed = [p for p in self.probes if not p.sustained and p.streams > floor]
        if not failed:
            return "not reached"
        lightest = min(failed, key=lambda probe: probe.streams)
        if lightest.disturbed:
            return "disturbed"
        return "server" if lightest.server_limited else "client"


@dataclass(frozen=True, slots=True)
class Capacities:
    """All contenders."""

    scale: Scale
    capacities: tuple[Capacity, ...]

    def events_per_s(self, name: str) -> float | None:
        """The event rate that contender ``name`` sustains."""
        found = [entry for entry in self.capacities if entry.name == name]
        return found[0].events_per_s if found else None


def measure(
    scale: Scale, pins: Pins, folder: Path, say: Callable[[str], None], names: tuple[str, ...]
) -> Capacities:
    """Search the capacity of each of ``names``."""
    with serving("tests.bench.server", pins) as url:
        order = Order(url, "", 0, scale.events, scale.rate, scale.warm_s, scale.window_s)

        def search_one(name: str) -> Capacity:
            contender = CONTENDERS[name]

            def attempt(streams: int) -> Probe:
                warm_s = scale.warm_s + streams / _SETTLING_PER_S
                loaded = replace(order, streams=streams, warm_s=warm_s)
                for number in range(_TRIES):
                    tried = _try(name, loaded, pins, folder)
                    if tried.sustained or (number and not tried.disturbed):
                        break
                say(f"capacity: {name} {streams} streams {_words(tried)}")
                return tried

            probes = search(STARTS[name], scale.most, scale.precision, attempt)
            return Capacity(name, contender.title, contender.wire, probes)

        return Capacities(scale, tuple(search_one(name) for name in names))


def search(
    start: int, most: int, precision: float, attempt: Callable[[int], Probe]
) -> tuple[Probe, ...]:
    """The probes of a search for the heaviest sustained load."""
    probes = [attempt(min(start, most))]
    if probes[0].sustained:
        while probes[-1].sustained and probes[-1].streams < most:
            probes.append(attempt(min(probes[-1].streams * 2, most)))
    else:
        while not probes[-1].sustained and probes[-1].streams > _FEWEST:
            probes.append(attempt(max(probes[-1].streams // 2, _FEWEST)))
    low = max((probe.streams for probe in probes if probe.sustained), default=0)
    high = min((probe.streams for probe in probes if not probe.sustained), default=0)
    while 0 < low < high and high - low > max(1, precision * low):
        probe = attempt((low + high) // 2)
        probes.append(probe)
        low, high = (probe.streams, high) if probe.sustained else (low, probe.streams)
    return tuple(probes)


def sustained(reading: Reading) -> bool:
    """The three conditions of the module's docstring, and no wrong turn."""
    p99 = reading.error.p99
    return (
        p99 is not None
        and p99 < LIMIT_MS
        and reading.finished >= FINISHED
        and reading.offered >= OFFERED * reading.nominal
        and not reading.wrong
    )


def _try(name: str, order: Order, pins: Pins, folder: Path) -> Probe:
    try:
        reading = run(CONTENDERS[name], order, pins, folder)
    except BenchFailure:
        return Probe(order.streams, False, None)
    return Probe(order.streams, sustained(reading), reading)


def _words(probe: Probe) -> str:
    reading = probe.reading
    if reading is None:
        return "no reading"
    return (
        f"{'sustained' if probe.sustained else 'not sustained'}: {reading.offered:.0f} of"
        f" {reading.nominal:.0f} ev/s, error p99 {reading.error.p99:.2f} ms, finished"
        f" {reading.finished:.3f}, wrong {reading.wrong}, cpu {reading.cpu:.2f},"
        f" waited {reading.waited or 0:.3f},"
        f" server late {reading.late_p99_ms:.2f} ms, cpu {reading.server_cpu or 0:.2f}"
    )
