"""A comparison on the terminal: why first, numbers second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.analysis import numerals, wording

_WIDTH = 120
_STYLES = {
    "OK": "green", "IMPROVED": "bold green", "REGRESSION": "bold red", "INCONCLUSIVE": "yellow",
}  # fmt: skip


def show_verdict(comparison: Mapping[str, Any], file: IO[str] | None = None) -> None:
    """Print what the comparison says and why, then its table, to ``file`` (stdout)."""
    console = _console(file)
    verdict = comparison["verdict"]
    line = Text(verdict, style=_STYLES[verdict])
    console.print(line.append(f"  {comparison['headline']}", style="bold"), soft_wrap=True)
    for reason in comparison["reasons"]:
        console.print(Text(f"  - {reason}"), soft_wrap=True)
    show_warnings(comparison["warnings"], file)
    show_numbers(comparison, file)


def show_warnings(warnings: list[str], file: IO[str] | None = None) -> None:
    """Print what a reader should know although it decides nothing."""
    console = _console(file)
    for warning in warnings:
        console.print(Text(f"  ({warning})", style="dim"), soft_wrap=True)


def show_numbers(comparison: Mapping[str, Any], file: IO[str] | None = None) -> None:
    """Print the table of measures; what is in brackets is shown and not judged."""
    console = _console(file)
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("measure", no_wrap=True)
    for name in ("base", "new", "change", "95 % interval", "allowed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for m in comparison["measures"]:
        change = m["change"]
        table.add_row(
            m["title"] if change else f"({m['title']})",
            _value(m, m["base"]), _value(m, m["new"]), _change(m), _interval(m),
            wording.allowed(m["metric"], m["limit"], m["floor_ms"]) if change else "",
            Text(change or "", style=_STYLES.get(change or "", "")),
        )  # fmt: skip
    console.print()
    console.print(table)


def _console(file: IO[str] | None) -> Console:
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, no_color=True, width=_WIDTH)
    return console


def _value(m: Mapping[str, Any], value: float | None) -> str:
    return numerals.NONE if value is None else wording.size(m["metric"], value)


def _change(m: Mapping[str, Any]) -> str:
    return numerals.NONE if m["value"] is None else wording.changed(m["metric"], m["value"])


def _interval(m: Mapping[str, Any]) -> str:
    if m["low"] is None:
        return numerals.NONE
    return wording.interval(m["metric"], m["low"], m["high"])
