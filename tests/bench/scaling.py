"""How much more two processes carry than one: what an event costs in each case.

The same streams are read by one process and by two (`locust --processes 2`: two workers and a
master).  Nothing is shared but the machine, so where each worker has a processor of its own, two
carry ``2 x (cost of an event in one) / (cost of an event in two)`` times the load of one.  The
master's CPU is counted as if it were the workers'.  That can be measured on two processors, one of
them the server's: both workers then share the other, which can only make them dearer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import orjson
import psutil

from loadgen.clock import now_ns
from tests.bench.contender import plan_file
from tests.bench.machine import Pins, pin
from tests.bench.meter import Order
from tests.bench.process import ROOT, BenchFailure, fetch, serving

WANTED = 1.8
WIRES = ("sse", "ws")
_SPAWN_S = 8
"""Starting Locust, its workers and all streams."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run; ``streams`` of ``rate`` events a second each, times in seconds."""

    streams: int
    rate: float
    events: int
    warm_s: float
    window_s: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One run: CPU of an event, all its processes together, and events a second."""

    us_per_event: float
    events_per_s: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One wire: its readings with one process and with two."""

    wire: str
    one: tuple[Reading, ...]
    two: tuple[Reading, ...]

    @property
    def us(self) -> tuple[float, float]:
        """CPU of an event in one process and in two, medians of the rounds, in us."""
        one, two = (median(r.us_per_event for r in found) for found in (self.one, self.two))
        return one, two

    @property
    def times(self) -> float:
        """How many times the load of one process two carry."""
        one, two = self.us
        return 2 * one / two


@dataclass(frozen=True, slots=True)
class Scaling:
    """Both wires."""

    scale: Scale
    pairs: tuple[Pair, ...]


def measure(scale: Scale, pins: Pins, folder: Path, say: Callable[[str], None]) -> Scaling:
    """One process and two, in turns."""
    pairs = []
    for wire in WIRES:
        found: dict[int, list[Reading]] = {1: [], 2: []}
        for _ in range(scale.rounds):
            for processes, readings in found.items():
                readings.append(_run(scale, wire, processes, pins, folder))
                say(f"scaling, {wire}: {processes} at {readings[-1].us_per_event:.1f} us/event")
        pairs.append(Pair(wire, tuple(found[1]), tuple(found[2])))
    return Scaling(scale, tuple(pairs))


def _run(scale: Scale, wire: str, processes: int, pins: Pins, folder: Path) -> Reading:
    work = Path(tempfile.mkdtemp(dir=folder))
    with serving("tests.bench.server", pins) as url:
        streams = str(scale.streams)
        order = Order(
            url, str(work / "unread.json"), scale.streams, scale.events, scale.rate,
            scale.warm_s, scale.window_s,
        )  # fmt: skip
        plan = plan_file(work, (f"nat-{wire}",), order.question)
        order = replace(order, plan=str(plan))
        command = [
            sys.executable, "-m", "locust", "-f", "tests/bench/street.py", "--headless",
            "--only-summary", "--live-every", "0", "--host", url, "-u", streams, "-r", streams,
            "--results", str(work), *(("--processes", str(processes)) if processes > 1 else ()),
        ]  # fmt: skip
        with (work / "client.log").open("wb") as said:
            client = subprocess.Popen(
                command, cwd=ROOT, env=order.environment(), stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
        try:
            pin(client.pid, pins.client)
            time.sleep(_SPAWN_S + scale.warm_s)
            tree = _tree(client.pid)
            if len(tree) != (1 if processes == 1 else 1 + processes):
                said_last = (work / "client.log").read_text(errors="replace").splitlines()[-8:]
                raise BenchFailure("locust has not its processes:\n" + "\n".join(said_last))
            from_ns, before = now_ns(), _cpu_s(tree)
            time.sleep(scale.window_s)
            to_ns, after = now_ns(), _cpu_s(tree)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(client.pid, signal.SIGKILL)
            client.wait()
        events = orjson.loads(fetch(f"{url}/_sent?from={from_ns}&to={to_ns}"))["events"]
    if not events:
        raise BenchFailure(f"{processes} processes over {wire} read no event")
    return Reading((after - before) * 1e6 / events, events / (to_ns - from_ns) * 1e9)


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _cpu_s(tree: list[psutil.Process]) -> float:
    spent = [process.cpu_times() for process in tree]
    return float(sum(times.user + times.system for times in spent))
