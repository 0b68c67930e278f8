"""Charts as PNG files, for a chat or a ticket.  They are drawn by Chromium through kaleido, an
optional extra, from files of this installation: nothing is fetched.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import plotly.graph_objects as go

from loadgen.errors import ConfigError, GeneratorError
from loadgen.report.charts import Chart, safe

WIDTH_PX = 1000
SCALE = 1.25
"""Pixels of the file for each of the page: sharp, and below 300 KB."""

_TITLE_CHARS = 90
_LINE_PX = 24
_LEGEND_PX = 48
_PAPER = "#ffffff"


def write(charts: Iterable[Chart], folder: Path) -> list[Path]:
    """Write a file for each chart into ``folder`` and return their paths.

    :raises ConfigError: kaleido or a browser is missing.
    :raises GeneratorError: the browser failed, or the folder cannot be written.
    """
    try:
        import kaleido
        from choreographer.errors import ChromeNotFoundError
    except ImportError as error:
        raise ConfigError(
            "--png needs kaleido, an optional extra: pip install 'loadgen[png]'"
        ) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GeneratorError(f"{folder}: cannot write: {error.strerror}") from error
    wanted = [
        {
            "fig": titled(chart),
            "path": folder / f"{chart.name}.png",
            "opts": {"width": WIDTH_PX, "scale": SCALE},
        }
        for chart in charts
    ]
    try:
        failed = kaleido.write_fig_from_object_sync(wanted, kopts={"mathjax": False})
    except ChromeNotFoundError as error:
        raise ConfigError(
            "--png needs Chrome or Chromium: apt-get install chromium, or name one in BROWSER_PATH"
        ) from error
    if failed:
        raise GeneratorError(f"--png: the browser failed: {failed[0]}")
    return [one["path"] for one in wanted]


def titled(chart: Chart) -> go.Figure:
    """The figure with its point above it, on white paper."""
    lines = textwrap.wrap(chart.title, _TITLE_CHARS)
    room = _LINE_PX * len(lines) + 24
    figure = go.Figure(chart.figure)
    top = max(figure.layout.margin.t or 0, _LEGEND_PX) + room
    height = (figure.layout.height or 400) + room
    return figure.update_layout(
        paper_bgcolor=_PAPER, plot_bgcolor=_PAPER, height=height, margin={"t": top},
        title={
            "text": "<br>".join(f"<b>{safe(line)}</b>" for line in lines), "font": {"size": 16},
            "x": 0.02, "xanchor": "left", "y": 1 - 16 / height, "yanchor": "top",
        },
    )  # fmt: skip
