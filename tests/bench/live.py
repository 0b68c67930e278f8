"""What it costs to show a run while it goes on: the web UI's tab is asked once a second, Prometheus
scrapes every five.

Told twice: the CPU time of all calls into the live figures, counted in the process itself, and the
whole process beside one without them, in turns.  The first is precise; the second shows that
nothing was forgotten, as far as the machine is quiet.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import orjson

from tests.bench.contender import plan_file
from tests.bench.cost import Scale
from tests.bench.machine import Pins
from tests.bench.meter import Order
from tests.bench.process import fetch, measured, serving, truth
from tests.bench.reading import Reading, journalled, judge

WANTED = 0.02
"""The share of a core that the live figures may take."""

_TAB_S, _SCRAPE_EVERY = 1.0, 5


@dataclass(frozen=True, slots=True)
class Shown:
    """One run with live figures: their share of a core, by what they were asked for."""

    reading: Reading
    shares: dict[str, float]
    calls: dict[str, int]

    @property
    def share(self) -> float:
        """All of them."""
        return sum(self.shares.values())


@dataclass(frozen=True, slots=True)
class Live:
    """Runs with live figures and without, in turns."""

    scale: Scale
    shown: tuple[Shown, ...]
    plain: tuple[Reading, ...]

    @property
    def share(self) -> float:
        """Share of a core that the live figures took, median of the rounds."""
        return median(one.share for one in self.shown)

    @property
    def cpu(self) -> tuple[float, float]:
        """Share of a core of the whole process with live figures and without, medians."""
        return median(one.reading.cpu for one in self.shown), median(r.cpu for r in self.plain)


def measure(scale: Scale, pins: Pins, folder: Path, say: Callable[[str], None]) -> Live:
    """Let both run ``scale.rounds`` times, in turns."""
    shown: list[Shown] = []
    plain: list[Reading] = []
    with serving("tests.bench.server", pins) as url:
        order = Order(
            url, "", scale.streams, scale.events, scale.rate, scale.warm_s, scale.window_s
        )
        for number in range(1, scale.rounds + 1):
            plain.append(_run("unwatched.py", order, pins, folder)[0])
            with _watching():
                reading, work = _run("watched.py", order, pins, folder)
            told = orjson.loads((work / "live.json").read_bytes())
            window_ns = scale.window_s * 1e9
            shares = {name: spent / window_ns for name, spent in told["spent_ns"].items()}
            shown.append(Shown(reading, shares, told["calls"]))
            say(
                f"live, round {number}: {shown[-1].share:.2%} of a core for the figures,"
                f" the process {reading.cpu:.1%} with them, {plain[-1].cpu:.1%} without"
            )
    return Live(scale, tuple(shown), tuple(plain))


def _run(file: str, order: Order, pins: Pins, folder: Path) -> tuple[Reading, Path]:
    fetch(f"{order.url}/_forget")
    order = replace(order, plan=str(plan_file(folder, ("nat-sse",), order.question)))
    taken, work = measured(("-m", "locust", "-f", f"tests/bench/{file}"), order, pins, folder)
    window = f"from={taken['from_ns']}&to={taken['to_ns']}"
    sent = orjson.loads(fetch(f"{order.url}/_sent?{window}"))
    return judge(order, taken, sent, journalled(work), truth(order.url)), work


@contextmanager
def _watching() -> Iterator[None]:
    """Somebody looks at the tab, and Prometheus scrapes, until the block is left."""
    web, metrics = _free_port(), _free_port()
    os.environ |= {"LOADGEN_BENCH_WEB": str(web), "LOADGEN_METRICS_PORT": str(metrics)}
    stopped = threading.Event()
    thread = threading.Thread(target=_look, args=(web, metrics, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        for name in ("LOADGEN_BENCH_WEB", "LOADGEN_METRICS_PORT"):
            del os.environ[name]


def _look(web: int, metrics: int, stopped: threading.Event) -> None:
    looks = 0
    while not stopped.wait(_TAB_S):
        with suppress(OSError):
            fetch(f"http://127.0.0.1:{web}/milestones/figures")
            looks += 1
            if looks % _SCRAPE_EVERY == 0:
                fetch(f"http://127.0.0.1:{metrics}/metrics")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
