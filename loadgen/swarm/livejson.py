"""A run under way as JSON, for a page: texts ready to be read, numbers to be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from loadgen.analysis import numerals
from loadgen.live import WINDOW_S, Figures, Scope, Tally, Target
from loadgen.metrics import TITLES, Clock
from loadgen.phase import Standing
from loadgen.swarm import livetable

SHARES = {"p50": Fraction(50, 100), "p95": Fraction(95, 100), "p99": Fraction(99, 100)}


def as_json(figures: Figures) -> dict[str, Any]:
    """Everything that a watcher sees.  What is not known is None, its text a dash."""
    clocks = figures.measures.marks
    return {
        "run": figures.run,
        "window_s": WINDOW_S,
        "when": livetable.when(figures),
        "elapsed_s": round(figures.elapsed_s, 1),
        "over": figures.over,
        "analysts": figures.analysts,
        "crowd": livetable.crowd(figures),
        "turns": figures.whole.turns,
        "in_flight": figures.in_flight,
        "standing": [
            {"name": at.value, "key": at.name.lower(), "count": figures.standing.get(at, 0)}
            for at in Standing
        ],
        "clocks": [_clock(scope, clock) for scope, clock in product(figures.scopes, clocks)],
        "targets": [
            _target(scope, target)
            for scope, target in product(figures.scopes, figures.measures.targets)
        ],
        "outcomes": list(_outcomes(figures)),
        "failed": livetable.failures(figures),
        "recovery": _recovery(figures),
        "fitness": {
            "light": figures.fitness.light.value,
            "text": livetable.fitness(figures),
            "reasons": list(figures.fitness.reasons),
        },
    }


def _clock(scope: Scope, clock: Clock) -> dict[str, Any]:
    return {
        "side": scope.name,
        "clock": clock.value,
        "title": livetable.titled(scope, TITLES[clock]),
        "recent": _percentiles(scope.recent, clock),
        "whole": _percentiles(scope.whole, clock),
    }


def _percentiles(tally: Tally, clock: Clock) -> dict[str, Any]:
    histogram = tally.clocks.get(clock)
    if histogram is None:
        return {"n": 0, **{name: _value(None) for name in (*SHARES, "max")}}
    values = histogram.quantiles([*SHARES.values()])
    found = {name: _value(value) for name, value in zip(SHARES, values, strict=True)}
    return {"n": histogram.n, **found, "max": _value(histogram.max_ms)}


def _value(ms: float | None) -> dict[str, Any]:
    if ms is None:
        return {"ms": None, "text": numerals.NONE}
    rounded = float(f"{ms:.3g}")
    return {"ms": rounded, "text": numerals.duration(rounded)}


def _target(scope: Scope, target: Target) -> dict[str, Any]:
    text = (
        f"{TITLES[target.clock]} within {numerals.seconds(target.within_ms / 1000)} "
        f"for {numerals.share(target.share)}"
    )
    found: dict[str, Any] = {
        "side": scope.name,
        "clock": target.clock.value,
        "within_s": target.within_ms / 1000,
        "wanted": target.share,
        "text": livetable.titled(scope, text),
    }
    for name, tally in (("recent", scope.recent), ("whole", scope.whole)):
        met, judged = tally.within(target)
        reached = met / judged if judged else None
        found[name] = {
            "met": met,
            "judged": judged,
            "ok": None if reached is None else reached >= target.share,
            "text": numerals.NONE
            if reached is None
            else f"{numerals.share(reached, target.share)} of {numerals.count(judged)}",
        }
    return found


def _outcomes(figures: Figures) -> Iterator[dict[str, Any]]:
    """By outcome and cause, the most frequent first."""
    whole, recent = figures.whole.ends, figures.recent.ends
    for (outcome, cause), count in sorted(whole.items(), key=lambda item: -item[1]):
        yield {
            "outcome": outcome,
            "cause": cause,
            "recent": recent.get((outcome, cause), 0),
            "whole": count,
        }


def _recovery(figures: Figures) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "lost": tally.losses,
            "returned": tally.returns,
            "completed": tally.recovered,
            **_percentiles(tally, Clock.RECOVERY),
        }
        for name, tally in (
            (f"last {WINDOW_S} s", figures.recent),
            ("whole run", figures.whole),
        )
    ]
