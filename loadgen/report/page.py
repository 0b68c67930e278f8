"""``report.html``: one self-contained page that opens without a network.

Every number in it is a value of the summary; the page computes none.  Server text is escaped by
Jinja's autoescape in the page and by `charts.safe` in the charts; a content security policy lets
only the two scripts of this page run, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.io
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from loadgen.analysis import frame, numerals
from loadgen.analysis.phases import Phase
from loadgen.journal import RunData, write_whole
from loadgen.metrics import INTENDED, Clock
from loadgen.report import charts

REPORT = "report.html"

_HERE = Path(__file__).parent
_MAIN = (Clock.TTFV, Clock.TTFP, Clock.TTFA, Clock.TTC)
_DETAIL = (
    Clock.RESUME, Clock.CONSENT, Clock.HUMAN, Clock.WALL, Clock.MAX_GAP, Clock.CONNECT, Clock.AUTH,
    Clock.RECOVERY, Clock.SETUP, Clock.LAG,
)  # fmt: skip
_PERCENTILES = ("p50", "p90", "p95", "p99")


def write_report(run: RunData, summary: Mapping[str, Any], folder: Path) -> Path:
    """Write ``report.html`` into ``folder`` and return its path."""
    path = folder / REPORT
    write_whole(path, render(run, summary).encode())
    return path


def render(run: RunData, summary: Mapping[str, Any]) -> str:
    """The page as text."""
    table = frame.turns(run)
    figures = {"waterfall": charts.waterfall(summary)} if summary["slowest"] else {}
    if summary["turns"]["started"]:
        figures |= {"ecdf": charts.ecdf(table, summary), "timeline": charts.timeline(table)}
    plotly_js, page_js = get_plotlyjs(), (_HERE / "page.js").read_text(encoding="utf-8")
    scripts = [plotly_js, page_js] if figures else []
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "count": numerals.count, "duration": numerals.duration, "share": numerals.share,
        "seconds": numerals.seconds, "unbroken": _unbroken,
    }  # fmt: skip
    return environment.get_template("page.html.j2").render(
        summary=summary,
        css=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        scripts=[Markup(script) for script in scripts],
        policy=_policy(scripts),
        figures={name: _data(figure) for name, figure in figures.items()},
        targets=[_target(result) for result in _targets(summary)],
        other_reasons=_other_reasons(summary),
        metrics=_tables(summary),
        dialects=_dialects(summary),
        swatches={clock.value: colour for clock, colour in charts.COLOURS.items()},
        phases={phase.value: charts.PHASE_COLOURS[phase] for phase in Phase},
        facts=_facts(run, summary),
    )


def _policy(scripts: list[str]) -> str:
    """Nothing may be fetched, and only scripts with these hashes run."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    ]
    return (
        f"default-src 'none'; script-src {' '.join(hashes) or chr(39) + 'none' + chr(39)}; "
        "style-src 'unsafe-inline'; img-src data: blob:"
    )


def _unbroken(text: str) -> str:
    """A number and its unit stay on one line."""
    return re.sub(r"(?<=\d) (?=(?:m?s|%)(?:\W|$))", "\u00a0", text)


def _data(figure: go.Figure) -> Markup:
    """JSON that can stand inside a script element: no ``<`` in it can end the element."""
    text = plotly.io.to_json(figure, validate=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _targets(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    budget = summary["failure_budget"]
    return [*summary["slo"], *([budget] if budget else [])]


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
        "title": "failures" if is_budget else result["title"],
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
    twins = [] if summary["load"].get("model") == "closed" else list(INTENDED.values())
    found = summary["metrics"]
    return {
        "main": [_metric(c, found[c.value]) for c in (*_MAIN, *twins) if c.value in found],
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
    if quantile["low_ms"] is None:
        return f"needs n {numerals.count(quantile['needs_n'])}"
    scale = 1000 if unit == "s" else 1
    low, high = (numerals.fixed(quantile[key] / scale) for key in ("low_ms", "high_ms"))
    return f"{low} to {high}"


def _dialects(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "turns": group["turns"],
            "metrics": [
                (group["metrics"][clock.value]["p50"], group["metrics"][clock.value]["p95"])
                for clock in (Clock.TTFV, Clock.TTFA, Clock.TTC)
            ],
        }
        for name, group in summary["dialects"].items()
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
