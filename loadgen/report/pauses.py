"""Whose time prompted turns took: the server's or the analyst's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from loadgen.analysis import numerals, prompted
from loadgen.metrics import Clock
from loadgen.report.charts import COLOURS, HUMAN, Chart, faded, styled, thinned

_POINTS = 400


def pauses(table: pd.DataFrame, summary: Mapping[str, Any]) -> Chart | None:
    """Each turn that asked its analyst something, shortest first: server time and on top of it the
    human pauses.  ``table`` is `frame.turns`.
    """
    found = summary["prompted"]
    if found is None:
        return None
    chosen = prompted.turns(table).sort_values(["wall_ms"], kind="stable")
    chosen = chosen.iloc[thinned(len(chosen), _POINTS)]
    place = np.linspace(0.0, 100.0, len(chosen)) if len(chosen) > 1 else np.array([100.0])
    figure = go.Figure()
    parts = (("server", "ttc_ms", COLOURS[Clock.TTC]), ("analyst", "human_ms", HUMAN))
    for name, column, colour in parts:
        figure.add_scatter(
            x=place, y=chosen[column].to_numpy() / 1000, name=name, stackgroup="wall",
            mode="lines", line={"color": colour, "width": 1, "shape": "hv"},
            fillcolor=faded(colour, 0.55), hovertemplate=f"{name}: %{{y:.3g}} s<extra></extra>",
        )  # fmt: skip
    figure.update_yaxes(title_text="seconds", rangemode="tozero")
    figure.update_xaxes(title_text="% of the prompted turns, shortest first", range=[0, 100])
    title = (
        f"Turns that asked their analyst something: {numerals.duration(found['server_p50_ms'])} of "
        f"the server, {numerals.duration(found['human_p50_ms'])} of the analyst (medians)"
    )
    figure = styled(figure, 280)
    return Chart("pauses", title, figure.update_layout(hovermode="x unified"))
