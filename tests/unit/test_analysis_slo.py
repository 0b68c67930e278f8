from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import row

from loadgen.analysis import attainment, budget, frame, parts, target
from loadgen.analysis.budget import BudgetResult
from loadgen.analysis.slo import SloResult, judge
from loadgen.analysis.verdict import Verdict
from loadgen.journal import RunData

Rows = list[dict[str, Any]]


def judged(rows: Rows, clock: str, within_s: float, share: float = 0.95) -> SloResult:
    run = RunData(Path(), {}, rows)
    one = {"clock": clock, "within_s": within_s, "share": share}
    return judge(one, frame.turns(run), frame.happened(run))


def failures(rows: Rows, allowed: float) -> BudgetResult:
    return budget.judge(allowed, frame.turns(RunData(Path(), {}, rows)))


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
    [
        (90, 0, 0.95, "PASS"), (89, 0, 0.95, "INCONCLUSIVE"), (129, 1, 0.95, "PASS"),
        (95, 5, 0.95, "INCONCLUSIVE"), (94, 6, 0.95, "INCONCLUSIVE"), (88, 12, 0.95, "FAIL"),
        (0, 3, 0.5, "INCONCLUSIVE"), (0, 7, 0.5, "FAIL"), (3, 0, 1.0, "PASS"), (99, 1, 1.0, "FAIL"),
    ],
)  # fmt: skip
def test_a_share_must_be_proven_or_refuted(good: int, bad: int, share: float, verdict: str) -> None:
    rows = many(good) + many(bad, outcome="failed", cause="agent_error")
    assert judged(rows, "ttc", 20, share).verdict == verdict


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        (50, 0, "; about 40 more would settle it"),
        (20, 0, "; about 70 more would settle it"),
        (19, 0, "needs 95 %"),
        (95, 5, "; too near to what is needed for more turns to settle it"),
        (97, 3, "; about 506 more would settle it"),
    ],
)
def test_what_is_open_says_how_many_turns_would_settle_it(good: int, bad: int, says: str) -> None:
    rows = [row(str(n), conversation=str(n)) for n in range(good)]
    rows += [row(f"b{n}", conversation=f"b{n}", outcome="failed") for n in range(bad)]
    found = judged(rows, "ttc", 20)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason.endswith(says) or (bad and f"{says}" in found.reason), found.reason
    if found.settles_at is not None and bad:
        times = found.settles_at / (good + bad)
        more = [{**turn, "turn": f"{n}"} for n, turn in enumerate(rows * round(times + 1))]
        more = [{**turn, "conversation": turn["turn"]} for turn in more]
        assert judged(more, "ttc", 20).verdict is Verdict.PASS


def test_misses_that_come_by_conversations_are_worth_less() -> None:
    """Of 300 turns 3 % miss: proven if they are scattered, not if they are two conversations."""

    def run(missing: set[int]) -> SloResult:
        return judged(
            [
                row(str(n), conversation=str(n // 5), ended_ms=30_000.0 if n in missing else 9000.0)
                for n in range(300)
            ],
            "ttc", 20,
        )  # fmt: skip

    scattered, clustered = run(set(range(0, 300, 60))), run({0, 1, 2, 3, 4})
    assert scattered.missed == clustered.missed == 5
    assert (scattered.verdict, scattered.inflation) == (Verdict.PASS, 1.0)
    assert clustered.verdict is Verdict.INCONCLUSIVE
    assert clustered.inflation == pytest.approx(5.0, abs=0.1)
    assert "misses come by conversations, so that they are worth 60" in clustered.reason


def test_failed_turns_are_infinitely_late_beside_those_that_completed() -> None:
    fast = [row(str(n), ended_ms=1000.0, first_answer_ms=900.0, last_answer_ms=None)
            for n in range(100)]  # fmt: skip
    few = judged(fast + many(2, outcome="failed"), "ttc", 20)
    many_failed = judged(fast + many(20, outcome="failed"), "ttc", 20)
    assert (few.measured_ms, few.started_ms, few.never) == (1000, 1000, False)
    assert (many_failed.measured_ms, many_failed.started_ms, many_failed.never) == (
        1000, None, True,
    )  # fmt: skip
    assert "p95 measured 1.00 s of completed turns, never of started ones" in many_failed.reason


@pytest.mark.parametrize("clock", ["resume", "auth", "recovery", "max_gap", "connect"])
def test_a_clock_that_no_turn_had_settles_nothing(clock: str) -> None:
    found = judged(many(100), clock, 5)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "no evidence" in found.reason


def test_a_target_may_be_about_one_dialect_or_group() -> None:
    rows = many(100, analyst_group="desk")
    rows += [row(f"w{n}", dialect="nat-ws", ended_ms=30_000.0) for n in range(50)]
    run = RunData(Path(), {}, rows)
    table, items = frame.turns(run), frame.happened(run)
    whole = {"clock": "ttc", "within_s": 20, "share": 0.95}
    results = [
        judge(whole | more, table, items)
        for more in ({}, {"dialect": "nat-sse"}, {"dialect": "nat-ws"}, {"group": "desk"})
    ]
    assert [(r.judged, r.verdict.value) for r in results] == [
        (150, "FAIL"), (100, "PASS"), (50, "FAIL"), (100, "PASS"),
    ]  # fmt: skip
    assert results[1].reason.startswith("completion (nat-sse) within 20 s: 100 % of 100 turns")
    each = target.spread([whole | {"each": "dialect"}], True, table)
    assert [one["dialect"] for one in each] == ["nat-sse", "nat-ws"]
    divided = parts.find([whole], table, items)
    assert {(row["by"], row["name"], row["verdict"]) for row in divided} == {
        ("dialect", "nat-sse", "PASS"), ("dialect", "nat-ws", "FAIL"),
        ("group", "", "FAIL"), ("group", "desk", "PASS"),
    }  # fmt: skip


def test_a_part_that_misses_what_the_whole_does_not_is_named() -> None:
    rows = many(2000) + [row(f"w{n}", dialect="nat-ws", ended_ms=30_000.0) for n in range(20)]
    run = RunData(Path(), {}, rows)
    table, items = frame.turns(run), frame.happened(run)
    whole = {"clock": "ttc", "within_s": 20, "share": 0.95}
    result = judge(whole, table, items)
    assert result.verdict is Verdict.PASS
    assert list(parts.sentences(parts.find([whole], table, items), [result])) == [
        "completion within 20 s: dialect nat-ws alone misses it, 0 % of 20 turns"
    ]


@pytest.mark.parametrize(
    ("cause", "allowed", "verdict"),
    [
        ("rate_limited", 0.2, "PASS"), ("rate_limited", 0.1, "FAIL"), ("stalled", 0.0, "PASS"),
        (None, 0.2, "FAIL"), (None, 0.25, "PASS"),
    ],
)  # fmt: skip
def test_a_budget_may_be_for_one_cause(cause: str | None, allowed: float, verdict: str) -> None:
    rows = many(75) + many(20, outcome="refused", cause="rate_limited")
    rows += many(5, outcome="failed", cause="agent_error")
    assert budget.judge(allowed, frame.turns(RunData(Path(), {}, rows)), cause).verdict == verdict


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
    assert found.reason == (
        "failures: 16.7 % of 120 turns, allowed 1 % (7 more were cut off by the end of the run)"
    )


@pytest.mark.parametrize(
    ("fine", "failed", "cut", "verdict"),
    [
        (233, 0, 2, "PASS"), (233, 0, 20, "INCONCLUSIVE"), (2, 0, 20, "INCONCLUSIVE"),
        (0, 0, 20, "INCONCLUSIVE"), (1, 0, 0, "INCONCLUSIVE"), (99, 0, 0, "INCONCLUSIVE"),
        (100, 0, 0, "PASS"), (99, 1, 0, "PASS"), (98, 2, 0, "FAIL"), (233, 5, 20, "FAIL"),
    ],
)  # fmt: skip
def test_a_budget_is_kept_only_if_the_turns_that_were_cut_off_could_not_break_it(
    fine: int, failed: int, cut: int, verdict: str
) -> None:
    rows = many(fine) + many(failed, outcome="refused") + many(cut, outcome="cut_off")
    assert failures(rows, 0.01).verdict.value == verdict


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (198, 200, 0.9643, 0.9973), (0, 20, 0, 0.1611)],
)
def test_wilson_intervals_have_the_known_values(
    part: int, whole: int, low: float, high: float
) -> None:
    assert attainment.interval(part, whole) == pytest.approx((low, high), abs=1e-4)


def test_turns_that_were_cut_off_decide_nothing_only_as_long_as_they_could_not():
    """A target that hangs for good must not pass for what it answered before."""
    answered = [row(f"t{number}") for number in range(140)]
    hung = {"outcome": "cut_off", "ended_ms": 9000.0, "first_progress_ms": None,
            "first_answer_ms": None, "last_answer_ms": None}  # fmt: skip
    for number, verdict in ((1, Verdict.PASS), (15, Verdict.INCONCLUSIVE)):
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
