"""The course of a run on one time axis: how long turns waited, what happened to them, how many
there were, and how the generator itself was, so that one sees at once whether a spike is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from loadgen.analysis import frame, numerals, occasions, series
from loadgen.analysis.occasions import Occasion
from loadgen.journal import RunData
from loadgen.metrics import INTENDED, TITLES, Clock
from loadgen.report import health
from loadgen.report.charts import (
    COLOURS,
    FAILED,
    HUMAN,
    NEUTRAL,
    Chart,
    FloatArray,
    faded,
    log_range,
    peaks,
    safe,
    styled,
    targets,
)

_CLOCKS = {Clock.TTFV: "visible_s", Clock.TTFA: "answer_s", Clock.TTC: "end_s"}
"""And where on the time axis they end."""

_WAITS = "waits in s: p95, p50 (thin)"
_STRIP = "what happened"
_GAP_PX = 34
_COLUMNS = 240
"""Marks of one kind side by side; what falls into the same place is counted."""

_STILL = "rgba(213,94,0,0.16)"
_INKS = {
    Occasion.PROMPT: HUMAN,
    Occasion.LOST: FAILED,
    Occasion.BACK: NEUTRAL,
    Occasion.FAILED: FAILED,
    Occasion.DROPPED: NEUTRAL,
}


@dataclass(frozen=True, slots=True)
class _Row:
    """One of the charts that stand above each other."""

    title: str
    height_px: int
    traces: Sequence[go.Scatter]


def course(run: RunData, table: pd.DataFrame, summary: Mapping[str, Any]) -> Chart:
    """All that changes over a run.  ``table`` is `frame.turns`."""
    lag, cpu = health.traces(summary)
    strip = list(_strip(run, table, summary))
    rows = [
        _Row(_WAITS,
             260, list(_waits(table, summary))),
        _Row(_STRIP, 16 + 22 * len(strip), strip),
        _Row("turns in flight", 110, [_in_flight(table)]),
        _Row("turns a second", 150, list(_rates(table, summary))),
        _Row("generator: hub lag at most, ms", 100, lag),
        _Row("generator: CPU, % of a core", 90, cpu),
    ]  # fmt: skip
    rows = [row for row in rows if row.traces]
    figure = _stacked(rows)
    for number, row in enumerate(rows, 1):
        if row.title == _WAITS:
            _mark_targets(figure, summary, number)
        if row.title == _STRIP:
            figure.update_yaxes(
                type="category", categoryorder="array", row=number, col=1,
                categoryarray=[trace.y[0] for trace in reversed(strip)],
            )  # fmt: skip
    _mark_moments(figure, summary)
    ends = [float(np.nanmax(trace.x)) for row in rows for trace in row.traces if len(trace.x)]
    figure.update_xaxes(range=[0.0, max(ends, default=1.0)])
    figure.update_xaxes(title_text="seconds into the run", row=len(rows), col=1)
    return Chart("course", _point(summary), figure)


def bins(table: pd.DataFrame) -> FloatArray:
    """Whole seconds, wide enough for at most 120 bins."""
    last = float(table["end_s"].max()) if table["end_s"].notna().any() else 1.0
    width = max(1, math.ceil(last / 120))
    return np.arange(0.0, last + width, width)


def _stacked(rows: Sequence[_Row]) -> go.Figure:
    heights = [row.height_px for row in rows]
    total = sum(heights) + _GAP_PX * (len(rows) - 1)
    figure = make_subplots(
        rows=len(rows), cols=1, shared_xaxes=True, vertical_spacing=_GAP_PX / total,
        row_heights=heights, subplot_titles=[row.title for row in rows],
    )  # fmt: skip
    for number, row in enumerate(rows, 1):
        for trace in row.traces:
            figure.add_trace(trace, row=number, col=1)
        figure.update_yaxes(rangemode="tozero", row=number, col=1)
    styled(figure, total + 130)
    figure.update_annotations(x=0, xanchor="left", font={"size": 12, "color": NEUTRAL})
    return figure.update_layout(margin={"t": 62}, legend={"y": 1 + 24 / total})


def _waits(table: pd.DataFrame, summary: Mapping[str, Any]) -> Iterator[go.Scatter]:
    due = summary["arrivals"] is not None
    chosen, edges = series.reached(table), series.windows(table)
    for clock, column in _CLOCKS.items():
        values = chosen[f"{INTENDED[clock] if due else clock}_ms"].to_numpy()
        curve = series.curve(chosen[column].to_numpy(), values, edges)
        if not curve.at_s.size:
            continue
        colour, low, high = COLOURS[clock], curve.p50_ms / 1000, curve.p95_ms / 1000
        yield go.Scatter(
            x=np.concatenate([curve.at_s, curve.at_s[::-1]]), y=np.concatenate([high, low[::-1]]),
            fill="toself", fillcolor=faded(colour, 0.14), mode="lines", line={"width": 0},
            hoverinfo="skip", showlegend=False, legendgroup=clock.value,
        )  # fmt: skip
        for name, values_s, width in (("p50", low, 1.0), ("p95", high, 2.2)):
            yield go.Scatter(
                x=curve.at_s, y=values_s, mode="lines+markers", marker={"size": 1.8 + width},
                line={"color": colour, "width": width}, name=TITLES[clock], customdata=curve.n,
                legendgroup=clock.value, showlegend=name == "p95",
                hovertemplate=f"{TITLES[clock]}, {name}: %{{y:.4g}} s of %{{customdata}} turns "
                "that got there around %{x:.0f} s<extra></extra>",
            )  # fmt: skip


def _mark_targets(figure: go.Figure, summary: Mapping[str, Any], row: int) -> None:
    limits = [
        (slo["within_s"], COLOURS[clock])
        for clock in _CLOCKS
        for slo in targets(summary)
        if slo["clock"] in (clock, INTENDED[clock])
    ]
    for within, colour in limits:
        figure.add_hline(
            y=within, row=row, col=1, line={"color": colour, "width": 1.5, "dash": "dash"}
        )
    seen = [float(v) for trace in figure.select_traces(row=row, col=1) for v in trace.y if v > 0]
    low, high = min(seen), max([*seen, *(within for within, _ in limits)])
    figure.update_yaxes(row=row, col=1, **log_range(low, high))


def _strip(run: RunData, table: pd.DataFrame, summary: Mapping[str, Any]) -> Iterator[go.Scatter]:
    """A line of marks for each kind of thing that happened."""
    planned = {
        "stage": [(s["at_s"], f"to {numerals.plain(s['to'])}") for s in summary["stages"]],
        "done to the run": [(m["at_s"], safe(m["what"], 80)) for m in summary["adversity"]],
        "standstill": [
            (s["begin_s"], f"nothing arrived for {numerals.seconds(s['lasted_s'])}, "
             f"{numerals.of(s['turns'], 'turn')} open") for s in summary["standstills"]
        ],
    }  # fmt: skip
    for name, marks in planned.items():
        if marks:
            at, texts = [at for at, _ in marks], [text for _, text in marks]
            yield _marks(name, at, texts, NEUTRAL if name == "stage" else FAILED, "diamond")
    for occasion, times in occasions.find(run, table).items():
        edges = np.linspace(0.0, max(1.0, float(times[-1])), _COLUMNS + 1)
        counts, _ = np.histogram(times, bins=edges)
        full = np.flatnonzero(counts)
        yield _marks(
            occasion.value, list((edges[full] + edges[full + 1]) / 2),
            [f"{numerals.count(int(counts[index]))} \u00d7" for index in full],
            _INKS[occasion], "line-ns-open",
        )  # fmt: skip


def _marks(
    name: str, at: Sequence[float], texts: Sequence[str], colour: str, symbol: str
) -> go.Scatter:
    return go.Scatter(
        x=at, y=[name] * len(at), mode="markers", showlegend=False, text=texts, name=name,
        marker={"symbol": symbol, "size": 11, "color": colour,
                "line": {"width": 1.6, "color": colour}},
        hovertemplate=f"{name} at %{{x:.1f}} s: %{{text}}<extra></extra>",
    )  # fmt: skip


def _in_flight(table: pd.DataFrame) -> go.Scatter:
    at, opened = frame.in_flight(table)
    keep = peaks(at, opened)
    return go.Scatter(
        x=at[keep], y=opened[keep], name="in flight", mode="lines", fill="tozeroy",
        line={"color": NEUTRAL, "width": 1.5, "shape": "hv"}, fillcolor=faded(NEUTRAL, 0.25),
        showlegend=False, hovertemplate="%{y:.0f} turns in flight at %{x:.1f} s<extra></extra>",
    )  # fmt: skip


def _rates(table: pd.DataFrame, summary: Mapping[str, Any]) -> Iterator[go.Scatter]:
    done, edges = frame.completed(table), bins(table)
    columns = {Clock.TTFV: table["visible_s"], Clock.TTFA: table["answer_s"],
               Clock.TTC: table.loc[done, "end_s"]}  # fmt: skip
    for clock, when in columns.items():
        yield _rate(when, edges, TITLES[clock], COLOURS[clock], group=clock.value)
    failed = table.loc[table["asked"] & ~done & (table["outcome"] != "cut_off"), "end_s"]
    if len(failed):
        yield _rate(failed, edges, "failed", FAILED)
    if summary["arrivals"] is None:
        return
    yield _rate(table["scheduled_s"], edges, "due", NEUTRAL, dash="dash")
    dropped = table.loc[~table["asked"], "scheduled_s"]
    if len(dropped):
        yield _rate(dropped, edges, "dropped", FAILED, dash="dash")


def _rate(
    when: pd.Series[float], edges: FloatArray, name: str, colour: str,
    dash: str = "solid", group: str | None = None,
) -> go.Scatter:  # fmt: skip
    counts, _ = np.histogram(when.dropna(), bins=edges)
    return go.Scatter(
        x=(edges[:-1] + edges[1:]) / 2, y=counts / np.diff(edges), name=name, mode="lines",
        line={"color": colour, "width": 2, "dash": dash}, legendgroup=group or name,
        showlegend=group is None,
        hovertemplate=f"{name}: %{{y:.3g}} a second at %{{x:.0f}} s<extra></extra>",
    )  # fmt: skip


def _mark_moments(figure: go.Figure, summary: Mapping[str, Any]) -> None:
    """Lines and bands through all charts."""
    for moment in summary["adversity"]:
        _line(figure, moment["at_s"], FAILED)
    for stage in summary["stages"]:
        _line(figure, stage["at_s"], NEUTRAL)
    for still in summary["standstills"]:
        figure.add_vrect(
            x0=still["begin_s"], x1=still["end_s"], row="all", col=1, fillcolor=_STILL,
            line={"color": FAILED, "width": 1},
        )  # fmt: skip


def _line(figure: go.Figure, at_s: float, colour: str) -> None:
    figure.add_vline(x=at_s, row="all", col=1, line={"color": colour, "width": 1.3, "dash": "dot"})


def _point(summary: Mapping[str, Any]) -> str:
    """What the run's course says, and whether it is the generator's doing."""
    return f"{_level(summary)}; {health.sentence(summary)}"


def _level(summary: Mapping[str, Any]) -> str:
    standstills, storms = summary["standstills"], summary["storms"]
    if standstills:
        longest = max(standstills, key=lambda still: still["lasted_s"])
        return f"The target stood still for {numerals.seconds(longest['lasted_s'])}"
    if storms:
        worst = max(storms, key=lambda storm: storm["dropped"])
        return (
            f"A storm at {numerals.seconds(worst['at_s'])} dropped "
            f"{numerals.of(worst['dropped'], 'turn')}"
        )
    queueing = summary["queueing"]
    if queueing:
        return f"First steps waited {numerals.duration(queueing['wait_p50_ms'])} for a place to run"
    drifted = [clock for clock, made in summary["drift"].items() if made["trend"]]
    if drifted:
        return f"{' and '.join(drifted)} drifted over the run"
    if summary["drift"]:
        return "Waits kept their level over the run"
    return "How long turns waited over the run"
