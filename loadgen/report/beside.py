"""``side-by-side.html``: several runs in one page, a column each.

It judges no change: that takes a comparison (`loadgen compare`).  Every number in it is one of the
runs' own summaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import pandas as pd

from loadgen.analysis import frame, numerals
from loadgen.journal import RunData
from loadgen.metrics import INTENDED, TITLES, Clock
from loadgen.report import distribution, document
from loadgen.report.charts import Chart, bounded, told

FILE = "side-by-side.html"
MOST = 8
"""More columns than this nobody reads."""

_CLOCKS = (Clock.TTFV, Clock.TTFP, Clock.TTFA, Clock.TTC)
_DRAWN = (Clock.TTFV, Clock.TTFA, Clock.TTC)


@dataclass(frozen=True, slots=True)
class Column:
    """A run and the letter that stands for it."""

    letter: str
    table: pd.DataFrame
    summary: Mapping[str, Any]


def columns(runs: Sequence[tuple[RunData, Mapping[str, Any]]]) -> list[Column]:
    """Runs with their summaries, in the order given."""
    return [
        Column(letter, frame.turns(run), summary)
        for letter, (run, summary) in zip(ascii_uppercase, runs, strict=False)
    ]


def render(shown: Sequence[Column]) -> str:
    """The page as text."""
    return document.render(
        "beside.html.j2",
        drawn(shown),
        headline=_headline(shown),
        columns=shown,
        rows=[*_facts(shown), *_targets(shown), *_clocks(shown)],
    )


def drawn(shown: Sequence[Column]) -> list[Chart]:
    """A distribution for each clock, with a line for each run."""
    made = [_overlaid(clock, shown) for clock in _DRAWN]
    return [chart for chart in made if chart]


def _overlaid(clock: Clock, shown: Sequence[Column]) -> Chart | None:
    lines = [(one.letter, one.table, one.summary) for one in shown]
    found = [
        f"{one.letter} {bounded(metric['p95'])}"
        for one in shown
        if told((metric := one.summary["metrics"][_name(clock, one.summary)])["p95"])
    ]
    title = f"95 % {distribution.REACHED[clock]} within: {', '.join(found)}"
    return distribution.overlaid(clock, title, lines)


def _headline(shown: Sequence[Column]) -> str:
    passed = [one.letter for one in shown if one.summary["verdict"] == "PASS"]
    if len(passed) == len(shown):
        return f"All {numerals.count(len(shown))} runs met every target"
    if not passed:
        return f"None of {numerals.count(len(shown))} runs met every target"
    verb = "met" if len(passed) > 1 else "alone met"
    return f"{' and '.join(passed)} {verb} every target"


def _facts(shown: Sequence[Column]) -> list[dict[str, Any]]:
    rows = {
        "load": [str(one.summary["load"].get("title") or numerals.NONE) for one in shown],
        "target": [str(one.summary["target"].get("host") or numerals.NONE) for one in shown],
        "plan": [str(one.summary["plan_hash"] or numerals.NONE) for one in shown],
        "turns": [numerals.count(one.summary["turns"]["started"]) for one in shown],
        "completed": [
            numerals.NONE if (share := one.summary["turns"]["completed_share"]) is None
            else numerals.share(share) for one in shown
        ],
    }  # fmt: skip
    return [
        {"title": title, "small": "", "cells": [{"value": text, "beside": ""} for text in texts]}
        for title, texts in rows.items()
    ]


def _targets(shown: Sequence[Column]) -> list[dict[str, Any]]:
    """A row for each target that one of the runs has."""
    wanted = list(dict.fromkeys(_target(slo) for one in shown for slo in one.summary["slo"]))
    return [
        {
            "title": f"{title} within {numerals.seconds(within)}",
            "small": f"needs {numerals.share(share)}",
            "cells": [_attained(one.summary, (title, within, share)) for one in shown],
        }
        for title, within, share in wanted
    ]


def _target(slo: Mapping[str, Any]) -> tuple[str, float, float]:
    return slo["title"], slo["within_s"], slo["share"]


def _attained(summary: Mapping[str, Any], wanted: tuple[str, float, float]) -> dict[str, str]:
    for slo in summary["slo"]:
        if _target(slo) == wanted and slo["attained"] is not None:
            verdict = "" if summary["verdict"] == "INVALID" else slo["verdict"]
            text = numerals.share(slo["attained"], slo["share"])
            return {"value": text, "tone": verdict or "void", "beside": verdict}
    return {"value": numerals.NONE, "beside": ""}


def _clocks(shown: Sequence[Column]) -> list[dict[str, Any]]:
    return [
        {
            "title": TITLES[clock], "small": f"{clock}, {name}", "clock": clock.value,
            "cells": [_quantile(one.summary, clock, name) for one in shown],
        }
        for clock in _CLOCKS
        for name in ("p50", "p95")
    ]  # fmt: skip


def _quantile(summary: Mapping[str, Any], clock: Clock, name: str) -> dict[str, str]:
    found = summary["metrics"][_name(clock, summary)][name]
    if found is None:
        return {"value": numerals.NONE, "beside": ""}
    text = numerals.duration(found["value_ms"])
    value = numerals.at_least(text) if found.get("at_least") else text
    value = "never" if found.get("never") else value
    return {"value": value, "beside": _interval(found)}


def _interval(found: Mapping[str, Any]) -> str:
    low, high = found["low_ms"], found["high_ms"]
    if found["needs_n"] is not None:
        return f"needs n {numerals.count(found['needs_n'])}"
    if low is None:
        return ""
    if high is None:
        return numerals.at_least(numerals.duration(low))
    return f"{numerals.duration(low)} to {numerals.duration(high)}"


def _name(clock: Clock, summary: Mapping[str, Any]) -> Clock:
    return clock if summary["arrivals"] is None else INTENDED[clock]
