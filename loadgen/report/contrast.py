"""``comparison.html``: a comparison as one page without scripts that opens without a network.

Every number in it is a value of ``comparison.json``.  The bars have no scale of their own but what
is tolerated: one unit from the middle is exactly that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from loadgen.analysis import numerals, wording
from loadgen.analysis.measure import FAILURES
from loadgen.report import document

FILE = "comparison.html"

_SPAN = 4.0
"""Tolerances that fit on either side of a bar's middle."""


def render(comparison: Mapping[str, Any], decision: Mapping[str, Any]) -> str:
    """The page as text; ``decision`` is `gate.decide`, whose verdict stands on top."""
    return document.render(
        "contrast.html.j2",
        (),
        comparison=comparison,
        decision=decision,
        measures=[_row(m) for m in comparison["measures"]],
    )


def place(measure: Mapping[str, Any], value: float) -> float:
    """Where a change stands on its bar, in percent from the left: 50 is no change."""
    limit = measure["limit"]
    if measure["metric"] == FAILURES:
        tolerances = value / limit if limit else math.copysign(_SPAN, value) * bool(value)
    else:
        tolerances = math.log(value) / math.log(limit)
    return 50 + 50 * max(-1.0, min(1.0, tolerances / _SPAN))


def _row(m: Mapping[str, Any]) -> dict[str, Any]:
    metric = m["metric"]
    sizes = [numerals.NONE if m[s] is None else wording.size(metric, m[s]) for s in ("base", "new")]
    bar = None
    if m["low"] is not None:
        low, value, high = (place(m, m[name]) for name in ("low", "value", "high"))
        bar = {"left": low, "width": max(0.5, high - low), "value": value}
    return {
        "title": m["title"],
        "judged": m["change"] is not None,
        "verdict": m["change"] or "",
        "base": sizes[0],
        "new": sizes[1],
        "n": f"{numerals.count(m['n_base'])} / {numerals.count(m['n_new'])} {m['unit']}",
        "change": numerals.NONE if m["value"] is None else wording.changed(metric, m["value"]),
        "interval": "" if m["low"] is None else wording.interval(metric, m["low"], m["high"]),
        "allowed": wording.allowed(metric, m["limit"], m["floor_ms"]),
        "limit": place(m, m["limit"]) if bar else 0,
        "bar": bar,
    }
