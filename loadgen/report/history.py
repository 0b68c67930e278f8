"""A history as a table on the terminal and as a page with a chart a clock."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import plotly.graph_objects as go
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.analysis import numerals
from loadgen.analysis.history import History, Point, Series, sentences, show
from loadgen.journal import write_whole
from loadgen.report import document
from loadgen.report.charts import FAILED, NEUTRAL, Chart, safe, styled

FILE = "history.html"

_WIDTH = 140
_HEIGHT = 240
_BLESSED = "#4b5fb0"


def show_history(history: History, page: Path | None, file: IO[str] | None = None) -> None:
    """Print what changed and where, then the runs; to ``file`` (stdout)."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, no_color=True, width=_WIDTH)
    console.print(Text(history.title, style="bold"))
    for sentence in sentences(history):
        console.print(Text(f"  - {sentence}"), soft_wrap=True)
    console.print()
    console.print(_table(history, console.is_terminal))
    if page is not None:
        console.print(Text(f"chart: {page}"), soft_wrap=True)


def write_page(history: History, path: Path) -> Path:
    """Write one self-contained page and return its path."""
    text = document.render(
        "history.html.j2",
        drawn(history),
        history=history,
        headline=_headline(history),
        sentences=list(sentences(history)),
        names=[series.title for series in history.series],
        rows=_rows(history),
    )
    write_whole(path, text.encode())
    return path


def drawn(history: History) -> list[Chart]:
    """A chart a figure, runs in order from left to right, each change of level marked."""
    place = {point.run: number for number, point in enumerate(history.points, 1)}
    return [
        Chart(f"history-{number}", _point(series), _figure(series, place))
        for number, series in enumerate(history.series, 1)
        if series.points
    ]


def _headline(history: History) -> str:
    changed = [series.title for series in history.series if series.changes]
    return f"{history.title}: {', '.join(changed) or 'nothing'} changed its level"


def _point(series: Series) -> str:
    if not series.changes:
        return f"{series.title}: no change of level"
    last = series.changes[-1]
    before, after = (show(series.name, level) for level in (last.before, last.after))
    return f"{series.title}: from {before} to {after} at {series.points[last.index].run}"


def _figure(series: Series, place: dict[str, int]) -> go.Figure:
    chart = go.Figure()
    share = series.name == "failures"
    scale = 100 if share else 0.001
    chart.add_scatter(
        x=[place[point.run] for point in series.points],
        y=[value * scale for value in series.values],
        mode="lines+markers", line={"color": NEUTRAL, "width": 1}, showlegend=False,
        marker={
            "color": [_BLESSED if point.blessed_as else NEUTRAL for point in series.points],
            "symbol": ["star" if point.blessed_as else "circle" for point in series.points],
            "size": [12 if point.blessed_as else 7 for point in series.points],
        },
        text=[_hover(series, point) for point in series.points],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    edges = [0, *(change.index for change in series.changes), len(series.points)]
    levels = [
        *(change.before for change in series.changes),
        *(change.after for change in series.changes[-1:]),
    ]
    for begin, end, level in zip(edges, edges[1:], levels, strict=False):
        chart.add_scatter(
            x=[place[series.points[begin].run], place[series.points[end - 1].run]],
            y=[level * scale] * 2, mode="lines", line={"color": FAILED, "dash": "dot"},
            hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    for change in series.changes:
        chart.add_vline(x=place[series.points[change.index].run] - 0.5, line_color=FAILED)
    chart.update_yaxes(title_text="%" if share else "s", rangemode="tozero")
    chart.update_xaxes(title_text="run", range=[0.5, len(place) + 0.5])
    return styled(chart, _HEIGHT)


def _rows(history: History) -> list[dict[str, Any]]:
    marks = _marks(history)
    return [
        {
            "run": point.run, "verdict": point.verdict, "turns": numerals.count(point.turns),
            "blessed_as": point.blessed_as or "",
            "cells": [
                (_cell(series, point), (series.name, point.run) in marks)
                for series in history.series
            ],
        }
        for point in history.points
    ]  # fmt: skip


def _marks(history: History) -> set[tuple[str, str]]:
    """Figures and runs at which their level changed."""
    return {
        (series.name, series.points[change.index].run)
        for series in history.series
        for change in series.changes
    }


def _cell(series: Series, point: Point) -> str:
    value = point.values.get(series.name)
    return numerals.NONE if value is None else show(series.name, value)


def _hover(series: Series, point: Point) -> str:
    blessed = f"<br>blessed as {safe(point.blessed_as)}" if point.blessed_as else ""
    return (
        f"{safe(point.run)}<br>{show(series.name, point.values[series.name])}, "
        f"{numerals.of(point.turns, 'turn')} on {safe(point.hostname or '?')}{blessed}"
    )


def _table(history: History, terminal: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
    table.add_column("run", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("turns", justify="right", no_wrap=True)
    for series in history.series:
        table.add_column(series.name, justify="right", no_wrap=True)
    table.add_column("blessed as", no_wrap=True)
    marks = _marks(history)
    for point in history.points:
        cells = []
        for series in history.series:
            text = _cell(series, point)
            cells.append(f"> {text}" if (series.name, point.run) in marks else text)
        table.add_row(
            point.run, point.verdict, numerals.count(point.turns), *cells, point.blessed_as or ""
        )
    return table
