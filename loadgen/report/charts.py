"""The charts of a report, as Plotly figures.  All text that came from a server is escaped here:
Plotly renders a subset of HTML.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from loadgen.analysis import frame, numerals
from loadgen.analysis.phases import Phase
from loadgen.analysis.quantiles import ascending
from loadgen.metrics import TITLES, Clock

FloatArray = NDArray[np.float64]

POINTS = 2000
"""The most points a curve may have; extremes are always among them."""

COLOURS = {
    Clock.TTFV: "#2b8ccc",
    Clock.TTFP: "#e69f00",
    Clock.TTFA: "#009e73",
    Clock.TTC: "#cc79a7",
}
"""One colour a milestone, everywhere, after Okabe & Ito: told apart with any colour vision, and
with enough contrast on light and dark paper.
"""

FAILED = "#d55e00"
NEUTRAL = "#7d8795"

PHASE_COLOURS = {
    Phase.SETUP: "#b9c0ca",
    Phase.CONNECTING: "#2b8ccc",
    Phase.AUTHENTICATING: "#8c6bd1",
    Phase.QUEUEING: NEUTRAL,
    Phase.WORKING: COLOURS[Clock.TTFP],
    Phase.ANSWERING: COLOURS[Clock.TTFA],
    Phase.LOST: FAILED,
    Phase.HUMAN: "#c4b5dc",
}

_GRID = "rgba(128,128,128,0.22)"
_CLEAR = "rgba(0,0,0,0)"


def ecdf(table: pd.DataFrame, summary: Mapping[str, Any]) -> go.Figure:
    """Share of completed turns that had reached each mark after x seconds (log x), with the
    targets of the plan.
    """
    figure = go.Figure()
    chosen = frame.plain(table)
    extremes: list[float] = []
    for clock, colour in COLOURS.items():
        values = ascending(chosen[f"{clock}_ms"]) / 1000
        values = values[values > 0]
        if not values.size:
            continue
        extremes += [float(values[0]), float(values[-1])]
        index = thinned(values.size)
        figure.add_scatter(
            x=values[index], y=(index + 1) / values.size * 100, name=TITLES[clock], mode="lines",
            line={"color": colour, "width": 2.5, "shape": "hv",
                  "dash": "dot" if clock is Clock.TTFP else "solid"},
            hovertemplate=f"%{{y:.1f}} % had {TITLES[clock]} within %{{x:.4g}} s<extra></extra>",
        )  # fmt: skip
    for target in summary["slo"]:
        if target["clock"] in COLOURS:
            extremes.append(target["within_s"])
            _mark_target(figure, target)
    figure.update_yaxes(title_text="% of completed turns", range=[0, 101], ticksuffix=" %")
    if extremes:
        _log_seconds(figure, min(extremes), max(extremes))
    _styled(figure, 440)
    return figure.update_layout(legend={"y": 1.07})


def timeline(table: pd.DataFrame) -> go.Figure:
    """Turns in flight over the run, and below them how many milestones were reached a second."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.09)
    at, opened = frame.in_flight(table)
    keep = _peaks(at, opened)
    figure.add_scatter(
        x=at[keep], y=opened[keep], name="in flight", mode="lines", row=1, col=1,
        line={"color": NEUTRAL, "width": 1.5, "shape": "hv"}, fill="tozeroy",
        fillcolor="rgba(125,135,149,0.25)", showlegend=False,
        hovertemplate="%{y:.0f} turns in flight at %{x:.1f} s<extra></extra>",
    )  # fmt: skip
    done = frame.completed(table)
    series = (
        (Clock.TTFV, table["visible_s"]),
        (Clock.TTFA, table["answer_s"]),
        (Clock.TTC, table.loc[done, "end_s"]),
    )
    failed = table.loc[table["asked"] & ~done & (table["outcome"] != "cut_off"), "end_s"]
    edges = _bins(table)
    for clock, when in series:
        _add_rate(figure, when, edges, TITLES[clock], COLOURS[clock])
    if len(failed):
        _add_rate(figure, failed, edges, "failed", FAILED)
    figure.update_yaxes(title_text="turns in flight", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="per second", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title_text="seconds into the run", row=2, col=1)
    return _styled(figure, 480)


def waterfall(summary: Mapping[str, Any]) -> go.Figure:
    """The slowest turns, phase by phase, slowest on top."""
    figure = go.Figure()
    slowest = summary["slowest"]
    for phase, colour in PHASE_COLOURS.items():
        spans = [
            (place, turn, span)
            for place, turn in enumerate(slowest, 1)
            for span in turn["phases"]
            if span["phase"] == phase.value
        ]
        if not spans:
            continue
        figure.add_bar(
            orientation="h", name=phase.value, marker={"color": colour, "line": {"width": 0}},
            y=[str(place) for place, _, _ in spans],
            base=[span["begin_ms"] / 1000 for _, _, span in spans],
            x=[(span["end_ms"] - span["begin_ms"]) / 1000 for _, _, span in spans],
            text=[_hover(turn, span) for _, turn, span in spans], textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="overlay", bargap=0.35)
    figure.update_yaxes(
        autorange="reversed", type="category", ticksuffix="  ",
        categoryorder="array", categoryarray=[str(place) for place in range(1, len(slowest) + 1)],
    )  # fmt: skip
    figure.update_xaxes(title_text="seconds since Enter", rangemode="tozero")
    return _styled(figure, 130 + 32 * max(3, len(slowest)))


def thinned(size: int) -> NDArray[np.int64]:
    """At most `POINTS` indices of 0..size-1, evenly spread, first and last among them."""
    return np.unique(np.linspace(0, size - 1, min(size, POINTS)).round().astype(np.int64))


def safe(text: str, longest: int = 160) -> str:
    """Text of a server for a Plotly label: cut, and shown as it is."""
    shown = text if len(text) <= longest else text[: longest - 1] + "\u2026"
    return html.escape(shown, quote=False)


def _hover(turn: Mapping[str, Any], span: Mapping[str, Any]) -> str:
    ending = f"{turn['outcome']} {turn['cause']}".strip()
    lines = [
        f"{span['phase']}: {numerals.duration(span['end_ms'] - span['begin_ms'])}",
        f"{safe(turn['user'], 40)}, {safe(turn['dialect'], 40)}, {safe(ending, 40)}",
        *([safe(turn["detail"], 80)] if turn["detail"] else []),
    ]
    return "<br>".join(lines)


def _mark_target(figure: go.Figure, target: Mapping[str, Any]) -> None:
    colour = COLOURS[Clock(target["clock"])]
    within = target["within_s"]
    figure.add_shape(
        type="line", x0=within, x1=within, y0=0, y1=101,
        line={"color": colour, "width": 1.5, "dash": "dash"},
    )  # fmt: skip
    figure.add_scatter(
        x=[within], y=[target["share"] * 100], mode="markers", showlegend=False,
        marker={"color": colour, "size": 11, "symbol": "diamond"},
        hovertemplate=(
            f"target: {numerals.share(target['share'])} within {numerals.seconds(within)}"
            "<extra></extra>"
        ),
    )  # fmt: skip
    figure.add_annotation(
        x=math.log10(within), y=1, yref="paper", yanchor="bottom", showarrow=False,
        text=f"\u2264 {numerals.seconds(within)}", font={"color": colour, "size": 12},
    )  # fmt: skip


def _log_seconds(figure: go.Figure, low: float, high: float) -> None:
    low, high = low * 0.8, high * 1.25
    ticks = [
        digit * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for digit in (1, 2, 5)
    ]
    figure.update_xaxes(
        type="log", range=[math.log10(low), math.log10(high)], tickvals=ticks,
        ticktext=[numerals.plain(tick) for tick in ticks],
        title_text="seconds since Enter (log scale)",
    )  # fmt: skip


def _bins(table: pd.DataFrame) -> FloatArray:
    """Whole seconds, wide enough for at most 120 bins."""
    last = float(table["end_s"].max()) if table["end_s"].notna().any() else 1.0
    width = max(1, math.ceil(last / 120))
    return np.arange(0.0, last + width, width)


def _add_rate(
    figure: go.Figure, when: pd.Series[float], edges: FloatArray, name: str, colour: str
) -> None:
    counts, _ = np.histogram(when.dropna(), bins=edges)
    figure.add_scatter(
        x=(edges[:-1] + edges[1:]) / 2, y=counts / np.diff(edges), name=name, mode="lines",
        line={"color": colour, "width": 2}, row=2, col=1,
        hovertemplate=f"{name}: %{{y:.3g}} a second at %{{x:.0f}} s<extra></extra>",
    )  # fmt: skip


def _peaks(at: FloatArray, values: FloatArray) -> NDArray[np.int64]:
    """Indices of a step curve, at most `POINTS`: of each stretch its lowest and highest value."""
    if values.size <= POINTS:
        return np.arange(values.size)
    stretches = np.array_split(np.arange(values.size), POINTS // 2 - 1)
    keep = [0, values.size - 1]
    for stretch in stretches:
        part = values[stretch]
        keep += [int(stretch[part.argmin()]), int(stretch[part.argmax()])]
    return np.unique(np.array(keep, dtype=np.int64))


def _styled(figure: go.Figure, height: int) -> go.Figure:
    """Colours of text and grid follow the page (page.css); the rest is the same for all charts."""
    figure.update_layout(
        template="none", height=height, paper_bgcolor=_CLEAR, plot_bgcolor=_CLEAR,
        margin={"l": 58, "r": 14, "t": 12, "b": 48}, hovermode="closest",
        font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        hoverlabel={"bgcolor": "#1f2530", "bordercolor": "#1f2530",
                    "font": {"color": "#ffffff", "size": 13}},
    )  # fmt: skip
    figure.update_xaxes(gridcolor=_GRID, zeroline=False, automargin=True, title_standoff=10)
    figure.update_yaxes(gridcolor=_GRID, zeroline=False, automargin=True, title_standoff=8)
    return figure
