"""How evenly answers came: the gaps between all their chunks, and how many of them were stalls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from loadgen.analysis import numerals
from loadgen.clock import NS_PER_S
from loadgen.flow import STALL_NS
from loadgen.metrics import Clock
from loadgen.report.charts import COLOURS, FAILED, NEUTRAL, Chart, log_range, safe, styled

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_STALL_S = STALL_NS / NS_PER_S
_LEAST_S = 0.001
"""Where the axis begins at the latest: gaps within one read are 0."""


def streams(summary: Mapping[str, Any]) -> Chart | None:
    """What share of the gaps is longer than x, of each dialect and route; None without a gap."""
    found = [one for one in summary["streaming"] if one["n"]]
    if not found:
        return None
    figure = go.Figure()
    longest, rarest = _STALL_S, 1.0
    for number, one in enumerate(found):
        ends = np.array([high for _, high, _ in one["histogram"]]) / 1000
        counts = np.array([n for *_, n in one["histogram"]])
        # After the last bucket nothing is longer, which a log axis cannot show: the curve ends at
        # the share of that bucket, drawn down to half a gap.
        left = np.append(counts[::-1].cumsum()[::-1], 0.5)
        x = np.maximum(np.insert(ends, 0, 0.0), _LEAST_S)
        longest, rarest = max(longest, float(ends[-1])), min(rarest, 0.5 / one["n"])
        figure.add_scatter(
            x=x, y=left / one["n"] * 100, mode="lines",
            name=safe(f"{one['dialect']} {one['route']}", 40),
            line={"color": COLOURS[Clock.TTFA], "width": 2.2, "shape": "hv",
                  "dash": _DASHES[number % len(_DASHES)]},
            hovertemplate="%{y:.3g} % of the gaps are longer than %{x:.4g} s<extra></extra>",
        )  # fmt: skip
    stalls = sum(one["stalls"] for one in found)
    figure.add_vline(
        _STALL_S, line={"color": FAILED if stalls else NEUTRAL, "width": 1, "dash": "dot"},
        # On a log axis an annotation is placed by the logarithm, a line is not.
        annotation={"text": "a stall", "x": math.log10(_STALL_S), "yref": "paper", "y": 1,
                    "xanchor": "right", "yanchor": "bottom"},
    )  # fmt: skip
    lowest = int(np.floor(np.log10(rarest * 100)))
    ticks = [10.0**power for power in range(2, lowest - 1, -1)]
    figure.update_yaxes(
        title_text="% of gaps that are longer (log scale)", type="log", tickvals=ticks,
        ticktext=[numerals.plain(tick) for tick in ticks], range=[lowest, 2.08],
    )  # fmt: skip
    figure.update_xaxes(title_text="seconds (log scale)", **log_range(_LEAST_S, longest))
    return Chart("streams", _point(found, stalls), styled(figure, 320).update_layout(
        showlegend=True, legend={"y": 1.09}))  # fmt: skip


def _point(found: list[Mapping[str, Any]], stalls: int) -> str:
    """How even the least even of them was, and the stalls of all."""
    worst = max(found, key=lambda one: one["gaps"]["p95"] or 0.0)
    if not stalls:
        paused = "none was a stall of more than 1 s"
    else:
        turns = sum(one["stalled_turns"] for one in found)
        answers = sum(one["turns"] for one in found)
        longest = max(one["gap_max_ms"] or 0.0 for one in found)
        paused = (
            f"{numerals.count(turns)} of {numerals.of(answers, 'answer')} stalled for more than "
            f"1 s, {numerals.duration(longest)} at most"
        )
    if worst["gaps"]["p95"] is None:
        return f"Gaps between chunks: {paused}"
    of = "" if len(found) == 1 else f" of {worst['dialect']} {worst['route']}"
    return (
        f"95 % of the gaps between chunks{of} are at most "
        f"{numerals.duration(worst['gaps']['p95'])}; {paused}"
    )
