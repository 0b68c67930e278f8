"""The generator's own health in the report: its lines over the run, and a row for each process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from loadgen.analysis import numerals
from loadgen.report.charts import safe

_LAG, _CPU = "#8c6bd1", "#b05c20"
_DASHES = ("solid", "dot", "dash", "dashdot")


def traces(summary: Mapping[str, Any]) -> tuple[list[go.Scatter], list[go.Scatter]]:
    """Hub lag in ms, and CPU in % of a core, of each process that asks, on the run's time axis."""
    told = [line for line in summary["generator"]["timeline"] if len(line["at_s"]) > 1]
    lag, cpu = [], []
    for number, line in enumerate(told):
        name = safe(line["process"], 40)
        style = {"width": 1.5, "dash": _DASHES[number % len(_DASHES)]}
        lag.append(go.Scatter(
            x=line["at_s"], y=line["lag_max_ms"], mode="lines", showlegend=False, name=name,
            line=style | {"color": _LAG},
            hovertemplate=f"{name}: late by %{{y:.1f}} ms at %{{x:.0f}} s<extra></extra>",
        ))  # fmt: skip
        cpu.append(go.Scatter(
            x=line["at_s"], y=[_percent(cpu) for cpu in line["cpu"]], mode="lines",
            showlegend=False, name=name, line=style | {"color": _CPU},
            hovertemplate=f"{name}: %{{y:.0f}} % of a core at %{{x:.0f}} s<extra></extra>",
        ))  # fmt: skip
    return lag, cpu


def sentence(summary: Mapping[str, Any]) -> str:
    """What the generator says of itself, in short."""
    processes = summary["generator"]["processes"]
    late = max((p["lag_max_ms"] for p in processes if p["lag_max_ms"] is not None), default=None)
    busy = max((p["cpu_max"] for p in processes if p["cpu_max"] is not None), default=None)
    if late is None or busy is None:
        return "the generator says nothing of itself"
    return (
        f"the generator was late by at most {numerals.duration(late)} "
        f"and took at most {numerals.share(busy)} of a core"
    )


def rows(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """The processes as the page shows them."""
    return [_row(pulse) for pulse in summary["generator"]["processes"]]


def _row(pulse: Mapping[str, Any]) -> dict[str, str]:
    return {
        "process": pulse["process"],
        "lag": _both(pulse["lag_p99_ms"], pulse["lag_max_ms"]),
        "cpu": _shares(pulse["cpu"], pulse["cpu_max"]),
        "machine": _share(pulse["machine_cpu"]),
        "memory": _size(pulse["rss_max_mib"]),
        "sockets": _count(pulse["sockets"]),
        "descriptors": _of(pulse["descriptors"], pulse["descriptor_limit"]),
        "in_flight": numerals.count(pulse["in_flight"]),
        "stamped": numerals.NONE if pulse["unstamped"] is None
        else numerals.share(pulse["stamped"]),
        "merged": _share(pulse["merged"]),
        "gc": f"{numerals.duration(pulse['gc_ms'])}, {numerals.duration(pulse['gc_max_ms'])}",
        "heartbeats": _count(pulse["heartbeats_missed"]),
    }  # fmt: skip


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _both(one: float | None, other: float | None) -> str:
    return f"{numerals.duration(one)}, {numerals.duration(other)}"


def _share(share: float | None) -> str:
    return numerals.NONE if share is None else numerals.share(share)


def _shares(one: float | None, other: float | None) -> str:
    return f"{_share(one)}, {_share(other)}"


def _count(number: int | None) -> str:
    return numerals.NONE if number is None else numerals.count(number)


def _size(mebibytes: float | None) -> str:
    return numerals.NONE if mebibytes is None else f"{numerals.plain(mebibytes)} MiB"


def _of(number: int | None, limit: int | None) -> str:
    most = "" if limit is None else f" of {numerals.count(limit)}"
    return f"{_count(number)}{most}"
