"""Compact histograms: percentiles within 1 %, exact counts at the limits that matter."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from loadgen.analysis.quantiles import ascending, nearest_rank
from loadgen.histogram import COARSE_MS, Histogram, Scale, bounds_ms

P95 = Fraction(95, 100)


def filled(scale: Scale, values: list[float]) -> Histogram:
    found = Histogram(scale)
    for value in values:
        found.add(value)
    return found


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(9, 10), P95, Fraction(99, 100)])
@pytest.mark.parametrize("median_ms", [4.0, 700.0, 20_000.0, 600_000.0])
def test_a_percentile_is_within_one_percent_of_the_exact_one(
    share: Fraction, median_ms: float
) -> None:
    rng = Random(f"{share}/{median_ms}")
    values = [median_ms * rng.lognormvariate(0, 0.4) for _ in range(2_000)]
    exact = nearest_rank(ascending(values), share)
    found = filled(Scale(), values).quantile(share)
    assert found == pytest.approx(exact, rel=0.0101)


def test_nothing_has_no_percentile_and_one_value_is_its_own() -> None:
    assert Histogram(Scale()).quantile(P95) is None
    assert filled(Scale(), [812.0]).quantile(P95) == pytest.approx(812.0, rel=0.01)
    assert filled(Scale(), [0.2]).quantile(P95) == 0.2
    assert filled(Scale(), [9e9]).quantile(P95) == pytest.approx(3_600_000.0, rel=0.02)


def test_a_limit_of_the_scale_is_counted_exactly() -> None:
    scale = Scale([2_000.0])
    values = [1_999.999, 2_000.0, 2_000.001, 2_010.0]
    assert filled(scale, values).at_most(2_000.0) == 2


def test_merged_histograms_are_the_histogram_of_all_values() -> None:
    scale, rng = Scale([2_000.0]), Random(5)
    left = [rng.uniform(1, 9_000) for _ in range(300)]
    right = [rng.uniform(1, 9_000) for _ in range(200)]
    merged = filled(scale, left)
    merged.merge(filled(scale, right))
    whole = filled(scale, left + right)
    assert merged.buckets == whole.buckets
    assert (merged.n, merged.max_ms) == (500, max(left + right))
    assert merged.sum_ms == pytest.approx(sum(left + right))


def test_what_travelled_is_what_was_sent() -> None:
    scale = Scale([2_000.0])
    sent = filled(scale, [3.0, 700.0, 700.0, 2_000.0, 9_000.0])
    got = Histogram.unpack(Scale([2_000.0]), sent.pack())
    assert (got.buckets, got.n, got.max_ms) == (sent.buckets, 5, 9_000.0)


def test_the_packed_size_depends_on_the_spread_and_not_on_the_number() -> None:
    scale, rng = Scale(), Random(1)
    few = filled(scale, [rng.uniform(500, 5_000) for _ in range(1_000)])
    many = filled(scale, [rng.uniform(500, 5_000) for _ in range(20_000)])
    assert len(many.pack()) <= len(few.pack()) + 10 < 260


def test_the_few_buckets_lie_around_each_target() -> None:
    bounds = bounds_ms([2_000.0])
    assert list(bounds) == sorted(set(bounds))
    assert {1_800.0, 2_000.0, 2_200.0} <= set(bounds)
    assert set(COARSE_MS) <= set(bounds)
