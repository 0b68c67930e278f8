"""What lies behind the levels of a capacity question: fits, bounds, the knee, the limit.

Every model is told with what it rests on, and is left out where the levels do not carry it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from loadgen.analysis import bounds, numerals, usl
from loadgen.analysis.bounds import Bounds, Point
from loadgen.analysis.kneedle import Knee, knee
from loadgen.analysis.usl import Fit

Json = dict[str, Any]
Level = Mapping[str, Any]

_CURVE = 60
_SAME = 0.25
"""The busiest levels agree on one limit of turns at a time when they differ by less than this."""


def latest(levels: Sequence[Level]) -> list[Level]:
    """The last measurement of each level that says something of the target, ascending."""
    kept = {one["level"]: one for one in levels if one["verdict"] != "INVALID" and not one["dead"]}
    return [kept[level] for level in sorted(kept)]


def law(levels: Sequence[Level]) -> Fit | None:
    """The scalability law through the measured throughputs."""
    used = [one for one in latest(levels) if one["per_s"]["value"] > 0]
    loads = np.array([one["level"] for one in used], dtype=np.float64)
    rates = np.array([one["per_s"]["value"] for one in used], dtype=np.float64)
    return usl.describe(loads, rates)


def law_as_json(fit: Fit | None, levels: Sequence[Level]) -> Json:
    """The fit, its curve up to twice the tested range, and what it says."""
    used = latest(levels)
    if fit is None:
        note = (
            f"no law was fitted: that takes {usl.LEAST_LEVELS} levels, "
            f"{numerals.count(len(used))} were measured"
        )
        return {"fitted": False, "note": note}
    farthest = usl.FARTHEST * fit.tested
    grid = np.linspace(min(one["level"] for one in used), farthest, _CURVE)
    return {
        "fitted": True,
        "alpha": _round(fit.law.alpha),
        "beta": _round(fit.law.beta),
        "gamma": _round(fit.law.gamma),
        "alpha_low": _round(fit.alpha.low),
        "alpha_high": _round(fit.alpha.high),
        "beta_low": _round(fit.beta.low),
        "beta_high": _round(fit.beta.high),
        "gamma_low": _round(fit.gamma.low),
        "gamma_high": _round(fit.gamma.high),
        "r2": round(fit.r2, 4),
        "levels": fit.levels,
        "resamples": usl.RESAMPLES,
        "tested": fit.tested,
        "farthest": farthest,
        "peak": None if fit.peak is None else round(fit.peak, 1),
        "peak_low": None if fit.peak_span is None else round(fit.peak_span.low, 1),
        "peak_high": None if fit.peak_span is None else round(fit.peak_span.high, 1),
        "curve": [
            {"level": round(float(n), 2), "per_s": round(fit.law(float(n)), 4)} for n in grid
        ],
        "note": _law_note(fit, farthest),
    }


def knees(levels: Sequence[Level], clock: str) -> Json:
    """Where throughput bends down and where the p95 of ``clock`` bends up; None: no knee."""
    used = latest(levels)
    loads = [one["level"] for one in used]
    timed = [
        (one["level"], one["metrics"][clock]["p95"]["value_ms"])
        for one in used
        if one["metrics"].get(clock, {}).get("p95")
    ]
    down = knee(loads, [one["per_s"]["value"] for one in used], concave=True)
    up = knee([n for n, _ in timed], [value for _, value in timed], concave=False)
    return {"throughput": _knee(down), "latency": _knee(up), "clock": clock}


def bound(levels: Sequence[Level]) -> tuple[Bounds | None, list[Point]]:
    """The asymptotic bounds of a closed system, and the levels that break them.

    D and Z are those of the lightest level; where a window was too short to see a pause its
    throughput counts all the same.
    """
    timed = [one for one in latest(levels) if one["response_s"] is not None]
    while timed and timed[0]["think_s"] is None:
        timed = timed[1:]
    points = [
        Point(
            one["level"], one["per_s"]["value"], one["response_s"],
            (one["think_s"] or 0.0) + (one["human_s"] or 0.0), one["per_s"]["low"],
        )
        for one in timed
    ]  # fmt: skip
    found = bounds.find(points)
    return found, [] if found is None else bounds.broken(found, points)


def bound_as_json(found: Bounds | None, broken: Sequence[Point]) -> Json | None:
    """The bounds, and N*."""
    if found is None:
        return None
    facts = {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(found).items()}
    return facts | {
        "crossing": round(found.crossing, 1),
        "broken": [point.analysts for point in broken],
    }


def concurrency(levels: Sequence[Level]) -> Json | None:
    """How many turns the service runs at once, where it lets them queue; None where none queued.

    The levels at which most ran must agree: that is a limit, and no load.
    """
    queued = [one for one in latest(levels) if one["queue"] is not None]
    if not queued:
        return None
    busiest = max(queued, key=lambda one: one["queue"]["running"])
    most = busiest["queue"]["running"]
    near = [
        one["queue"]["running"] for one in queued if one["queue"]["running"] >= (1 - _SAME) * most
    ]
    return {
        "at_once": round(float(np.median(near)), 2),
        "low": min(near),
        "high": max(near),
        "levels": [one["level"] for one in queued],
    }


def _law_note(fit: Fit, farthest: float) -> str:
    shown = numerals.plain(round(farthest, 1))
    if fit.peak is None:
        text = f"no peak in range: throughput does not fall up to {shown}, twice what was tested"
    else:
        text = f"throughput peaks at about {numerals.plain(round(fit.peak))}"
        if fit.peak_span is not None:
            low, high = (numerals.plain(round(v)) for v in (fit.peak_span.low, fit.peak_span.high))
            text += f" ({low} to {high})"
        else:
            text += ", which is not certain: not all resamples have a peak in range"
    return f"{text}; beyond {shown} nothing is said"


def _knee(found: Knee | None) -> Json | None:
    return None if found is None else {
        "level": found.x, "value": round(found.y, 4), "distance": round(found.distance, 3),
    }  # fmt: skip


def _round(value: float) -> float:
    return float(f"{value:.6g}")
