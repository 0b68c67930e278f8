"""What single turns were waiting for, phase by phase: the slowest, those in the middle, and failed
ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import plotly.graph_objects as go

from loadgen.analysis import numerals
from loadgen.metrics import Clock
from loadgen.report.charts import COLOURS, NEUTRAL, PHASE_COLOURS, Chart, safe, styled

Turn = Mapping[str, Any]

_MILESTONES = {
    "first progress": COLOURS[Clock.TTFP],
    "first answer": COLOURS[Clock.TTFA],
    "ended": COLOURS[Clock.TTC],
}


def shown(summary: Mapping[str, Any]) -> list[tuple[str, Turn]]:
    """The turns with the labels that they have in chart and table."""
    return [
        *((str(place), turn) for place, turn in enumerate(summary["slowest"], 1)),
        *((f"median {place}", turn) for place, turn in enumerate(summary["median"], 1)),
        *((f"failed {place}", turn) for place, turn in enumerate(summary["failed"], 1)),
    ]


def waterfall(summary: Mapping[str, Any]) -> Chart:
    """The turns of `shown`, the slowest on top, with what happened in them."""
    turns = shown(summary)
    figure = go.Figure(list(_bars(turns)) + list(_dots(turns)))
    figure.update_layout(barmode="overlay", bargap=0.35)
    figure.update_yaxes(
        autorange="reversed", type="category", ticksuffix="  ",
        categoryorder="array", categoryarray=[label for label, _ in turns],
    )  # fmt: skip
    figure.update_xaxes(title_text="seconds since Enter", rangemode="tozero")
    styled(figure, 150 + 28 * max(3, len(turns)))
    return Chart("waterfall", _point(summary["slowest"][0]), figure)


def _bars(turns: list[tuple[str, Turn]]) -> Iterator[go.Bar]:
    for phase, colour in PHASE_COLOURS.items():
        spans = [
            (label, turn, span)
            for label, turn in turns
            for span in turn["phases"]
            if span["phase"] == phase.value
        ]
        if not spans:
            continue
        yield go.Bar(
            orientation="h", name=phase.value, marker={"color": colour, "line": {"width": 0}},
            y=[label for label, _, _ in spans],
            base=[span["begin_ms"] / 1000 for _, _, span in spans],
            x=[(span["end_ms"] - span["begin_ms"]) / 1000 for _, _, span in spans],
            text=[_hover(turn, span) for _, turn, span in spans], textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip


def _dots(turns: list[tuple[str, Turn]]) -> Iterator[go.Scatter]:
    """What happened in the turns; milestones in their colours."""
    happened = [(label, event) for label, turn in turns for event in turn["events"]]
    if happened:
        yield go.Scatter(
            x=[event["at_ms"] / 1000 for _, event in happened], y=[label for label, _ in happened],
            mode="markers", showlegend=False,
            marker={
                "size": 7, "line": {"width": 1, "color": "#ffffff"},
                "color": [_MILESTONES.get(event["event"], NEUTRAL) for _, event in happened],
            },
            text=[
                f"{safe(event['event'], 60)} at {numerals.duration(event['at_ms'])}"
                for _, event in happened
            ],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip


def _hover(turn: Turn, span: Mapping[str, Any]) -> str:
    ending = f"{turn['outcome']} {turn['cause']}".strip()
    lines = [
        f"{span['phase']}: {numerals.duration(span['end_ms'] - span['begin_ms'])}",
        f"{safe(turn['user'], 40)}, {safe(turn['dialect'], 40)}, {safe(ending, 40)}",
        *([safe(turn["detail"], 80)] if turn["detail"] else []),
        *(
            f"{numerals.duration(event['at_ms'])}  {safe(event['event'], 60)}"
            for event in turn["events"][:12]
        ),
    ]
    return "<br>".join(lines)


def _point(slowest: Turn) -> str:
    text = f"The slowest turn took {numerals.duration(slowest['elapsed_ms'])} of the server's time"
    spans = [span for span in slowest["phases"] if span["phase"] != "human pause"]
    if not spans:
        return text
    longest = max(spans, key=lambda span: span["end_ms"] - span["begin_ms"])
    return f"{text}, most of it {longest['phase']}"
