"""Budgets of failures, of any cause or of one: compared exactly, a budget may be used up.

A budget is a statement about this run's turns, not about all that could have been asked: one
failure of a hundred is within 5 %, and within 1 %.  It is kept when it would be kept even if all
turns that the end of the run cut off had failed, and when there are so many turns that one failure
would have been within it; it is broken when it would be even if all of them had completed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import pandas as pd

from loadgen.analysis import attainment, frame, numerals
from loadgen.analysis.frame import completed
from loadgen.analysis.quantiles import exact
from loadgen.analysis.verdict import Verdict
from loadgen.turn import Outcome


@dataclass(frozen=True, slots=True)
class BudgetResult:
    """``failed`` of ``judged`` started turns (all but the ones cut off), of ``cause`` if one is
    named; ``low`` and ``high`` are the Wilson 95 % interval of ``rate``.
    """

    cause: str | None
    title: str
    budget: float
    judged: int
    failed: int
    undecided: int
    rate: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    reason: str


def judge_all(plan: Mapping[str, Any], table: pd.DataFrame) -> list[BudgetResult]:
    """The budgets that a plan sets: the one for all failures first."""
    allowed = plan.get("failure_budget")
    found = [] if allowed is None else [judge(allowed, table)]
    by_cause = plan.get("cause_budgets") or {}
    return found + [judge(budget, table, cause) for cause, budget in sorted(by_cause.items())]


def judge(budget: float, table: pd.DataFrame, cause: str | None = None) -> BudgetResult:
    """Judge the share of started turns that did not complete (because of ``cause``)."""
    asked = frame.asked(table)
    undecided = int((asked["outcome"] == Outcome.CUT_OFF.value).sum())
    judged = len(asked) - undecided
    bad = ~completed(asked) & (asked["outcome"] != Outcome.CUT_OFF.value)
    failed = int((bad if cause is None else bad & (asked["cause"] == cause)).sum())
    low, high = attainment.interval(failed, judged)
    verdict = _verdict(exact(budget), judged, failed, undecided)
    rate = failed / judged if judged else None
    title = "failures" if cause is None else f"failures by {cause}"
    rate_text = numerals.share(rate, budget) if rate is not None else numerals.NONE
    reason = (
        f"{title}: {rate_text} of {numerals.of(judged, 'turn')}, allowed {numerals.share(budget)}"
    )
    if undecided:
        reason = f"{reason} ({numerals.count(undecided)} more were cut off by the end of the run)"
    if verdict is Verdict.INCONCLUSIVE and judged < (least := _least(exact(budget))):
        reason = f"{reason}; it takes {numerals.of(least, 'turn')} for one failure to be within it"
    return BudgetResult(
        cause, title, budget, judged, failed, undecided, rate, low, high, verdict, reason
    )


def _verdict(budget: Fraction, judged: int, failed: int, undecided: int) -> Verdict:
    started = judged + undecided
    if not started:
        return Verdict.INVALID
    if failed > budget * started:
        return Verdict.FAIL
    if failed + undecided > budget * started or judged < _least(budget):
        return Verdict.INCONCLUSIVE
    return Verdict.PASS


def _least(budget: Fraction) -> int:
    """So many turns can have one failure; without a budget for any, one turn says what it can."""
    return math.ceil(1 / budget) if budget else 1


def as_json(results: Sequence[BudgetResult]) -> dict[str, Any]:
    """As they stand in the summary: the one for all failures, and those of a cause."""
    found = [asdict(result) | {"verdict": result.verdict.value} for result in results]
    whole = [result for result in found if result["cause"] is None]
    return {
        "failure_budget": whole[0] if whole else None,
        "cause_budgets": [result for result in found if result["cause"] is not None],
    }
