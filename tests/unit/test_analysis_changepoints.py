from __future__ import annotations

import numpy as np
import pytest

from loadgen.analysis.changepoints import candidate, change_points, t_test

OTAVA = [
    0.3, 2.4, 1.5, -0.9, -0.5, 99.7, 98.3, 99.1, 149.0, 149.7, 149.5, 149.1, 148.8, 150.0,
]  # fmt: skip


@pytest.mark.parametrize("p_level", [0.001, 0.01])
def test_the_series_of_apache_otava_changes_at_5_and_8(p_level: float) -> None:
    assert [point.index for point in change_points(OTAVA, p_level)] == [5, 8]


def slow_candidate(series: list[float]) -> tuple[int, int]:
    """The statistic as it is written, without prefix sums."""
    best, found = -1.0, (0, 0)
    for tau in range(1, len(series)):
        for kappa in range(tau + 1, len(series) + 1):
            x, y = series[:tau], series[tau:kappa]
            cross = np.mean([abs(a - b) for a in x for b in y])
            inside = [
                np.mean([abs(p - q) for i, p in enumerate(s) for j, q in enumerate(s) if i != j])
                if len(s) > 1
                else 0.0
                for s in (x, y)
            ]
            q = tau * (kappa - tau) / kappa * (2 * cross - inside[0] - inside[1])
            if q > best:
                best, found = q, (tau, kappa)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_prefix_sums_find_the_same_split(seed: int) -> None:
    series = [*OTAVA, *np.random.default_rng(seed).normal(50, 30, 10).tolist()]
    assert candidate(np.array(series)) == slow_candidate(series)


@pytest.mark.parametrize(
    "series",
    [
        [5.0] * 20,
        [5.0] * 10 + [9.0] + [5.0] * 10,
        [5.0] * 20 + [9.0],
        [9.0] + [5.0] * 20,
        [5.0] * 100 + [9.0],
        [5.0, 5.1] * 10,
        [5.0] * 4 + [9.0] * 3,
        [],
    ],
    ids=["constant", "one outlier", "last", "first", "long", "alternating", "too few", "empty"],
)
def test_these_have_no_change(series: list[float]) -> None:
    assert change_points(series) == []


def test_white_noise_has_hardly_any() -> None:
    found = sum(
        bool(change_points(np.random.default_rng(seed).normal(100, 10, 40).tolist()))
        for seed in range(200)
    )
    assert found <= 5


def test_a_level_that_goes_and_comes_back_changes_twice() -> None:
    generator = np.random.default_rng(1)
    series = [100.0] * 15 + [110.0] * 15 + [100.0] * 15
    noisy = (np.array(series) + generator.normal(0, 2, 45)).tolist()
    assert [point.index for point in change_points(noisy)] == [15, 30]


def test_a_change_smaller_than_five_percent_is_none() -> None:
    generator = np.random.default_rng(1)
    small = np.r_[generator.normal(100, 0.5, 20), generator.normal(103, 0.5, 20)].tolist()
    assert change_points(small) == []
    (point,) = change_points(small, magnitude=0.02)
    assert point.index == 20
    assert point.before == pytest.approx(100, abs=0.5)
    assert point.after == pytest.approx(103, abs=0.5)


def test_two_near_values_far_off_are_no_level_to_either_test() -> None:
    many = np.random.default_rng(4).normal(100, 10, 40)
    assert t_test(many, np.array([125.0, 125.1])) > 0.001
    assert t_test(np.full(100, 5.0), np.array([5.0, 9.0])) > 0.001
    assert t_test(many, many + 30) < 1e-6
    assert t_test(many, np.array([200.0])) == 1.0
