"""Measures of a comparison in words and numbers."""

from __future__ import annotations

from loadgen.analysis import numerals
from loadgen.analysis.measure import FAILURES, Change, Measure


def sentence(m: Measure) -> str:
    """A measure in one sentence: what was, what is, the change, what is allowed, what it takes."""
    if m.value is None or m.base is None or m.new is None:
        return f"{m.title}: nothing to compare, {m.n_base} {m.unit} in base and {m.n_new} in new"
    text = f"{m.title}: {size(m.metric, m.base)} to {size(m.metric, m.new)}"
    text += f", {changed(m.metric, m.value)}"
    if m.low is not None and m.high is not None:
        text += f" ({interval(m.metric, m.low, m.high)})"
    if m.change is not None:
        text += f", allowed {allowed(m.metric, m.limit, m.floor_ms)}"
    if m.change is Change.INCONCLUSIVE:
        text += _wanting(m)
    return text


def changed(metric: str, value: float) -> str:
    """``1.18`` as ``+18 %``; a difference of shares in percentage points."""
    percent = value * 100 if metric == FAILURES else (value - 1) * 100
    text = f"{percent:+.1f}" if abs(percent) < 10 else f"{percent:+,.0f}"
    text = "0" if text in ("+0.0", "-0.0") else text.removesuffix(".0")
    return f"{text} {'pp' if metric == FAILURES else '%'}"


def interval(metric: str, low: float, high: float) -> str:
    """Both ends of an interval."""
    return f"{changed(metric, low)} to {changed(metric, high)}"


def allowed(metric: str, limit: float, floor_ms: float | None) -> str:
    """What is tolerated of a measure."""
    return changed(metric, limit) if floor_ms is None else f"+{numerals.duration(floor_ms)}"


def size(metric: str, value: float) -> str:
    """A time, or a share of turns."""
    return numerals.share(value) if metric == FAILURES else numerals.duration(value)


def _wanting(m: Measure) -> str:
    """What it would take to settle it."""
    text = ""
    if m.low is not None and m.low > m.limit:
        text = ", which is not certain among all that is compared"
    here = f"({numerals.count(m.n_base)} and {numerals.count(m.n_new)} here)"
    if m.needs is None:
        return f"{text}; too near to what is allowed or too few {m.unit} to tell {here}"
    wanted = f"{numerals.count(m.needs)} {m.unit} a side"
    if m.low is None:
        return f"{text}; needs at least {wanted} {here}"
    shown = "" if m.metric == FAILURES else f" to show {changed(m.metric, m.effect)}"
    return f"{text}; needs about {wanted}{shown} {here}"
