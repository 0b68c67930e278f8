"""Targets of a plan judged on *started* turns: a turn that failed has missed every target.

How a turn counts is `tally`'s business, what a share of them proves `attainment`'s.  Turns that
recovered are a view of their own, but analysts waited in them too: the target must hold without
them and with them.  Where turns arrive (every model but the closed one) targets count from
SCHEDULED, and an arrival that was dropped may have missed them: nobody knows what became of that
analyst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from loadgen.analysis import attainment, frame, numerals, quantiles, tally, target
from loadgen.analysis.censoring import CENSORED, sample
from loadgen.analysis.frame import plain
from loadgen.analysis.quantiles import ascending, exact, nearest_rank
from loadgen.analysis.shift import design_effect
from loadgen.analysis.verdict import Verdict, worst
from loadgen.metrics import HAPPENINGS, INTENDED, TITLES, Clock

ALIKE = 1.5
"""From this design effect on, turns of one conversation do not count in full (method: confidence of
a percentile).
"""

_OCCASIONAL = {*HAPPENINGS, Clock.MAX_GAP}


@dataclass(frozen=True, slots=True)
class SloResult:
    """One target and what became of it.

    ``judged = met + missed``; ``failed`` of the missed ones did not complete, ``unreached`` of them
    completed without the milestone; ``undecided`` were cut off before the limit, ``dropped`` never
    asked (only where the clock counts from SCHEDULED), ``recovered`` kept
    apart (``recovered_met`` of those met it).  ``measured_ms`` is the percentile at ``share`` over
    completed turns, ``started_ms`` the same with failed turns as infinitely late (``never``: so
    many failed that it is); None where there are too few turns for it.  ``low`` and ``high`` are
    the Wilson 95 % interval of ``attained``.  ``inflation``: see `attainment`.  ``settles_at`` is
    about how many turns would settle what is INCONCLUSIVE.
    """

    clock: str
    title: str
    dialect: str | None
    scenario: str | None
    group: str | None
    within_s: float
    share: float
    unit: str
    judged: int
    met: int
    missed: int
    failed: int
    unreached: int
    undecided: int
    dropped: int
    recovered: int
    recovered_met: int
    attained: float | None
    low: float | None
    high: float | None
    measured_ms: float | None
    started_ms: float | None
    never: bool
    inflation: float
    settles_at: int | None
    verdict: Verdict
    reason: str


def judge(slo: Mapping[str, Any], table: pd.DataFrame, items: pd.DataFrame) -> SloResult:
    """Judge one ``{clock, within_s, share}`` of a plan on `frame.turns` and `frame.happened`."""
    clock, share = Clock(slo["clock"]), exact(slo["share"])
    table, items = target.chosen(slo, table), target.chosen(slo, items)
    asked, dropped = frame.asked(table), 0
    if clock in HAPPENINGS:
        rows = items[items["clock"] == clock.value]
        found = tally.of_happenings(rows, limit_ms(slo))
        values = rows["value_ms"]
    else:
        rows, found = asked, tally.of_turns(clock, asked, limit_ms(slo))
        dropped = len(table) - len(asked) if clock in INTENDED.values() else 0
        values = plain(table, f"{clock}_ms")[f"{clock}_ms"]
    counts = found.counts() | {"dropped": dropped}
    judged, inflation = counts["met"] + counts["missed"], _inflation(found, rows)
    low, high = attainment.interval(counts["met"], judged)
    verdict = _verdict(counts, share, clock, inflation)
    started_ms, never = _started(clock, table, share)
    whose = target.whose(slo)
    facts = {
        "clock": clock.value, "title": TITLES[clock] + (f" ({whose})" if whose else ""),
        **{by: slo.get(by) for by in target.PARTS}, "within_s": slo["within_s"],
        "share": slo["share"], "unit": HAPPENINGS.get(clock, "turns"), "judged": judged, **counts,
        "attained": counts["met"] / judged if judged else None, "low": low, "high": high,
        "measured_ms": _enough(ascending(values), share), "started_ms": started_ms, "never": never,
        "inflation": inflation,
        "settles_at": attainment.settles_at(counts["met"], judged, share, inflation)
        if judged and verdict is Verdict.INCONCLUSIVE else None,
    }  # fmt: skip
    return SloResult(**facts, verdict=verdict, reason=_reason(facts, verdict))


def limit_ms(slo: Mapping[str, Any]) -> float:
    """The limit of a target, in ms."""
    return round(float(slo["within_s"]) * 1000, 6)


def too_few(judged: int, share: Fraction) -> bool:
    """Whether not one of so many turns may miss: not even a look at a share of them."""
    return share < 1 and judged < math.ceil(1 / (1 - share))


def as_json(result: SloResult) -> dict[str, Any]:
    """The result as ``summary.json`` holds it."""
    rounded = {"inflation": round(result.inflation, 3), "verdict": result.verdict.value}
    return asdict(result) | rounded


def _verdict(counts: Mapping[str, int], share: Fraction, clock: Clock, inflation: float) -> Verdict:
    """Those that were cut off before the limit may all have missed it, and so may arrivals that
    were dropped: what that could turn is not proven.
    """
    met, judged = counts["met"], counts["met"] + counts["missed"]
    all_met, everybody = met + counts["recovered_met"], judged + counts["recovered"]
    if not judged:
        # Nobody replied, no connection was lost: a question that this run did not ask.
        return Verdict.INCONCLUSIVE if clock in _OCCASIONAL else Verdict.INVALID
    proven = worst(
        attainment.decide(part, whole, share, inflation=inflation)
        for part, whole in ((met, judged), (all_met, everybody))
    )
    unknown = counts["undecided"] + counts["dropped"]
    if proven is not Verdict.PASS or not unknown:
        return proven
    if attainment.decide(all_met, everybody + unknown, share, inflation=inflation) is proven:
        return proven
    return Verdict.INCONCLUSIVE


def _inflation(found: tally.Tally, rows: pd.DataFrame) -> float:
    """How much less turns are worth because misses come by conversations."""
    judged = found.met | found.missed
    if not found.missed.any() or not found.met.any():
        return 1.0
    numbers = rows["conversation_number"].to_numpy()[judged]
    effect = design_effect(found.missed[judged].astype(np.float64), numbers)
    return effect if effect > ALIKE else 1.0


def _started(clock: Clock, table: pd.DataFrame, share: Fraction) -> tuple[float | None, bool]:
    """The percentile over started turns, failed ones infinitely late; and whether it is."""
    if clock not in CENSORED:
        return None, False
    turns = sample(clock, table, failures=True)
    found = turns.quantile(share) if turns.size >= quantiles.least(share) else None
    if found is None:
        return None, False
    never = math.isinf(found["value"])
    return (None if never else found["value"]), never


def _enough(ordered: quantiles.FloatArray, share: Fraction) -> float | None:
    return nearest_rank(ordered, share) if ordered.size >= quantiles.least(share) else None


def _reason(facts: Mapping[str, Any], verdict: Verdict) -> str:
    name = f"{facts['title']} within {numerals.seconds(facts['within_s'])}"
    if not facts["judged"]:
        return f"{name}: no evidence, no {facts['unit']} to judge"
    text = (
        f"{name}: {numerals.share(facts['attained'], facts['share'])} of "
        f"{numerals.count(facts['judged'])} {facts['unit']}, needs {numerals.share(facts['share'])}"
    )
    text += _percentile(facts)
    beside = [
        f"{numerals.count(facts[key])} {words}"
        for key, words in (
            ("failed", "failed"),
            ("unreached", "completed without it"),
            ("undecided", "cut off before the limit, not counted"),
            ("dropped", "dropped before they began, not counted"),
        )
        if facts[key]
    ]
    if facts["recovered"]:
        beside.append(
            f"{numerals.count(facts['recovered'])} more lost their connection and recovered, "
            f"{numerals.count(facts['recovered_met'])} of them in time"
        )
    text += f" ({', '.join(beside)})" if beside else ""
    return text + (_wanting(facts) if verdict is Verdict.INCONCLUSIVE else "")


def _percentile(facts: Mapping[str, Any]) -> str:
    """The percentile of completed turns, and of started ones where failures make it another."""
    measured, started_ms = facts["measured_ms"], facts["started_ms"]
    if measured is None:
        return ""
    name = f"p{numerals.plain(float(exact(facts['share']) * 100))}"
    text = numerals.duration(measured)
    if facts["never"]:
        return f"; {name} measured {text} of completed turns, never of started ones"
    if started_ms is not None and facts["missed"] and numerals.duration(started_ms) != text:
        started = numerals.duration(started_ms)
        return f"; {name} measured {text} of completed turns, {started} of started ones"
    return f"; {name} measured {text}"


def _wanting(facts: Mapping[str, Any]) -> str:
    """What would settle it."""
    share = exact(facts["share"])
    if too_few(facts["judged"], share):
        return ""  # `validity` says so
    alike = ""
    if facts["inflation"] > 1:
        worth = round(facts["judged"] / facts["inflation"])
        alike = f"; misses come by conversations, so that they are worth {numerals.count(worth)}"
    settles_at = facts["settles_at"]
    if settles_at is None:
        return f"{alike}; too near to what is needed for more turns to settle it"
    more = settles_at - facts["judged"]
    if more > 0:
        return f"{alike}; about {numerals.count(more)} more would settle it"
    return f"{alike}; those that are not counted could turn it"
