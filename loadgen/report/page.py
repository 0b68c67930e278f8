"""``report.html``: one self-contained page that opens without a network.

Every number in it is a value of the summary; the page computes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from loadgen.analysis import frame, numerals
from loadgen.journal import RunData, write_whole
from loadgen.metrics import INTENDED, Clock
from loadgen.report import (
    calibration,
    charts,
    course,
    distribution,
    document,
    glance,
    health,
    heat,
    multiples,
    pauses,
    recovery,
    streams,
    waterfall,
)
from loadgen.report.charts import Chart

REPORT = "report.html"

_MAIN = (Clock.TTFV, Clock.TTFP, Clock.TTFA, Clock.TTC)
_DETAIL = (
    Clock.RESUME, Clock.CONSENT, Clock.HUMAN, Clock.WALL, Clock.MAX_GAP, Clock.TOKEN, Clock.SESSION,
    Clock.CONNECT, Clock.AUTH, Clock.RECOVERY, Clock.SETUP, Clock.LAG,
)  # fmt: skip
_CLOSED = "closed, "
"""The usual model needs no place in the title; it is named below it."""

_PERCENTILES = ("p50", "p90", "p95", "p99")


def write_report(run: RunData, summary: Mapping[str, Any], folder: Path) -> Path:
    """Write ``report.html`` into ``folder`` and return its path."""
    path = folder / REPORT
    write_whole(path, render(run, summary).encode())
    return path


def render(run: RunData, summary: Mapping[str, Any]) -> str:
    """The page as text."""
    return document.render(
        "run.html.j2",
        drawn(run, summary),
        summary=summary,
        headline=summary["headline"].removeprefix(_CLOSED),
        meta=_meta(summary),
        at_a_glance=glance.glance(summary),
        targets=[_target(result) for result in _targets(summary)],
        other_reasons=_other_reasons(summary),
        metrics=_tables(summary),
        dialects=_groups(summary, "dialects"),
        groups=_groups(summary, "groups"),
        examples=waterfall.shown(summary),
        swatches={clock.value: colour for clock, colour in charts.COLOURS.items()},
        facts=_facts(run, summary),
        processes=health.rows(summary),
        calibration=_calibration(summary["generator"]["calibration"]),
    )


def drawn(run: RunData, summary: Mapping[str, Any]) -> list[Chart]:
    """All that there is something to say with."""
    made: list[Chart | None] = []
    if summary["turns"]["started"]:
        table = frame.turns(run)
        made += [
            distribution.ecdf(table, summary),
            course.course(run, table, summary),
            heat.heat(table, summary),
            distribution.gaps(table, summary),
            streams.streams(summary),
            pauses.pauses(table, summary),
            recovery.recovery(summary),
            *multiples.multiples(table, summary, "dialects"),
            *multiples.multiples(table, summary, "groups"),
        ]
    if summary["slowest"]:
        made.append(waterfall.waterfall(summary))
    return [chart for chart in made if chart]


def _meta(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked of whom, as name and value."""
    target, load = summary["target"], summary["load"]
    mock = " (the bundled mock agent)" if target.get("bundled_mock") else ""
    asked = [str(load.get("title") or "")]
    if summary["arrivals"] and load.get("users") is not None:
        asked.append(f"a pool of {numerals.of(load['users'], 'analyst')}")
    if load.get("run_time_s"):
        asked.append(numerals.seconds(load["run_time_s"]))
    started = str(summary["started_at"] or "")[:19].replace("T", " ")
    return [
        ("run", str(summary["run"])),
        ("started", f"{started} UTC" if started else ""),
        ("target", f"{target['host']}{mock}" if target.get("host") else ""),
        ("load", ", ".join(filter(None, asked))),
        ("turns", numerals.count(summary["turns"]["started"])),
        ("in flight at most", numerals.count(summary["peak_in_flight"])),
    ]


def _calibration(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What was found out about this host before the run."""
    if found is None:
        return None
    return {
        "made_at": str(found["made_at"])[:10],
        "wanted": found["wanted"],
        "rows": calibration.overhead(found["wanted"]),
        "sentences": list(calibration.sentences(found)),
    }


def _targets(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    budget = summary["failure_budget"]
    return [*summary["slo"], *([budget] if budget else []), *summary["cause_budgets"]]


def _target(result: Mapping[str, Any]) -> dict[str, Any]:
    """A target as the page shows it: a sentence, a bar and a mark."""
    is_budget = "budget" in result
    value = result["rate"] if is_budget else result["attained"]
    limit = result["budget"] if is_budget else result["share"]
    scale = max(10 * limit, value or 0.0, 1e-9) if is_budget else 1.0
    interval = None
    if result["low"] is not None:
        interval = f"{numerals.share(result['low'])} to {numerals.share(result['high'])}"
    return {
        "title": result["title"],
        "limit": "" if is_budget else f"within {numerals.seconds(result['within_s'])}",
        "verdict": result["verdict"],
        "value": numerals.NONE if value is None else numerals.share(value, limit),
        "needs": f"{'at most' if is_budget else 'needs'} {numerals.share(limit)}",
        "interval": interval,
        "bar": None if value is None else min(1.0, value / scale),
        "mark": min(1.0, limit / scale),
        "evidence": result["reason"].partition(": ")[2],
    }


def _other_reasons(summary: Mapping[str, Any]) -> list[str]:
    """Reasons that are not a target's own sentence: those stand with their target."""
    own = {result["reason"] for result in _targets(summary)}
    return [reason for reason in summary["reasons"] if reason not in own]


def _tables(summary: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    twins = [] if summary["arrivals"] is None else list(INTENDED.values())
    found = summary["metrics"]
    return {
        "main": [_metric(c, found[c.value]) for c in (*twins, *_MAIN) if c.value in found],
        "started": [
            _metric(c, found[c.value] | found[c.value]["started"])
            for c in (*twins, *_MAIN)
            if c.value in found and found[c.value]["started"]["lost"]
        ],
        "steady": [
            _metric(Clock(name), metric)
            for name, metric in (summary["window"] or {"metrics": {}})["metrics"].items()
        ],
        "detail": [_metric(c, found[c.value]) for c in _DETAIL if c.value in found],
        "recovered": [
            _metric(Clock(name), m) for name, m in summary["recovered"]["metrics"].items()
        ],
    }


def _metric(clock: Clock, metric: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the milestone table in one unit."""
    found = [metric[name] for name in _PERCENTILES]
    values = [None if q is None else q["value_ms"] for q in found] + [metric["max_ms"]]
    unit, texts = numerals.column(values)
    bounds = [bool(q and q.get("at_least")) for q in found] + [bool(metric.get("max_at_least"))]
    texts = [numerals.at_least(t) if low else t for t, low in zip(texts, bounds, strict=True)]
    never = [bool(q and q.get("never")) for q in found] + [False]
    texts = ["never" if no else text for text, no in zip(texts, never, strict=True)]
    return {
        "clock": clock.value, "title": metric["title"], "population": metric["population"],
        "n": numerals.count(metric["n"]), "missing": numerals.count(metric["missing"]),
        "unit": unit, "max": texts[-1],
        "cells": [
            {"name": name, "value": text, "beside": _interval(q, unit)}
            for name, text, q in zip(_PERCENTILES, texts[:-1], found, strict=True)
        ],
    }  # fmt: skip


def _interval(quantile: Mapping[str, Any] | None, unit: str) -> str:
    if quantile is None:
        return ""
    if quantile["needs_n"] is not None:
        return f"needs n {numerals.count(quantile['needs_n'])}"
    if quantile["low_ms"] is None:
        return ""
    scale = 1000 if unit == "s" else 1
    if quantile["high_ms"] is None:
        return numerals.at_least(numerals.fixed(quantile["low_ms"] / scale))
    low, high = (numerals.fixed(quantile[key] / scale) for key in ("low_ms", "high_ms"))
    return f"{low} to {high}"


def _groups(summary: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    shown: Iterable[Clock] = (Clock.TTFV, Clock.TTFA, Clock.TTC)
    if summary["arrivals"] is not None:
        shown = [INTENDED[clock] for clock in shown]
    return [
        {
            "name": name,
            "turns": group["turns"],
            "metrics": [
                (group["metrics"][clock.value]["p50"], group["metrics"][clock.value]["p95"])
                for clock in shown
            ],
        }
        for name, group in summary[kind].items()
    ]


def _facts(run: RunData, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything needed to repeat the run, as it stands in the manifest."""
    versions = run.manifest.get("versions") or {}
    host = run.manifest.get("host") or {}
    return [
        ("run", str(summary["run"])),
        ("scenario", str(summary["scenario"])),
        ("seed", str(summary["seed"])),
        ("plan", str(summary["plan_hash"])),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("generator's host", ", ".join(f"{name} {value}" for name, value in host.items())),
        ("journals", ", ".join(run.files)),
    ]
