"""One level of a capacity question: what so many analysts, or so many arrivals, saw in a window.

The population is the turns that *ended* in the window: at a steady load they are like those that
began in it, and none of them has to be guessed while later ones are still under way.  How many were
under way comes from the generator's own count, once a second.  Verdict of a target: the
early-stopping test on its share (`attainment`), so that PASS is a proof and not a good day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from loadgen.analysis import (
    anatomy,
    axis,
    drift,
    frame,
    health,
    loadmodel,
    numerals,
    queueing,
    standing,
    validity,
    window,
)
from loadgen.analysis.check import Check
from loadgen.analysis.mser import mser5
from loadgen.analysis.quantiles import SHARES, ascending, nearest_rank, quantile
from loadgen.analysis.verdict import Verdict, worst
from loadgen.analysis.window import Little, Window
from loadgen.clock import NS_PER_S
from loadgen.journal import RunData
from loadgen.metrics import INTENDED, MARKS, Clock
from loadgen.turn import Outcome

Json = dict[str, Any]

_BATCHES = 10
_LEAST_WALLS = 20.0
_NOT_OURS = frozenset({"turns"})
"""A check that this module makes itself: too few turns settle nothing, but are no invalid ones."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A level and when it was held, in s on the run's axis: begun, window opened, window closed."""

    level: float
    began_s: float
    opened_s: float
    closed_s: float
    extensions: int = 0

    @property
    def length_s(self) -> float:
        """The length of the window."""
        return self.closed_s - self.opened_s


def measure(run: RunData, stay: Stay) -> Json:
    """All figures of a level; durations in ms and s as named, missing ones None."""
    table = frame.turns(run)
    inside = _inside(table, stay)
    asked = inside[inside["asked"]]
    turns = set(asked["turn"])
    items = frame.happened(run)
    results, verdicts = standing.judged(run.manifest, inside, items[items["turn"].isin(turns)])
    checks = _checks(run, inside, verdicts)
    settled = _steady(run, asked, stay)
    law = _little(run, table, asked, stay)
    held = worst(verdicts) if verdicts else Verdict.INCONCLUSIVE
    unsteady = held is Verdict.PASS and settled.steady is False
    broken = [check for check in checks if not check.ok]
    if unsteady:
        held = Verdict.INCONCLUSIVE
    verdict = Verdict.INVALID if broken else held
    completed = int(frame.completed(asked).sum())
    return {
        "level": stay.level,
        "model": (run.manifest.get("load") or {}).get("model", "closed"),
        "verdict": verdict.value,
        "leans": bool(results) and not unsteady and all(one["leans"] for one in results),
        "dead": completed == 0,
        "reasons": _reasons(broken, results, settled, unsteady=unsteady),
        "began_s": round(stay.began_s, 3),
        "opened_s": round(stay.opened_s, 3),
        "closed_s": round(stay.closed_s, 3),
        "extensions": stay.extensions,
        "turns": len(asked),
        "completed": completed,
        "dropped": len(inside) - len(asked),
        "outcomes": {
            str(k): int(v) for k, v in inside["outcome"].astype(str).value_counts().items()
        },
        "per_s": _per_s(asked, stay),
        "slo": results,
        "metrics": _metrics(asked),
        "response_s": _mean(asked["elapsed_ms"] / 1000),
        "think_s": _think_s(asked),
        "human_s": _mean(asked["human_ms"] / 1000),
        "prompt_share": _mean(asked["prompts"] > 0),
        "pause_s": _pause_s(asked),
        "queue": _queue(table, asked, stay),
        "anatomy": anatomy.stages([row for row in run.rows if row["turn"] in turns]),
        "window": window.as_json(settled, law),
        "validity": [asdict(check) for check in checks],
        "ecdf": {clock.value: _ecdf(asked, clock) for clock in _marks(run.manifest)},
        "timeline": _timeline(run, table, stay),
    }


def has_failed(run: RunData, stay: Stay, confidence: float) -> bool:
    """Whether one of the targets is refuted already; much cheaper than `measure`."""
    table = frame.turns(run)
    inside = _inside(table, stay)
    items = frame.happened(run)
    chosen = items[items["turn"].isin(set(inside["turn"]))]
    return standing.refuted(run.manifest, inside, chosen, confidence)


def resettle(found: Json, table: pd.DataFrame) -> Json:
    """``found`` with Little's law over all turns of the run, which is over.

    ``table`` is `frame.turns` of it.  In a window that a clear failure cut short the turns that
    cross its ends weigh too much for a judgement.
    """
    law = window.little(table, found["opened_s"], found["closed_s"])
    if law is None or found["window"] is None:
        return found
    told = {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(law).items()}
    if found["closed_s"] - found["opened_s"] < _LEAST_WALLS * law.wall_s:
        told["ok"] = None
    return found | {"window": found["window"] | {"little": told}}


def _inside(table: pd.DataFrame, stay: Stay) -> pd.DataFrame:
    """Turns that ended, and arrivals that were dropped, in the window."""
    at = table["end_s"].where(table["asked"], table["scheduled_s"])
    return table[(at >= stay.opened_s) & (at <= stay.closed_s)]


def _checks(run: RunData, inside: pd.DataFrame, verdicts: Sequence[Verdict]) -> list[Check]:
    """The run's own checks on this window.

    Arrivals that nobody was free for make a load lighter than it should be: what fails even so
    has failed.
    """
    missed = Verdict.FAIL in verdicts
    checks = validity.inspect(run, inside, health.find(run), missed=missed)
    ignored = _NOT_OURS | ({"offered load"} if missed else set())
    return [check for check in checks if check.check not in ignored]


def _reasons(
    broken: Sequence[Check], results: Sequence[Json], settled: Window, *, unsteady: bool
) -> list[str]:
    said = [check.detail for check in broken]
    sentence = window.sentence(settled) if unsteady else None
    if sentence:
        said.append(sentence)
    order = [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS]
    ranked = sorted(results, key=lambda one: order.index(Verdict(one["verdict"])))
    return said + [one["reason"] for one in ranked]


def _per_s(asked: pd.DataFrame, stay: Stay) -> Json:
    """Completed turns a second, with the interval of batch means (Law and Kelton, ch. 9)."""
    done = asked.loc[frame.completed(asked), "end_s"].to_numpy(np.float64)
    edges = np.linspace(stay.opened_s, stay.closed_s, _BATCHES + 1)
    rates = np.histogram(done, edges)[0] / max(stay.length_s / _BATCHES, 1e-9)
    reach = student.ppf(0.975, _BATCHES - 1) * rates.std(ddof=1) / np.sqrt(_BATCHES)
    value = float(done.size) / max(stay.length_s, 1e-9)
    return {
        "value": round(value, 4),
        "low": round(max(0.0, value - float(reach)), 4),
        "high": round(value + float(reach), 4),
    }


def _marks(manifest: Mapping[str, Any]) -> list[Clock]:
    closed = loadmodel.is_closed(manifest)
    return [clock if closed else INTENDED[clock] for clock in MARKS]


def _metrics(asked: pd.DataFrame) -> Json:
    plain = frame.plain(asked)
    found: Json = {}
    for clock in (*MARKS, *INTENDED.values()):
        ordered = ascending(plain[f"{clock}_ms"])
        if clock in INTENDED.values() and not ordered.size:
            continue
        found[clock.value] = {
            "n": int(ordered.size),
            **{
                name: made
                and {
                    "value_ms": round(made.value, 3),
                    "low_ms": None if made.low is None else round(made.low, 3),
                    "high_ms": None if made.high is None else round(made.high, 3),
                    "needs_n": made.needs,
                }
                for name, made in ((n, quantile(ordered, s)) for n, s in SHARES.items())
            },
        }
    return found


def _steady(run: RunData, asked: pd.DataFrame, stay: Stay) -> Window:
    done = asked[asked["outcome"] != Outcome.CUT_OFF.value].sort_values("end_s")
    plain = frame.plain(asked)
    trend = drift.trend(
        plain["begin_s"].to_numpy(np.float64), plain["ttfa_ms"].to_numpy(np.float64)
    )
    return Window(
        stay.opened_s,
        stay.closed_s,
        len(asked),
        0,
        mser5(done["elapsed_ms"].dropna().to_numpy(np.float64)),
        mser5(_in_flight(run, stay.opened_s, stay.closed_s)[1]),
        (Clock.TTFA.value,) if trend is not None and trend.trend else (),
    )


def _in_flight(run: RunData, begin_s: float, end_s: float) -> tuple[frame.FloatArray, Any]:
    """Seconds, and turns under way in all processes at each of them, as they counted them."""
    offsets, origin = axis.offsets(run), axis.origin_ns(run)
    seconds = np.arange(np.ceil(begin_s), end_s)
    total = np.zeros(seconds.size)
    for process, rows in run.health.items():
        at = np.array([(r["mono_ns"] + offsets[process] - origin) / NS_PER_S for r in rows])
        number = np.array([r.get("in_flight", 0) for r in rows], dtype=np.float64)
        if at.size:
            total += number[np.clip(np.searchsorted(at, seconds), 0, at.size - 1)]
    return seconds, total


def _little(run: RunData, table: pd.DataFrame, asked: pd.DataFrame, stay: Stay) -> Little | None:
    """While a run goes on, L is counted once a second, which is too coarse to judge: see `resettle`
    for when all of its turns have ended.
    """
    if not run.health:
        return window.little(table, stay.opened_s, stay.closed_s)
    counted = _in_flight(run, stay.opened_s, stay.closed_s)[1]
    if asked.empty or not counted.size:
        return None
    in_flight, per_s = float(counted.mean()), len(asked) / stay.length_s
    wall = float((asked["wall_ms"] / 1000).mean())
    off = abs(in_flight - per_s * wall) / in_flight if in_flight else 0.0
    return Little(in_flight, per_s, wall, off, None)


def _queue(table: pd.DataFrame, asked: pd.DataFrame, stay: Stay) -> Json | None:
    """Whether turns queued inside the service, and how many ran at once: X times busy time."""
    found = queueing.find(table[table["end_s"] >= stay.opened_s])
    timed = asked.dropna(subset=["first_step_ms"])
    if found is None or timed.empty:
        return None
    busy_s = float((timed["wall_ms"] - timed["first_step_ms"]).mean()) / 1000
    return {
        "wait_p50_ms": round(found.wait_ms, 3),
        "busy_s": round(busy_s, 4),
        "running": round(len(timed) / stay.length_s * busy_s, 3),
    }


def _think_s(asked: pd.DataFrame) -> float | None:
    """The mean time from the end of a turn to the begin of its analyst's next one."""
    ordered = asked.sort_values(["user", "begin_s"])
    gaps = ordered["begin_s"] - ordered.groupby("user")["end_s"].shift()
    return _mean(gaps.dropna())


def _pause_s(asked: pd.DataFrame) -> float | None:
    prompts = int(asked["prompts"].sum())
    return round(float(asked["human_ms"].sum()) / 1000 / prompts, 4) if prompts else None


def _ecdf(asked: pd.DataFrame, clock: Clock) -> Json:
    """At most 120 of the values, the extremes among them, and the share that each stands for."""
    ordered = ascending(frame.plain(asked)[f"{clock}_ms"])
    if not ordered.size:
        return {"ms": [], "share": []}
    places = np.unique(np.linspace(0, ordered.size - 1, 120).round().astype(int))
    return {
        "ms": [round(float(ordered[place]), 2) for place in places],
        "share": [round((int(place) + 1) / ordered.size, 5) for place in places],
    }


def _timeline(run: RunData, table: pd.DataFrame, stay: Stay) -> Json:
    """From the begin of the level to its end, in steps: turns under way, completed, and ttfv."""
    step = max(1.0, round((stay.closed_s - stay.began_s) / 60))
    edges = np.arange(stay.began_s, stay.closed_s + step, step)
    seconds, counted = _in_flight(run, stay.began_s, stay.closed_s)
    done = frame.plain(table)
    places = np.digitize(done["end_s"].to_numpy(np.float64), edges) - 1
    visible = done["ttfv_ms"].to_numpy(np.float64)
    rows = []
    for index, at in enumerate(edges[:-1]):
        under = counted[(seconds >= at) & (seconds < at + step)]
        seen = ascending(visible[places == index])
        p95 = nearest_rank(seen, SHARES["p95"])
        rows.append(
            {
                "at_s": round(float(at - stay.began_s), 2),
                "in_flight": round(float(under.mean()), 2) if under.size else None,
                "per_s": round(int((places == index).sum()) / step, 3),
                "ttfv_p95_ms": None if p95 is None else round(p95, 1),
            }
        )
    return {"step_s": step, "rows": rows}


def _mean(values: pd.Series[Any]) -> float | None:
    return round(float(values.mean()), 4) if len(values) else None


def describe(found: Mapping[str, Any]) -> str:
    """A level in one line: for a progress display and a log."""
    rate = found["per_s"]["value"]
    return (
        f"{numerals.plain(found['level'])}: {found['verdict']}, "
        f"{numerals.of(found['turns'], 'turn')}, {numerals.fixed(rate)} turns/s; "
        f"{found['reasons'][0] if found['reasons'] else 'nothing was judged'}"
    )
