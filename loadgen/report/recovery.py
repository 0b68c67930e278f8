"""How a crowd came back after a storm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from loadgen.analysis import numerals
from loadgen.report.charts import FAILED, NEUTRAL, Chart, safe, styled

_INKS = (FAILED, "#4b5fb0", "#7a5c3e", NEUTRAL)


def recovery(summary: Mapping[str, Any]) -> Chart | None:
    """Of each storm the share of its dropped turns that had recovered after x seconds; None when
    no storm dropped a turn.
    """
    storms = [storm for storm in summary["storms"] if storm["dropped"]]
    if not storms:
        return None
    figure = go.Figure()
    for number, storm in enumerate(storms):
        ends = storm["until_s"] - storm["at_s"]
        last = storm["recovered"] / storm["dropped"] * 100
        at = [0.0, *(after for after, _ in storm["curve"]), ends]
        shares = [0.0, *(back / storm["dropped"] * 100 for _, back in storm["curve"]), last]
        name = safe(f"at {numerals.seconds(storm['at_s'])}: {storm['what']}", 48)
        figure.add_scatter(
            x=at, y=shares, mode="lines", name=name,
            line={"color": _INKS[number % len(_INKS)], "width": 2.5, "shape": "hv"},
            hovertemplate=f"%{{y:.0f}} % back after %{{x:.2f}} s<extra>{name}</extra>",
        )  # fmt: skip
    figure.update_yaxes(title_text="% of the dropped turns", range=[0, 101])
    figure.update_xaxes(title_text="seconds since the storm began", rangemode="tozero")
    return Chart("recovery", _point(storms[0]), styled(figure, 300))


def _point(storm: Mapping[str, Any]) -> str:
    after = storm["recovered_after_ms"]["p90"]
    back = (
        f"90 % were back within {numerals.duration(after)}"
        if after is not None
        else f"{numerals.count(storm['recovered'])} came back"
    )
    return (
        f"Of {numerals.of(storm['dropped'], 'turn')} that the storm at "
        f"{numerals.seconds(storm['at_s'])} dropped, {back}"
    )
