"""A kernel's wall-clock stamp on our monotonic clock."""

from __future__ import annotations

import pytest

from loadgen.net.stamp import arrival_ns, was_set

WALL = 1_700_000_000_000_000_000
"""The wall clock when the monotonic one shows 5000."""


@pytest.mark.parametrize(
    ("name", "stamp", "earlier", "arrival"),
    [
        ("just now", WALL, 0, 5000),
        ("while the hub lagged", WALL - 1200, 0, 3800),
        ("before the monotonic clock began", WALL - 6000, 0, -1000),
        ("after the read before", WALL - 1200, WALL - 1300, 3800),
        ("the same segment, read in two parts", WALL - 1200, WALL - 1200, 3800),
        ("older than the read before: the wall clock was set back", WALL - 1200, WALL - 1199, None),
        ("in the future: the wall clock was set back", WALL + 1, 0, None),
    ],
)
def test_a_stamp_is_converted_or_rejected(name, stamp, earlier, arrival):
    assert arrival_ns(stamp, earlier, WALL, 5000) == arrival


@pytest.mark.parametrize(
    ("name", "apart", "passed", "was"),
    [
        ("the same", WALL, 1_000_000, False),
        ("interrupted between two readings", WALL + 900_000, 1_000, False),
        ("slewed at 500 ppm for a minute", WALL + 30_000_000, 60_000_000_000, False),
        ("set forward by 161 ms", WALL + 161_000_000, 1_000_000_000, True),
        ("set back by 5 ms", WALL - 5_000_000, 1_000_000_000, True),
    ],
)
def test_a_clock_that_is_set_between_two_reads_is_told_from_one_that_is_slewed(
    name, apart, passed, was
):
    assert was_set(apart, WALL, passed) is was
