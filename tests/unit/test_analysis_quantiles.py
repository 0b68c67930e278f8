from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.analysis.quantiles import (
    SHARES,
    ascending,
    exact,
    nearest_rank,
    needed,
    quantile,
    rank_interval,
)

TEXTBOOK = [15, 20, 35, 40, 50]
TEN = list(range(1, 11))


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        (TEXTBOOK, 5, 15), (TEXTBOOK, 30, 20), (TEXTBOOK, 40, 20), (TEXTBOOK, 50, 35),
        (TEXTBOOK, 100, 50), (TEN, 50, 5), (TEN, 90, 9), (TEN, 95, 10), ([7], 50, 7),
        ([], 50, None), ([1, 2, math.inf], 50, 2), ([1, math.inf, math.inf], 50, math.inf),
    ],
)  # fmt: skip
def test_nearest_rank_gives_the_known_values(
    values: list[float], percent: int, expected: float | None
) -> None:
    assert nearest_rank(ascending(values), Fraction(percent, 100)) == expected


@pytest.mark.case("D-57")
def test_no_percentile_lies_above_the_maximum() -> None:
    ordered = ascending([20400.0] * 95 + [20600.0] * 5)
    assert nearest_rank(ordered, SHARES["p95"]) == 20400
    assert nearest_rank(ordered, SHARES["p99"]) == ordered[-1] == 20600


@pytest.mark.case("D-60")
def test_merging_is_joining_samples() -> None:
    merged = ascending(np.concatenate([[10.0] * 1000, [2000.0] * 10]))
    assert nearest_rank(merged, SHARES["p95"]) == 10
    assert nearest_rank(merged, exact(0.995)) == 2000


numbers = st.lists(st.floats(0, 1e9), min_size=1, max_size=60)


@given(numbers, st.integers(1, 100), st.integers(1, 100))
def test_percentiles_are_observed_monotone_and_those_of_numpy(
    values: list[float], one: int, other: int
) -> None:
    low, high = sorted((one, other))
    ordered = ascending(values)
    found = [nearest_rank(ordered, Fraction(percent, 100)) for percent in (low, high)]
    assert found[0] in values
    assert found[0] is not None
    assert found[1] is not None
    assert found[0] <= found[1] <= max(values)
    assert nearest_rank(ascending(values[::-1]), Fraction(low, 100)) == found[0]
    if len(values) * low % 100:
        assert found[0] == np.quantile(values, low / 100, method="inverted_cdf")


def test_ranks_do_not_suffer_from_binary_fractions() -> None:
    ordered = ascending(np.arange(1, 101))
    assert [nearest_rank(ordered, Fraction(p, 100)) for p in range(1, 101)] == list(range(1, 101))


@pytest.mark.parametrize(
    ("n", "percent", "ranks"),
    [
        (100, 50, (40, 61)), (100, 90, (84, 96)), (100, 95, (90, 100)), (100, 99, None),
        (1000, 95, (936, 964)), (1000, 99, (983, 997)), (10_000, 99, (9880, 9920)),
        (71, 95, None), (367, 99, None), (5, 50, None), (0, 50, None),
    ],
)  # fmt: skip
def test_order_statistic_intervals_have_the_known_ranks(
    n: int, percent: int, ranks: tuple[int, int] | None
) -> None:
    assert rank_interval(n, Fraction(percent, 100)) == ranks


@pytest.mark.parametrize(("percent", "n"), [(95, 72), (99, 368), (50, 6), (5, 72)])
def test_needed_is_the_first_n_with_an_interval(percent: int, n: int) -> None:
    share = Fraction(percent, 100)
    assert needed(share) == n
    assert rank_interval(n, share) is not None
    assert rank_interval(n - 1, share) is None


def test_a_small_sample_keeps_its_point_and_says_what_it_needs() -> None:
    found = quantile(ascending(range(50)), SHARES["p99"])
    assert found is not None
    assert (found.value, found.low, found.high, found.needs) == (49, None, None, 368)
    assert quantile(ascending([]), SHARES["p99"]) is None


def test_missing_values_are_left_out() -> None:
    assert ascending([3.0, math.nan, 1.0]).tolist() == [1, 3]
