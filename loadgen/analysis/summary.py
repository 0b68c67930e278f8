"""``summary.json``: every number of a run that anyone prints, made once.

The report, the terminal and the gate show values of this dict and compute none of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd

from loadgen.analysis import (
    backfill,
    budget,
    consistency,
    drift,
    examples,
    firsts,
    frame,
    goodput,
    health,
    isolation,
    loadmodel,
    numerals,
    occasions,
    parts,
    percentiles,
    prompted,
    queueing,
    sides,
    slo,
    standstill,
    storm,
    streaming,
    target,
    validity,
    window,
    work,
)
from loadgen.analysis.censoring import CENSORED
from loadgen.analysis.conclusion import conclude
from loadgen.analysis.percentiles import ms as _ms
from loadgen.analysis.quantiles import CONFIDENCE, SHARES, ascending, quantile
from loadgen.analysis.verdict import Verdict
from loadgen.journal import RunData, write_whole
from loadgen.metrics import INTENDED, MARKS, Clock
from loadgen.turn import Outcome

SCHEMA = 1
SUMMARY = "summary.json"
DETAILS = 5
DETAIL_CHARS = 200
GROUPS = 20

Json = dict[str, Any]


def summarise(run: RunData) -> Json:
    """Judge a run.  Keys: see design note 6; durations in ms, missing ones None.

    ``metrics`` are over completed turns that kept their connection; ``recovered`` has its own.
    """
    table, items = frame.turns(run), frame.happened(run)
    plan = run.manifest.get("plan") or {}
    pulses = health.find(run)
    closed = loadmodel.is_closed(run.manifest)
    targets = target.spread(plan.get("slo") or (), closed, table)
    judged = sides.judged(table, items)
    results = [slo.judge(one, *judged) for one in targets]
    budgets = budget.judge_all(plan, judged[0])
    divided = parts.find(targets, *judged)
    verdicts = [*(found.verdict for found in results), *(found.verdict for found in budgets)]
    sums = consistency.inspect(run, table)
    checks = [
        *validity.inspect(run, table, pulses, missed=Verdict.FAIL in verdicts),
        *(check for check in sums if not check.ok),
    ]
    streams = streaming.find(table, frame.gaps(run))
    steady = window.find(run.manifest, table)
    law = None if steady is None else window.little(table, steady.from_s, steady.to_s)
    crossed, storms = isolation.find(run, table), storm.find(run, table)
    drifts, grown = drift.clocks(table), drift.memory(run, table)
    conclusion = conclude(run.manifest, checks, results, budgets, isolation.reason(crossed))
    asked = frame.asked(table)
    queue = queueing.find(table)
    told = work.find(run, table)
    still, opening = standstill.find(table), firsts.compare(table)
    slow_start = firsts.sentence(opening)
    return {
        "schema": SCHEMA,
        **_identity(run, asked),
        "verdict": conclusion.verdict.value,
        "exit_code": int(conclusion.exit_code),
        "headline": conclusion.headline,
        "reasons": list(conclusion.reasons),
        "notes": [
            *(found.sentence for found in still),
            *([queue.sentence] if queue else []),
            *([slow_start] if slow_start else []),
            *window.sentences(steady, law),
            *parts.sentences(divided, results),
            *streaming.sentences(streams),
            *work.sentences(told),
            *map(storm.sentence, storms),
            *drift.sentences(drifts, grown),
            *_notes(run, table, items),
            *sides.notes(run.manifest),
        ],
        "queueing": _queueing(queue),
        "turns": _turns(table),
        "quantiles": {"rule": "nearest-rank", "confidence": CONFIDENCE},
        "metrics": percentiles.table(table, items),
        "window": _window(steady, law, targets, judged, closed),
        "what_if": backfill.what_if(table) if closed else None,
        "arrivals": loadmodel.arrivals(run.manifest, table),
        "standstills": [standstill.as_json(found) for found in still],
        "first_turns": opening,
        "recovered": _recovered(table),
        "slo": [slo.as_json(result) for result in results],
        "slo_parts": divided,
        **budget.as_json(budgets),
        "goodput": goodput.as_json(goodput.find(targets, *judged)) if targets else None,
        "validity": [
            {"check": c.check, "ok": c.ok, "detail": c.detail, "advice": c.advice} for c in checks
        ],
        "streaming": [streaming.as_json(one) for one in streams],
        "consistency": consistency.as_json([*sums, consistency.law(steady, law)]),
        "generator": {
            "processes": [health.as_json(pulse) for pulse in pulses],
            "timeline": health.timeline(run),
            "calibration": run.manifest.get("calibration"),
        },
        "isolation": isolation.as_json(crossed),
        "adversity": [storm.as_json(moment) for moment in storm.moments(run)],
        "storms": [storm.as_json(item) for item in storms],
        "drift": {clock.value: drift.as_json(made) for clock, made in drifts.items()},
        "memory": {name: drift.as_json(made) for name, made in grown.items()},
        "completed_after": _completed_after(table),
        "failures": _failures(asked),
        "dialects": _groups(asked, "dialect"),
        "groups": _groups(asked, "group"),
        "work": {dialect: work.as_json(found) for dialect, found in told.items()},
        "prompted": prompted.find(table),
        "stages": occasions.stages(run, table),
        **examples.find(run, table),
    }


def write_summary(folder: Path, summary: Mapping[str, Any]) -> Path:
    """Write ``summary.json`` into the run folder."""
    path = folder / SUMMARY
    write_whole(path, orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    return path


def _identity(run: RunData, asked: pd.DataFrame) -> Json:
    manifest = run.manifest
    span = asked["end_s"].max() - asked["begin_s"].min() if len(asked) else float("nan")
    return {
        "run": manifest.get("run", run.folder.name),
        "name": manifest.get("name", ""),
        "scenario": manifest.get("scenario", ""),
        "started_at": manifest.get("started_at"),
        "ended_at": manifest.get("ended_at"),
        "target": manifest.get("target") or {},
        "sides": manifest.get("sides"),
        "load": (manifest.get("load") or {}) | {"title": loadmodel.title(manifest)},
        "seed": manifest.get("seed"),
        "plan_hash": manifest.get("plan_hash"),
        "workers": len(manifest.get("workers") or ()),
        "window_s": None if np.isnan(span) else round(float(span), 3),
        "peak_in_flight": int(frame.in_flight(asked)[1].max(initial=0)),
    }


def _window(
    steady: window.Window | None,
    law: window.Little | None,
    targets: list[Json],
    judged: tuple[pd.DataFrame, pd.DataFrame],
    closed: bool,
) -> Json | None:
    """The steady window with its own figures, beside those of the whole run."""
    found = window.as_json(steady, law)
    if steady is None or found is None:
        return None
    table = judged[0]
    inside = table[(table["end_s"] >= steady.from_s) & (table["end_s"] <= steady.to_s)]
    good = goodput.find(targets, *judged, (steady.from_s, steady.to_s)) if targets else None
    clocks = MARKS if closed else tuple(INTENDED.values())
    return found | {
        "goodput": goodput.as_json(good),
        "metrics": {clock.value: percentiles.mark(clock, inside) for clock in clocks},
    }


def _notes(run: RunData, table: pd.DataFrame, items: pd.DataFrame) -> list[str]:
    """What a careful reader wants to know although it decides nothing."""
    asked = frame.asked(table)
    done = table.loc[frame.completed(table), ["recovered", "ttfp_ms"]]
    by_user_clock = int((asked["stamp"] == "user").sum())
    negative = items.loc[items["value_ms"] < 0, "value_ms"]
    counted = (
        (len(table) - len(asked), "arrivals were dropped: they could not begin when they were due"),
        (int(done["ttfp_ms"].isna().sum()), "completed turns showed no progress before the answer"),
        (
            int(done["recovered"].sum()),
            "completed turns lost their connection and recovered; they are judged apart",
        ),
        (
            int(table["looked_away"].sum()),
            "turns were read late on purpose (slow_share): what they waited for is partly "
            "the analyst",
        ),
        (
            int((asked["outcome"] == Outcome.CUT_OFF.value).sum()),
            "turns were cut off by the end of the run",
        ),
        (run.torn_lines, "torn journal lines were skipped"),
        (by_user_clock, "turns were stamped by the user-space clock, not by the kernel"),
        (
            len(negative),
            "answers were stamped before the write they answer, by at most "
            + numerals.duration(None if negative.empty else -float(negative.min())),
        ),
    )
    return [f"{numerals.count(number)} {text}" for number, text in counted if number]


def _turns(table: pd.DataFrame) -> Json:
    """``started`` is the sum of all outcomes but ``dropped``."""
    asked = frame.asked(table)
    outcomes = table["outcome"].astype(str).value_counts()
    causes = table.loc[table["cause"] != "", "cause"].astype(str).value_counts()
    done = table.loc[frame.completed(table), ["recovered", "ttfp_ms"]]
    return {
        "started": len(asked),
        **{outcome.value: int(outcomes.get(outcome.value, 0)) for outcome in Outcome},
        "causes": {str(cause): int(number) for cause, number in causes.items()},
        "completed_share": len(done) / len(asked) if len(asked) else None,
        "recovered": int(done["recovered"].sum()),
        "without_progress": int(done["ttfp_ms"].isna().sum()),
        "with_prompts": int((asked["prompts"] > 0).sum()),
    }


def _queueing(queue: queueing.Queueing | None) -> Json | None:
    if queue is None:
        return None
    return {
        "turns": queue.turns,
        "wait_p50_ms": _ms(queue.wait_ms),
        "headers_p50_ms": _ms(queue.headers_ms),
        "running": round(queue.running, 2),
        "in_flight": round(queue.in_flight, 2),
    }


def _recovered(table: pd.DataFrame) -> Json:
    chosen = table[frame.completed(table) & table["recovered"]]
    marks = (Clock.TTFV, Clock.TTFA, Clock.TTC, Clock.WALL)
    return {
        "turns": len(chosen),
        "metrics": {
            clock.value: percentiles.metric(clock, chosen, "recovered turns")
            for clock in marks
            if len(chosen)
        },
    }


def _completed_after(table: pd.DataFrame) -> Json | None:
    times = ascending(frame.plain(table, "ttc_ms")["ttc_ms"])
    median = quantile(times, SHARES["p50"])
    if median is None:
        return None
    return {"p50_ms": _ms(median.value), "max_ms": _ms(float(times[-1]))}


def _failures(asked: pd.DataFrame) -> list[Json]:
    """Turns that did not complete, grouped by outcome and cause, most frequent first."""
    bad = asked[~frame.completed(asked)]
    groups: list[Json] = []
    for (outcome, cause), chosen in bad.groupby(["outcome", "cause"], sort=True, observed=True):
        details = chosen["detail"].str.slice(0, DETAIL_CHARS).value_counts()
        details = details[details.index != ""]
        times = ascending(chosen["elapsed_ms"])
        median = quantile(times, SHARES["p50"])
        groups.append(
            {
                "outcome": str(outcome),
                "cause": str(cause),
                "n": len(chosen),
                "share": len(chosen) / len(asked),
                "p50_ms": _ms(median.value) if median else None,
                "max_ms": _ms(float(times[-1])) if times.size else None,
                "details": [
                    {"text": str(text), "n": int(number)}
                    for text, number in details.head(DETAILS).items()
                ],
                "other_details": max(0, len(details) - DETAILS),
            }
        )
    return sorted(groups, key=lambda group: -group["n"])[:GROUPS]


_GROUPED = (
    "asked", "outcome", "cause", "recovered", "prompts", "conversation_number",
    *(f"{clock}_ms" for clock in CENSORED),
)  # fmt: skip


def _groups(asked: pd.DataFrame, by: str) -> Json:
    """Turns and clocks of each value of a column."""
    found: Json = {}
    columns = dict.fromkeys((by, *_GROUPED))
    for name, chosen in asked[[*columns]].groupby(by, sort=True, observed=True):
        plain = frame.plain(chosen)
        found[str(name)] = {
            "turns": _turns(chosen),
            "metrics": {
                clock.value: percentiles.metric(clock, plain, "completed turns")
                for clock in CENSORED
            },
        }
    return found
