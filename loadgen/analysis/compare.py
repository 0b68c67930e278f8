"""A run against a baseline: REGRESSION, IMPROVED, OK or INCONCLUSIVE, measure by measure.

A verdict is about the interval, not about a p-value: with enough turns any trifle is significant.
REGRESSION: the interval of the change lies beyond its tolerance, and still does when as many
measures are looked at as there are (Holm, over all that are judged).  OK: it lies within, which
takes evidence too.  IMPROVED: it lies beyond the tolerance on the good side, by Holm again.
Otherwise INCONCLUSIVE, with the turns that it would take.

Every measure can say REGRESSION.  OK needs those that decide: the clocks of `DECIDING` and the
failures, or what ``--metric`` names; a clock of which a run has but a few values can keep
nobody waiting for its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from loadgen.analysis import guards, numerals
from loadgen.analysis.evidence import WATCHED, Evidence
from loadgen.analysis.guards import Guard
from loadgen.analysis.measure import (
    FAILURES,
    MOST_RESAMPLED,
    RUNS_AS_UNIT,
    Change,
    Measure,
    Terms,
    of_clock,
    of_failures,
)
from loadgen.analysis.wording import sentence
from loadgen.errors import ConfigError, ExitCode
from loadgen.metrics import INTENDED, MARKS, TITLES, Clock

SCHEMA = 1
FILE = "comparison.json"
CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2

DECIDING = (Clock.TTFV, Clock.TTFA, Clock.TTC)
"""What an analyst notices; counted from the intended start where turns arrive."""

EXIT_CODES = {
    Change.OK: ExitCode.PASS,
    Change.IMPROVED: ExitCode.PASS,
    Change.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Change.REGRESSION: ExitCode.REGRESSION,
}

_TELLING = (Change.REGRESSION, Change.IMPROVED)
"""What is worth a sentence even of a clock that does not decide."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``base`` and ``new`` are the runs compared; ``warnings`` decide nothing."""

    verdict: Change
    headline: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    base: tuple[str, ...]
    new: tuple[str, ...]
    measures: tuple[Measure, ...]
    terms: Terms


def compare(
    base: Sequence[Evidence],
    new: Sequence[Evidence],
    terms: Terms,
    tolerated: Collection[Guard] = (),
) -> Comparison:
    """Hold ``new`` against ``base``, each one run or several.

    :raises ConfigError: they cannot be compared (see `guards`), or ``terms`` name a clock that
        neither has.
    """
    warnings = [*guards.check(base, new, tolerated), *_warnings(base, new)]
    deciding = _deciding(base[0].closed, terms)
    found = [
        measure
        for clock in _clocks(base, new, terms)
        for measure in of_clock(clock, base, new, terms)
    ]
    if terms.metrics is None or FAILURES in terms.metrics:
        found.append(of_failures(base, new, terms))
    measures = judged([replace(m, decides=_decides(m, deciding)) for m in found])
    verdict = overall(measures)
    return Comparison(
        verdict=verdict,
        headline=_headline(verdict, base, new),
        reasons=tuple(_reasons(measures, verdict)),
        warnings=tuple(warnings),
        base=tuple(side.run for side in base),
        new=tuple(side.run for side in new),
        measures=measures,
        terms=terms,
    )


def judged(found: Sequence[Measure]) -> tuple[Measure, ...]:
    """The measures with their verdicts; Holm's family is all that carry a p."""
    family = [m for m in found if m.p_worse is not None]
    worse = holm([m.p_worse for m in family if m.p_worse is not None], TAIL)
    better = holm([m.p_better for m in family if m.p_better is not None], TAIL)
    verdicts = {
        id(m): _change(m, bad, good) for m, bad, good in zip(family, worse, better, strict=True)
    }
    changed = [replace(m, change=verdicts.get(id(m))) for m in found]
    return tuple(replace(m, reason=sentence(m)) for m in changed)


def holm(p: Sequence[float], alpha: float) -> list[bool]:
    """Which hypotheses fall at ``alpha`` for all of them together (Holm, *Scandinavian Journal of
    Statistics* 6, 1979): the smallest p against alpha / k, the next against alpha / (k - 1), until
    one stands.
    """
    falls = [False] * len(p)
    for place, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[index] > alpha / (len(p) - place):
            break
        falls[index] = True
    return falls


def overall(measures: Sequence[Measure]) -> Change:
    """The worst; of what is watched only REGRESSION counts."""
    changes = {m.change for m in measures if m.decides or m.change is Change.REGRESSION}
    for change in (Change.REGRESSION, Change.INCONCLUSIVE):
        if change in changes:
            return change
    if not changes - {None}:
        return Change.INCONCLUSIVE
    return Change.IMPROVED if Change.IMPROVED in changes else Change.OK


def as_json(found: Comparison) -> Json:
    """The comparison as ``comparison.json`` holds it; every number of every output is in it."""
    return {
        "schema": SCHEMA,
        "verdict": found.verdict.value,
        "exit_code": int(EXIT_CODES[found.verdict]),
        "headline": found.headline,
        "reasons": list(found.reasons),
        "warnings": list(found.warnings),
        "base": list(found.base),
        "new": list(found.new),
        "confidence": CONFIDENCE,
        "method": {
            "typical": "Hodges-Lehmann shift of log time, interval by Mann-Whitney inversion",
            "quantiles": f"percentile bootstrap of conversations, {found.terms.resamples} "
            f"resamples, seed {found.terms.seed}, at most {MOST_RESAMPLED} turns a side",
            "failures": "Newcombe's interval of a difference of shares",
            "family": "Holm over all judged measures",
            "runs_as_unit": RUNS_AS_UNIT,
        },
        "terms": asdict(found.terms),
        "measures": [_measure_json(m) for m in found.measures],
    }


def _measure_json(m: Measure) -> Json:
    keys = ("base", "new", "value", "low", "high", "limit", "effect", "p_worse", "p_better")
    shown: Json = asdict(m) | {"change": m.change.value if m.change else None}
    for key in keys:
        shown[key] = None if shown[key] is None else float(f"{shown[key]:.6g}")
    return shown | {"in_ms": m.metric != FAILURES}


def _change(m: Measure, worse: bool, better: bool) -> Change:
    if m.low is None or m.high is None:
        return Change.INCONCLUSIVE
    improved = -m.limit if m.metric == FAILURES else 1 / m.limit
    if worse and m.low > m.limit:
        return Change.REGRESSION
    if better and m.high < improved:
        return Change.IMPROVED
    return Change.OK if m.high < m.limit else Change.INCONCLUSIVE


def _clocks(base: Sequence[Evidence], new: Sequence[Evidence], terms: Terms) -> Iterator[str]:
    """What is compared, in the order of the formula book; what decides stands there even where a
    run has nothing of it.
    """
    found = {clock for side in (*base, *new) for clock in side.clocks}
    both = found.intersection(*({*side.clocks} for side in (*base, *new)))
    marks = _marks(base[0].closed, MARKS)
    if terms.metrics is not None:
        unknown = [name for name in terms.metrics if name not in found and name != FAILURES]
        if unknown:
            names = ", ".join(sorted(found))
            raise ConfigError(f"--metric {unknown[0]}: no run has it; there are {names}, failures")
    for clock in (*marks, *WATCHED):
        if terms.metrics is not None:
            wanted = clock in terms.metrics
        else:
            wanted = clock in both or clock in _deciding(base[0].closed, terms)
        if wanted:
            yield str(clock)


def _marks(closed: bool, marks: Sequence[Clock]) -> list[Clock]:
    return list(marks) if closed else [INTENDED[clock] for clock in marks]


def _deciding(closed: bool, terms: Terms) -> list[str]:
    if terms.metrics is not None:
        return list(terms.metrics)
    return [*map(str, _marks(closed, DECIDING)), FAILURES]


def _decides(m: Measure, deciding: Sequence[str]) -> bool:
    return m.p_worse is not None and m.metric in deciding


def _warnings(base: Sequence[Evidence], new: Sequence[Evidence]) -> Iterator[str]:
    within = all(side.one_run for side in (*base, *new))
    both = sorted({side.run for side in base} & {side.run for side in new})
    if both:
        yield f"the same run is on both sides ({', '.join(both)}): nothing can differ"
    if min(len(base), len(new)) < RUNS_AS_UNIT and not within:
        runs = f"{len(base)} base and {len(new)} new run{'s' if len(new) > 1 else ''}"
        yield (
            f"{runs}: what differs from run to run is in no interval here; give "
            f"{RUNS_AS_UNIT} runs a side, or compare within one run (loadgen ab)"
        )
    for side in (*base, *new):
        if side.unfinished:
            yield f"{side.run} did not come to its end"
        if side.thinned_from:
            yield (
                f"{side.run}: some conversations stand for all "
                f"{numerals.of(side.thinned_from, 'turn')}"
            )
    versions = [side.facts.get("versions", {}).get("loadgen") for side in (*base, *new)]
    if len({*versions}) > 1:
        yield f"made by different versions of loadgen: {', '.join(map(str, versions))}"
    yield from _lost(base, new)


def _lost(base: Sequence[Evidence], new: Sequence[Evidence]) -> Iterator[str]:
    """Clocks that only one side has: a change too, though not one of time."""
    for clock in (*MARKS, *INTENDED.values(), *WATCHED):
        has = [any(clock in side.clocks for side in many) for many in (base, new)]
        if has[0] != has[1]:
            yield f"{TITLES[clock]}: {'only base' if has[0] else 'only new'} has any"


def _headline(verdict: Change, base: Sequence[Evidence], new: Sequence[Evidence]) -> str:
    pair = " against ".join(
        side[0].run if len(side) == 1 else f"{len(side)} runs" for side in (new, base)
    )
    words = {
        Change.REGRESSION: "worse than is allowed.",
        Change.INCONCLUSIVE: "these runs do not settle it.",
        Change.IMPROVED: "better, and nothing is worse than is allowed.",
        Change.OK: "no change beyond what is allowed.",
    }
    return f"{pair}: {words[verdict]}"


def _reasons(measures: Sequence[Measure], verdict: Change) -> Iterator[str]:
    """What made the verdict, and what improved beside it."""
    for change in dict.fromkeys((verdict, Change.IMPROVED)):
        for m in measures:
            if m.change is change and (m.decides or change in _TELLING):
                yield m.reason if change is verdict else f"{change.value.lower()}: {m.reason}"
