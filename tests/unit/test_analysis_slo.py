from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import row

from loadgen.analysis import frame
from loadgen.analysis.slo import BudgetResult, SloResult, judge, judge_failures, wilson
from loadgen.analysis.verdict import Verdict
from loadgen.journal import RunData

Rows = list[dict[str, Any]]


def judged(rows: Rows, clock: str, within_s: float, share: float = 0.95) -> SloResult:
    run = RunData(Path(), {}, rows)
    target = {"clock": clock, "within_s": within_s, "share": share}
    return judge(target, frame.turns(run), frame.happened(run))


def failures(rows: Rows, budget: float) -> BudgetResult:
    return judge_failures(budget, frame.turns(RunData(Path(), {}, rows)))


def many(number: int, **facts: Any) -> Rows:
    return [row(f"{facts.get('outcome', '')}{number}-{n}", **facts) for n in range(number)]


@pytest.mark.case("D-58")
@pytest.mark.parametrize(("ended", "verdict"), [(20400.0, "FAIL"), (19950.0, "PASS")])
def test_twenty_seconds_means_twenty_seconds(ended: float, verdict: str) -> None:
    assert judged(many(100, ended_ms=ended), "ttc", 20).verdict == verdict


@pytest.mark.parametrize(
    ("clock", "within_s", "facts", "tally"),
    [
        ("ttc", 20, {}, "met"),
        ("ttc", 9, {}, "met"),
        ("ttc", 8.999, {}, "missed"),
        ("ttfv", 2, {"outcome": "failed"}, "missed"),
        ("ttfv", 2, {"outcome": "abandoned"}, "missed"),
        ("ttfp", 2, {"first_progress_ms": None}, "missed"),
        ("ttfv", 5, {"first_progress_ms": None}, "met"),
        ("max_gap", 5, {}, "nothing"),
        ("ttc", 20, {"recovered": True}, "recovered"),
        ("ttc", 20, {"outcome": "dropped", "started_mono_ns": 0}, "nothing"),
        ("ttc", 20, {"outcome": "cut_off"}, "undecided"),
        ("ttc", 5, {"outcome": "cut_off"}, "missed"),
        ("ttfv", 2, {"outcome": "cut_off"}, "met"),
        ("ttfv", 0.5, {"outcome": "cut_off"}, "missed"),
        ("ttfa", 10, {"outcome": "cut_off", "first_answer_ms": None}, "undecided"),
        ("ttfa", 8, {"outcome": "cut_off", "first_answer_ms": None}, "missed"),
        ("wall", 20, {"outcome": "cut_off"}, "undecided"),
        ("ttfa_intended", 5, {"scheduled_ms": -2000.0}, "missed"),
    ],
)
def test_a_started_turn_counts_in_exactly_one_way(
    clock: str, within_s: float, facts: dict[str, Any], tally: str
) -> None:
    found = judged([row(**facts)], clock, within_s)
    counted = {
        name for name in ("met", "missed", "undecided", "recovered") if getattr(found, name) == 1
    }
    assert counted == ({tally} - {"nothing"})


def test_a_cut_off_turn_that_waited_for_its_analyst_did_not_wait_for_the_server() -> None:
    pause = [{"kind": "text", "paused_ms": 1000.0, "replied": False}]
    turn = row(outcome="cut_off", ended_ms=60_000.0, first_answer_ms=None, prompts=pause)
    assert judged([turn], "ttc", 20).undecided == 1


@pytest.mark.parametrize(
    ("good", "bad", "share", "verdict"),
    [(95, 5, 0.95, "PASS"), (94, 6, 0.95, "FAIL"), (7, 3, 0.7, "PASS"), (0, 3, 0.5, "FAIL")],
)
def test_the_share_is_compared_exactly(good: int, bad: int, share: float, verdict: str) -> None:
    rows = many(good) + many(bad, outcome="failed", cause="agent_error")
    assert judged(rows, "ttc", 20, share).verdict == verdict


def test_no_evidence_is_no_pass() -> None:
    assert judged([row(outcome="cut_off")], "ttc", 20).verdict is Verdict.INVALID
    assert judged([], "ttc", 20).verdict is Verdict.INVALID


def test_the_reason_says_target_share_population_need_and_percentile() -> None:
    rows = many(60) + many(4, outcome="failed") + many(30, first_progress_ms=5210.0)
    rows += [row("cut", outcome="cut_off", ended_ms=100.0, first_progress_ms=None,
                 first_answer_ms=None)]  # fmt: skip
    found = judged([{**turn, "turn": str(n)} for n, turn in enumerate(rows)], "ttfv", 2)
    assert found.reason == (
        "visible progress within 2 s: 63.8 % of 94 turns, needs 95 %; p95 measured 4.00 s "
        "(4 failed, 1 cut off before the limit, not counted)"
    )


def test_a_login_without_an_answer_misses_the_target_of_its_clock() -> None:
    login = {"begun_ms": 0.0, "connected_ms": 1.0, "login_ms": 1.0}
    rows = [
        row("good", connections=[login | {"authenticated_ms": 6.0}]),
        row("rejected", outcome="failed", connections=[login]),
        row("cut", outcome="cut_off", connections=[login]),
    ]
    found = judged(rows, "auth", 1)
    assert (found.unit, found.met, found.missed, found.undecided) == ("logins", 1, 1, 1)


@pytest.mark.case("D-64")
@pytest.mark.parametrize(("budget", "verdict"), [(0.05, "PASS"), (0.01, "PASS"), (0.009, "FAIL")])
def test_a_failure_budget_may_be_used_up(budget: float, verdict: str) -> None:
    rows = many(99) + many(1, outcome="failed")
    assert failures(rows, budget).verdict == verdict


@pytest.mark.case("D-25")
def test_the_failure_rate_leaves_out_what_the_end_of_the_run_cut_off() -> None:
    rows = many(100) + many(20, outcome="refused") + many(7, outcome="cut_off")
    found = failures(rows, 0.01)
    assert (found.judged, found.failed, found.undecided) == (120, 20, 7)
    assert found.rate == pytest.approx(0.1667, abs=1e-4)
    assert found.reason == "failures: 16.7 % of 120 turns, allowed 1 %"


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (198, 200, 0.9643, 0.9973), (0, 20, 0, 0.1611)],
)
def test_wilson_intervals_have_the_known_values(
    part: int, whole: int, low: float, high: float
) -> None:
    assert wilson(part, whole) == pytest.approx((low, high), abs=1e-4)


def test_turns_that_were_cut_off_decide_nothing_only_as_long_as_they_could_not():
    """A target that hangs for good must not pass for what it answered before."""
    answered = [row(f"t{number}") for number in range(60)]
    hung = {"outcome": "cut_off", "ended_ms": 9000.0, "first_progress_ms": None,
            "first_answer_ms": None, "last_answer_ms": None}  # fmt: skip
    for number, verdict in ((3, Verdict.PASS), (15, Verdict.INCONCLUSIVE)):
        rows = [*answered, *(row(f"c{number}", **hung) for number in range(number))]
        assert judged(rows, "ttc", 20).verdict is verdict


def test_recovered_turns_that_kept_their_analysts_waiting_fail_the_target():
    plain = [row(f"t{number}") for number in range(12)]
    losses = [{"lost_ms": 2000.0, "during": "turn", "recovered_ms": 25_000.0}]
    slow = {"recovered": True, "losses": losses, "last_answer_ms": 29_000.0, "ended_ms": 30_000.0}
    recovered = [row(f"r{number}", **slow) for number in range(10)]
    result = judged([*plain, *recovered], "ttc", 20)
    assert result.verdict is Verdict.FAIL
    assert "(10 more lost their connection and recovered, 0 of them in time)" in result.reason
