from __future__ import annotations

from collections.abc import Callable

import pytest

from loadgen.clock import NS_PER_MS, NS_PER_S, Anchor, anchor, step_ns

HOURS = 3600 * NS_PER_S


@pytest.mark.parametrize(
    ("wall_passed", "mono_passed", "step"),
    [
        (NS_PER_S, NS_PER_S, 0),
        (NS_PER_S + 50 * NS_PER_MS, NS_PER_S, 0),
        (NS_PER_S + 51 * NS_PER_MS, NS_PER_S, 51 * NS_PER_MS),
        (NS_PER_S - 51 * NS_PER_MS, NS_PER_S, -51 * NS_PER_MS),
        (NS_PER_S - 7 * HOURS, NS_PER_S, -7 * HOURS),
        (2 * HOURS, 2 * HOURS, 0),
    ],
)
def test_a_step_is_what_the_wall_clock_went_beyond_the_monotonic_one(
    wall_passed: int, mono_passed: int, step: int
) -> None:
    first = Anchor(1_790_000_000 * NS_PER_S, 5_000 * NS_PER_S)
    assert step_ns(first, Anchor(first.wall_ns + wall_passed, first.mono_ns + mono_passed)) == step


def reader(values: list[int]) -> Callable[[], int]:
    queue = iter(values)
    return lambda: next(queue)


def test_an_anchor_whose_reading_was_interrupted_is_read_again() -> None:
    mono = reader([1_000, 1_000 + 80 * NS_PER_MS, 90 * NS_PER_MS, 90 * NS_PER_MS + 200])
    wall = reader([70 * NS_PER_MS, 90 * NS_PER_MS + 100])
    assert anchor(wall, mono) == Anchor(90 * NS_PER_MS + 100, 90 * NS_PER_MS + 100)


def test_of_readings_that_are_all_interrupted_the_closest_counts() -> None:
    mono = reader([n for gap in (9, 7, 3, 8, 9) for n in (0, gap * NS_PER_MS)])
    assert anchor(reader([1, 2, 3, 4, 5]), mono) == Anchor(3, 1_500_000)
