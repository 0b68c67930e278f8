"""From checks and targets to one verdict, its exit code and the sentences that explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.analysis import loadmodel, numerals
from loadgen.analysis.budget import BudgetResult
from loadgen.analysis.check import Check, failures
from loadgen.analysis.slo import SloResult
from loadgen.analysis.verdict import EXIT_CODES, Verdict, worst
from loadgen.errors import ExitCode


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer: a verdict, one sentence that says it, and why, most important first."""

    verdict: Verdict
    exit_code: ExitCode
    headline: str
    reasons: tuple[str, ...]


def conclude(
    manifest: Mapping[str, Any],
    checks: Sequence[Check],
    results: Sequence[SloResult],
    budgets: Sequence[BudgetResult],
    crossed: str | None = None,
) -> Conclusion:
    """Judge a run.

    ``crossed``: answers went to other analysts, which is FAIL whatever the latencies are.

    A failed check makes it INVALID.  A run that did not come to its end can miss its targets but
    not meet them, and one without targets settles nothing.  An interrupted run keeps its verdict
    but exits as interrupted.
    """
    judged: list[SloResult | BudgetResult] = [*results, *budgets]
    unfinished = _unfinished(manifest)
    if failures(checks):
        verdict = Verdict.INVALID
    else:
        verdict = worst(
            [result.verdict for result in judged]
            + [Verdict.INCONCLUSIVE] * bool(unfinished)
            + [Verdict.FAIL] * bool(crossed)
        )
    order = list(Verdict)
    reasons = [
        *failures(checks),
        *([crossed] if crossed else []),
        *([unfinished] if unfinished else []),
        *([] if judged else ["the plan sets no SLO and no failure budget: nothing is judged"]),
        *(
            result.reason
            for result in sorted(judged, key=lambda item: order.index(item.verdict), reverse=True)
        ),
    ]
    interrupted = bool(manifest.get("interrupted"))
    exit_code = ExitCode.INTERRUPTED if interrupted else EXIT_CODES[verdict]
    return Conclusion(
        verdict, exit_code, _headline(manifest, verdict, results, budgets, crossed), tuple(reasons)
    )


def _unfinished(manifest: Mapping[str, Any]) -> str | None:
    if manifest.get("interrupted"):
        return "the run was interrupted: what it would have shown later is not known"
    if manifest and not manifest.get("ended_at"):
        return "the run has no end in its manifest: it was killed or is still going"
    return None


def _headline(
    manifest: Mapping[str, Any],
    verdict: Verdict,
    results: Sequence[SloResult],
    budgets: Sequence[BudgetResult],
    crossed: str | None,
) -> str:
    crowd = loadmodel.title(manifest) or "unknown load"
    if verdict is Verdict.INVALID:
        return f"{crowd}: this run says nothing about the target."
    if verdict is Verdict.INCONCLUSIVE:
        return f"{crowd}: this run does not settle the question."
    if verdict is Verdict.PASS:
        return f"{crowd}: every target was met."
    if crossed:
        return f"{crowd}: answers went to analysts who had not asked for them."
    missed = [
        f"{result.title} within {numerals.seconds(result.within_s)}"
        for result in results
        if result.verdict is Verdict.FAIL
    ]
    missed += [
        f"{budget.title} at most {numerals.share(budget.budget)}"
        for budget in budgets
        if budget.verdict is Verdict.FAIL
    ]
    total = len(results) + len(budgets)
    verdicts = [*(one.verdict for one in results), *(one.verdict for one in budgets)]
    unsettled = verdicts.count(Verdict.INCONCLUSIVE)
    rest = f" ({unsettled} not settled)" if unsettled else ""
    return f"{crowd}: {len(missed)} of {total} targets missed{rest}: {', '.join(missed)}."
