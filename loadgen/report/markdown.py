"""``summary.md``: a run, and what it was held against, for the page of a CI job.

GitHub takes at most 1 MiB from a step; what is longer is cut at a line and says so.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loadgen.analysis import numerals, wording
from loadgen.errors import GeneratorError
from loadgen.metrics import INTENDED, Clock

FILE = "summary.md"
LONGEST = 1_000_000
"""Bytes; the limit of 1 MiB is for the whole step."""

_CUT = "\n\n_(cut: the whole is in the run folder)_\n"
_CLOCKS = (Clock.TTFV, Clock.TTFP, Clock.TTFA, Clock.TTC, Clock.RESUME)
_MARKS = {"PASS": "\u2705", "FAIL": "\u274c", "REGRESSION": "\u274c", "OK": "\u2705",
          "IMPROVED": "\u2705"}  # fmt: skip
_OTHER = "\u26a0\ufe0f"


def render(
    summary: Mapping[str, Any],
    comparison: Mapping[str, Any] | None = None,
    decision: Mapping[str, Any] | None = None,
) -> str:
    """The text: verdict, reasons, then the numbers."""
    said = summary if decision is None else decision
    lines = [
        f"## {_marked(said['verdict'])}: {_safe(said['headline'])}",
        "",
        *(f"- {_safe(reason)}" for reason in said["reasons"]),
        *(f"- _{_safe(warning)}_" for warning in said.get("warnings", ())),
        "",
        *_targets(summary),
        *_clocks(summary),
        *(_measures(comparison) if comparison else ()),
        f"Run {_safe(str(summary['run']))}, {numerals.of(summary['turns']['started'], 'turn')}, "
        f"plan {_safe(str(summary['plan_hash']))}.",
    ]
    return cut("\n".join(lines) + "\n", LONGEST)


def append(path: Path, text: str) -> None:
    """Add ``text`` to the file that ``GITHUB_STEP_SUMMARY`` names, as far as there is room.

    :raises GeneratorError: it cannot be written.
    """
    try:
        taken = path.stat().st_size if path.exists() else 0
        with path.open("ab") as stream:
            stream.write(cut(text, LONGEST - taken).encode())
    except OSError as error:
        raise GeneratorError(f"{path}: cannot write: {error.strerror}") from error


def cut(text: str, longest: int) -> str:
    """``text``, or as many whole lines of it as fit into ``longest`` bytes."""
    content = text.encode()
    if len(content) <= longest:
        return text
    room = longest - len(_CUT.encode())
    kept = content[: max(0, room)].rpartition(b"\n")[0].decode()
    return kept + _CUT if kept else ""


def _targets(summary: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [
            f"{slo['title']} within {numerals.seconds(slo['within_s'])} for "
            f"{numerals.share(slo['share'])}",
            _share(slo["attained"], slo["share"]),
            numerals.count(slo["judged"]),
            _marked(slo["verdict"]),
        ]
        for slo in summary["slo"]
    ]
    whole = summary["failure_budget"]
    for budget in [*([whole] if whole else []), *summary["cause_budgets"]]:
        allowed = f"{budget['title']} at most {numerals.share(budget['budget'])}"
        rate = _share(budget["rate"], budget["budget"])
        rows.append([allowed, rate, numerals.count(budget["judged"]), _marked(budget["verdict"])])
    yield from _table(("target", "measured", "of", "verdict"), rows)


def _clocks(summary: Mapping[str, Any]) -> Iterator[str]:
    due = [] if summary["arrivals"] is None else [INTENDED[clock] for clock in _CLOCKS[:4]]
    rows = []
    for clock in (*due, *_CLOCKS):
        metric = summary["metrics"].get(clock)
        if metric is None or not metric["n"]:
            continue
        values = [metric[name] for name in ("p50", "p90", "p95", "p99")]
        texts = [_bounded(v["value_ms"], v.get("at_least")) for v in values]
        rows.append([
            metric["title"], numerals.count(metric["n"]), *texts,
            _bounded(metric["max_ms"], metric.get("max_at_least")),
        ])  # fmt: skip
    yield from _table(("clock", "n", "p50", "p90", "p95", "p99", "max"), rows)


def _measures(comparison: Mapping[str, Any]) -> Iterator[str]:
    base, new = (_safe(", ".join(comparison[side])) for side in ("base", "new"))
    yield f"Base {base}, new {new}; intervals of 95 %."
    yield ""
    rows = [
        [
            m["title"] if m["change"] else f"_{m['title']}_",
            *(_value(m, m[side]) for side in ("base", "new")),
            numerals.NONE if m["value"] is None else wording.changed(m["metric"], m["value"]),
            numerals.NONE
            if m["low"] is None
            else wording.interval(m["metric"], m["low"], m["high"]),
            wording.allowed(m["metric"], m["limit"], m["floor_ms"]) if m["change"] else "",
            _marked(m["change"]) if m["change"] else "",
        ]
        for m in comparison["measures"]
    ]
    yield from _table(("measure", "base", "new", "change", "interval", "allowed", "verdict"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        return
    yield _row(head)
    last = "---" if head[-1] == "verdict" else "---:"
    yield _row(["---", *["---:"] * (len(head) - 2), last])
    yield from (_row([_safe(cell) for cell in row]) for row in rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _value(m: Mapping[str, Any], value: float | None) -> str:
    return numerals.NONE if value is None else wording.size(m["metric"], value)


def _share(value: float | None, against: float) -> str:
    return numerals.NONE if value is None else numerals.share(value, against)


def _bounded(value_ms: float | None, low: bool | None) -> str:
    text = numerals.duration(value_ms)
    return numerals.at_least(text) if low else text


def _marked(verdict: str) -> str:
    return f"{_MARKS.get(verdict, _OTHER)} {verdict}"


def _safe(text: str) -> str:
    """Text that may be a server's, in one line and without markup."""
    readable = "".join(c if c.isprintable() else " " for c in text)
    flat = html.escape(" ".join(readable.split()), quote=False)
    return re.sub(r"([|\[\]`*])", r"\\\1", flat)
