from __future__ import annotations

import numpy as np
import pytest

from loadgen.analysis import usl
from loadgen.analysis.usl import Usl

SPECSDM91 = {1: 64.9, 18: 995.9, 36: 1652.4, 72: 1853.2, 108: 1828.9, 144: 1775.0, 216: 1702.2}
"""SPEC SDM91 on a Sun SPARCcenter 2000: Gunther, Guerrilla Capacity Planning, table 5.2."""

RAYTRACER = {
    1: 20, 4: 78, 8: 130, 12: 170, 16: 190, 20: 200, 24: 210, 28: 230, 32: 260, 48: 280, 64: 310,
}  # fmt: skip
"""A ray tracer on processors of a NUMA machine: the same, table 5.1."""


def arrays(points: dict[int, float]) -> tuple[usl.FloatArray, usl.FloatArray]:
    return np.array(list(points), dtype=np.float64), np.array(list(points.values()))


def test_the_fit_of_specsdm91_is_that_of_the_r_package() -> None:
    law = usl.fit(*arrays(SPECSDM91))
    assert law.alpha == pytest.approx(0.0277285, abs=1e-6)
    assert law.beta == pytest.approx(0.0001044, abs=1e-7)
    assert law.gamma == pytest.approx(89.9952, abs=1e-3)
    assert law.peak == pytest.approx(96.51956, abs=1e-3)


def test_the_peak_follows_from_the_parameters() -> None:
    assert Usl(0.001, 1e-5, 1.0).peak == pytest.approx(316.0696, abs=1e-4)
    assert Usl(0.05, 0.0, 1.0).peak is None


def test_an_exact_curve_is_recovered() -> None:
    true = Usl(0.05, 0.0005, 50.0)
    loads = np.array([1, 5, 10, 20, 40, 80, 120], dtype=np.float64)
    law = usl.fit(loads, np.array([true(load) for load in loads]))
    assert (law.alpha, law.beta, law.gamma) == pytest.approx((0.05, 0.0005, 50.0), rel=1e-6)
    assert law.peak == pytest.approx(43.589, abs=1e-3)
    assert law(law.peak or 0) == pytest.approx(537.12, abs=1e-2)


def test_a_curve_that_only_levels_off_has_no_peak_in_range() -> None:
    found = usl.describe(*arrays(RAYTRACER))
    assert found is not None
    assert found.peak is None
    assert found.peak_span is None
    assert found.r2 > 0.98


def test_a_peak_far_beyond_the_tested_levels_is_not_told() -> None:
    true = Usl(0.02, 1e-5, 10.0)
    loads = np.array([1, 5, 10, 20, 40, 80], dtype=np.float64)
    found = usl.describe(loads, np.array([true(load) for load in loads]))
    assert found is not None
    assert found.law.peak == pytest.approx(313.05, abs=0.1)
    assert found.peak is None


def test_ranges_enclose_the_truth_and_repeat_with_the_seed() -> None:
    true = Usl(0.05, 0.0005, 50.0)
    loads = np.array([1, 5, 10, 20, 40, 60, 80, 120], dtype=np.float64)
    noise = 1 + 0.02 * np.random.default_rng(4).standard_normal(loads.size)
    rates = np.array([true(load) for load in loads]) * noise
    found = usl.describe(loads, rates)
    assert found is not None
    for name in ("alpha", "beta", "gamma"):
        span = getattr(found, name)
        assert span.low <= getattr(true, name) <= span.high, name
    assert found.peak_span is not None
    assert found.peak_span.low <= 43.589 <= found.peak_span.high
    assert usl.describe(loads, rates) == found


def test_fewer_than_six_levels_are_not_fitted() -> None:
    loads = np.array([1, 2, 4, 8, 16], dtype=np.float64)
    assert usl.describe(loads, loads * 2) is None
