from __future__ import annotations

import numpy as np
import pytest

from loadgen.analysis import attainment
from loadgen.analysis.mser import Warmup, mser5
from loadgen.analysis.quantiles import exact
from loadgen.analysis.verdict import Verdict

MISSES = (0, 1, 2, 5, 10, 100)
MLPERF = {
    0.90: (44, 64, 81, 127, 197, 1246),
    0.95: (90, 130, 165, 259, 398, 2504),
    0.99: (459, 662, 838, 1307, 2010, 12571),
}


@pytest.mark.parametrize(
    ("share", "misses", "turns"),
    [(p, t, n) for p, row in MLPERF.items() for t, n in zip(MISSES, row, strict=True)],
)
def test_turns_needed_are_those_of_the_mlperf_table(share: float, misses: int, turns: int) -> None:
    assert attainment.needed(exact(share), misses) == turns
    assert attainment.decide(turns - misses, turns, exact(share)) is Verdict.PASS
    assert attainment.decide(turns - misses - 1, turns - 1, exact(share)) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("met", "judged", "share", "verdict"),
    [
        (0, 0, 0.95, "INCONCLUSIVE"),
        (0, 1, 0.95, "INCONCLUSIVE"),
        (0, 2, 0.95, "FAIL"),
        (94, 100, 0.95, "INCONCLUSIVE"),
        (87, 100, 0.95, "FAIL"),
        (3, 3, 1, "PASS"),
        (99, 100, 1, "FAIL"),
    ],
)
def test_a_share_is_proven_refuted_or_open(
    met: int, judged: int, share: float, verdict: str
) -> None:
    assert attainment.decide(met, judged, exact(share)) == verdict


def test_what_would_settle_it() -> None:
    assert attainment.settles_at(50, 50, exact(0.95)) == 90
    assert attainment.settles_at(95, 100, exact(0.95)) is None
    more = attainment.settles_at(97, 100, exact(0.95))
    assert more is not None
    assert more > 100


RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("values", "cut", "steady"),
    [
        (np.r_[np.full(100, 10.0), np.tile([1.0, 2.0], 200)], 100, True),
        (np.r_[10 * np.exp(-np.arange(50) / 10), np.tile([0.1, -0.1], 125)], 50, True),
        (RNG.normal(1, 0.1, 500), 0, True),
        (np.arange(300.0), 150, False),
        (np.full(100, 0.1), 0, True),
    ],
)
def test_mser5_cuts_the_warm_up(values: np.ndarray, cut: int, steady: bool) -> None:
    assert mser5(values) == Warmup(values.size, cut, steady)


def test_outliers_among_equal_values_are_no_warm_up_if_they_move_nothing() -> None:
    values = np.full(400, 6000.0)
    values[[20, 90, 180]] = 6300.0
    assert mser5(values) == Warmup(400, 185, True)
    assert mser5(values, worth=0.1) == Warmup(400, 0, True)
    assert mser5(np.r_[np.full(50, 9.0), np.tile([1.0, 1.1], 175)], worth=0.1) == (
        Warmup(400, 50, True)
    )


def test_a_few_values_have_no_warm_up() -> None:
    assert mser5(np.arange(99.0)) is None
