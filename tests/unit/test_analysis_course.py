"""What the charts over time are made of: windows, occasions, examples, prompted turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import BEGIN_MONO, crowd, manifest, row

from loadgen.analysis import ecdf, examples, frame, occasions, prompted, series
from loadgen.analysis.occasions import Occasion
from loadgen.analysis.summary import summarise
from loadgen.clock import NS_PER_S
from loadgen.journal import RunData


def run_of(rows: list[dict[str, Any]], **facts: Any) -> RunData:
    return RunData(Path(), manifest(**facts), rows)


def at(turn: str, second: float, **facts: Any) -> dict[str, Any]:
    return row(turn, started_mono_ns=BEGIN_MONO + int(second * NS_PER_S), **facts)


@pytest.mark.parametrize(
    ("turns", "seconds", "width"),
    [(1200, 60, 1), (600, 60, 1), (120, 60, 5), (9, 60, 54), (100_000, 3600, 60), (0, 0, 1)],
)
def test_windows_are_few_and_hold_ten_turns_where_there_are_so_many(
    turns: int, seconds: int, width: int
) -> None:
    none = dict.fromkeys(("first_progress_ms", "first_answer_ms", "last_answer_ms"))
    rows = [at(str(n), n * seconds / max(1, turns), ended_ms=1.0, **none) for n in range(turns)]
    edges = series.windows(frame.turns(run_of(rows)))
    assert edges[1] - edges[0] == width
    assert len(edges) <= series.WINDOWS + 2


def test_a_curve_has_the_nearest_rank_of_each_window_and_skips_what_is_missing() -> None:
    begun = np.array([*np.arange(20) / 20, 5.0, 5.5, np.nan])
    values = np.array([*range(1, 21), np.nan, 7.0, 9.0])
    curve = series.curve(begun, values, np.arange(0.0, 7.0))
    assert list(curve.at_s) == [0.5, 5.5]
    assert list(curve.n) == [20, 1]
    assert list(curve.p50_ms) == [10.0, 7.0]
    assert list(curve.p95_ms) == [19.0, 7.0]


def test_a_heat_map_counts_every_turn_once_also_when_all_are_alike() -> None:
    edges = np.arange(0.0, 4.0)
    for values in (np.array([100.0, 200.0, 5000.0]), np.array([700.0, 700.0, 700.0])):
        heat = series.heat(np.array([0.1, 1.1, 3.0]), values, edges)
        assert heat is not None
        assert heat.counts.sum() == 3
        assert heat.counts.shape == (series.LEVELS, 3)
    assert series.heat(np.array([0.1]), np.array([np.nan]), edges) is None


def test_occasions_lie_where_they_happened_on_the_axis_of_the_run() -> None:
    prompts = [{"kind": "text", "paused_ms": 500.0}, {"kind": "notification", "paused_ms": 600.0}]
    losses = [{"during": "working", "lost_ms": 1000.0, "recovered_ms": 2500.0}]
    rows = [
        at("a", 10, prompts=prompts, losses=losses),
        at("b", 20, outcome="failed", ended_ms=3000.0),
        at("c", 30, outcome="cut_off"),
    ]
    run = run_of(rows)
    found = {name: list(times) for name, times in occasions.find(run, frame.turns(run)).items()}
    assert found == {
        Occasion.PROMPT: [pytest.approx(10.5)],
        Occasion.LOST: [pytest.approx(11.0)],
        Occasion.BACK: [pytest.approx(12.5)],
        Occasion.FAILED: [pytest.approx(23.0)],
    }


def test_stages_are_counted_from_when_arrivals_began_and_end_with_the_run() -> None:
    stages = [{"over_s": 5, "to": 2}, {"over_s": 10, "to": 4}, {"over_s": 900, "to": 0}]
    run = run_of(
        [at("a", 1), at("b", 50)],
        plan={"load": {"stages": stages}},
        started_at="2026-09-21T14:13:20.000000Z",
        load={"model": "open", "arrivals_began_at": "2026-09-21T14:13:21.500000Z"},
    )
    found = occasions.stages(run, frame.turns(run))
    assert found == [{"at_s": 6.5, "to": 2}, {"at_s": 16.5, "to": 4}]


def test_examples_are_the_slowest_the_middle_and_one_of_each_way_to_fail() -> None:
    rows = [at(f"t{n}", n, ended_ms=5000.0 + n) for n in range(21)]
    rows += [
        at(f"f{n}", n, outcome="failed", cause="agent_error", ended_ms=5.0 + n) for n in range(3)
    ]
    rows += [at("g", 1, outcome="timed_out", cause="stalled", ended_ms=90_000.0)]
    run = run_of(rows)
    found = examples.find(run, frame.turns(run))
    assert [turn["turn"] for turn in found["slowest"]][:2] == ["g", "t20"]
    assert [turn["turn"] for turn in found["median"]] == ["t11", "t10", "t9"]
    assert [turn["turn"] for turn in found["failed"]] == ["f1", "g"]
    events = {event["event"]: event["at_ms"] for event in found["median"][0]["events"]}
    assert events["first answer"] == 4000.0
    assert events["ended"] == 5011.0


def test_prompted_turns_say_whose_time_it_was() -> None:
    prompts = [{"kind": "text", "paused_ms": 1000.0, "resumed_ms": 4000.0, "replied": True}]
    rows = [at(f"p{n}", n, prompts=prompts) for n in range(3)] + [at("o", 4, ended_ms=7000.0)]
    assert prompted.find(frame.turns(run_of(rows))) == {
        "turns": 3, "human_p50_ms": 3000.0, "server_p50_ms": 6000.0, "wall_p50_ms": 9000.0,
        "others": 1, "others_p50_ms": 7000.0,
    }  # fmt: skip
    assert prompted.find(frame.turns(run_of(rows[3:]))) is None


def test_the_interval_of_a_share_is_clopper_and_pearsons() -> None:
    """Brown, Cai and DasGupta 2001, and the rule of three at the ends."""
    low, high = ecdf.interval(np.array([8, 10]), 10)
    assert low == pytest.approx([0.4439, 0.6915], abs=1e-4)
    assert high == pytest.approx([0.9748, 1.0], abs=1e-4)


def test_groups_are_named_with_their_scenario_and_add_up() -> None:
    rows = crowd(20, 10.0)
    for number, turn in enumerate(rows):
        turn["analyst_group"] = ("desk", "browser")[number % 2]
    groups = summarise(run_of(rows))["groups"]
    assert list(groups) == ["analysts / browser", "analysts / desk"]
    assert sum(group["turns"]["started"] for group in groups.values()) == len(rows)
