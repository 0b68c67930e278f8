"""The end of a run on the terminal: verdict first, then the reasons, then a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.analysis import numerals
from loadgen.metrics import HAPPENINGS, INTENDED, Clock

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INVALID": "bold magenta"}
_CLOCKS = (
    Clock.TTFV, Clock.TTFP, Clock.TTFA, Clock.TTC, Clock.RESUME, Clock.TOKEN, Clock.CONNECT,
    Clock.AUTH,
)  # fmt: skip
_WIDTH = 100


def print_verdict(summary: Mapping[str, Any], file: IO[str] | None = None) -> None:
    """Print the verdict and its reasons to ``file`` (stdout)."""
    _verdict(_console(file), summary)


def print_summary(
    summary: Mapping[str, Any], report_path: Path | None, file: IO[str] | None = None
) -> None:
    """Print what a run was worth to ``file`` (stdout): coloured on a terminal, plain elsewhere.

    Text of a server is printed as it is: rich markup in it has no effect.
    """
    console = _console(file)
    console.print()
    _verdict(console, summary)
    for note in summary["notes"]:
        console.print(Text(f"  ({note})", style="dim"), soft_wrap=True)
    console.print()
    console.print(_outcomes(summary), soft_wrap=True)
    if summary["turns"]["completed"]:
        console.print(_clocks(summary, console.is_terminal))
    if report_path is not None:
        console.print(Text(f"report: {report_path}"), soft_wrap=True)


def print_written(what: str, paths: Sequence[Path], file: IO[str] | None = None) -> None:
    """Print where files are, a line each, to ``file`` (stdout)."""
    for path in paths:
        _console(file).print(Text(f"{what}: {path}"), soft_wrap=True)


def _console(file: IO[str] | None) -> Console:
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, no_color=True, width=_WIDTH)
    return console


def _verdict(console: Console, summary: Mapping[str, Any]) -> None:
    verdict = summary["verdict"]
    line = Text(verdict, style=_STYLES.get(verdict, "bold yellow"))
    console.print(line.append(f"  {summary['headline']}", style="bold"), soft_wrap=True)
    for reason in summary["reasons"]:
        console.print(Text(f"  - {reason}"), soft_wrap=True)


def _outcomes(summary: Mapping[str, Any]) -> Text:
    turns = summary["turns"]
    groups = [
        f"{numerals.count(group['n'])} {group['outcome']}"
        + (f" ({group['cause']})" if group["cause"] else "")
        for group in summary["failures"]
    ]
    counted = [f"{numerals.count(turns['completed'])} completed", *groups]
    return Text(f"{numerals.of(turns['started'], 'turn')}: {', '.join(counted)}")


def _clocks(summary: Mapping[str, Any], terminal: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
    table.add_column("completed turns" if terminal else "clock", no_wrap=True)
    for name in ("n", "p50", "p95", "p99", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit")
    due = [] if summary["arrivals"] is None else [*INTENDED.values(), Clock.LAG]
    for clock in (*due, *_CLOCKS):
        metric = summary["metrics"].get(clock.value)
        if metric is None or not metric["n"]:
            continue
        values = [metric[name]["value_ms"] for name in ("p50", "p95", "p99")]
        unit, texts = numerals.column([*values, metric["max_ms"]])
        bounds = [metric[name].get("at_least") for name in ("p50", "p95", "p99")]
        bounds.append(metric.get("max_at_least"))
        texts = [numerals.at_least(t) if low else t for t, low in zip(texts, bounds, strict=True)]
        title = metric["title"] if clock in HAPPENINGS else f"{clock.value} {metric['title']}"
        table.add_row(title, numerals.count(metric["n"]), *texts, unit)
    return table
