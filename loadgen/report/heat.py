"""How long the first answer took, over the run, as a heat map: what percentiles hide (two kinds of
turns, a few that wait for a slot) shows as two bands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from loadgen.analysis import series
from loadgen.metrics import INTENDED, Clock
from loadgen.report.charts import COLOURS, Chart, bounded, faded, log_range, styled, targets, told

_INK = COLOURS[Clock.TTFA]


def heat(table: pd.DataFrame, summary: Mapping[str, Any]) -> Chart | None:
    """Turns by when their first answer came and how long it took; None without any.
    ``table`` is `frame.turns`.
    """
    clock = Clock.TTFA if summary["arrivals"] is None else INTENDED[Clock.TTFA]
    chosen = series.reached(table)
    reached, values = chosen["answer_s"].to_numpy(), chosen[f"{clock}_ms"].to_numpy()
    found = series.heat(reached, values, series.windows(table))
    if found is None:
        return None
    half = found.width_s / 2
    edges_s = np.append(found.at_s - half, found.at_s[-1] + half)
    counts = found.counts.astype(np.float64)
    counts[counts == 0] = np.nan
    figure = go.Figure()
    figure.add_heatmap(
        x=edges_s, y=found.edges_ms / 1000, z=counts, showscale=False, hoverongaps=False,
        colorscale=[[0, faded(_INK, 0.25)], [1, _INK]], xgap=1, ygap=1,
        hovertemplate="%{z} first answers around %{x:.0f} s after about %{y:.3g} s<extra></extra>",
    )  # fmt: skip
    for slo in targets(summary):
        if slo["clock"] == clock:
            figure.add_hline(y=slo["within_s"], line={"color": _INK, "dash": "dash"})
    low, high = float(found.edges_ms[0]) / 1000, float(found.edges_ms[-1]) / 1000
    figure.update_yaxes(title_text="seconds to the first answer", **log_range(low, high))
    figure.update_xaxes(title_text="seconds into the run", range=[0.0, float(edges_s[-1])])
    metric = summary["metrics"][clock]
    said = ", ".join(
        f"{words} within {bounded(metric[name])}"
        for words, name in (("half", "p50"), ("95 %", "p95"))
        if told(metric[name])
    )
    title = "First answers over the run (the fuller the colour, the more turns)" + (
        f": {said}" if said else ""
    )
    return Chart("heat", title, styled(figure, 320))
