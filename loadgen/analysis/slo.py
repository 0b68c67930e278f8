"""Targets of a plan judged on *started* turns: a turn that failed has missed every target.

A turn that the end of the run cut off counts with its value where it reached the mark, misses where
it had already waited longer than the limit, and is no evidence either way otherwise.  A turn that
recovered from a lost connection is kept out of the plain view and counted beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import numerals
from loadgen.analysis.frame import completed, plain
from loadgen.analysis.quantiles import ascending, exact, nearest_rank
from loadgen.analysis.verdict import Verdict
from loadgen.metrics import HAPPENINGS, INTENDED, MARKS, TITLES, Clock
from loadgen.turn import Outcome

Mask = NDArray[np.bool_]

_OPEN_ENDED = {Clock.WALL, Clock.HUMAN, Clock.MAX_GAP}
_REQUIRED = {*MARKS, *INTENDED.values()}
_Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class SloResult:
    """One target and what became of it.

    ``judged = met + missed``; ``failed`` of the missed ones did not complete, ``unreached`` of them
    completed without the milestone; ``undecided`` were cut off before the limit, ``recovered`` kept
    apart (``recovered_met`` of those met it).  ``measured_ms`` is the percentile at ``share`` over
    completed turns.  ``low`` and ``high`` are the Wilson 95 % interval of ``attained``.
    """

    clock: str
    title: str
    within_s: float
    share: float
    unit: str
    judged: int
    met: int
    missed: int
    failed: int
    unreached: int
    undecided: int
    recovered: int
    recovered_met: int
    attained: float | None
    low: float | None
    high: float | None
    measured_ms: float | None
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class BudgetResult:
    """The failure budget: ``failed`` of ``judged`` started turns (all but the ones cut off)."""

    budget: float
    judged: int
    failed: int
    undecided: int
    rate: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    reason: str


def judge(slo: Mapping[str, Any], table: pd.DataFrame, items: pd.DataFrame) -> SloResult:
    """Judge one ``{clock, within_s, share}`` of a plan on `frame.turns` and `frame.happened`."""
    clock = Clock(slo["clock"])
    limit_ms = round(slo["within_s"] * 1000, 6)
    if clock in HAPPENINGS:
        chosen = items[items["clock"] == clock.value]
        tally = _tally_happenings(chosen, limit_ms)
        values = chosen["value_ms"]
    else:
        tally = _tally_turns(clock, table[table["asked"]], limit_ms)
        values = plain(table)[f"{clock}_ms"]
    judged = tally["met"] + tally["missed"]
    share = exact(slo["share"])
    low, high = wilson(tally["met"], judged)
    measured = nearest_rank(ascending(values), share)
    facts = {
        "clock": clock.value, "title": TITLES[clock], "within_s": slo["within_s"],
        "share": slo["share"], "unit": HAPPENINGS.get(clock, "turns"), "judged": judged, **tally,
        "attained": tally["met"] / judged if judged else None, "low": low, "high": high,
        "measured_ms": measured,
    }  # fmt: skip
    return SloResult(**facts, verdict=_verdict(tally, share), reason=_reason(facts))


def _verdict(tally: Mapping[str, int], share: Fraction) -> Verdict:
    """Turns that recovered are a view of their own, but analysts waited in them too: the target
    must hold with them as well.  Those that were cut off before the limit may all have missed it:
    when that would decide, nothing is decided.
    """
    met, judged = tally["met"], tally["met"] + tally["missed"]
    all_met, everybody = met + tally["recovered_met"], judged + tally["recovered"]
    if not judged:
        return Verdict.INVALID
    if met < share * judged or all_met < share * everybody:
        return Verdict.FAIL
    unknown = all_met < share * (everybody + tally["undecided"])
    return Verdict.INCONCLUSIVE if unknown else Verdict.PASS


def judge_failures(budget: float, table: pd.DataFrame) -> BudgetResult:
    """Judge the share of started turns that did not complete; a budget may be used up."""
    asked = table[table["asked"]]
    undecided = int((asked["outcome"] == Outcome.CUT_OFF.value).sum())
    judged = len(asked) - undecided
    failed = judged - int(completed(asked).sum())
    low, high = wilson(failed, judged)
    within = bool(judged) and failed <= exact(budget) * judged
    rate = failed / judged if judged else None
    rate_text = numerals.share(rate, budget) if rate is not None else numerals.NONE
    reason = (
        f"failures: {rate_text} of {numerals.count(judged)} turns, allowed {numerals.share(budget)}"
    )
    verdict = Verdict.PASS if within else Verdict.FAIL if judged else Verdict.INVALID
    return BudgetResult(budget, judged, failed, undecided, rate, low, high, verdict, reason)


def as_json(result: SloResult | BudgetResult) -> dict[str, Any]:
    """The result as ``summary.json`` holds it."""
    return asdict(result) | {"verdict": result.verdict.value}


def wilson(part: int, whole: int) -> tuple[float | None, float | None]:
    """The 95 % Wilson score interval of a share; (None, None) of nothing."""
    if not whole:
        return None, None
    rate, z2 = part / whole, _Z_95**2
    middle = (rate + z2 / (2 * whole)) / (1 + z2 / whole)
    reach = _Z_95 * np.sqrt(rate * (1 - rate) / whole + z2 / (4 * whole**2)) / (1 + z2 / whole)
    return max(0.0, float(middle - reach)), min(1.0, float(middle + reach))


def _tally_turns(clock: Clock, asked: pd.DataFrame, limit_ms: float) -> dict[str, int]:
    value = asked[f"{clock}_ms"].to_numpy()
    known = ~np.isnan(value)
    fast: Mask = known & (value <= limit_ms)
    recovered = asked["recovered"].to_numpy()
    done: Mask = completed(asked).to_numpy() & ~recovered
    cut: Mask = (asked["outcome"] == Outcome.CUT_OFF.value).to_numpy()
    failed: Mask = ~done & ~cut & ~recovered
    unreached: Mask = done & ~known if clock in _REQUIRED else np.zeros_like(done)

    waited = value if clock in _OPEN_ENDED else asked["elapsed_ms"].to_numpy()
    if clock in INTENDED.values():
        waited = waited + np.nan_to_num(asked["lag_ms"].to_numpy())
    reached: Mask = cut & known if clock not in _OPEN_ENDED else np.zeros_like(cut)
    late: Mask = cut & ~reached & (waited > limit_ms)

    met: Mask = (done | reached) & fast
    missed: Mask = failed | late | unreached | ((done | reached) & known & ~fast)
    return {
        "met": int(met.sum()),
        "missed": int(missed.sum()),
        "failed": int(failed.sum()),
        "unreached": int(unreached.sum()),
        "undecided": int((cut & ~reached & ~late).sum()),
        "recovered": int(recovered.sum()),
        "recovered_met": int((recovered & fast).sum()),
    }


def _tally_happenings(chosen: pd.DataFrame, limit_ms: float) -> dict[str, int]:
    value = chosen["value_ms"].to_numpy()
    known = ~np.isnan(value)
    cut: Mask = (chosen["outcome"] == Outcome.CUT_OFF.value).to_numpy()
    met = int((known & (value <= limit_ms)).sum())
    undecided = int((~known & cut).sum())
    failed = int((~known & ~cut).sum())
    return {
        "met": met, "missed": len(chosen) - met - undecided, "failed": failed, "unreached": 0,
        "undecided": undecided, "recovered": 0, "recovered_met": 0,
    }  # fmt: skip


def _reason(facts: Mapping[str, Any]) -> str:
    target = f"{facts['title']} within {numerals.seconds(facts['within_s'])}"
    if not facts["judged"]:
        return f"{target}: no evidence, no {facts['unit']} to judge"
    text = (
        f"{target}: {numerals.share(facts['attained'], facts['share'])} of "
        f"{numerals.count(facts['judged'])} {facts['unit']}, needs {numerals.share(facts['share'])}"
    )
    if facts["measured_ms"] is not None:
        percentile = _percentile(exact(facts["share"]))
        text += f"; {percentile} measured {numerals.duration(facts['measured_ms'])}"
    beside = [
        f"{numerals.count(facts[key])} {words}"
        for key, words in (
            ("failed", "failed"),
            ("unreached", "completed without it"),
            ("undecided", "cut off before the limit, not counted"),
        )
        if facts[key]
    ]
    if facts["recovered"]:
        beside.append(
            f"{numerals.count(facts['recovered'])} more lost their connection and recovered, "
            f"{numerals.count(facts['recovered_met'])} of them in time"
        )
    return text + (f" ({', '.join(beside)})" if beside else "")


def _percentile(share: Fraction) -> str:
    return f"p{numerals.plain(float(share * 100))}"
