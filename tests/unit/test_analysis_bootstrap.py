from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from loadgen.analysis import bootstrap, rates
from loadgen.analysis.bootstrap import Ratio, quantiles, ratio

SHARES = (Fraction(50, 100), Fraction(95, 100))


def drawn(values: object, seed: int, resamples: int = 400) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    return quantiles(array, np.arange(array.size), SHARES, resamples, seed)


def test_the_same_seed_gives_the_same_resamples() -> None:
    values = np.random.default_rng(1).lognormal(0, 0.6, 300)
    assert (drawn(values, 5) == drawn(values, 5)).all()
    assert (drawn(values, 5) != drawn(values, 6)).any()


def test_resampled_quantiles_are_observed_values_by_nearest_rank() -> None:
    found = drawn([15.0, 20.0, 35.0, 40.0, 50.0], 1)
    assert set(np.unique(found)) <= {15.0, 20.0, 35.0, 40.0, 50.0}
    assert (found[:, 0] <= found[:, 1]).all()
    assert np.median(found[:, 0]) == 35.0


def test_how_many_are_drawn_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).lognormal(0, 0.6, 50)
    whole = drawn(values, 3)
    monkeypatch.setattr(bootstrap, "CELLS", 60)
    assert (drawn(values, 3) == whole).all()


def test_identical_samples_have_a_ratio_of_one_inside_the_interval() -> None:
    values = np.random.default_rng(4).lognormal(0, 0.6, 300)
    first, second = drawn(values, 1), drawn(values, 2)
    for column in range(len(SHARES)):
        low, high = ratio(first[:, column], second[:, column]).interval()
        assert low <= 1.0 <= high


def test_conversations_are_drawn_whole_so_that_alike_turns_widen_the_interval() -> None:
    generator = np.random.default_rng(6)
    values = np.repeat(generator.lognormal(0, 0.6, 60), 5)
    by_turn = quantiles(values, np.arange(300), SHARES, 800, 1)[:, 0]
    by_conversation = quantiles(values, np.arange(300) // 5, SHARES, 800, 1)[:, 0]
    assert by_conversation.std() > 1.6 * by_turn.std()


def test_the_interval_covers_the_true_ratio_as_often_as_it_says() -> None:
    """Method: between 93 and 99 % at n = 300, sigma 0.6; here of 150 repeats."""
    generator = np.random.default_rng(8)
    covered = np.zeros(2)
    for repeat in range(150):
        base = drawn(generator.lognormal(0, 0.6, 300), 2 * repeat)
        new = drawn(generator.lognormal(0, 0.6, 300), 2 * repeat + 1)
        for column in range(2):
            low, high = ratio(base[:, column], new[:, column]).interval()
            covered[column] += low <= 1.0 <= high
    assert ((covered / 150 >= 0.91) & (covered / 150 <= 1.0)).all(), covered / 150


def test_p_is_the_share_of_resamples_on_the_wrong_side() -> None:
    found = Ratio(np.array([0.9, 1.0, 1.1, 1.2]))
    assert found.p_above(1.05) == 3 / 5
    assert found.p_below(1.05) == 3 / 5
    assert found.p_above(0.5) == 1 / 5


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table II, method 10.
        ((48, 80), (56, 70), (0.2000, 0.0524, 0.3339)),
        ((3, 10), (9, 10), (0.6000, 0.1705, 0.8090)),
        ((2, 7), (6, 7), (0.5714, 0.0582, 0.8062)),
        ((0, 29), (5, 56), (0.0893, -0.0381, 0.1926)),
        ((0, 20), (0, 10), (0.0000, -0.1611, 0.2775)),
        ((0, 10), (0, 10), (0.0000, -0.2775, 0.2775)),
        ((0, 20), (10, 10), (1.0000, 0.6791, 1.0000)),
        ((0, 10), (10, 10), (1.0000, 0.6075, 1.0000)),
    ],
)
def test_the_difference_of_two_shares(
    base: tuple[int, int], new: tuple[int, int], expected: tuple[float, float, float]
) -> None:
    found = rates.difference(base, new)
    assert (found.value, found.low, found.high) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(8, 10, (0.4902, 0.9433)), (198, 200, (0.9643, 0.9973)), (0, 20, (0.0, 0.1611))],
)
def test_the_score_interval(part: int, whole: int, expected: tuple[float, float]) -> None:
    assert rates.score(part / whole, whole, 1.959964) == pytest.approx(expected, abs=5e-5)


def test_without_any_failure_it_still_takes_turns_to_exclude_one_in_fifty() -> None:
    needed = rates.turns_needed((0, 100), (0, 100), 0.02)
    assert needed is not None
    assert rates.difference((0, needed), (0, needed)).high < 0.02
    assert rates.difference((0, needed - 1), (0, needed - 1)).high >= 0.02


def test_a_difference_that_lies_on_the_limit_is_never_settled() -> None:
    assert rates.turns_needed((0, 1000), (20, 1000), 0.02) is None


def test_p_of_a_difference_meets_its_interval() -> None:
    base, new = (2, 300), (30, 300)
    p = rates.p_above(base, new, 0.02)
    assert p < 0.025
    assert rates.difference(base, new).low > 0.02
    assert rates.p_above(base, (9, 300), 0.02) > 0.025
