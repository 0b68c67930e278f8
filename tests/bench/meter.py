"""The meter inside a measured process: CPU time of a window, and what its streams saw.

The same for all contenders, so that none pays more for being measured: nothing is counted event by
event, the server knows how many it wrote.  An order (`Order`) comes by the environment, the reading
goes to a file that is there only when it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from loadgen.clock import NS_PER_MS, NS_PER_S, cpu_ns, now_ns

_VARIABLE = "LOADGEN_BENCH_ORDER"
_GRID_NS = 50 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class Order:
    """What a measured process is to do.

    ``events`` of each turn at ``rate`` a second; the window of ``window_s`` opens ``warm_s`` after
    the last stream was started.  ``at_once``: how many of the streams Locust is told to spawn, 0
    for all.  ``stamps`` false: our client without kernel arrival stamps.
    """

    url: str
    out: str
    streams: int
    events: int
    rate: float
    warm_s: float
    window_s: float
    plan: str = ""
    at_once: int = 0
    stamps: bool = True

    @property
    def question(self) -> str:
        """The question whose words the load server obeys."""
        return f"benchmark events={self.events} rate={self.rate:g}"

    def environment(self) -> dict[str, str]:
        """The environment of the measured process."""
        return dict(os.environ) | {_VARIABLE: orjson.dumps(asdict(self)).decode()}


def order() -> Order:
    """The order given to this process."""
    return Order(**orjson.loads(os.environ[_VARIABLE]))


class Meter:
    """Readings of this process.  ``turns`` takes (turn id, events, first answer ns, end ns).

    Beside them the lag of the process: how late it woke from sleeps that end on a grid of 50 ms.
    """

    def __init__(self, given: Order) -> None:
        self.order = given
        self.turns: list[tuple[str, int, int, int]] = []
        self._lags: list[int] = []
        self._from_ns = 0
        self._cpu_ns = 0
        self._waited_ns: int | None = None

    def measure(self, sleep: Callable[[float], Any]) -> None:
        """Wait, measure, report; for a client that can block."""
        sleep(self.order.warm_s)
        self.begin()
        due_ns, end_ns = self._from_ns, self._from_ns + round(self.order.window_s * NS_PER_S)
        while due_ns < end_ns:
            due_ns += _GRID_NS
            left_ns = due_ns - now_ns()
            if left_ns > 0:
                sleep(left_ns / NS_PER_S)
            self._lags.append(max(0, now_ns() - due_ns))
        self.finish()

    def begin(self) -> None:
        """The window opens."""
        self._waited_ns = waited_ns()
        self._from_ns, self._cpu_ns = now_ns(), cpu_ns()

    def finish(self) -> None:
        """The window closes: write the reading."""
        to_ns, cpu = now_ns(), cpu_ns()
        before, after = self._waited_ns, waited_ns()
        waited = None if before is None or after is None else after - before
        reading = {
            "from_ns": self._from_ns,
            "to_ns": to_ns,
            "cpu_ns": cpu - self._cpu_ns,
            "waited_ns": waited,
            "lags_ns": self._lags,
            "turns": self.turns,
        }
        write(Path(self.order.out), reading)


def waited_ns() -> int | None:
    """How long this process was ready to run while others had its processor, in ns; Linux only."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return None


def write(path: Path, reading: dict[str, Any]) -> None:
    """Put ``reading`` into ``path`` as a whole."""
    partial = path.with_suffix(".part")
    partial.write_bytes(orjson.dumps(reading))
    partial.replace(path)
