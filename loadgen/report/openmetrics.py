"""``metrics.txt``: the figures of a run in OpenMetrics text, as GitLab's metrics reports read it.

Base units: seconds and shares.  A figure that is missing has no line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loadgen.analysis.quantiles import SHARES
from loadgen.analysis.target import PARTS

FILE = "metrics.txt"


def render(
    summary: Mapping[str, Any],
    comparison: Mapping[str, Any] | None = None,
    decision: Mapping[str, Any] | None = None,
) -> str:
    """The text, with its end mark."""
    return "\n".join([*_lines(summary, comparison, decision), "# EOF", ""])


def _lines(
    summary: Mapping[str, Any],
    comparison: Mapping[str, Any] | None,
    decision: Mapping[str, Any] | None,
) -> Iterator[str]:
    code = (summary if decision is None else decision)["exit_code"]
    yield from _family("loadgen_exit_code", "gauge", "Exit code of the gate.")
    yield f"loadgen_exit_code {code}"
    yield from _family("loadgen_turns", "gauge", "Turns by outcome.")
    for outcome in ("started", "completed", "failed", "incomplete", "timed_out", "refused",
                    "abandoned", "dropped", "cut_off"):  # fmt: skip
        yield _sample("loadgen_turns", {"outcome": outcome}, summary["turns"][outcome])
    yield from _family("loadgen_clock_seconds", "gauge", "Percentiles of each clock.", "seconds")
    for clock, metric in summary["metrics"].items():
        for name, share in SHARES.items():
            if metric[name] and metric[name]["value_ms"] is not None:
                labels = {"clock": clock, "quantile": f"{float(share):g}"}
                value = metric[name]["value_ms"] / 1000
                yield _sample("loadgen_clock_seconds", labels, value)
    yield from _targets(summary)
    if comparison is not None:
        yield from _measures(comparison)


def _targets(summary: Mapping[str, Any]) -> Iterator[str]:
    yield from _family("loadgen_slo_attained", "gauge", "Share of turns that met a target.")
    for slo in summary["slo"]:
        if slo["attained"] is not None:
            labels = {"clock": slo["clock"], "within": f"{slo['within_s']:g}s"}
            labels |= {by: slo[by] for by in PARTS if slo[by] is not None}
            yield _sample("loadgen_slo_attained", labels, slo["attained"])


def _measures(comparison: Mapping[str, Any]) -> Iterator[str]:
    yield from _family(
        "loadgen_change", "gauge", "New / base; of failures new - base, with its 95 % interval."
    )
    for m in comparison["measures"]:
        for bound in ("value", "low", "high"):
            if m[bound] is not None:
                labels = {"metric": m["metric"], "of": m["of"], "bound": bound}
                yield _sample("loadgen_change", labels, m[bound])


def _family(name: str, kind: str, told: str, unit: str | None = None) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {told}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {value:.6g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
