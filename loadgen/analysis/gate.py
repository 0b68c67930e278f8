"""One answer for a CI job: validity, then the targets, then the comparison; the first that speaks
decides the exit code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadgen.analysis.measure import Change
from loadgen.analysis.verdict import EXIT_CODES, Verdict
from loadgen.errors import ExitCode

Json = dict[str, Any]

REFUSED = "REFUSED"


def decide(
    summary: Mapping[str, Any],
    comparison: Mapping[str, Any] | None = None,
    refusal: str | None = None,
    pass_inconclusive: bool = False,
) -> Json:
    """``verdict``, ``exit_code``, ``headline``, ``reasons`` and ``warnings`` of the gate.

    ``comparison`` is `compare.as_json`; ``refusal`` is why there is none although one was wanted.
    A plan without targets says nothing where there is a comparison to say something.
    ``pass_inconclusive``: what could not be settled is let through, and said.
    """
    own = Verdict(summary["verdict"])
    code = ExitCode(summary["exit_code"])
    if comparison is None and refusal is None:
        return _answer(summary, own.value, code, summary["reasons"], pass_inconclusive)
    if own in (Verdict.INVALID, Verdict.FAIL) or code is ExitCode.INTERRUPTED:
        beside = [] if comparison is None else _beside(comparison)
        return _answer(summary, own.value, code, [*summary["reasons"], *beside], pass_inconclusive)
    if refusal is not None:
        answer = _answer(summary, REFUSED, ExitCode.USAGE, refusal.splitlines(), False)
        return answer | {"headline": "there is no comparison with the baseline."}
    assert comparison is not None
    change = Change(comparison["verdict"])
    if own is Verdict.INCONCLUSIVE and not _sets_nothing(summary):
        if change is Change.REGRESSION:
            return _compared(comparison, change.value, summary, pass_inconclusive)
        reasons = [*summary["reasons"], *_beside(comparison)]
        return _answer(summary, own.value, EXIT_CODES[own], reasons, pass_inconclusive)
    verdict = change.value if change in _TELLING else Verdict.PASS.value
    return _compared(comparison, verdict, summary, pass_inconclusive)


_TELLING = (Change.REGRESSION, Change.INCONCLUSIVE)


def _sets_nothing(summary: Mapping[str, Any]) -> bool:
    """Whether the plan has nothing to judge and the run came to its end."""
    return not summary["slo"] and not summary["failure_budget"] and bool(summary["ended_at"])


def _compared(
    comparison: Mapping[str, Any],
    verdict: str,
    summary: Mapping[str, Any],
    pass_inconclusive: bool,
) -> Json:
    targets = [] if _sets_nothing(summary) else summary["reasons"]
    reasons = [*comparison["reasons"], *targets]
    answer = _answer(
        comparison, verdict, ExitCode(comparison["exit_code"]), reasons, pass_inconclusive
    )
    return answer | {"warnings": [*answer["warnings"], *comparison["warnings"]]}


def _beside(comparison: Mapping[str, Any]) -> list[str]:
    return [f"beside that {comparison['verdict']}: {comparison['headline']}"]


def _answer(
    said: Mapping[str, Any],
    verdict: str,
    code: ExitCode,
    reasons: list[str],
    pass_inconclusive: bool,
) -> Json:
    warnings = []
    if code is ExitCode.INCONCLUSIVE and pass_inconclusive:
        code = ExitCode.PASS
        warnings.append("INCONCLUSIVE was let through (--inconclusive pass)")
    return {
        "verdict": verdict,
        "exit_code": int(code),
        "headline": said["headline"],
        "reasons": list(reasons),
        "warnings": warnings,
    }
