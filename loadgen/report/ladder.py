"""A search for the capacity on the terminal: its progress, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from loadgen.analysis import numerals
from loadgen.analysis.level import describe
from loadgen.report.capacity import amount, rows

Json = Mapping[str, Any]

_STYLES = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow", "INVALID": "magenta"}
_WIDTH = 140
_PHASES = {
    "ramp": "the crowd grows",
    "settle": "waiting until everybody has had a turn",
    "hold": "held, turns are counted",
}


def console(file: IO[str] | None = None) -> Console:
    """On a terminal with colours; elsewhere plain and wide."""
    made = Console(file=file, highlight=False)
    return (
        made
        if made.is_terminal
        else Console(file=file, highlight=False, no_color=True, width=_WIDTH)
    )


def progress(now: Json, levels: Sequence[Json], elapsed_s: float) -> Group:
    """What the search is doing: the level, its phase and time left, and the verdicts so far."""
    head = Text(f"search for the capacity, {numerals.seconds(round(elapsed_s))}", style="bold")
    lines = [head]
    if "level" in now:
        extended = f", extended {now['extensions']} times" if now.get("extensions") else ""
        lines.append(
            Text(
                f"level {now.get('number', '?')}: {amount(now['level'])}, "
                f"{_PHASES.get(now['phase'], now['phase'])}, "
                f"{numerals.seconds(round(now['left_s']))} left at most{extended}"
            )
        )
    elif "over" in now:
        lines.append(Text(f"over: {now['over']}; the last turns end"))
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("level", "verdict", "turns", "turns/s", "why"):
        table.add_column(name, justify="left" if name in ("verdict", "why") else "right")
    for one in levels:
        table.add_row(
            amount(one["level"]), Text(one["verdict"], style=_STYLES[one["verdict"]]),
            numerals.count(one["turns"]), numerals.fixed(one["per_s"]["value"]),
            one["reasons"][0] if one["reasons"] else "",
        )  # fmt: skip
    return Group(*lines, table)


def line(one: Json) -> Text:
    """A level that was measured, in one line."""
    return Text(f"level {describe(one)}")


def show(found: Json, page: Path, file: IO[str] | None = None) -> None:
    """The answer, what to know of it, the levels, and where the report is."""
    out = console(file)
    out.print(
        Text(found["verdict"], style=f"bold {_STYLES[found['verdict']]}"), Text(found["headline"]),
        soft_wrap=True,
    )  # fmt: skip
    for text in found["findings"]:
        out.print(Text(f"  - {text}"), soft_wrap=True)
    out.print(_table(found, out.is_terminal))
    against = found.get("against")
    if against is not None:
        out.print(Text(f"beside {against['run']}: {against['sentence']}"), soft_wrap=True)
    out.print(Text(f"report: {page}"), soft_wrap=True)


def _table(found: Json, terminal: bool) -> Table:
    made = rows(found)
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
    table.add_column(found["unit"], justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name in ("turns", "turns/s", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    for target in made[0]["targets"]:
        table.add_column(target["name"], justify="right")
    table.add_column("at once", justify="right")
    for row in made:
        table.add_row(
            row["level"], Text(row["verdict"], style=_STYLES[row["verdict"]]), row["turns"],
            row["rate"], row["rate_span"], *(target["value"] for target in row["targets"]),
            row["running"],
        )  # fmt: skip
    return table
