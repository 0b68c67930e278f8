"""How answers flow: buckets of gaps, stalls, and when the bulk of an answer came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.clock import NS_PER_MS
from loadgen.flow import Flow, bucket, edges_ms, flow


@given(st.integers(0, 10**13))
def test_a_gap_lies_within_the_edges_of_its_bucket_which_are_narrow(gap_ns: int) -> None:
    low, high = edges_ms(bucket(gap_ns))
    assert low <= gap_ns // 1000 / 1000 < high
    assert high - low <= max(0.0010001, low / 31)


def test_buckets_are_in_the_order_of_their_gaps() -> None:
    numbers = [bucket(us * 1000) for us in range(20_000)]
    assert numbers == sorted(numbers)
    assert numbers[:64] == list(range(64))
    assert len(set(numbers)) == max(numbers) + 1


def ms(*values: float) -> list[int]:
    return [round(value * NS_PER_MS) for value in values]


def test_gaps_are_counted_but_for_those_in_which_the_analyst_paused() -> None:
    found = flow(ms(100, 150, 150, 9000, 9050), [3], [1, 1, 1, 1, 1])
    assert found is not None
    assert found.longest_ns == 50 * NS_PER_MS
    assert found.gaps == {bucket(50 * NS_PER_MS): 2, 0: 1}
    assert (found.stalls, found.twentieth_ns) == (0, 100 * NS_PER_MS)


def test_a_gap_of_more_than_a_second_is_a_stall() -> None:
    found = flow(ms(0.1, 1000.1, 2100.1, 4100.1), [], [1] * 4)
    assert found is not None
    assert (found.stalls, found.stalled_ns) == (2, 3100 * NS_PER_MS)


def test_an_answer_whose_bulk_comes_at_the_end_has_its_twentieth_late() -> None:
    found = flow(ms(100, 5000), [], [4, 96])
    assert found is not None
    assert found.twentieth_ns == 5000 * NS_PER_MS


@pytest.mark.parametrize("breaks", [[], [0], [1]])
def test_one_chunk_has_no_gap_and_none_has_no_flow(breaks: list[int]) -> None:
    assert flow(ms(5), breaks, [3]) == Flow(None, {}, 0, 0, 5 * NS_PER_MS)
    assert flow([], breaks, []) is None
