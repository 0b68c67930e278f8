"""Arrivals: a Poisson process is one, however many share it and whatever its rate does."""

from __future__ import annotations

from itertools import islice, takewhile

import numpy as np
import pytest
from scipy import stats

from loadgen.clock import NS_PER_S
from loadgen.load import Load
from loadgen.pacing import Part, Profile, arrivals, lengths, profile_of

ALONE = Part()


def steady(rate: float) -> Profile:
    return Profile(((0.0, rate),), endless=True)


def seconds(profile: Profile, until_s: float, part: Part = ALONE, seed: int = 1) -> np.ndarray:
    offsets = arrivals(profile, "poisson", part, seed)
    return np.array(list(takewhile(lambda ns: ns < until_s * NS_PER_S, offsets))) / NS_PER_S


@pytest.mark.case("D-48")
def test_the_count_is_what_a_poisson_process_has_and_is_not_made_to_fit() -> None:
    counts = np.array([seconds(steady(50), 60, seed=seed).size for seed in range(300)])
    assert (abs(counts - 3000) <= 3 * np.sqrt(3000)).mean() >= 0.99
    # A count that is rescaled to fit has no variance; that of a Poisson process is its mean.
    assert counts.var() / 3000 == pytest.approx(1, abs=0.25)


@pytest.mark.case("D-48")
@pytest.mark.parametrize("seed", range(5))
def test_gaps_are_exponential_and_bins_have_the_dispersion_of_a_poisson_process(seed: int) -> None:
    at = seconds(steady(50), 400, seed=seed)
    assert stats.kstest(np.diff(at), "expon", args=(0, 1 / 50)).pvalue > 0.001
    counts = np.histogram(at, bins=np.arange(0, 401))[0]
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.2)
    assert at[0] < 0.2


@pytest.mark.parametrize("parts", [2, 5])
def test_shares_of_several_workers_add_up_to_one_poisson_process(parts: int) -> None:
    each = [seconds(steady(40), 300, Part(number, parts)) for number in range(parts)]
    for at in each:
        assert at.size == pytest.approx(12_000 / parts, abs=4 * np.sqrt(12_000 / parts))
    union = np.sort(np.concatenate(each))
    assert stats.kstest(np.diff(union), "expon", args=(0, 1 / 40)).pvalue > 0.001
    together = [np.histogram(at, bins=np.arange(0, 301))[0] for at in each]
    assert abs(np.corrcoef(together)[0, 1]) < 0.25, "the streams are not independent"


def test_the_same_seed_and_number_of_parts_give_the_same_arrivals() -> None:
    def begin(seed: int, part: Part) -> list[int]:
        return list(islice(arrivals(steady(9), "poisson", part, seed), 1500))

    assert begin(3, Part(1, 4)) == begin(3, Part(1, 4))
    assert begin(-3, ALONE) == begin(-3, ALONE)
    different = [begin(3, Part(1, 4)), begin(4, Part(1, 4)), begin(3, Part(2, 4)), begin(3, ALONE)]
    assert len({tuple(one) for one in different}) == 4


@pytest.mark.parametrize("parts", [1, 3])
def test_constant_arrivals_are_evenly_spaced_over_all_workers_and_begin_at_once(parts: int) -> None:
    each = [
        list(islice(arrivals(steady(10), "constant", Part(number, parts), 1), 6))
        for number in range(parts)
    ]
    union = sorted(ns for one in each for ns in one)
    assert union == [number * NS_PER_S // 10 for number in range(6 * parts)]


RAMP = Profile(((0, 0), (10, 20), (20, 20), (20, 100), (25, 100), (25, 0), (30, 0), (40, 10)))


@pytest.mark.parametrize(
    ("at_s", "level"),
    [(0, 0), (5, 10), (10, 20), (19.9, 20), (20, 100), (24, 100), (25, 0), (29, 0), (35, 5),
     (50, 10)],
)  # fmt: skip
def test_a_profile_is_straight_between_its_points_and_steps_where_two_meet(
    at_s: float, level: float
) -> None:
    assert RAMP.level(at_s) == pytest.approx(level)


@pytest.mark.parametrize(
    ("area", "at_s"),
    [(0, 0), (25, 5), (100, 10), (200, 15), (300, 20), (400, 21), (800, 30), (812.5, 35),
     (851, None)],
)  # fmt: skip
def test_the_integral_of_a_profile_is_inverted_exactly(area: float, at_s: float | None) -> None:
    found = RAMP.when(area)
    assert found == (None if at_s is None else pytest.approx(at_s))


def test_an_endless_profile_goes_on_at_its_last_level() -> None:
    assert Profile(((0, 0), (10, 20)), endless=True).when(140) == pytest.approx(12)
    assert Profile(((0, 0), (10, 0)), endless=True).when(1) is None


def test_arrivals_follow_a_changing_rate() -> None:
    counts = np.array([
        np.histogram(seconds(RAMP, 40, seed=seed), bins=[0, 10, 20, 25, 30, 40])[0]
        for seed in range(100)
    ])  # fmt: skip
    expected = np.array([100, 200, 500, 0, 50])
    assert (abs(counts.mean(axis=0) - expected) <= 4 * np.sqrt(expected / 100)).all()
    # Given how many there are, arrivals of a ramp from 0 have the square root of a uniform.
    ramp = Profile(((0, 0), (10, 200)))
    assert stats.kstest((seconds(ramp, 10) / 10) ** 2, "uniform").pvalue > 0.001


def test_stages_begin_at_the_rate_and_last_as_long_as_they_say() -> None:
    stages = [{"over_s": 10, "to": 5}, {"over_s": 0, "to": 20}, {"over_s": 5, "to": 20}]
    profile = profile_of(Load.model_validate({"model": "open", "rate": 1, "stages": stages}))
    assert profile.points == ((0, 1), (10, 5), (10, 20), (15, 20))
    assert (profile.ends_s, profile.peak) == (15, 20)
    assert profile_of(Load(model="open", rate=2)).ends_s is None


def test_conversations_are_of_one_length_or_geometric_with_that_mean() -> None:
    assert list(islice(lengths("fixed", 5, ALONE, 1), 3)) == [5, 5, 5]
    drawn = np.array(list(islice(lengths("geometric", 5, ALONE, 1), 20_000)))
    assert drawn.min() == 1
    assert drawn.mean() == pytest.approx(5, rel=0.03)
    assert (drawn == 1).mean() == pytest.approx(1 / 5, abs=0.02)
    assert drawn.var() == pytest.approx(20, rel=0.1)


def sojourns(due: np.ndarray, service: np.ndarray) -> np.ndarray:
    """Lindley's recursion: one server, first come first served."""
    free, found = 0.0, np.empty_like(due)
    for index, (at, takes) in enumerate(zip(due, service, strict=True)):
        free = max(free, at) + takes
        found[index] = free - at
    return found


def test_a_single_exponential_server_has_the_sojourn_times_of_the_books() -> None:
    """M/M/1 with lambda 0.8, mu 1: exponential with rate 0.2 (Kleinrock 1975)."""
    due = seconds(steady(0.8), 500_000, seed=4)
    took = sojourns(due, np.random.default_rng(5).exponential(1, due.size))[1000:]
    assert took.mean() == pytest.approx(5.0, rel=0.06)
    found = np.quantile(took, [0.5, 0.95, 0.99], method="inverted_cdf")
    assert found == pytest.approx([3.466, 14.979, 23.026], rel=0.08)
    assert took.sum() / (due[-1] - due[1000]) == pytest.approx(4.0, rel=0.07), "Little's law"


@pytest.mark.case("D-44")
def test_a_capacity_of_one_shows_its_queue_from_the_intended_start_only() -> None:
    due = np.array(list(islice(arrivals(steady(10), "constant", ALONE, 1), 8))) / NS_PER_S
    took_ms = sojourns(due, np.full(8, 0.5)) * 1000
    assert took_ms.mean() == pytest.approx(1900)
    assert took_ms.max() == pytest.approx(3300)
    assert (took_ms - 500).mean() == pytest.approx(1400)
