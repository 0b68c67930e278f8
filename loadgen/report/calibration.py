"""A calibration on the terminal: its progress, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.analysis import numerals
from loadgen.clock import NS_PER_S, now_ns
from loadgen.metrics import TITLES, Clock
from loadgen.report.waiting import waiting

_WIDTH = 100


@contextmanager
def progress(budget_s: float) -> Iterator[Callable[..., Any]]:
    """Shows how much of the time is over.  What it gives runs one trial: called with a crowd and
    the function that tries it, it gives the trial.
    """
    begun = now_ns()
    with waiting("calibrate") as work:

        def told(crowd: Any, attempt: Callable[..., Any]) -> Any:
            work.step(f"{numerals.of(crowd.analysts, 'analyst')}")
            return attempt(crowd, lambda: work.share((now_ns() - begun) / NS_PER_S / budget_s))

        yield told


def show(found: Mapping[str, Any], path: Path | None, file: IO[str] | None = None) -> None:
    """Print ``found`` (`Calibration.as_json`) to ``file`` (stdout)."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, no_color=True, width=_WIDTH)
    wanted = found["wanted"]
    console.print(_title(wanted), soft_wrap=True)
    console.print(_errors(wanted, console.is_terminal))
    for sentence in sentences(found):
        console.print(Text(sentence), soft_wrap=True)
    if path is not None:
        console.print(Text(f"kept for later runs on this host: {path}"), soft_wrap=True)


def sentences(found: Mapping[str, Any]) -> Iterator[str]:
    """What it means, cost first."""
    wanted = found["wanted"]
    if wanted["us_per_event"] is not None:
        yield (
            f"{numerals.plain(wanted['us_per_event'])} us of CPU an event, at "
            f"{numerals.plain(wanted['events_per_s'])} events a second"
        )
    if not wanted["held"]:
        yield f"{numerals.count(wanted['analysts'])} analysts were not held: {wanted['why']}"
    most, limit = found["most_analysts"], numerals.duration(found["limit_ms"])
    if not most:
        yield f"no crowd was held with errors below {limit} at p99"
        return
    more = {
        "time": "no more were tried",
        "mock agent": "the mock agent could not keep up with more",
    }
    why = more.get(found["limit"], "more were not held")
    yield (
        f"{numerals.of(most, 'analyst')} in {_processes(found['most_processes'])} were held with "
        f"errors below {limit} at p99; {why}"
    )
    needed = found["processes"]
    yield f"for {numerals.of(wanted['analysts'], 'analyst')} it takes {_processes(needed)}"
    if found["cpus"] and needed > found["cpus"]:
        yield (
            f"this machine has {numerals.count(found['cpus'])} cores: start workers on others, too"
        )


_TURNS = {"p50": 1, "p95": 20, "p99": 100, "max": 1}
"""How many turns it takes for one to be beyond a percentile: of fewer none is shown."""


def overhead(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """The errors of the wanted crowd as rows: dialect, clock, n, p50, p95, p99, max."""
    return [
        {
            "dialect": dialect,
            "clock": TITLES[Clock(clock)],
            "n": numerals.count(error["n"]),
            **{
                name: numerals.duration(error[name] if error["n"] >= least else None)
                for name, least in _TURNS.items()
            },
        }
        for dialect, clocks in found["errors"].items()
        for clock, error in clocks.items()
    ]


def _title(wanted: Mapping[str, Any]) -> Text:
    crowd = (
        f"error of {numerals.of(wanted['analysts'], 'analyst')} reading "
        f"{numerals.plain(wanted['rate'])} events a second each, in "
        f"{_processes(wanted['processes'])}, {numerals.of(wanted['turns'], 'turn')}"
    )
    return Text(crowd, style="bold")


def _errors(wanted: Mapping[str, Any], terminal: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
    table.add_column("dialect", no_wrap=True)
    table.add_column("clock", no_wrap=True)
    for name in ("n", "p50", "p95", "p99", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in overhead(wanted):
        table.add_row(*row.values())
    return table


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{numerals.count(number)} processes"
