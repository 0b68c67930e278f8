"""How the clocks of a run are distributed, beside their targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from loadgen.analysis import ecdf as shares
from loadgen.analysis import frame, numerals
from loadgen.analysis.quantiles import ascending
from loadgen.metrics import INTENDED, TITLES, Clock
from loadgen.report.charts import (
    COLOURS,
    NEUTRAL,
    POINTS,
    Chart,
    FloatArray,
    bounded,
    faded,
    log_range,
    styled,
    targets,
    thinned,
    told,
)

REACHED = {
    Clock.TTFV: "saw something",
    Clock.TTFP: "saw progress",
    Clock.TTFA: "had a first answer",
    Clock.TTC: "had the complete answer",
}
"""What somebody whose turn reached a mark would say of it."""

_SHARES = {0.5: "p50", 0.9: "p90", 0.95: "p95", 0.99: "p99"}
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SMALL = 150
"""Points of a curve in a small chart."""


def ecdf(table: pd.DataFrame, summary: Mapping[str, Any]) -> Chart:
    """Share of completed turns that had reached each mark after x seconds (log x), each with its
    interval, and the targets of the plan.
    """
    figure = _shares(table, summary, tuple(COLOURS))
    styled(figure, 440).update_layout(legend={"y": 1.07})
    return Chart("ecdf", point(summary["metrics"], summary), figure)


def small(
    name: str, label: str, table: pd.DataFrame, metrics: Mapping[str, Any],
    summary: Mapping[str, Any], span_s: tuple[float, float], part: Mapping[str, str],
) -> Chart:  # fmt: skip
    """The same for a ``part`` of the turns, to stand beside others with the same axis."""
    figure = _shares(table, summary, (Clock.TTFV, Clock.TTFA, Clock.TTC), part)
    styled(figure, 210).update_layout(showlegend=False, margin={"t": 8, "b": 34, "l": 44, "r": 8})
    figure.update_yaxes(title_text=None, tickvals=[0, 50, 95])
    figure.update_xaxes(title_text=None, **log_range(*span_s))
    figure.update_annotations(visible=False)
    return Chart(name, f"{label}: {point(metrics, summary, part)}", figure)


def overlaid(
    clock: Clock, title: str, lines: Sequence[tuple[str, pd.DataFrame, Mapping[str, Any]]]
) -> Chart | None:
    """One clock of several runs, ``lines`` of name, table and summary; None without a value."""
    figure = go.Figure()
    seen: list[float] = []
    for number, (name, table, summary) in enumerate(lines):
        values = _values(table, clock, summary)
        if not values.size:
            continue
        seen += [float(values[0]), float(values[-1])]
        (line,) = _curve(clock, values, large=False)
        line.update(name=name, legendgroup=name, line={
            "dash": _DASHES[number % len(_DASHES)], "shape": "hv", "width": 2.2,
        })  # fmt: skip
        figure.add_trace(line)
    if not seen:
        return None
    limits = {slo["within_s"]: slo for _, _, summary in lines for slo in targets(summary)
               if slo["clock"] in (clock, INTENDED[clock])}  # fmt: skip
    for within, slo in limits.items():
        seen.append(within)
        _mark_target(figure, slo, COLOURS[clock])
    figure.update_yaxes(title_text="% of completed turns", range=[0, 101], ticksuffix=" %")
    figure.update_xaxes(title_text="seconds (log scale)", **log_range(min(seen), max(seen)))
    return Chart(clock.value, title, styled(figure, 320).update_layout(legend={"y": 1.07}))


def span(table: pd.DataFrame, summary: Mapping[str, Any]) -> tuple[float, float] | None:
    """From the first sign to the last completion or the last target, in s; None without any."""
    seen = [values for clock in COLOURS if (values := _values(table, clock, summary)).size]
    if not seen:
        return None
    limits = [slo["within_s"] for slo in summary["slo"]]
    return min(float(v[0]) for v in seen), max([*(float(v[-1]) for v in seen), *limits])


def gaps(table: pd.DataFrame, summary: Mapping[str, Any]) -> Chart | None:
    """The longest gap between two chunks of each answer; None where nothing streams."""
    values = _plain(table, f"{Clock.MAX_GAP}_ms")
    values = values[values > 0]
    metric = summary["metrics"].get(Clock.MAX_GAP)
    if not values.size or metric is None:
        return None
    index = thinned(values.size)
    figure = go.Figure()
    figure.add_scatter(
        x=values[index] / 1000, y=(values.size - index) / values.size * 100, mode="lines",
        line={"color": COLOURS[Clock.TTFA], "width": 2.5, "shape": "vh"}, fill="tozeroy",
        fillcolor=faded(COLOURS[Clock.TTFA], 0.15), showlegend=False,
        hovertemplate="%{y:.3g} % of the answers paused for %{x:.4g} s or longer<extra></extra>",
    )  # fmt: skip
    figure.update_yaxes(title_text="% of answers", range=[0, 101])
    axis = log_range(float(values[0]) / 1000, float(values[-1]) / 1000)
    figure.update_xaxes(title_text="longest gap between two chunks, s (log scale)", **axis)
    title = (
        ", ".join(
            f"{words} never paused for longer than {bounded(metric[name])}"
            for words, name in (("Half of the answers", "p50"), ("95 %", "p95"))
            if told(metric[name])
        )
        or "How long answers paused"
    )
    return Chart("gaps", title, styled(figure, 280))


def point(
    metrics: Mapping[str, Any],
    summary: Mapping[str, Any],
    part: Mapping[str, str] | None = None,
) -> str:
    """What ``metrics`` say of the targets, or of the first sign and the end without any; of a
    ``part`` of the turns about one target only, the first that is missed or the last.
    """
    due = summary["arrivals"] is not None
    asked = {(INTENDED[clock] if due else clock): text for clock, text in REACHED.items()}
    ends = [INTENDED[clock] if due else clock for clock in (Clock.TTFV, Clock.TTC)]
    wanted = [
        (slo["clock"], _SHARES[slo["share"]], slo["within_s"])
        for slo in targets(summary, **(part or {}))
        if slo["clock"] in asked and slo["share"] in _SHARES
    ] or [(clock, "p95", None) for clock in ends]
    known = [
        (*one, found)
        for one in wanted
        if one[0] in metrics and told(found := metrics[one[0]][one[1]])
    ]
    if not known:
        medians = [(clock, metrics[clock]["p50"]) for clock in ends if clock in metrics]
        known = [(clock, "p50", None, found) for clock, found in medians if told(found)]
    if part:
        missed = [one for one in known if one[2] and one[3]["value_ms"] > one[2] * 1000]
        known = (missed or known[-1:])[:1]
    said = [
        f"{_share(name)} {asked[Clock(clock)]} within {bounded(found)}"
        + (f" (target {numerals.seconds(within)})" if within else "")
        for clock, name, within, found in known
    ]
    few = any(one[0] in metrics and metrics[one[0]]["n"] for one in wanted)
    return "; ".join(said) or ("too few turns for percentiles" if few else "no turn was completed")


def _share(name: str) -> str:
    return "half" if name == "p50" else f"{name[1:]} %"


def _shares(
    table: pd.DataFrame,
    summary: Mapping[str, Any],
    clocks: tuple[Clock, ...],
    part: Mapping[str, str] | None = None,
) -> go.Figure:
    figure = go.Figure()
    for clock in clocks:
        values = _values(table, clock, summary)
        if values.size:
            figure.add_traces(list(_curve(clock, values, not part)))
    due = summary["arrivals"] is not None
    shown = {INTENDED[clock] if due else clock: COLOURS[clock] for clock in clocks}
    for target in targets(summary, **(part or {})):
        if target["clock"] in shown:
            _mark_target(figure, target, shown[target["clock"]])
    figure.update_yaxes(title_text="% of completed turns", range=[0, 101], ticksuffix=" %")
    found = span(table, summary)
    if found:
        since = "since the turn was due" if due else "since Enter"
        figure.update_xaxes(title_text=f"seconds {since} (log scale)", **log_range(*found))
    return figure


def _values(table: pd.DataFrame, clock: Clock, summary: Mapping[str, Any]) -> FloatArray:
    """In s, ascending.  Where turns arrive they count from the moment at which they were due."""
    name = clock if summary["arrivals"] is None else INTENDED[clock]
    values = _plain(table, f"{name}_ms") / 1000
    return values[values > 0]


def _plain(table: pd.DataFrame, column: str) -> FloatArray:
    return ascending(frame.plain(table, column)[column])


def _curve(clock: Clock, values: FloatArray, large: bool) -> Iterator[go.Scatter]:
    index, colour = thinned(values.size, POINTS if large else _SMALL), COLOURS[clock]
    x, reached = values[index], index + 1
    if large and values.size > 1:
        low, high = shares.interval(reached, values.size)
        yield go.Scatter(
            x=np.concatenate([x, x[::-1]]), y=np.concatenate([high, low[::-1]]) * 100,
            fill="toself", fillcolor=faded(colour, 0.18), mode="lines", hoverinfo="skip",
            line={"width": 0}, showlegend=False, legendgroup=clock.value,
        )  # fmt: skip
    yield go.Scatter(
        x=x, y=reached / values.size * 100, name=TITLES[clock], mode="lines",
        legendgroup=clock.value, line={"color": colour, "width": 2.5, "shape": "hv",
              "dash": "dot" if clock is Clock.TTFP else "solid"},
        hovertemplate=f"%{{y:.1f}} % had {TITLES[clock]} within %{{x:.4g}} s<extra></extra>",
    )  # fmt: skip


def _mark_target(figure: go.Figure, target: Mapping[str, Any], colour: str) -> None:
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
        text=f"\u2264 {numerals.seconds(within)}", font={"color": NEUTRAL, "size": 12},
    )  # fmt: skip
