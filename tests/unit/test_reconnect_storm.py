"""What a reconnect policy does to a server that lost everybody: pure arithmetic of waits."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from loadgen.plan import Reconnect

ANALYSTS = 200
REFUSED_S = 3.0
FIXED = Reconnect(policy="fixed", base_s=1, attempts=20)
JITTER = Reconnect(policy="exponential", base_s=8, cap_s=30, attempts=20)
NARROW = Reconnect(policy="exponential", base_s=1, cap_s=30, attempts=20)


def attempts(policy: Reconnect, rng: Random) -> list[float]:
    """When one analyst, dropped at 0, knocks until it is let in at `REFUSED_S`."""
    at_s, found = 0.0, []
    for attempt in range(policy.attempts):
        at_s += policy.wait_s(attempt, rng)
        found.append(at_s)
        if at_s >= REFUSED_S:
            break
    return found


def busiest(policy: Reconnect, seed: int) -> int:
    """Connects in the busiest second, of 200 analysts dropped at once."""
    knocks = [
        at_s for n in range(ANALYSTS) for at_s in attempts(policy, Random(f"{seed}/{n}/network"))
    ]
    return max(Counter(int(at_s) for at_s in knocks).values())


@pytest.mark.case("D-39")
def test_a_fixed_wait_brings_all_back_in_one_second() -> None:
    assert [busiest(FIXED, seed) for seed in range(5)] == [200] * 5


@pytest.mark.case("D-39")
def test_full_jitter_over_eight_seconds_never_brings_more_than_fifty_a_second() -> None:
    """Retries that are refused come on top of the first ones, whose peaks are below."""
    peaks = [busiest(JITTER, seed) for seed in range(200)]
    assert max(peaks) <= 50
    assert 25 < sum(peaks) / len(peaks) < 42


@pytest.mark.case("D-39")
def test_full_jitter_from_one_second_puts_all_first_retries_into_it() -> None:
    first = [NARROW.wait_s(0, Random(f"1/{n}/network")) for n in range(ANALYSTS)]
    assert max(first) < 1.0


@pytest.mark.case("D-39")
def test_first_retries_alone_are_as_the_method_says() -> None:
    peaks = []
    for seed in range(200):
        waits = [JITTER.wait_s(0, Random(f"{seed}/{n}/network")) for n in range(ANALYSTS)]
        peaks.append(max(Counter(map(int, waits)).values()))
    assert 31 <= sum(peaks) / len(peaks) <= 35
    assert max(peaks) <= 50


def test_our_default_spreads_the_first_retry_over_eight_seconds() -> None:
    assert Reconnect().policy == "exponential"
    waits = [Reconnect().wait_s(0, Random(n)) for n in range(1000)]
    assert 7.5 < max(waits) <= 8
    assert min(waits) < 0.5


@pytest.mark.parametrize(
    ("attempt", "window"), [(0, 8), (1, 16), (2, 30), (9, 30)], ids=["first", "second", "cap", "9"]
)
def test_the_mean_wait_is_half_of_its_window(attempt: int, window: float) -> None:
    rng = Random(7)
    mean = sum(JITTER.wait_s(attempt, rng) for _ in range(10_000)) / 10_000
    assert mean == pytest.approx(window / 2, rel=0.05)
