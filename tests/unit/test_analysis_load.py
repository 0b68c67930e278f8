"""What a report says of its workload: the model, what arrived, what was cut off or stood still."""

from __future__ import annotations

import io
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import BEGIN_MONO, PLAN, crowd, manifest, row

from loadgen.analysis import firsts, frame, loadmodel, standstill
from loadgen.analysis.backfill import backfilled, what_if
from loadgen.analysis.censoring import Sample
from loadgen.analysis.summary import summarise
from loadgen.clock import NS_PER_MS
from loadgen.journal import RunData
from loadgen.report.page import render
from loadgen.report.terminal import print_summary

Rows = list[dict[str, Any]]

OPEN = {"model": "open", "rate": 2.0, "arrivals": "poisson"}


def run_of(rows: Rows, load: dict[str, Any] | None = None, **facts: Any) -> RunData:
    """A run of the model that ``load`` of its plan says."""
    if load is not None:
        facts["plan"] = PLAN | {"load": load}
        facts["load"] = {"model": load["model"], "users": 40, "arrivals_s": 50.0}
    return RunData(Path(), manifest(**facts), rows)


def at(turn: str, begin_ms: float, **facts: Any) -> dict[str, Any]:
    """A turn that begins so long after the run."""
    base = {"started_mono_ns": BEGIN_MONO + round(begin_ms * NS_PER_MS), "user": turn}
    return row(turn, **base | facts)


def drop(turn: str, due_ms: float) -> dict[str, Any]:
    """An arrival that nobody was free for, as the generator writes it."""
    return {
        "turn": turn, "scenario": "analysts", "dialect": "nat-sse", "worker": "w1",
        "outcome": "dropped", "cause": "no_slot", "detail": "no analyst was free",
        "started_mono_ns": 0, "scheduled_mono_ns": BEGIN_MONO + round(due_ms * NS_PER_MS),
    }  # fmt: skip


STAGES = [{"over_s": 10, "to": 60}, {"over_s": 5, "to": 0}]


@pytest.mark.parametrize(
    ("load", "title"),
    [
        (None, "closed, 180 analysts"),
        ({"model": "closed", "stages": STAGES}, "closed, up to 60 analysts in 2 stages"),
        (OPEN, "open, Poisson 2 turns/s"),
        (OPEN | {"arrivals": "constant", "rate": 0.25}, "open, constant 0.25 turns/s"),
        (OPEN | {"stages": STAGES}, "open, Poisson up to 60 turns/s in 2 stages"),
        (OPEN | {"model": "partly-open"}, "partly-open, Poisson 2 conversations/s of 5 turns"),
        (
            {"model": "partly-open", "rate": 2, "conversation_length": "geometric"},
            "partly-open, Poisson 2 conversations/s of 5 turns on average",
        ),
        (
            {"model": "replay", "file": "a/b.csv", "speed": 2.0},
            "replay of b.csv at 2 times its speed",
        ),
    ],
)  # fmt: skip
def test_every_report_names_its_model_first(load: dict[str, Any] | None, title: str) -> None:
    run = run_of(crowd(40, 30.0), load)
    summary = summarise(run)
    assert summary["load"]["title"] == title
    assert summary["headline"].startswith(f"{title}: ")
    assert f"<li>load <b>{title}" in render(run, summary)
    file = io.StringIO()
    print_summary(summary, None, file)
    assert title in file.getvalue().strip().splitlines()[0]


@pytest.mark.case("D-80")
def test_closed_and_open_runs_of_one_service_are_told_apart_everywhere() -> None:
    closed, opened = run_of(crowd(60, 30.0)), run_of(crowd(60, 30.0), OPEN)
    one, other = summarise(closed), summarise(opened)
    assert "the latencies are those of the turns that were issued" in render(closed, one)
    assert "not to be compared with those of a closed load" in render(opened, other)
    assert {target["clock"] for target in one["slo"]} == {"ttfv", "ttc"}
    assert {target["clock"] for target in other["slo"]} == {"ttfv_intended", "ttc_intended"}
    assert (one["arrivals"], other["what_if"]) == (None, None)


def test_targets_of_a_load_that_arrives_count_from_when_turns_were_due() -> None:
    late = [at(str(n), n * 100.0, scheduled_ms=-1500.0) for n in range(100)]
    closed, opened = summarise(run_of(late)), summarise(run_of(late, OPEN))
    assert [target["verdict"] for target in closed["slo"]] == ["PASS", "PASS"]
    assert [target["verdict"] for target in opened["slo"]] == ["FAIL", "PASS"]
    assert opened["slo"][0]["measured_ms"] == 2200
    assert any(
        reason.startswith("visible progress, from the intended start within 2 s: 0 %")
        for reason in opened["reasons"]
    )
    metrics = opened["metrics"]
    both = [metrics[name]["p50"]["value_ms"] for name in ("ttc_intended", "ttc", "lag")]
    assert both == [10_500, 9_000, 1_500]


def test_arrivals_that_were_dropped_may_have_missed_the_target() -> None:
    fine = [at(str(n), n * 100.0) for n in range(95)]
    lost = [drop(f"d{n}", 9_000.0 + n) for n in range(6)]
    alone, beside = summarise(run_of(fine, OPEN)), summarise(run_of(fine + lost, OPEN))
    assert alone["slo"][0]["verdict"] == "PASS"
    assert (beside["slo"][0]["verdict"], beside["slo"][0]["dropped"]) == ("INCONCLUSIVE", 6)
    assert "6 dropped before they began, not counted" in beside["slo"][0]["reason"]
    assert summarise(run_of(fine + lost))["slo"][0]["dropped"] == 0


def test_what_arrived_adds_up_and_stands_in_the_report() -> None:
    rows = [at(str(n), n * 100.0, number=1 + n % 5) for n in range(40)]
    rows += [drop(f"d{n}", 1_000.0 * n) for n in range(10)]
    run = run_of(rows, OPEN)
    came = summarise(run)["arrivals"]
    assert came == {
        "unit": "turns", "offered": 50, "taken": 40, "dropped": 10,
        "why": {"no analyst was free": 10}, "seconds": 50.0, "offered_per_s": 1.0,
        "taken_per_s": 0.8, "taken_share": 0.8,
    }  # fmt: skip
    assert "What arrived" in render(run, summarise(run))
    conversations = loadmodel.arrivals(
        run_of(rows, {"model": "partly-open", "rate": 2}).manifest, frame.turns(run)
    )
    assert conversations is not None
    assert (conversations["unit"], conversations["taken"]) == ("conversations", 8)


def test_a_dropped_arrival_has_its_place_on_the_time_axis_and_no_clock() -> None:
    table = frame.turns(run_of([at("a", 1_000.0, scheduled_ms=-250.0), drop("d", 2_500.0)], OPEN))
    assert table["scheduled_s"].tolist() == pytest.approx([0.75, 2.5])
    assert table["late_ms"].tolist() == pytest.approx([250, math.nan], nan_ok=True)
    assert table["ttc_ms"].isna().tolist() == [False, True]


def test_a_turn_that_waited_for_its_own_analyst_was_not_late_through_us() -> None:
    """Two turns of one analyst, due at 0 and 100 ms; the first takes 500 ms."""
    rows = [
        at("a", 0.0, user="w1/0", scheduled_ms=-2.0, ended_ms=500.0),
        at("b", 503.0, user="w1/0", scheduled_ms=-403.0, ended_ms=500.0),
        at("c", 504.0, user="w1/1", scheduled_ms=-1.0),
    ]
    table = frame.turns(run_of(rows, OPEN))
    assert table["lag_ms"].tolist() == [2, 403, 1]
    assert table["late_ms"].tolist() == pytest.approx([2, 3, 1], abs=0.001)
    assert table["first"].tolist() == [True, False, True]


# turns that the end of the run cut off


@pytest.mark.case("D-50")
@pytest.mark.parametrize(
    ("values", "bounds", "share", "value", "at_least"),
    [
        ([1, 2, 3], [10], "1/2", 2, False),
        ([1, 2, 3], [10], "3/4", 3, False),
        ([1, 2, 3], [10], "99/100", 10, True),
        ([1, 2, 30], [10], "3/4", 10, True),
        ([1, 2, 30], [10], "1/2", 2, False),
        ([10, 20, 30], [5], "1/4", 5, True),
        ([], [5], "1/2", 5, True),
        ([1, 2], [], "99/100", 2, False),
    ],
)
def test_a_percentile_is_known_if_no_cut_off_turn_can_move_it(
    values: list[float], bounds: list[float], share: str, value: float, at_least: bool
) -> None:
    size = len(values) + len(bounds)
    sample = Sample(
        np.array(values, float), np.array(bounds, float), 0, len(bounds), 0, np.arange(size)
    )
    found = sample.quantile(Fraction(share))
    assert found is not None
    assert (found["value"], found["at_least"]) == (value, at_least)
    truths = ([*values, *(b + random.Random(n).random() * 50 for b in bounds)] for n in range(20))
    for truth in truths:
        actual = np.quantile(truth, float(Fraction(share)), method="inverted_cdf")
        assert actual >= value if at_least else actual == value


@pytest.mark.case("D-50")
def test_turns_that_were_cut_off_count_with_what_they_reached_and_as_longer_with_the_rest() -> None:
    rows = [at(f"done{n}", 0.0, conversation=f"d{n}") for n in range(8)]
    rows += [
        at(f"cut{n}", 0.0, outcome="cut_off", ended_ms=5000.0, last_answer_ms=None)
        for n in range(2)
    ]
    rows += [
        at(f"early{n}", 0.0, outcome="cut_off", ended_ms=300.0, first_progress_ms=None,
           first_answer_ms=None, last_answer_ms=None)
        for n in range(2)
    ]  # fmt: skip
    summary = summarise(run_of(rows))
    ttfp, ttc = summary["metrics"]["ttfp"], summary["metrics"]["ttc"]
    assert (ttfp["n"], ttfp["censored"], ttfp["p50"]["value_ms"]) == (12, 2, 700)
    assert (ttc["n"], ttc["censored"]) == (12, 4)
    assert ttc["p50"] == {"value_ms": 9000, "low_ms": 5000, "high_ms": None, "needs_n": None}
    assert ttc["p95"] == {"value_ms": None, "low_ms": None, "high_ms": None, "needs_n": 59}
    assert (ttc["max_ms"], ttc["max_at_least"]) == (9000, True)
    assert summary["completed_after"] == {"p50_ms": 9000, "max_ms": 9000}
    assert "\u2265 9.00" in render(run_of(rows), summary)
    many = summarise(run_of([*(at(f"d{n}", 0.0) for n in range(60)), *rows[-4:]]))
    p95 = many["metrics"]["ttc"]["p95"]
    assert (p95["value_ms"], p95["at_least"]) == (9000, True)
    assert sum(summary["turns"][name] for name in ("completed", "cut_off")) == 12


# standstills


def steady(service_ms: float, pause: tuple[float, float] | None, seed: int = 1) -> Rows:
    """Turns that arrive 20 times a second for 20 s, at a server that stands still in ``pause``."""
    rng, rows, begin_ms = random.Random(seed), [], 0.0
    while (begin_ms := begin_ms + rng.expovariate(20 / 1000)) < 20_000:
        ready = begin_ms
        marks = []
        for part in (0.3, 0.5, 0.2):
            ready += rng.expovariate(1 / (part * service_ms))
            if pause and ready > pause[0] and begin_ms < pause[1]:
                ready = max(ready, pause[1] + rng.random() * 20)
            marks.append(ready - begin_ms)
        facts = dict(zip(("first_progress_ms", "first_answer_ms", "ended_ms"), marks, strict=True))
        first = facts["first_progress_ms"]
        rows.append(
            at(f"t{len(rows)}", begin_ms, first_byte_ms=first, last_answer_ms=None, **facts)
        )
    return rows


@pytest.mark.parametrize("service_ms", [50.0, 4000.0])
def test_a_target_that_stands_still_is_seen_with_its_time(service_ms: float) -> None:
    found = standstill.find(frame.turns(run_of(steady(service_ms, (8_000, 13_000)), OPEN)))
    assert len(found) == 1
    assert found[0].begin_s == pytest.approx(8, abs=1)
    assert found[0].end_s == pytest.approx(13, abs=0.1)
    assert found[0].turns > 50


@pytest.mark.parametrize("service_ms", [50.0, 4000.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_target_that_goes_on_is_never_said_to_stand_still(service_ms: float, seed: int) -> None:
    assert not standstill.find(frame.turns(run_of(steady(service_ms, None, seed), OPEN)))


def test_a_crowd_that_marches_in_step_is_no_standstill() -> None:
    """Forty analysts ask within 50 ms, wait 3 s together, and ask again."""
    rows = [
        at(f"{wave}/{n}", wave * 7_000.0 + n, first_byte_ms=3000.0 + n,
           first_progress_ms=3000.0 + n, first_answer_ms=5000.0 + n, last_answer_ms=None,
           ended_ms=5000.0 + n)
        for wave in range(5) for n in range(40)
    ]  # fmt: skip
    assert not standstill.find(frame.turns(run_of(rows)))


def test_chunks_that_came_meanwhile_refute_a_standstill() -> None:
    rows = steady(50.0, (8_000, 13_000))
    rows.append(at("long", 0.0, first_byte_ms=10.0, first_progress_ms=10.0, first_answer_ms=20.0,
                   last_answer_ms=None, max_gap_ms=30.0, ended_ms=19_000.0))  # fmt: skip
    assert not standstill.find(frame.turns(run_of(rows, OPEN)))
    rows[-1]["max_gap_ms"] = 5_100.0
    assert standstill.find(frame.turns(run_of(rows, OPEN)))


@pytest.mark.case("D-45")
def test_a_standstill_is_a_sentence_a_number_and_a_band_in_the_course() -> None:
    run = run_of(steady(50.0, (8_000, 13_000)), OPEN)
    summary = summarise(run)
    (still,) = summary["standstills"]
    assert still["lasted_s"] == pytest.approx(5, abs=0.3)
    assert any("stood still for" in note and "open turns" in note for note in summary["notes"])
    page = render(run, summary)
    assert f'"x0":{still["begin_s"]}' in page.replace("\\u0022", '"')
    assert "bands times in which nothing arrived for any open turn" in page


# what if, and first turns


def test_back_fill_gives_the_figures_of_hdrhistogram() -> None:
    """HistogramDataAccessTest: 10,000 x 1 ms and one of 100 s, expected interval 10 ms."""
    values = np.array([1.0] * 10_000 + [100_000.0])
    filled = backfilled(values, 10.0)
    found = np.quantile(filled, [0.5, 0.75, 0.9, 0.99], method="inverted_cdf")
    assert (values.size, round(values.mean() * 1000)) == (10_001, 10_999)
    assert (filled.size, filled.max()) == (20_000, 100_000)
    assert filled.mean() == pytest.approx(25_000, rel=0.001)
    assert found == pytest.approx([1, 50_000, 80_000, 98_000], rel=0.001)


def closed(freeze_ms: float) -> Rows:
    """Ten analysts who ask every 100 ms, and once wait ``freeze_ms`` for an answer."""
    rows = []
    for user in range(10):
        begin = 7.0 * user
        for n in range(60):
            took = freeze_ms if n == 30 and freeze_ms else 20.0
            rows.append(at(f"{user}/{n}", begin, user=f"w1/{user}", first_progress_ms=None,
                           first_answer_ms=took, last_answer_ms=None, ended_ms=took))  # fmt: skip
            begin += took + 80.0
    return rows


def test_what_a_closed_load_left_out_is_shown_as_a_guess_and_not_judged() -> None:
    run = run_of(closed(5_000.0))
    summary = summarise(run)
    guess = summary["what_if"]
    assert guess["expected_interval_ms"] == 100
    assert (guess["metrics"]["ttc"]["added"], guess["metrics"]["ttc"]["p95"]) == (490, 4500)
    assert summary["metrics"]["ttc"]["p95"]["value_ms"] == 20
    assert summary["slo"][1]["measured_ms"] == 20
    page = render(run, summary)
    assert "A guess, and never judged" in page
    assert what_if(frame.turns(run_of(closed(0.0)))) is None


@pytest.mark.case("D-51")
def test_first_turns_are_marked_and_none_is_left_out() -> None:
    rows = closed(0.0)
    for turn in rows:
        if turn["turn"].endswith("/0"):
            turn |= {"first_answer_ms": 2020.0, "ended_ms": 2020.0}
    run = run_of(rows)
    summary = summarise(run)
    assert summary["first_turns"]["turns"] == 10
    assert summary["first_turns"]["metrics"]["ttc"] == {
        "first": {"n": 10, "p50_ms": 2020.0}, "later": {"n": 590, "p50_ms": 20.0},
    }  # fmt: skip
    assert summary["metrics"]["ttc"]["n"] == 600
    assert "first turns were slower: visible progress 2.02 s in the 10 first turns" in "".join(
        summary["notes"]
    )
    assert "First turns of analysts beside later ones" in render(run, summary)
    assert firsts.sentence(firsts.compare(frame.turns(run_of(closed(0.0))))) is None
