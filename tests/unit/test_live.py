"""Live figures: windowed, addable, with the populations of the report."""

from __future__ import annotations

import re
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from watched import CLOSED, LOST, OPEN, RAW, figures, health, row, tally

from loadgen.fitness import Fitness, Light, fitness
from loadgen.live import WINDOW_S, Scope, Tally, Target, Window
from loadgen.metrics import Clock, turn_clocks
from loadgen.phase import Phase, Standing, standing
from loadgen.plan import parse_plan
from loadgen.swarm.livejson import as_json
from loadgen.swarm.livetable import line, span
from loadgen.swarm.watch import Crowd, Watch
from loadgen.turn import Outcome


def test_clocks_are_those_of_completed_turns_and_recovered_ones_are_apart() -> None:
    found = tally(
        row(),
        row(900.0),
        row(outcome="failed", cause="agent_error"),
        row(recovered=True, **LOST),
        row(None),
    )
    assert {clock.value: h.n for clock, h in found.clocks.items()} == {
        "ttfv": 3, "ttfp": 2, "ttfa": 3, "ttc": 3, "recovery": 1,
    }  # fmt: skip
    assert found.clocks[Clock.RECOVERY].quantile(Fraction(1, 2)) == pytest.approx(500, rel=0.01)
    assert (found.losses, found.returns, found.recovered) == (1, 1, 1)
    assert (found.turns, found.failed, found.judged) == (5, 1, 5)


def test_a_failed_turn_has_missed_its_target_and_one_cut_off_is_not_judged() -> None:
    (target,) = CLOSED.targets
    assert target == Target(Clock.TTFV, 2_000.0, 0.95)
    found = tally(
        row(2_000.0),
        row(2_000.5),
        row(outcome="timed_out", cause="stalled"),
        row(outcome="cut_off"),
        {"outcome": "dropped", "cause": "no_slot", "started_mono_ns": 0},
    )
    assert found.within(target) == (1, 3)
    assert found.turns == 4
    assert found.count(Outcome.DROPPED) == 1


def test_where_turns_arrive_the_clocks_count_from_when_they_were_due() -> None:
    assert OPEN.marks == (
        Clock.TTFV_INTENDED, Clock.TTFP_INTENDED, Clock.TTFA_INTENDED, Clock.TTC_INTENDED,
    )  # fmt: skip
    assert OPEN.targets == (Target(Clock.TTFV_INTENDED, 2_000.0, 0.95),)
    found = tally(row(700.0, scheduled_ms=-1_400.0), measures=OPEN)
    assert found.within(OPEN.targets[0]) == (0, 1)
    assert found.clocks[Clock.TTFP].max_ms == 700.0
    assert found.clocks[Clock.TTFP_INTENDED].max_ms == 2_100.0


def test_what_a_worker_sends_is_what_the_master_adds() -> None:
    sent = tally(row(), row(outcome="failed", cause="stalled"), row(recovered=True, **LOST))
    got = Tally.unpack(sent.pack(), CLOSED.scale)
    assert got.pack() == sent.pack()
    got.merge(sent)
    assert (got.turns, got.failed, got.clocks[Clock.TTFP].n, got.returns) == (6, 2, 2, 2)


def test_what_was_slow_a_minute_ago_is_not_what_is_slow_now() -> None:
    window = Window()
    window.add(tally(row(9_000.0)), 100)
    window.add(tally(row(500.0)), 150)
    now = window.recent(155)
    assert now.turns == 1
    assert now.clocks[Clock.TTFP].max_ms == 500.0
    assert window.whole.clocks[Clock.TTFP].max_ms == 9_000.0
    assert window.recent(150 + WINDOW_S).turns == 1
    assert window.recent(151 + WINDOW_S).turns == 0


def test_what_is_counted_of_a_turn_are_its_clocks_of_the_formula_book() -> None:
    prompts = [{"kind": "text", "paused_ms": 1_000.0, "resumed_ms": 3_500.0, "replied": True}]
    turn = row(700.0, scheduled_ms=-250.0, prompts=prompts)
    for measures in (CLOSED, OPEN):
        counted = {clock: h.max_ms for clock, h in tally(turn, measures=measures).clocks.items()}
        truth = turn_clocks(turn)
        assert counted == {clock: truth[clock] for clock in measures.clocks if clock in truth}


def test_a_window_that_moves_on_is_the_sum_of_its_seconds() -> None:
    rng, window, slots = Random(7), Window(), {}
    for second in range(100, 220):
        rows = [
            row(rng.uniform(100, 9_000), outcome=rng.choice(["completed", "failed"]))
            for _ in range(rng.choice([0, 0, 1, 4]))
        ]
        slots[second] = tally(*rows, *([row(recovered=True, **LOST)] if second % 7 == 0 else []))
        if slots[second].turns:
            window.add(slots[second], second)
        expected = Tally()
        for at in range(max(100, second - WINDOW_S), second + 1):
            expected.merge(slots[at])
        found = window.recent(second)
        assert found.ends == expected.ends
        assert (found.recovered, found.losses) == (expected.recovered, expected.losses)
        assert found.clocks.keys() == expected.clocks.keys()
        for clock, histogram in expected.clocks.items():
            assert found.clocks[clock].buckets == histogram.buckets
            assert found.clocks[clock].n == histogram.n
            assert found.clocks[clock].max_ms == histogram.max_ms
            assert found.clocks[clock].sum_ms == pytest.approx(histogram.sum_ms)


def test_a_workers_second_may_come_late_and_is_not_counted_twice() -> None:
    window = Window()
    window.add(tally(row()), 100)
    window.add(tally(row()), 102)
    window.add(tally(row(), row()), 100)
    assert window.recent(103).turns == window.whole.turns == 4
    assert window.recent(101 + WINDOW_S).turns == 1


@pytest.mark.parametrize(
    ("phase", "progress", "answer", "expected"),
    [
        (Phase.IDLE, False, False, None),
        (Phase.PREPARING, False, False, Standing.CONNECTING),
        (Phase.CONNECTING, False, False, Standing.CONNECTING),
        (Phase.LOGGING_IN, False, False, Standing.CONNECTING),
        (Phase.WAITING, False, False, Standing.WAITING),
        (Phase.WORKING, False, False, Standing.WAITING),
        (Phase.WORKING, True, False, Standing.WORKING),
        (Phase.POLLING, False, False, Standing.WAITING),
        (Phase.WORKING, True, True, Standing.ANSWERING),
        (Phase.WORKING, False, True, Standing.ANSWERING),
        (Phase.HUMAN, True, False, Standing.HUMAN),
        (Phase.AWAY, False, False, Standing.HUMAN),
        (Phase.BACKING_OFF, True, True, Standing.CONNECTING),
        (Phase.RESUMING, True, False, Standing.CONNECTING),
        (Phase.SETTLING, True, True, Standing.ANSWERING),
    ],
)
def test_where_a_turn_stands(
    phase: Phase, progress: bool, answer: bool, expected: Standing | None
) -> None:
    assert standing(phase, progress=progress, answer=answer) is expected


def test_a_fit_generator_has_a_green_light_and_its_figures() -> None:
    found = fitness({"local": [health(n) for n in range(20)]}, 25.0)
    assert found == Fitness(Light.FIT, (), 1.0, pytest.approx(0.3), 25.0)


def test_two_late_ticks_are_an_accident_and_said_to_be() -> None:
    rows = [health(n) for n in range(4, 9)]
    rows[-1]["lags_ms"] = [1.0] * 18 + [170.0] * 2
    found = fitness({"local": rows}, 25.0)
    assert found.light is Light.FIT
    assert "170.0 ms late at p99 (fewer than 3 late ticks" in line(figures(fitness=found))


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([health(n, 40.0) for n in range(4, 10)], "at p99"),
        ([health(n, 12.0) for n in range(4, 10)], "at p90"),
        ([health(n, cpu=0.97) for n in range(4, 10)], "of a core in 6 of 6 s"),
        ([health(9, heartbeats_missed=3)], "heartbeats behind"),
    ],
)
def test_an_unfit_one_says_why(rows: list[dict[str, Any]], word: str) -> None:
    found = fitness({"worker-1": rows, "worker-0": [health(9)]}, 25.0)
    assert found.light is Light.UNFIT
    assert len(found.reasons) == 1
    assert found.reasons[0].startswith("worker-1: ")
    assert word in found.reasons[0]


def test_start_and_drain_and_a_masters_own_hub_say_nothing_of_the_run() -> None:
    late = [health(n, 600.0, 0.99) for n in range(3)]
    ending = [health(n, 600.0, draining=True) for n in range(20, 25)]
    master = [health(n, 600.0, heartbeats_missed=0) for n in range(9)]
    assert fitness({"worker-0": late}, 25.0).light is Light.UNKNOWN
    rows = {"worker-0": [*late, health(5), *ending], "master": master}
    assert fitness(rows, 25.0).light is Light.FIT


def test_the_line_says_it_all() -> None:
    assert line(figures()) == (
        "1:15 elapsed, 1:00:00 left | 60 of 180 analysts"
        " | 42 in flight: 40 working, 2 waiting for the analyst"
        " | p95 of the last 30 s: ttfp 696.0 ms, ttfa 3.97 s, ttc 6.00 s"
        " | 100 turns ended | 3 failed (3 %, mostly failed by agent_error; 0 of them in the last"
        " 30 s) | generator fit: hub 1.00 ms late at p99, 30 % of a core"
    )


def test_an_ab_run_shows_two_agents_and_never_their_sum() -> None:
    base, new = tally(row(500.0)), tally(row(900.0), row(2_500.0))
    both = base.copy()
    both.merge(new)
    sides = (Scope("baseline", base, base), Scope("candidate", new, new))
    said = line(figures(recent=both, whole=both, sides=sides))
    assert re.search(r"p95 of the last 30 s, baseline: ttfp (49|50)\d\.\d ms,", said)
    assert "p95 of the last 30 s, candidate: ttfp 2.50 s," in said
    assert "3 turns ended" in said
    told = as_json(figures(recent=both, whole=both, sides=sides))
    assert [(one["side"], one["title"]) for one in told["clocks"][::4]] == [
        ("baseline", "baseline: visible progress"),
        ("candidate", "candidate: visible progress"),
    ]
    assert [one["whole"]["text"] for one in told["targets"]] == ["100 % of 1", "50 % of 2"]
    assert told["outcomes"][0]["whole"] == 3


def test_what_a_worker_counts_is_what_its_master_shows() -> None:
    def crowd() -> Crowd:
        return Crowd(4, 4, None)

    plan = parse_plan(RAW, "plan")
    worker = Watch("run", plan, crowd, reports=True, rivals=True)
    master = Watch("run", plan, crowd, rivals=True)
    for side, progress_ms in (("base", 500.0), ("new", 900.0), ("new", 1_100.0)):
        worker.note(row(progress_ms, side=side))
    master.take("w1", worker.pack())
    master.take("w1", worker.pack())
    master.close()
    found = master.figures()
    assert found.over
    assert found.whole.turns == found.recent.turns == 3
    assert [(s.name, s.whole.turns) for s in found.sides] == [("baseline", 1), ("candidate", 2)]
    assert found.sides[1].recent.clocks[Clock.TTFP].max_ms == 1_100.0


def test_the_line_leaves_out_what_is_not_known() -> None:
    said = line(figures(left_s=None, recent=Tally(), whole=Tally(), fitness=fitness({}, 25.0)))
    assert "left" not in said
    assert "ttfp \u2013, ttfa \u2013, ttc \u2013" in said
    assert said.endswith("0 turns ended | 0 failed | generator: not known yet")
    assert "ending" in line(figures(draining=True))
    assert line(figures(draining=True, over=True)).startswith("over after 1:15 |")


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (75, "1:15"), (3_675, "1:01:15")])
def test_a_span_reads_like_a_clock(seconds: float, text: str) -> None:
    assert span(seconds) == text
