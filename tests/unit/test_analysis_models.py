"""Knee, bounds, Erlang's formulas and sizing against values from the literature."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loadgen.analysis import bounds, erlang, sizing
from loadgen.analysis.bounds import Point
from loadgen.analysis.kneedle import knee
from loadgen.analysis.sizing import Limit
from loadgen.analysis.usl import Usl


def test_the_knee_of_the_papers_second_figure() -> None:
    x = np.linspace(0, 1, 10)
    found = knee(x, 5 - 1 / (x + 0.1), concave=True)
    assert found is not None
    assert (found.x, found.y, found.distance) == pytest.approx((0.2222, 1.8966, 0.5364), abs=1e-3)


def test_a_straight_line_has_no_knee() -> None:
    assert knee(range(10), range(10), concave=True) is None
    assert knee(range(10), range(10), concave=False) is None


def test_a_latency_that_takes_off_has_its_knee_before() -> None:
    found = knee([10, 20, 40, 80, 120, 160], [1, 1, 1, 1, 8, 16], concave=False)
    assert found is not None
    assert found.x == 80


@pytest.mark.parametrize("values", [[], [1.0], [2.0] * 6, [1.0, 2.0, 3.0]])
def test_too_few_or_equal_values_have_no_knee(values: list[float]) -> None:
    assert knee(range(len(values)), values, concave=True) is None


def test_what_falls_behind_the_peak_does_not_hide_the_knee() -> None:
    found = knee([1, 2, 4, 8, 16, 32], [10, 19, 30, 31, 25, 12], concave=True)
    assert found is not None
    assert found.x == 4


def test_bounds_cross_where_somebody_must_wait() -> None:
    """Eight places, 4 s of work, 8 s of thinking: 24 analysts keep them busy."""
    points = [
        Point(6, 6 / 12, 4.0, 8.0),
        Point(12, 1.0, 4.0, 8.0),
        Point(24, 1.95, 4.3, 8.0),
        Point(48, 2.0, 16.0, 8.0),
    ]
    found = bounds.find(points)
    assert found is not None
    assert found.saturated
    assert found.crossing == pytest.approx(24.0)
    assert found.throughput(12) == pytest.approx(1.0)
    assert found.throughput(100) == 2.0
    assert found.response_s(100) == pytest.approx(100 / 2 - 8)
    assert bounds.broken(found, points) == []


def test_throughput_above_the_bound_is_told() -> None:
    points = [Point(10, 1.0, 2.0, 8.0, 0.9), Point(20, 2.6, 2.0, 8.0, 2.4)]
    found = bounds.find(points)
    assert found is not None
    assert not found.saturated
    assert [p.analysts for p in bounds.broken(found, points)] == [20]
    noisy = [points[0], Point(20, 2.6, 2.0, 8.0, 1.9)]
    assert bounds.broken(found, noisy) == []


def test_bounds_of_nothing_are_none() -> None:
    assert bounds.find([Point(10, 0.0, 1.0, 1.0)]) is None


@pytest.mark.parametrize(
    ("places", "load", "lost", "delayed"),
    [(1, 0.8, 0.8 / 1.8, 0.8), (2, 1.0, 0.2, 1 / 3), (10, 8.0, 0.12166, 0.40918)],
)
def test_erlangs_formulas(places: int, load: float, lost: float, delayed: float) -> None:
    """Closed forms of one and two places, and an entry of the usual tables."""
    assert erlang.blocked(places, load) == pytest.approx(lost, abs=1e-5)
    assert erlang.delayed(places, load) == pytest.approx(delayed, abs=1e-5)


def test_one_place_is_the_textbooks_queue() -> None:
    """M/M/1 at 0.8: wait 4 of a sojourn of 5 in services; sojourn is exp(0.2)."""
    found = erlang.waiting(1, 0.8, 1.0)
    assert found is not None
    assert found.mean_s == pytest.approx(4.0)
    assert found.share_above(0.0) == pytest.approx(0.8)
    assert found.quantile_s(0.95) == pytest.approx(5 * math.log(0.8 / 0.05))
    assert found.quantile_s(0.1) == 0.0


def test_a_queue_that_gets_more_than_it_can_do_grows_for_ever() -> None:
    assert erlang.waiting(8, 2.0, 4.0) is None
    assert erlang.delayed(8, 8.0) == 1.0


def test_simulated_waits_agree_with_erlang_c() -> None:
    """A FIFO queue with four places, straight from its definition."""
    rng = np.random.default_rng(5)
    number, places, per_s, service_s = 200_000, 4, 3.2, 1.0
    at = np.cumsum(rng.exponential(1 / per_s, number))
    takes = rng.exponential(service_s, number)
    free = [0.0] * places
    waits = np.empty(number)
    for index, (now, long) in enumerate(zip(at, takes, strict=True)):
        place = free.index(min(free))
        begin = max(now, free[place])
        waits[index] = begin - now
        free[place] = begin + long
    found = erlang.waiting(places, per_s, service_s)
    assert found is not None
    assert waits.mean() == pytest.approx(found.mean_s, rel=0.05)
    assert (waits > 0).mean() == pytest.approx(found.waits, rel=0.03)


def test_analysts_that_keep_all_places_busy() -> None:
    assert erlang.analysts(40, 4.0, 8.0) == 120


def test_replicas_for_a_need() -> None:
    found = sizing.size(1000, 120, 126, Usl(0.0, 0.0, 0.1), tested=240, cost=50.0)
    assert (found.replicas, found.at_best) == (9, 8)
    assert [row.replicas for row in found.table] == [8, 9, 10, 11]
    nine = found.table[1]
    assert nine.each == pytest.approx(111.1, abs=0.1)
    assert nine.per_s == pytest.approx(11.1, abs=0.1)
    assert nine.headroom == pytest.approx(0.08)
    assert nine.cost == 450


def test_a_need_that_one_replica_meets_exactly() -> None:
    found = sizing.size(120, 120, None)
    assert (found.replicas, found.at_best) == (1, None)
    assert found.table[0].cost is None


def test_the_law_says_nothing_beyond_twice_the_tested_load() -> None:
    found = sizing.size(300, 100, None, Usl(0.0, 0.0, 0.1), tested=49)
    assert [row.per_s for row in found.table if row.each > 98] == [None, None]


def test_longer_thinking_lets_more_analysts_in() -> None:
    limit = Limit(per_s=10, response_s=4, human_s=0, think_s=8, prompt_share=0, pause_s=0)
    assert [(one.value, one.analysts) for one in sizing.other_think(limit)] == [
        (4, 80), (8, 120), (16, 200),
    ]  # fmt: skip
    assert limit.analysts() == 120


def test_prompts_keep_their_places_where_turns_queue_for_them() -> None:
    limit = Limit(2, 4, 1, 8, prompt_share=0.2, pause_s=5, busy_s=5)
    same = sizing.other_prompts(limit, (0.2, 0.4))
    assert same[0].analysts == pytest.approx(limit.analysts())
    assert same[1].analysts == pytest.approx(2 * 5 / 6 * (4 + 2 + 8))
    free = Limit(2, 4, 1, 8, prompt_share=0.2, pause_s=5)
    assert sizing.other_prompts(free, (0.4,))[0].analysts == pytest.approx(2 * (4 + 2 + 8))
