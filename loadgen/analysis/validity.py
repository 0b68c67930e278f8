"""May this run be believed?  Each check is a sentence with its numbers; a failed one makes the run
INVALID, whatever its latencies say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from loadgen.analysis import attainment, frame, numerals, slo, strain
from loadgen.analysis.check import Check
from loadgen.analysis.health import Pulse
from loadgen.analysis.quantiles import exact
from loadgen.journal import RunData
from loadgen.metrics import impossible
from loadgen.turn import Cause, Outcome

FAULT_BUDGET = 0.01
"""The share of started turns that the generator may have spoilt."""

OURS = (Cause.GENERATOR_FAULT, Cause.CLIENT_RESOURCE)
"""Causes that say nothing about the target."""


def inspect(
    run: RunData, table: pd.DataFrame, pulses: Sequence[Pulse], *, missed: bool = False
) -> list[Check]:
    """All checks of a run, in the order in which a reader should doubt it.

    ``missed``: a target was.  That takes fewer turns than to meet one.
    """
    asked = frame.asked(table)
    return [
        _faults(run),
        _turns(run, asked, missed),
        _manifest(run),
        _generator(run, asked),
        _workers(run, pulses),
        *strain.inspect(run, table, pulses),
        _journals(run),
        _outcomes(table),
    ]


def _turns(run: RunData, asked: pd.DataFrame, missed: bool) -> Check:
    """With fewer turns than it takes for one to be outside a target's share nothing can be said of
    that share.  From there on the targets themselves say what more it takes, and of turns that the
    end of the run cut off what they are worth.
    """
    number = len(asked)
    if not number:
        return Check("turns", False, "no turn was started: there is nothing to judge")
    shares = [target["share"] for target in (run.manifest.get("plan") or {}).get("slo") or ()]
    share = max((exact(share) for share in shares if share < 1), default=None)
    ended = number - int((asked["outcome"] == Outcome.CUT_OFF.value).sum())
    if share is not None and ended and slo.too_few(ended, share) and not missed:
        least, settled = math.ceil(1 / (1 - share)), attainment.needed(share)
        return Check(
            "turns",
            False,
            f"{numerals.count(ended)} turns are too few to judge a target for "
            f"{numerals.share(float(share))} of them, which takes {numerals.count(least)}, and "
            f"{numerals.count(settled or least)} without a miss to meet it",
            "run longer or with more analysts",
        )
    return Check("turns", True, f"{numerals.count(number)} turns were started")


def _manifest(run: RunData) -> Check:
    if run.manifest_error:
        return Check("manifest", False, f"the manifest cannot be read: {run.manifest_error}")
    missing = [key for key in ("started_at", "plan") if key not in run.manifest]
    if missing:
        return Check("manifest", False, f"the manifest has no {' and no '.join(missing)}")
    return Check("manifest", True, "the manifest tells how to repeat the run")


def _generator(run: RunData, asked: pd.DataFrame) -> Check:
    spoilt = int(asked["cause"].isin([cause.value for cause in OURS]).sum())
    breaches = asked.loc[asked["impossible"], "row"]
    bad, number = spoilt + len(breaches), len(asked)
    if not bad:
        return Check("generator", True, "no turn was spoilt by the generator")
    parts = []
    if spoilt:
        parts.append(f"{numerals.count(spoilt)} failed for want of a local resource or by a bug")
    if len(breaches):
        first = impossible(run.rows[int(breaches.min())])
        parts.append(f"{numerals.count(len(breaches))} have impossible times (first: {first})")
    rate = bad / number if number else 1.0
    detail = (
        f"the generator spoilt {numerals.share(rate, FAULT_BUDGET)} of {numerals.count(number)} "
        f"turns, allowed {numerals.share(FAULT_BUDGET)}: {'; '.join(parts)}"
    )
    return Check("generator", bad <= FAULT_BUDGET * number, detail)


def _faults(run: RunData) -> Check:
    fault = run.manifest.get("fault")
    if fault:
        return Check("faults", False, f"the generator could not do what the plan says: {fault}")
    return Check("faults", True, "the generator could do what the plan says")


def _workers(run: RunData, pulses: Sequence[Pulse]) -> Check:
    lost = run.manifest.get("lost_workers") or []
    total = len(run.manifest.get("workers") or [])
    if lost:
        last = {pulse.process: pulse.to_s for pulse in pulses}
        named = ", ".join(
            f"{worker}, last heard at {numerals.seconds(round(last[worker], 1))}"
            if worker in last
            else str(worker)
            for worker in lost
        )
        return Check(
            "workers",
            False,
            f"{len(lost)} of {max(total, len(lost))} workers were lost ({named}): "
            "the load was not what the plan asked for",
        )
    return Check("workers", True, f"{numerals.count(max(total, 1))} at work, none lost")


def _journals(run: RunData) -> Check:
    facts = (
        f"{numerals.of(len(run.rows), 'turn')}, {len(run.files)} journal files, "
        f"{numerals.count(run.duplicates)} duplicates dropped, "
        f"{numerals.count(run.torn_lines)} torn lines"
    )
    if run.conflicts:
        return Check(
            "journals",
            False,
            f"{numerals.count(run.conflicts)} turn ids stand for different turns: {facts}",
        )
    bad = run.torn_lines > max(len(run.files), FAULT_BUDGET * len(run.rows))
    return Check("journals", not bad, f"journals are damaged: {facts}" if bad else facts)


def _outcomes(table: pd.DataFrame) -> Check:
    unknown = table[~table["outcome"].isin([outcome.value for outcome in Outcome])]
    if len(unknown):
        return Check(
            "outcomes",
            False,
            f"{numerals.count(len(unknown))} turns have an outcome this version does not know "
            f"({unknown['outcome'].iloc[0]}): read the run with the version that made it",
        )
    return Check("outcomes", True, "every turn has exactly one outcome")
