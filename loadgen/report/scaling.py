"""Charts of a capacity report: what grows with the load, what breaks, and where the time goes.

Every value is one of ``capacity.json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from loadgen.analysis import answer, numerals
from loadgen.analysis.anatomy import ORDER
from loadgen.analysis.phases import Phase
from loadgen.metrics import Clock
from loadgen.report.charts import (
    COLOURS,
    FAILED,
    NEUTRAL,
    PHASE_COLOURS,
    Chart,
    log_range,
    styled,
)
from loadgen.report.document import sentence

Json = Mapping[str, Any]

TONES = {"PASS": "#17794b", "FAIL": FAILED, "INCONCLUSIVE": "#c09000", "INVALID": "#8a3ab9"}
_STAGES = {
    "setup": Phase.SETUP,
    "queueing": Phase.QUEUEING,
    "work": Phase.WORKING,
    "answer": Phase.ANSWERING,
    "human": Phase.HUMAN,
}
_LAW = "#5a6472"
_CLOCK = "#2b8ccc"


def charts(found: Json) -> list[Chart]:
    """All that the levels have something to say with."""
    levels = sorted(found["levels"], key=lambda one: one["level"])
    return [
        _scaling(found, levels),
        _attainment(found, levels),
        _anatomy(found, levels),
        _ecdf(found, levels),
        _course(found),
    ]


def _scaling(found: Json, levels: Sequence[Json]) -> Chart:
    """Throughput with the fitted law, and the latency of each target with its limit."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    at = [one["level"] for one in levels]
    value = [one["per_s"]["value"] for one in levels]
    figure.add_scatter(
        x=at, y=value, name="measured", mode="markers", row=1, col=1,
        error_y=_bars(value, [one["per_s"]["low"] for one in levels],
                      [one["per_s"]["high"] for one in levels]),
        marker={"size": 10, "color": [TONES[one["verdict"]] for one in levels]},
        hovertemplate=f"%{{x}} {found['unit']}: %{{y:.4g}} turns/s<extra></extra>",
    )  # fmt: skip
    law = found["usl"]
    if law["fitted"]:
        figure.add_scatter(
            x=[point["level"] for point in law["curve"]],
            y=[point["per_s"] for point in law["curve"]], name="scalability law (USL)",
            mode="lines", row=1, col=1, line={"color": _LAW, "dash": "dash", "width": 2},
            hovertemplate="law at %{x:.4g}: %{y:.4g} turns/s<extra></extra>",
        )  # fmt: skip
    for clock, target in _timed_targets(found):
        _latency(figure, found, levels, clock, target)
    _mark_levels(figure, found, rows=2)
    figure.update_yaxes(title_text="turns per second", rangemode="tozero", row=1, col=1)
    shown = [value for trace in figure.data if trace.yaxis == "y2" for value in trace.y]
    shown += [target["within_s"] for _, target in _timed_targets(found)]
    if shown:
        figure.update_yaxes(**log_range(min(shown), max(shown)), row=2, col=1)
    figure.update_yaxes(title_text="seconds (log scale)", row=2, col=1)
    figure.update_xaxes(title_text=found["unit"], row=2, col=1)
    return Chart("scaling", _scaling_point(found), styled(figure, 620))


def _latency(
    figure: go.Figure, found: Json, levels: Sequence[Json], clock: str, target: Json
) -> None:
    """The percentile that the target is about, or the nearest one above it."""
    name = _percentile(target["share"])
    measured = [(one["level"], one["metrics"].get(clock, {}).get(name)) for one in levels]
    known = [(level, q) for level, q in measured if q]
    if not known:
        return
    values = [q["value_ms"] / 1000 for _, q in known]
    low = [v if q["low_ms"] is None else q["low_ms"] / 1000
           for (_, q), v in zip(known, values, strict=True)]  # fmt: skip
    high = [v if q["high_ms"] is None else q["high_ms"] / 1000
            for (_, q), v in zip(known, values, strict=True)]  # fmt: skip
    colour = _colour(clock)
    figure.add_scatter(
        x=[level for level, _ in known], y=values, name=f"{target['title']}, {name}",
        mode="lines+markers", row=2, col=1, line={"color": colour, "width": 2},
        error_y=_bars(values, low, high),
        hovertemplate=(
            f"{name} of {target['title']} at %{{x}} {found['unit']}: %{{y:.4g}} s<extra></extra>"
        ),
    )  # fmt: skip
    figure.add_hline(
        y=target["within_s"], line={"color": colour, "dash": "dot", "width": 1.5}, row=2, col=1,
    )  # fmt: skip


def _attainment(found: Json, levels: Sequence[Json]) -> Chart:
    """The share of turns that met each target, with its Wilson interval."""
    figure = go.Figure()
    for named, target in answer.targets(levels).items():
        if "budget" in target:
            continue
        here = [(one["level"], answer.targets([one]).get(named)) for one in levels]
        chosen = [(level, t) for level, t in here if t and t["attained"] is not None]
        shares = [100 * t["attained"] for _, t in chosen]
        colour = _colour(target["clock"])
        figure.add_scatter(
            x=[level for level, _ in chosen], y=shares, mode="lines+markers", name=named,
            line={"color": colour, "width": 2},
            error_y=_bars(shares, [100 * t["low"] for _, t in chosen],
                          [100 * t["high"] for _, t in chosen]),
            hovertemplate=f"%{{x}} {found['unit']}: %{{y:.4g}} %<extra></extra>",
        )  # fmt: skip
        figure.add_hline(
            y=100 * target["share"], line={"color": colour, "dash": "dot", "width": 1.5}
        )
    _mark_levels(figure, found, rows=0)
    figure.update_yaxes(title_text="% of turns", range=[0, 103], ticksuffix=" %")
    figure.update_xaxes(title_text=found["unit"])
    breaks = found["breaks"]
    point = "Every target was met at every level"
    if breaks is not None:
        point = f"{breaks['target']} is the first target to be missed"
    return Chart("attainment", point, styled(figure, 410).update_layout(margin={"t": 28}))


def _anatomy(found: Json, levels: Sequence[Json]) -> Chart:
    """Where the time of a turn went, a bar a level."""
    figure = go.Figure()
    known = [one for one in levels if one["anatomy"]]
    names = [numerals.plain(one["level"]) for one in known]
    for stage in ORDER:
        figure.add_bar(
            x=names, y=[100 * one["anatomy"]["share"][stage] for one in known], name=stage,
            marker={"color": PHASE_COLOURS[_STAGES[stage]], "line": {"width": 0}},
            customdata=[one["anatomy"]["mean_ms"][stage] / 1000 for one in known],
            hovertemplate=f"{stage}: %{{y:.3g}} %, %{{customdata:.4g}} s a turn<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.25)
    figure.update_yaxes(title_text="% of a turn", range=[0, 100], ticksuffix=" %")
    figure.update_xaxes(title_text=found["unit"], type="category")
    point = "Where the time of a turn goes"
    if known:
        last = known[-1]
        most = max(ORDER, key=lambda stage: last["anatomy"]["share"][stage])
        point = (
            f"At {numerals.plain(last['level'])} {found['unit']} "
            f"{numerals.share(last['anatomy']['share'][most])} of a turn is {most}"
        )
    return Chart("anatomy", point, styled(figure, 380))


def _ecdf(found: Json, levels: Sequence[Json]) -> Chart:
    """How the clock of the first target is distributed at each level."""
    figure = go.Figure()
    timed = _timed_targets(found)
    clock = timed[0][0] if timed else "ttc"
    extremes: list[float] = [target["within_s"] for name, target in timed[:1]]
    for place, one in enumerate(levels):
        curve = one["ecdf"].get(clock) or {"ms": []}
        if not curve["ms"]:
            continue
        at = [max(ms, 0.1) / 1000 for ms in curve["ms"]]
        extremes += [at[0], at[-1]]
        figure.add_scatter(
            x=at, y=[100 * share for share in curve["share"]], mode="lines",
            name=numerals.plain(one["level"]),
            line={"color": _ramp(place, len(levels)), "width": 2, "shape": "hv"},
            hovertemplate=(
                f"{numerals.plain(one['level'])} {found['unit']}: "
                "%{y:.1f} % within %{x:.4g} s<extra></extra>"
            ),
        )  # fmt: skip
    if timed:
        within = timed[0][1]["within_s"]
        figure.add_vline(x=within, line={"color": _CLOCK, "dash": "dash", "width": 1.5})
    if extremes:
        figure.update_xaxes(
            title_text="seconds since Enter (log scale)",
            **log_range(min(extremes), max(extremes)),
        )
    figure.update_yaxes(title_text="% of completed turns", range=[0, 101], ticksuffix=" %")
    title = timed[0][1]["title"] if timed else "completion"
    return Chart("ecdf", f"How long {title} takes, a line a level", styled(figure, 420))


def _course(found: Json) -> Chart:
    """The whole search: turns under way and how late visible progress came, levels shaded."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    at_s: list[float] = []
    under: list[float | None] = []
    late: list[float | None] = []
    bands: list[tuple[float, float, Json]] = []
    begin = 0.0
    for one in found["levels"]:
        line = one["timeline"]
        for row in line["rows"]:
            at_s.append(begin + row["at_s"])
            under.append(row["in_flight"])
            late.append(None if row["ttfv_p95_ms"] is None else row["ttfv_p95_ms"] / 1000)
        end = begin + one["closed_s"] - one["began_s"]
        bands.append((begin, end, one))
        begin = end
    figure.add_scatter(
        x=at_s, y=under, mode="lines", showlegend=False, row=1, col=1, fill="tozeroy",
        line={"color": NEUTRAL, "width": 1.5}, fillcolor="rgba(125,135,149,0.25)",
        hovertemplate="%{y:.4g} turns in flight<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=at_s, y=late, mode="lines", showlegend=False, row=2, col=1,
        line={"color": COLOURS[Clock.TTFV], "width": 1.5},
        hovertemplate="visible progress p95 %{y:.4g} s<extra></extra>",
    )  # fmt: skip
    # Plotly leaves a subplot out that has no line yet.
    for left, right, one in bands:
        figure.add_vrect(
            x0=left, x1=right, fillcolor=TONES[one["verdict"]], opacity=0.13, line={"width": 0},
            row="all", col=1,
        )  # fmt: skip
        figure.add_annotation(
            x=(left + right) / 2, y=1, yref="paper", yanchor="bottom", showarrow=False,
            text=numerals.plain(one["level"]), font={"size": 11},
        )  # fmt: skip
    figure.update_yaxes(title_text="in flight", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="visible, p95 in s", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title_text="seconds of search", row=2, col=1)
    number = numerals.count(len(found["levels"]))
    point = f"{number} levels in {numerals.seconds(found['searched_s'])}"
    return Chart("course", point, styled(figure, 440).update_layout(margin={"t": 28}))


def _mark_levels(figure: go.Figure, found: Json, rows: int) -> None:
    """Lines at the answer and at what is needed."""
    where = {"row": "all", "col": 1} if rows else {}
    told = found["answer"]
    for level, text, colour in (
        (told["proven"], "holds", TONES["PASS"]),
        (told["need"], "needed", _LAW),
    ):
        if level is not None:
            figure.add_vline(x=level, line={"color": colour, "width": 1.5, "dash": "dash"}, **where)
            figure.add_annotation(
                x=level, y=1, yref="paper", yanchor="bottom", showarrow=False, text=text,
                font={"color": colour, "size": 12},
            )  # fmt: skip


def _scaling_point(found: Json) -> str:
    law = found["usl"]
    if not law["fitted"]:
        return "Throughput and waiting by load"
    return sentence(str(law["note"]).partition(";")[0])


def _timed_targets(found: Json) -> list[tuple[str, Json]]:
    return [(t["clock"], t) for t in answer.targets(found["levels"]).values() if "clock" in t]


def _bars(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "data", "symmetric": False, "thickness": 1.2, "width": 3, "color": NEUTRAL,
        "array": [max(0.0, h - v) for v, h in zip(values, high, strict=True)],
        "arrayminus": [max(0.0, v - n) for v, n in zip(values, low, strict=True)],
    }  # fmt: skip


def _percentile(share: float) -> str:
    return next((name for name, p in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95)) if share <= p),
                "p99")  # fmt: skip


def _colour(clock: str) -> str:
    for known, colour in COLOURS.items():
        if clock.startswith(known.value):
            return colour
    return _CLOCK


def _ramp(place: int, number: int) -> str:
    """From light to dark blue, lightest load first."""
    part = place / max(1, number - 1)
    return f"hsl(210, {round(45 + 35 * part)}%, {round(72 - 40 * part)}%)"
