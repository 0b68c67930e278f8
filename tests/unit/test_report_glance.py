"""The first lines of a report: whether it is fine, what broke, whether to believe it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import manifest, row

from loadgen.analysis.summary import summarise
from loadgen.journal import RunData
from loadgen.report.glance import glance

GOOD = [row(str(n)) for n in range(200)]
LATE = [row(str(n), first_progress_ms=3000.0) for n in range(200)]
FAILED = [row(f"f{n}", outcome="timed_out", cause="stalled") for n in range(50)]
UNKNOWN = ("PASS", "as far as is known: 6 checks of the generator were not measured")
CUT = [row(f"c{n}", outcome="cut_off") for n in range(3)]


def told(rows: list[dict[str, Any]], **facts: Any) -> list[tuple[str, str]]:
    return [item[1:3] for item in glance(summarise(RunData(Path(), manifest(**facts), rows)))]


@pytest.mark.parametrize(
    ("rows", "facts", "says"),
    [
        (GOOD, {}, [("PASS", "yes: every target was met"),
                    ("PASS", "no turn of 200 failed"),
                    UNKNOWN]),
        (LATE, {}, [("FAIL", "no: visible progress came too late"),
                    ("PASS", "no turn of 200 failed"),
                    UNKNOWN]),
        ([*GOOD, *FAILED], {}, [
            ("FAIL", "no: visible progress came too late, completion came too late, "
                     "too many turns failed"),
            ("FAIL", "50 timed out (stalled), of 250 turns"),
            UNKNOWN]),
        ([*GOOD, *CUT[:2]], {}, [("PASS", "yes: every target was met"),
                             ("PASS", "no turn of 202 failed; 2 cut off by the end"),
                             UNKNOWN]),
        (GOOD, {"lost_workers": ["w2"]}, [
            ("INVALID", "not known: this run is no evidence"),
            ("PASS", "no turn of 200 failed"),
            ("INVALID", "no: workers")]),
        (GOOD[:10], {}, [("INVALID", "not known: this run is no evidence"),
                         ("PASS", "no turn of 10 failed"), ("INVALID", "no: turns")]),
        (GOOD, {"ended_at": None}, [("INCONCLUSIVE", "not settled: see why"),
                                    ("PASS", "no turn of 200 failed"),
                                    UNKNOWN]),
    ],
    ids=["good", "late", "failed", "cut off", "invalid", "too few", "unfinished"],
)  # fmt: skip
def test_three_questions_are_answered_first(
    rows: list[dict[str, Any]], facts: dict[str, Any], says: list[tuple[str, str]]
) -> None:
    assert told(rows, **facts) == says


def test_a_generator_whose_checks_all_were_measured_is_simply_trusted() -> None:
    summary = summarise(RunData(Path(), manifest(), GOOD))
    summary["validity"] = [{"check": "hub lag", "ok": True, "detail": "late by 1 ms at p99"}]
    assert glance(summary)[2][1:3] == ("PASS", "yes: every check of the generator held")


def test_the_question_names_the_analysts_where_there_are_so_many() -> None:
    run = RunData(Path(), manifest(), GOOD)
    assert glance(summarise(run))[0][0] == "Are 180 analysts fine?"
    run = RunData(Path(), manifest(load={"model": "open"}), GOOD)
    assert glance(summarise(run))[0][0] == "Is it fast enough?"


def test_a_missed_budget_of_one_cause_is_said_too() -> None:
    summary = summarise(RunData(Path(), manifest(), [*GOOD, *FAILED]))
    summary |= {"slo": [], "failure_budget": None, "verdict": "FAIL"}
    summary["cause_budgets"] = [{"verdict": "FAIL"}]
    assert glance(summary)[0][2] == "no: too many turns failed"
