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

from loadgen.analysis import frame, numerals, queueing, slo, streaming, validity
from loadgen.analysis.conclusion import conclude
from loadgen.analysis.phases import phases
from loadgen.analysis.quantiles import CONFIDENCE, SHARES, ascending, quantile
from loadgen.journal import RunData, write_whole
from loadgen.metrics import HAPPENINGS, MARKS, TITLES, TURN_CLOCKS, Clock, elapsed
from loadgen.turn import Outcome

SCHEMA = 1
SUMMARY = "summary.json"
SLOWEST = 10
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
    checks = validity.inspect(run, table)
    results = [slo.judge(target, table, items) for target in plan.get("slo") or ()]
    allowed = plan.get("failure_budget")
    budget = None if allowed is None else slo.judge_failures(allowed, table)
    conclusion = conclude(run.manifest, checks, results, budget)
    asked = table[table["asked"]]
    queue = queueing.find(table)
    return {
        "schema": SCHEMA,
        **_identity(run, asked),
        "verdict": conclusion.verdict.value,
        "exit_code": int(conclusion.exit_code),
        "headline": conclusion.headline,
        "reasons": list(conclusion.reasons),
        "notes": [
            *([queue.sentence] if queue else []),
            *streaming.sentences(table),
            *_notes(run, table, items),
        ],
        "queueing": _queueing(queue),
        "turns": _turns(table),
        "quantiles": {"rule": "nearest-rank", "confidence": CONFIDENCE},
        "metrics": _metrics(frame.plain(table), items),
        "recovered": _recovered(table),
        "slo": [slo.as_json(result) for result in results],
        "failure_budget": slo.as_json(budget) if budget else None,
        "validity": [
            {"check": check.check, "ok": check.ok, "detail": check.detail} for check in checks
        ],
        "failures": _failures(asked),
        "dialects": _dialects(asked),
        "slowest": _slowest(run),
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
        "load": manifest.get("load") or {},
        "seed": manifest.get("seed"),
        "plan_hash": manifest.get("plan_hash"),
        "workers": len(manifest.get("workers") or ()),
        "window_s": None if np.isnan(span) else round(float(span), 3),
        "peak_in_flight": int(frame.in_flight(asked)[1].max(initial=0)),
    }


def _notes(run: RunData, table: pd.DataFrame, items: pd.DataFrame) -> list[str]:
    """What a careful reader wants to know although it decides nothing."""
    asked, done = table[table["asked"]], table[frame.completed(table)]
    by_user_clock = int((asked["stamp"] == "user").sum())
    negative = items.loc[items["value_ms"] < 0, "value_ms"]
    counted = (
        (len(table) - len(asked), "arrivals found no free analyst and were dropped"),
        (int(done["ttfp_ms"].isna().sum()), "completed turns showed no progress before the answer"),
        (
            int(done["recovered"].sum()),
            "completed turns lost their connection and recovered; they are judged apart",
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
    asked = table[table["asked"]]
    outcomes = table["outcome"].value_counts()
    causes = table[table["cause"] != ""]["cause"].value_counts()
    done = table[frame.completed(table)]
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


def _metrics(plain: pd.DataFrame, items: pd.DataFrame) -> Json:
    metrics = {
        clock.value: _metric(clock, plain[f"{clock}_ms"], "completed turns")
        for clock in TURN_CLOCKS
    }
    waited = plain.loc[plain["human_ms"] > 0, "human_ms"]
    metrics[Clock.HUMAN.value] = _metric(Clock.HUMAN, waited, "completed turns with a pause")
    for clock, population in HAPPENINGS.items():
        values = items.loc[items["clock"] == clock.value, "value_ms"]
        metrics[clock.value] = _metric(clock, values, population)
    return {
        name: metric
        for name, metric in metrics.items()
        if name in MARKS or metric["n"] or metric["missing"]
    }


def _metric(clock: Clock, values: pd.Series[float], population: str) -> Json:
    ordered = ascending(values)
    metric: Json = {
        "title": TITLES[clock],
        "population": population,
        "n": ordered.size,
        "missing": len(values) - ordered.size,
    }
    for name, share in SHARES.items():
        found = quantile(ordered, share)
        metric[name] = found and {
            "value_ms": _ms(found.value),
            "low_ms": _ms(found.low),
            "high_ms": _ms(found.high),
            "needs_n": found.needs,
        }
    metric["max_ms"] = _ms(float(ordered[-1])) if ordered.size else None
    return metric


def _recovered(table: pd.DataFrame) -> Json:
    chosen = table[frame.completed(table) & table["recovered"]]
    marks = (Clock.TTFV, Clock.TTFA, Clock.TTC, Clock.WALL)
    return {
        "turns": len(chosen),
        "metrics": {
            clock.value: _metric(clock, chosen[f"{clock}_ms"], "recovered turns")
            for clock in marks
            if len(chosen)
        },
    }


def _failures(asked: pd.DataFrame) -> list[Json]:
    """Turns that did not complete, grouped by outcome and cause, most frequent first."""
    bad = asked[~frame.completed(asked)]
    groups: list[Json] = []
    for (outcome, cause), chosen in bad.groupby(["outcome", "cause"], sort=True):
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


def _dialects(asked: pd.DataFrame) -> Json:
    found: Json = {}
    for dialect, chosen in asked.groupby("dialect", sort=True):
        plain = frame.plain(chosen)
        found[str(dialect)] = {
            "turns": _turns(chosen),
            "metrics": {
                clock.value: _metric(clock, plain[f"{clock}_ms"], "completed turns")
                for clock in (Clock.TTFV, Clock.TTFP, Clock.TTFA, Clock.TTC)
            },
        }
    return found


def _slowest(run: RunData) -> list[Json]:
    """The turns that held an analyst up longest (server time), with their phases."""
    timed = [(value, row) for row in run.rows if (value := elapsed(row)) is not None]
    timed.sort(key=lambda pair: (-pair[0], pair[1]["turn"]))
    return [
        {
            "turn": row["turn"],
            "user": row.get("user", ""),
            "dialect": row.get("dialect", ""),
            "outcome": row["outcome"],
            "cause": row.get("cause", ""),
            "detail": row.get("detail", "")[:DETAIL_CHARS],
            "elapsed_ms": _ms(value),
            "wall_ms": _ms(row["ended_ms"]),
            "phases": [
                {"phase": s.phase.value, "begin_ms": _ms(s.begin_ms), "end_ms": _ms(s.end_ms)}
                for s in phases(row)
            ],
        }
        for value, row in timed[:SLOWEST]
    ]


def _ms(value: float | None) -> float | None:
    """Rounded to the microsecond, which is finer than any stamp is good for."""
    return None if value is None else round(value, 3)
