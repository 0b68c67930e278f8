"""Known values: Hollander and Wolfe's example (R's ``wilcox.test``), pragmastat's Shift, and what
scipy says of the same samples.
"""

from __future__ import annotations

import math
import statistics
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from loadgen.analysis.shift import (
    EXACT_UP_TO,
    design_effect,
    exact_cdf,
    p_beyond,
    shift,
    turns_needed,
)

X = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
Y = [1.15, 0.88, 0.90, 0.74, 1.21]


def test_the_example_of_hollander_and_wolfe() -> None:
    found = shift(Y, X)
    assert found.value == pytest.approx(0.305)
    assert (found.low, found.high) == (pytest.approx(-0.15), pytest.approx(0.76))
    assert found.exact
    assert p_beyond(Y, X, 0.0) == pytest.approx(0.1272, abs=5e-5)
    assert 2 * p_beyond(Y, X, 0.0) == pytest.approx(0.2544, abs=5e-5)
    assert 1 - exact_cdf(34, 10, 5) == pytest.approx(0.1272, abs=5e-5)


def test_the_shift_of_two_ramps_is_their_distance() -> None:
    found = shift([0, 2, 4, 6, 8], [10, 12, 14, 16, 18])
    assert found.value == 10
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 10 <= found.high


VALUES = st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=60)


@given(VALUES, VALUES)
def test_the_shift_is_antisymmetric(x: list[float], y: list[float]) -> None:
    there, back = shift(x, y), shift(y, x)
    assert there.value == -back.value
    assert (there.low is None) == (back.low is None)
    if there.low is not None and there.high is not None:
        assert (there.low, there.high) == (-back.high, -back.low)
        assert there.low <= there.value <= there.high


@given(VALUES, VALUES, st.integers(-500, 500), st.sampled_from([1.0, 2.0, 0.5]))
def test_the_shift_moves_and_stretches_with_its_samples(
    x: list[float], y: list[float], by: int, times: float
) -> None:
    found = shift(x, y)
    assert shift(x, [value + by for value in y]).value == found.value + by
    stretched = shift([value * times for value in x], [value * times for value in y])
    assert stretched.value == found.value * times


@pytest.mark.parametrize(
    ("m", "n"), [(4, 4), (5, 10), (9, 3), (20, 20), (50, 50), (51, 8), (300, 200)]
)
def test_p_agrees_with_scipy(m: int, n: int) -> None:
    generator = np.random.default_rng(m * 100 + n)
    x, y = generator.normal(size=m), generator.normal(0.3, size=n)
    method = "exact" if max(m, n) <= EXACT_UP_TO else "asymptotic"
    expected = mannwhitneyu(y, x, alternative="greater", method=method, use_continuity=False).pvalue
    assert p_beyond(x, y, 0.0) == pytest.approx(expected, rel=1e-9)


def test_ties_narrow_the_spread_as_scipy_has_it() -> None:
    generator = np.random.default_rng(7)
    x, y = generator.integers(0, 6, 40).astype(float), generator.integers(1, 7, 30).astype(float)
    expected = mannwhitneyu(
        y, x, alternative="greater", method="asymptotic", use_continuity=False
    ).pvalue
    assert p_beyond(x, y, 0.0) == pytest.approx(expected, rel=1e-9)
    assert not shift(x, y).exact


@pytest.mark.parametrize(("m", "n"), [(3, 3), (2, 7), (1, 38), (1, 1)])
def test_too_few_values_have_a_shift_but_no_interval(m: int, n: int) -> None:
    found = shift(np.arange(m), np.arange(n) + 0.5)
    assert 2 / math.comb(m + n, m) > 0.05
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(("m", "n"), [(4, 4), (3, 5), (2, 8), (1, 39)])
def test_one_more_value_has_one(m: int, n: int) -> None:
    found = shift(np.arange(m), np.arange(n) + 0.5)
    assert 2 / math.comb(m + n, m) <= 0.05
    assert (found.low, found.high) == (0.5 - (m - 1), n - 0.5)


@pytest.mark.parametrize("digits", [1, 3, 12])
@pytest.mark.parametrize("sizes", [(1500, 1200), (2000, 700)])
def test_counting_selects_the_same_differences_as_writing_them_down(
    sizes: tuple[int, int], digits: int
) -> None:
    generator = np.random.default_rng(3)
    x = np.round(generator.normal(size=sizes[0]), digits)
    y = np.round(generator.normal(0.2, size=sizes[1]), digits)
    pairs = np.sort((y[:, None] - x[None, :]).ravel())
    found = shift(x, y)
    assert found.value == pytest.approx(statistics.median(pairs), abs=1e-12)
    spread = math.sqrt(x.size * y.size * (x.size + y.size + 1) / 12)
    rank = math.floor(x.size * y.size / 2 - 1.96 * spread)
    assert found.low == pytest.approx(pairs[rank - 1], abs=2e-3 + 10.0**-digits)


def test_a_hundred_thousand_values_a_side_take_seconds_not_an_hour() -> None:
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=100_000), generator.normal(0.1, size=100_000)
    begun = time.process_time()
    found = shift(x, y)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.1 < found.high
    assert found.high - found.low < 0.03
    assert time.process_time() - begun < 30


@pytest.mark.parametrize(
    ("sigma", "effect", "turns"),
    [
        (0.1, 1.1, 126), (0.1, 1.2, 16), (0.1, 1.3, 6),
        (0.3, 1.1, 1132), (0.3, 1.2, 138), (0.3, 1.3, 54),
        (0.6, 1.2, 550), (0.6, 1.3, 215),
    ],
)  # fmt: skip
def test_the_turns_it_takes(sigma: float, effect: float, turns: int) -> None:
    assert turns_needed(sigma, effect, 1.05) == turns


def test_twice_the_noise_takes_four_times_the_turns() -> None:
    assert turns_needed(0.6, 1.1, 1.05) == pytest.approx(4528, rel=1e-3)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    covered = 0
    for _ in range(400):
        found = shift(generator.normal(size=40), generator.normal(0.5, size=30))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.5 <= found.high
    assert 0.92 <= covered / 400 <= 0.985


def test_turns_of_one_conversation_count_for_less() -> None:
    generator = np.random.default_rng(2)
    conversations = np.repeat(np.arange(200), 5)
    independent = generator.normal(size=1000)
    alike = np.repeat(generator.normal(size=200), 5) + generator.normal(0, 0.01, 1000)
    assert design_effect(independent, conversations) == pytest.approx(1.0, abs=0.25)
    assert design_effect(alike, conversations) == pytest.approx(5.0, rel=0.02)
    assert design_effect(alike, np.arange(1000)) == 1.0
    narrow, wide = shift(independent, alike), shift(independent, alike, inflation=5.0)
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low is not None
    assert wide.high is not None
    assert (wide.high - wide.low) == pytest.approx(
        math.sqrt(5) * (narrow.high - narrow.low), rel=0.1
    )
