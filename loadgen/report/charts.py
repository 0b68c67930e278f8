"""What all charts share: a figure with its point, the palette, thinning, and the look.

All text that came from a server is escaped here: Plotly renders a subset of HTML.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from loadgen.analysis import numerals
from loadgen.analysis.phases import Phase
from loadgen.metrics import Clock

FloatArray = NDArray[np.float64]

POINTS = 1000
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
HUMAN = "#a48bc8"
NEUTRAL = "#7d8795"

PHASE_COLOURS = {
    Phase.SETUP: "#b9c0ca",
    Phase.PREPARING: "#7a5c3e",
    Phase.CONNECTING: "#4b5fb0",
    Phase.AUTHENTICATING: "#8c6bd1",
    Phase.QUEUEING: NEUTRAL,
    Phase.WORKING: COLOURS[Clock.TTFP],
    Phase.ANSWERING: COLOURS[Clock.TTFA],
    Phase.LOST: FAILED,
    Phase.HUMAN: HUMAN,
}

_PARTS = ("dialect", "scenario", "group")

GRID = "rgba(128,128,128,0.22)"
_CLEAR = "rgba(0,0,0,0)"


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure that says its point: ``title`` is a sentence, plain text, and stands above it."""

    name: str
    title: str
    figure: go.Figure


def thinned(size: int, most: int = POINTS) -> NDArray[np.int64]:
    """At most ``most`` indices of 0..size-1, evenly spread, first and last among them."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.int64))


def safe(text: str, longest: int = 160) -> str:
    """Text of a server for a Plotly label: cut, and shown as it is."""
    shown = text if len(text) <= longest else text[: longest - 1] + "\u2026"
    return html.escape(shown, quote=False)


def targets(summary: Mapping[str, Any], **part: str) -> list[Mapping[str, Any]]:
    """Targets that are about all turns, and those about ``part``, such as ``dialect="nat-ws"``."""
    return [
        slo
        for slo in summary["slo"]
        if all(slo[name] is None or slo[name] == part.get(name) for name in _PARTS)
    ]


def told(quantile: Mapping[str, Any] | None) -> bool:
    """Whether there were turns enough for this percentile, and it came at all."""
    return quantile is not None and quantile["value_ms"] is not None


def bounded(quantile: Mapping[str, Any]) -> str:
    """A quantile of the summary as words of a sentence; it may be a lower bound."""
    text = numerals.duration(quantile["value_ms"])
    return f"{text} or more" if quantile.get("at_least") else text


def peaks(at: FloatArray, values: FloatArray) -> NDArray[np.int64]:
    """Indices of a step curve, at most `POINTS`: of each stretch its lowest and highest value."""
    if values.size <= POINTS:
        return np.arange(values.size)
    stretches = np.array_split(np.arange(values.size), POINTS // 2 - 1)
    keep = [0, values.size - 1]
    for stretch in stretches:
        part = values[stretch]
        keep += [int(stretch[part.argmin()]), int(stretch[part.argmax()])]
    return np.unique(np.array(keep, dtype=np.int64))


def faded(colour: str, opacity: float) -> str:
    """``#rrggbb`` as a colour that what lies below shines through."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def log_range(low: float, high: float) -> dict[str, Any]:
    """A log axis from below ``low`` to above ``high``, with ticks at 1, 2 and 5."""
    low, high = low * 0.8, high * 1.25
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits: tuple[float, ...] = (1, 2, 5) if len(decades) < 5 else (1,)
    if high < 6 * low:
        digits = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)
    ticks = [digit * 10.0**power for power in decades for digit in digits]
    return {
        "type": "log", "range": [math.log10(low), math.log10(high)], "tickvals": ticks,
        "ticktext": [numerals.plain(tick) for tick in ticks],
    }  # fmt: skip


def styled(figure: go.Figure, height: int) -> go.Figure:
    """Colours of text and grid follow the page (page.css); the rest is the same for all charts."""
    figure.update_layout(
        template="none", height=height, paper_bgcolor=_CLEAR, plot_bgcolor=_CLEAR,
        margin={"l": 58, "r": 14, "t": 12, "b": 48}, hovermode="closest",
        font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        hoverlabel={"bgcolor": "#1f2530", "bordercolor": "#1f2530",
                    "font": {"color": "#ffffff", "size": 13}},
    )  # fmt: skip
    figure.update_xaxes(
        gridcolor=GRID, zeroline=False, automargin=True, title_standoff=10, title_font_size=12
    )
    figure.update_yaxes(
        gridcolor=GRID, zeroline=False, automargin=True, title_standoff=8, title_font_size=12
    )
    return figure
