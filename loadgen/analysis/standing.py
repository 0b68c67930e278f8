"""How the turns of a level stand to each target and budget of the plan, and to other limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from loadgen.analysis import attainment, budget, loadmodel, slo, tally, target
from loadgen.analysis.quantiles import exact
from loadgen.analysis.sizing import SLO_FACTORS
from loadgen.analysis.verdict import Verdict
from loadgen.metrics import HAPPENINGS, Clock

Json = dict[str, Any]


def judged(
    manifest: Mapping[str, Any], inside: pd.DataFrame, items: pd.DataFrame
) -> tuple[list[Json], list[Verdict]]:
    """Each target and budget of the plan on these turns; a budget, too, has to be proven here."""
    plan = manifest.get("plan") or {}
    found = []
    for one in _spread(manifest, inside):
        result = slo.judge(one, inside, items)
        facts = slo.as_json(result)
        if result.verdict is Verdict.INVALID:
            facts["verdict"] = Verdict.INCONCLUSIVE.value
        share, asked = exact(one["share"]), result.judged + result.dropped
        found.append(
            facts
            | {
                "leans": bool(asked) and result.met >= share * asked,
                "if_within": _elsewhere(one, inside, items),
            }
        )
    for spent in budget.judge_all(plan, inside):
        allowed = exact(spent.budget)
        verdict = attainment.decide(spent.judged - spent.failed, spent.judged, 1 - allowed)
        leans = bool(spent.judged) and spent.failed <= allowed * spent.judged
        found.append(asdict(spent) | {"verdict": verdict.value, "leans": leans})
    return found, [Verdict(one["verdict"]) for one in found]


def refuted(
    manifest: Mapping[str, Any], inside: pd.DataFrame, items: pd.DataFrame, confidence: float
) -> bool:
    """Whether one of them is refuted already with that much ``confidence``."""
    for one in _spread(manifest, inside):
        counts = _counts(one, inside, items, 1.0)
        met, judged = counts["met"], counts["met"] + counts["missed"]
        if attainment.decide(met, judged, exact(one["share"]), confidence) is Verdict.FAIL:
            return True
    for spent in budget.judge_all(manifest.get("plan") or {}, inside):
        good, share = spent.judged - spent.failed, 1 - exact(spent.budget)
        if attainment.decide(good, spent.judged, share, confidence) is Verdict.FAIL:
            return True
    return False


def _spread(manifest: Mapping[str, Any], inside: pd.DataFrame) -> list[Json]:
    plan = manifest.get("plan") or {}
    return target.spread(plan.get("slo") or (), loadmodel.is_closed(manifest), inside)


def _counts(
    one: Mapping[str, Any], inside: pd.DataFrame, items: pd.DataFrame, factor: float
) -> dict[str, int]:
    """How the turns stand to a target whose limit is ``factor`` times as long."""
    clock, limit_ms = Clock(one["clock"]), factor * slo.limit_ms(one)
    if clock in HAPPENINGS:
        rows = target.chosen(one, items)
        return tally.of_happenings(rows[rows["clock"] == clock.value], limit_ms).counts()
    rows = target.chosen(one, inside)
    return tally.of_turns(clock, rows[rows["asked"]], limit_ms).counts()


def _elsewhere(one: Mapping[str, Any], inside: pd.DataFrame, items: pd.DataFrame) -> list[Json]:
    """What share would meet the target if its limit were another one."""
    found = []
    for factor in SLO_FACTORS:
        counts = _counts(one, inside, items, factor)
        judged = counts["met"] + counts["missed"]
        attained = counts["met"] / judged if judged else None
        found.append({"within_s": round(one["within_s"] * factor, 6), "attained": attained})
    return found
