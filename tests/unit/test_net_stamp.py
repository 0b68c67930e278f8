"""A kernel's wall-clock stamp on our monotonic clock."""

from __future__ import annotations

import pytest

from loadgen.net.stamp import arrival_ns

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
