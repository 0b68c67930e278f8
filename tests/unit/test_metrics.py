from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import row

from loadgen.clock import NS_PER_MS
from loadgen.metrics import (
    Clock,
    elapsed,
    happenings,
    impossible,
    marks,
    pauses,
    served,
    started,
    turn_clocks,
)
from loadgen.turn import (
    ConnectionRecord,
    LossRecord,
    Milestone,
    PromptRecord,
    Timeline,
    TurnRecord,
)


def prompt(paused: float, resumed: float | None = None, **facts: Any) -> dict[str, Any]:
    found = {"kind": "text", "paused_ms": paused, "replied": resumed is not None} | facts
    return found | ({} if resumed is None else {"resumed_ms": resumed})


@pytest.mark.case("D-38")
def test_human_time_is_taken_out_of_every_later_mark() -> None:
    turn = row(
        first_progress_ms=None, first_answer_ms=6200.0, last_answer_ms=6700.0, ended_ms=6800.0,
        prompts=[prompt(800.0, 5800.0, next_event_ms=6200.0)],
    )  # fmt: skip
    found = turn_clocks(turn)
    assert (found[Clock.WALL], found[Clock.HUMAN]) == (6800, 5000)
    assert (found[Clock.TTC], found[Clock.TTFA], found[Clock.TTFV]) == (1800, 1200, 800)
    assert [item.value_ms for item in happenings(turn)] == [400]


@pytest.mark.parametrize(
    ("prompts", "ttc", "human"),
    [
        ([], 9000, 0),
        ([prompt(1000, 2000), prompt(5000, 7000)], 6000, 3000),
        ([prompt(5000, 7000), prompt(1000, 2000)], 6000, 3000),
        ([prompt(1000, 3000), prompt(2000, 4000)], 6000, 3000),
        ([prompt(8000)], 8000, 1000),
        ([prompt(1000, kind="notification")], 9000, 0),
        ([prompt(1000, 99_000)], 1000, 8000),
    ],
    ids=["none", "two", "out of order", "overlapping", "never resumed", "notification", "overrun"],
)
def test_pauses_are_disjoint_and_end_with_the_turn(
    prompts: list[dict[str, Any]], ttc: float, human: float
) -> None:
    found = turn_clocks(row(prompts=prompts))
    assert (found[Clock.TTC], found[Clock.HUMAN]) == (ttc, human)


def test_a_turn_without_progress_has_no_ttfp_and_the_answer_is_what_was_visible() -> None:
    found = turn_clocks(row(first_progress_ms=None))
    assert Clock.TTFP not in found
    assert found[Clock.TTFV] == found[Clock.TTFA] == 4000


@pytest.mark.parametrize(
    ("facts", "ttfv"),
    [
        ({}, 700),
        ({"first_answer_ms": 300.0}, 300),
        ({"prompts": [prompt(200, 201)]}, 200),
        ({"prompts": [prompt(200, kind="notification")]}, 200),
        ({"first_progress_ms": None, "first_answer_ms": None}, None),
    ],
    ids=["progress", "answer", "prompt", "notification", "nothing"],
)
def test_visible_progress_is_the_earliest_of_progress_answer_and_prompt(
    facts: dict[str, Any], ttfv: float | None
) -> None:
    assert turn_clocks(row(**facts)).get(Clock.TTFV) == ttfv


def test_the_intended_twins_add_the_lag() -> None:
    found = turn_clocks(row(scheduled_ms=-250.0))
    assert found[Clock.LAG] == 250
    assert found[Clock.TTFP_INTENDED] == 950
    assert found[Clock.TTC_INTENDED] == 9250
    assert Clock.LAG not in turn_clocks(row(scheduled_ms=None))


def test_only_a_completed_turn_has_a_ttc() -> None:
    turn = row(outcome="timed_out")
    assert Clock.TTC not in turn_clocks(turn)
    assert elapsed(turn) == 9000


@pytest.mark.parametrize("facts", [{"outcome": "dropped"}, {"started_mono_ns": 0}])
def test_a_turn_that_was_never_asked_has_no_times(facts: dict[str, Any]) -> None:
    turn = row(**facts)
    assert not started(turn)
    assert turn_clocks(turn) == {}
    assert elapsed(turn) is None


def test_connections_logins_replies_and_losses_are_counted_one_by_one() -> None:
    turn = row(
        connections=[
            {"begun_ms": 0.0, "failure": "refused"},
            {"begun_ms": 10.0, "connected_ms": 12.0, "login_ms": 12.5, "authenticated_ms": 20.5},
            {"begun_ms": 30.0, "connected_ms": 31.0, "login_ms": 31.0},
        ],
        prompts=[
            prompt(100, 200, next_event_ms=260),
            prompt(300, 400, replied=False),
            prompt(500, 600),
        ],
        losses=[
            {"lost_ms": 300.0, "during": "prompt", "recovered_ms": 450.0},
            {"lost_ms": -900.0, "during": "idle", "recovered_ms": 20.0},
            {"lost_ms": 700.0, "during": "working"},
        ],
    )
    found = [(str(item.clock), item.value_ms) for item in happenings(turn)]
    assert found == [
        ("connect", None), ("connect", 2), ("auth", 8), ("connect", 1), ("auth", None),
        ("resume", 60), ("resume", None), ("recovery", 150), ("recovery", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({}, None),
        ({"first_answer_ms": 9500.0}, "first_answer"),
        ({"first_byte_ms": -1.0}, "first_byte"),
        ({"scheduled_ms": 5.0}, "scheduled"),
        ({"ended_ms": -3.0}, "first_byte"),
        ({"prompts": [prompt(100, 200, next_event_ms=199.9)]}, None),
        ({"prompts": [prompt(100, 200, next_event_ms=190)]}, "resume"),
    ],
)
def test_times_that_cannot_be_are_named(facts: dict[str, Any], name: str | None) -> None:
    assert impossible(row(**facts)) == name


def test_the_row_that_a_record_writes_is_the_row_that_is_read() -> None:
    second = 1_000 * NS_PER_MS
    timeline = Timeline()
    for milestone, at in (
        (Milestone.SCHEDULED, 9.9), (Milestone.STARTED, 10), (Milestone.SENT, 10.01),
        (Milestone.FIRST_PROGRESS, 10.7), (Milestone.FIRST_ANSWER, 16), (Milestone.ENDED, 18),
    ):  # fmt: skip
        timeline.mark(milestone, int(at * second))
    record = TurnRecord(
        "t1", "u1", "c1", "s", "nat-ws", "/websocket", "w1", timeline,
        prompts=[
            PromptRecord("text", 11 * second, 15 * second, True, next_event_ns=int(15.5 * second))
        ],
        connections=[ConnectionRecord(10 * second, int(10.002 * second))],
        losses=[LossRecord(12 * second, "prompt", 13 * second)],
    )  # fmt: skip
    turn = record.to_row()
    found = {str(clock): round(value, 3) for clock, value in turn_clocks(turn).items()}
    assert found == {
        "ttfv": 700, "ttfp": 700, "ttfa": 2000, "ttc": 4000, "ttfv_intended": 800,
        "ttfp_intended": 800, "ttfa_intended": 2100, "ttc_intended": 4100, "lag": 100,
        "setup": 10, "wall": 8000, "human": 4000,
    }  # fmt: skip
    assert [round(item.value_ms or 0, 3) for item in happenings(turn)] == [2, 500, 1000]


spans = st.lists(
    st.tuples(st.floats(0, 10_000), st.floats(0, 10_000)).map(sorted).map(tuple), max_size=6
)


@given(spans, st.floats(0, 10_000), st.floats(0, 10_000))
def test_served_time_is_monotone_and_never_negative(
    intervals: list[tuple[float, float]], one: float, other: float
) -> None:
    turn = row(ended_ms=10_000.0, prompts=[prompt(begin, end) for begin, end in intervals])
    low, high = sorted((one, other))
    assert -1e-6 <= served(turn, low) <= served(turn, high) + 1e-6 <= high + 2e-6
    assert all(a[1] < b[0] for a, b in zip(pauses(turn), pauses(turn)[1:], strict=False))


def test_marks_keep_the_pauses_in() -> None:
    assert marks(row(prompts=[prompt(800, 3000)]))[Clock.TTFA] == 4000
