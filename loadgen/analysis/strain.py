"""Was the generator the limit?  Checks on its rows of health, and on how late its turns began.

A hub that lags delays what we *send*; what *arrives* is stamped by the kernel and does not age
while it waits to be read.  So the two are judged apart: the hub always, arrivals only as far as
they lack the kernel's stamp.  Limits: design note on method, section 11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from loadgen.analysis import loadmodel, numerals
from loadgen.analysis.check import Check
from loadgen.analysis.health import Pulse, lateness
from loadgen.analysis.quantiles import SHARES, ascending, nearest_rank
from loadgen.fitness import FEW, HOT, NEVER_FREE
from loadgen.journal import RunData

HUB_LAG_MS = 25.0
"""How late the hub may be at p99, unless the plan says otherwise."""

CLOCK_STEP_MS = 50.0
"""By how much the wall clock may be set, unless the plan says otherwise."""

SLO_SHARE = 0.05
"""What part of the tightest target a delay of ours may be."""

LATE = 0.01
"""The share of ticks that may be later than the limit, and of seconds that may be later than that
part.
"""

HOT_SHARE = 0.05
UNSTAMPED = 0.01
ACHIEVED = 0.98
SWAPPED = 1 << 20

NOT_MEASURED = "not measured: this run kept no rows of health"


def inspect(run: RunData, table: pd.DataFrame, pulses: Sequence[Pulse]) -> list[Check]:
    """All checks, in the order in which a reader should doubt a run."""
    plan = run.manifest.get("plan") or {}
    asking = [pulse for pulse in pulses if pulse.asks]
    limits = plan.get("fitness") or {}
    limit_ms = float(limits.get("hub_lag_ms", HUB_LAG_MS))
    part_ms = max(limit_ms, SLO_SHARE * _tightest_ms(plan))
    hub = _hub(run, asking, limit_ms, part_ms)
    return [
        _evidence(run),
        hub,
        _arrivals(asking, lagging=not hub.ok),
        _processor(asking),
        _dispatch(table, part_ms),
        _offered(run, table),
        _clock(asking, float(limits.get("clock_step_ms", CLOCK_STEP_MS))),
        _memory(asking),
        _disk(run, pulses),
    ]


def _evidence(run: RunData) -> Check:
    """A generator whose health is not known is not known to be fit."""
    gone = [
        f"{worker['worker']} has {numerals.count(found)} of {numerals.count(wrote)}"
        for worker in run.manifest.get("workers") or ()
        if (wrote := worker.get("health_rows", 0)) - 1
        > (found := len(run.health.get(worker["worker"], ())))
    ]
    if gone:
        return Check(
            "rows of health", False, f"rows of health are missing: {', '.join(gone)}",
            "look for what took health-*.jsonl away",
        )  # fmt: skip
    return Check("rows of health", True, "no process lost what it noted of itself")


def _tightest_ms(plan: Mapping[str, Any]) -> float:
    return min((1000.0 * slo["within_s"] for slo in plan.get("slo") or ()), default=0.0)


def _hub(run: RunData, asking: Sequence[Pulse], limit_ms: float, part_ms: float) -> Check:
    known = [pulse for pulse in asking if pulse.ticks]
    if not known:
        return Check("hub lag", True, NOT_MEASURED)
    advice = (
        "what we send left late, which lengthens setup, lag and resume, and with them the clocks "
        "of turns that had to connect: give each process a core of its own, use more processes "
        "(--processes) or fewer analysts"
    )
    for pulse in known:
        why = _lag(pulse, run.health[pulse.process], limit_ms, part_ms)
        if why is not None:
            return Check("hub lag", False, f"hub lag: {pulse.process} was late by {why}", advice)
    worst = max(known, key=lambda pulse: pulse.lag_p99_ms or 0.0)
    return Check(
        "hub lag",
        True,
        f"{worst.process} was late by {numerals.duration(worst.lag_p99_ms)} at p99, allowed "
        f"{numerals.duration(limit_ms)}, and by {numerals.duration(worst.lag_max_ms)} at most",
    )


def _lag(pulse: Pulse, rows: Sequence[Any], limit_ms: float, part_ms: float) -> str | None:
    """Why the hub of a process is unfit, or None."""
    most = f"at most {numerals.duration(pulse.lag_max_ms)}"
    by_tick, by_second = lateness(rows, limit_ms), lateness(rows, part_ms)
    if by_tick.late_ticks >= FEW and by_tick.late_ticks > LATE * by_tick.ticks:
        return (
            f"{numerals.duration(pulse.lag_p99_ms)} at p99, allowed {numerals.duration(limit_ms)}; "
            + most
        )
    rarely_ms = NEVER_FREE * limit_ms
    if (pulse.lag_p90_ms or 0.0) > rarely_ms and pulse.ticks > 10 * FEW:
        return (
            f"{numerals.duration(pulse.lag_p90_ms)} at p90, allowed "
            f"{numerals.duration(rarely_ms)}, and {numerals.duration(pulse.lag_p99_ms)} at p99; "
            + most
        )
    if by_second.late_seconds >= FEW and by_second.late_seconds > LATE * by_second.seconds:
        return (
            f"more than {numerals.duration(part_ms)} in {numerals.count(by_second.late_seconds)} "
            f"of {numerals.count(by_second.seconds)} seconds, allowed {numerals.share(LATE)}; "
            + most
        )
    return None


def _arrivals(asking: Sequence[Pulse], lagging: bool) -> Check:
    reading = [pulse for pulse in asking if pulse.unstamped is not None]
    if not reading:
        return Check("arrivals", True, NOT_MEASURED if not asking else "nothing arrived")
    reads = sum(pulse.reads for pulse in reading)
    unstamped = sum((pulse.unstamped or 0.0) * pulse.reads for pulse in reading) / reads
    merged = sum((pulse.merged or 0.0) * pulse.reads for pulse in reading) / reads
    if lagging and unstamped > UNSTAMPED:
        return Check(
            "arrivals",
            False,
            f"arrivals: {numerals.share(unstamped, UNSTAMPED)} of the reads lack the kernel's "
            f"stamp, allowed {numerals.share(UNSTAMPED)} where the hub lags: ttfv, ttfp, ttfa, ttc "
            "and gaps are too long by its lag",
            "run the generator on Linux, where the kernel stamps what arrives, or relieve it",
        )
    detail = f"{numerals.share(1 - unstamped)} of the reads were stamped by the kernel"
    if lagging:
        detail += (
            ": the late hub did not age what arrived alone, so ttfv, ttfp, ttfa and ttc are "
            f"touched by late sending only; {numerals.share(merged)} held several events, of which "
            "the earlier ones have the last one's stamp: too late, by the hub's lag at most"
        )
    return Check("arrivals", True, detail)


def _processor(asking: Sequence[Pulse]) -> Check:
    known = [pulse for pulse in asking if pulse.cpu is not None]
    if not known:
        return Check("processor", True, NOT_MEASURED)
    worst = max(known, key=lambda pulse: (pulse.hot_s, pulse.cpu or 0.0))
    machine = max((pulse.machine_cpu or 0.0) for pulse in known)
    detail = (
        f"{worst.process} used {numerals.share(worst.cpu or 0.0)} of a core, more than "
        f"{numerals.share(HOT)} for {numerals.seconds(round(worst.hot_s, 1))} of "
        f"{numerals.seconds(round(worst.length_s, 1))}, allowed {numerals.share(HOT_SHARE)} of the "
        f"time; the whole machine was at {numerals.share(machine)}"
    )
    bad = worst.hot_s >= FEW and worst.hot_s > HOT_SHARE * worst.length_s
    return _judged("processor", bad, detail, "use more processes (--processes) or fewer analysts")


def _dispatch(table: pd.DataFrame, part_ms: float) -> Check:
    # A turn that waited for its own analyst did not wait for us.
    lags = ascending(table.loc[table["asked"], "late_ms"])
    p99 = nearest_rank(lags, SHARES["p99"])
    if p99 is None:
        return Check("dispatch lag", True, "no turn had a time at which it was due")
    bad = p99 > part_ms
    detail = (
        f"turns began {numerals.duration(p99)} after they were due at p99, allowed "
        f"{numerals.duration(part_ms)}; at most {numerals.duration(float(lags[-1]))}"
    )
    advice = "the generator did not keep its schedule: use more processes or fewer arrivals"
    return _judged("dispatch lag", bad, detail, advice)


def _offered(run: RunData, table: pd.DataFrame) -> Check:
    came = loadmodel.arrivals(run.manifest, table)
    offered, achieved = len(table), int(table["asked"].sum())
    if came is not None:
        offered, achieved = came["offered"], came["taken"]
    if not offered:
        return Check("offered load", True, "nothing was due")
    rate = achieved / offered
    bad = rate < ACHIEVED and offered - achieved >= FEW
    detail = (
        f"{numerals.count(achieved)} of {numerals.count(offered)} arrivals were "
        f"asked ({numerals.share(rate, ACHIEVED)}, needs {numerals.share(ACHIEVED)})"
    )
    if bad:
        detail += f"; {numerals.count(offered - achieved)} found no free analyst"
    advice = (
        "more analysts (-u, max_in_flight) take them up; if the target is slower than they come, "
        "this load is beyond it"
    )
    return _judged("offered load", bad, detail, advice)


def _judged(name: str, bad: bool, detail: str, advice: str) -> Check:
    """A sentence that stands alone where it is a reason, and beside its name where it is not."""
    return Check(name, False, f"{name}: {detail}", advice) if bad else Check(name, True, detail)


def _clock(asking: Sequence[Pulse], limit_ms: float) -> Check:
    """A read that follows a setting of the wall clock has our own stamp, so no duration is wrong;
    but a machine whose clock is set was most likely stopped or moved.
    """
    if not asking:
        return Check("clock", True, NOT_MEASURED)
    told = "; ".join(_steps(asking))
    if not told:
        return Check("clock", True, "no wall clock was set during the run")
    stands = (
        "Durations come from the monotonic clock and stand, and so does the time axis; what was "
        "read first after it has our own stamp instead of the kernel's"
    )
    if all(abs(step.by_ms) <= limit_ms for pulse in asking for step in pulse.steps):
        return Check("clock", True, f"{told}, allowed {numerals.duration(limit_ms)}. {stands}")
    return Check(
        "clock",
        False,
        f"clock: {told}, allowed {numerals.duration(limit_ms)}. {stands}",
        "let the clock settle before a run, or have it slewed instead of set; where that cannot "
        "be had, [fitness] clock_step_ms allows more",
    )


def _steps(asking: Sequence[Pulse]) -> Iterator[str]:
    for pulse in asking:
        for step in pulse.steps:
            way = "back" if step.by_ms < 0 else "forward"
            yield (
                f"the wall clock of {pulse.process} was set {way} by "
                f"{numerals.duration(abs(step.by_ms))} at {numerals.seconds(round(step.at_s, 1))}"
            )


def _memory(asking: Sequence[Pulse]) -> Check:
    known = [pulse for pulse in asking if pulse.rss_max is not None]
    if not known:
        return Check("memory", True, NOT_MEASURED)
    worst = max(known, key=lambda pulse: (pulse.swap_grown or 0, pulse.rss_max or 0))
    swapped = worst.swap_grown or 0
    held = sum(pulse.rss_max or 0 for pulse in known)
    if swapped > SWAPPED:
        return Check(
            "memory",
            False,
            f"memory: {numerals.mebibytes(swapped)} of {worst.process} were swapped out meanwhile",
            "leave the generator more memory: what is swapped out answers late",
        )
    return Check(
        "memory", True, f"at most {numerals.mebibytes(held)} resident, nothing swapped out"
    )


def _disk(run: RunData, pulses: Sequence[Pulse]) -> Check:
    free = [pulse.disk_free for pulse in pulses if pulse.disk_free is not None]
    if not free:
        return Check("disk", True, NOT_MEASURED)
    reserve = run.manifest.get("disk_reserve") or 0
    detail = (
        f"{numerals.mebibytes(min(free))} were free at least, "
        f"{numerals.mebibytes(reserve)} kept in reserve"
    )
    if min(free) < reserve:
        return Check("disk", False, f"disk: {detail}", "free some space, or use another --results")
    return Check("disk", True, detail)
