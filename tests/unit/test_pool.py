"""The pool: an arrival finds a free analyst at that instant, or is dropped and told."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from loadgen.clock import NS_PER_S, now_ns
from loadgen.dialects import DIALECTS
from loadgen.metrics import started, turn_clocks
from loadgen.pacing import Part
from loadgen.plan import parse_plan
from loadgen.swarm import stats
from loadgen.swarm.arrivals import Pacer, dropped, share_of
from loadgen.swarm.pool import (
    LOST_ITS_ANALYST,
    NOBODY_FREE,
    OVER_LIMIT,
    RUN_ENDED,
    Call,
    Place,
    Pool,
)
from loadgen.timetable import Arrival

MS = NS_PER_S // 1000


class Crowd:
    """Analysts that take what they are given; a turn lasts until `finish`."""

    def __init__(self, desk: int = 0, browser: int = 0) -> None:
        self.dropped: list[tuple[int, str]] = []
        self.pool = Pool(lambda arrival, due_ns, why: self.dropped.append((due_ns, why)))
        self.calls: dict[Place, list[Call | None]] = {}
        self._work: list[Any] = []
        for group, number in (("desk", desk), ("browser", browser)):
            for _ in range(number):
                self.take(self.pool.join(group))

    def take(self, place: Place) -> None:
        """This analyst waits for its next turn."""
        taken = self.calls.setdefault(place, [])
        self._work.append(gevent.spawn(lambda: taken.append(place.take())))
        settle()

    def offer(self, due_ns: int, **facts: Any) -> None:
        self.pool.offer(Arrival(due_ns, **{"group": "desk"} | facts), due_ns)
        settle()

    def given(self) -> list[list[int]]:
        """When each analyst's turns were due, in the order in which the analysts came."""
        return [[call.scheduled_ns for call in calls if call] for calls in self.calls.values()]

    def leave(self) -> None:
        gevent.killall(self._work)


def settle() -> None:
    for _ in range(4):
        gevent.sleep(0)


@pytest.fixture
def crowd() -> Iterator[Any]:
    made: list[Crowd] = []

    def gather(**numbers: int) -> Crowd:
        made.append(Crowd(**numbers))
        return made[-1]

    yield gather
    for one in made:
        one.leave()


def test_the_analyst_who_has_waited_longest_is_next(crowd: Any) -> None:
    some = crowd(desk=2)
    some.offer(1)
    some.take(next(iter(some.calls)))
    some.offer(2)
    some.offer(3)
    assert some.given() == [[1, 3], [2]]
    assert not some.dropped


def test_an_arrival_that_finds_nobody_free_is_dropped_at_once(crowd: Any) -> None:
    some = crowd(desk=1, browser=1)
    for due_ns in (1, 2, 3):
        some.offer(due_ns)
    assert some.given() == [[1], []], "an analyst of another kind does not step in"
    assert some.dropped == [(2, NOBODY_FREE), (3, NOBODY_FREE)]


def test_no_more_analysts_than_the_limit_are_busy(crowd: Any) -> None:
    some = crowd(desk=5)
    some.pool.limit = 2
    for due_ns in (1, 2, 3):
        some.offer(due_ns)
    assert some.dropped == [(3, OVER_LIMIT)]
    some.take(next(iter(some.calls)))
    some.offer(4)
    assert some.dropped == [(3, OVER_LIMIT)]
    assert some.pool.busy == 2


def test_turns_of_a_conversation_come_after_the_one_before_and_the_think_time(crowd: Any) -> None:
    some = crowd(desk=1)
    (place,) = some.calls
    some.offer(1, turns=3)
    ended = now_ns()
    place.ended(ended)
    assert place.pause_s(lambda: 0.02) == pytest.approx(0.02, abs=0.02)
    some.take(place)
    gevent.sleep(0.05)
    place.ended(ended + 70 * MS)
    some.take(place)
    gevent.sleep(0.05)
    assert some.given() == [[1, ended + 20 * MS, ended + 70 * MS]]
    assert [call.begins for call in some.calls[place]] == [True, False, False]
    assert place.pause_s(lambda: pytest.fail("no turn is left to think about")) == 0
    some.offer(9)
    assert some.dropped == [(9, NOBODY_FREE)], "it has not come back for another one"
    some.take(place)
    some.offer(10)
    assert some.given()[0][-1] == 10


def test_a_turn_of_a_conversation_never_begins_before_it_is_due(crowd: Any) -> None:
    some = crowd(desk=1)
    (place,) = some.calls
    some.offer(1, turns=2)
    due_ns = now_ns() + 30 * MS
    place.ended(due_ns)
    assert place.take() == Call(due_ns, begins=False)
    assert now_ns() >= due_ns


def test_a_replayed_conversation_keeps_its_analyst_and_waits_for_it(crowd: Any) -> None:
    some = crowd(desk=2)
    first = next(iter(some.calls))
    some.offer(1, conversation="a", question="one", last=False)
    some.offer(2, conversation="a", question="two", last=False)
    some.offer(3, conversation="b", question="other")
    some.offer(4, conversation="a", question="three")
    some.take(first)
    some.take(first)
    assert some.given() == [[1, 2, 4], [3]]
    assert [call.question for call in some.calls[first]] == ["one", "two", "three"]
    assert [call.begins for call in some.calls[first]] == [True, False, False]
    some.take(first)
    some.offer(5, conversation="c")
    assert some.given()[0][-1] == 5
    assert not some.dropped


def test_a_conversation_whose_first_turn_was_dropped_is_dropped_whole(crowd: Any) -> None:
    some = crowd(desk=1)
    some.offer(1)
    some.offer(2, conversation="a", last=False)
    some.take(next(iter(some.calls)))
    some.offer(3, conversation="a", last=False)
    some.offer(4, conversation="a")
    assert some.dropped == [(2, NOBODY_FREE), (3, LOST_ITS_ANALYST), (4, LOST_ITS_ANALYST)]


def test_what_waits_for_an_analyst_who_leaves_is_dropped(crowd: Any) -> None:
    some = crowd(desk=1)
    (place,) = some.calls
    for due_ns in (1, 2):
        some.offer(due_ns, conversation="a", last=False)
    place.leave()
    some.offer(3, conversation="a")
    assert some.dropped == [(2, LOST_ITS_ANALYST), (3, LOST_ITS_ANALYST)]
    assert some.pool.busy == 0
    place.leave()
    assert some.pool.busy == 0


def test_an_analyst_who_leaves_while_it_waits_is_not_given_anything(crowd: Any) -> None:
    some = crowd(desk=2)
    next(iter(some.calls)).leave()
    some.offer(1)
    some.offer(2)
    assert some.given() == [[], [1]]
    assert some.dropped == [(2, NOBODY_FREE)]


@pytest.mark.case("D-50")
def test_at_the_end_no_turn_starts_and_none_that_was_due_is_forgotten(crowd: Any) -> None:
    some = crowd(desk=3)
    first, second, third = some.calls
    for due_ns in (1, 2, 3):
        some.offer(due_ns, conversation="a", last=False)
    some.pool.offer(Arrival(4, "desk", turns=2), 4)
    assert not second.waiting, "it has been given a turn and not begun it"
    some.pool.close()
    assert some.dropped == [(2, RUN_ENDED), (3, RUN_ENDED), (4, RUN_ENDED)]
    assert (first.waiting, second.waiting, third.waiting) == (False, True, True)
    some.offer(5)
    assert some.dropped[-1] == (5, RUN_ENDED)
    assert first.take() is None
    assert some.given() == [[1], [], []]


def test_the_last_one_to_become_free_is_told(crowd: Any) -> None:
    some = crowd(desk=2)
    first, second = some.calls
    idle: list[bool] = []
    some.pool.on_idle = lambda: idle.append(True)
    some.offer(1)
    some.offer(2)
    some.take(first)
    assert idle == []
    some.take(second)
    assert idle == [True]


class Listener(Pool):
    """A pool that notes when it was offered what."""

    def __init__(self) -> None:
        super().__init__(lambda *_: None)
        self.offered: list[tuple[int, int]] = []

    def offer(self, arrival: Arrival, due_ns: int) -> None:
        self.offered.append((due_ns, now_ns()))


def test_the_pacer_counts_from_the_start_and_makes_up_for_what_it_missed() -> None:
    pool, ended = Listener(), []
    schedule = [Arrival(n * 5 * MS, "desk") for n in range(20)]
    pacer = Pacer(iter(schedule), pool, lambda: ended.append(True), pytest.fail)
    gevent.sleep(0.01)
    blocked = now_ns()
    while now_ns() < blocked + 40 * MS:
        pass
    gevent.sleep(0.3)
    pacer.stop()
    due = [due_ns for due_ns, _ in pool.offered]
    assert [at - due[0] for at in due] == [arrival.at_ns for arrival in schedule]
    assert all(at >= due_ns for due_ns, at in pool.offered)
    assert ended == [True]


def test_what_was_due_when_the_run_ended_is_still_offered_and_nothing_later() -> None:
    pool = Listener()
    schedule = [Arrival(0, "desk"), *(Arrival(n * 10 * MS, "desk") for n in (1, 2, 3, 500))]
    pacer = Pacer(iter(schedule), pool, pytest.fail, pytest.fail)
    gevent.sleep(0)
    blocked = now_ns()
    while now_ns() < blocked + 60 * MS:
        pass
    pacer.stop()
    assert [due_ns - pool.offered[0][0] for due_ns, _ in pool.offered] == [
        0, 10 * MS, 20 * MS, 30 * MS,
    ]  # fmt: skip


def test_a_bug_in_the_timetable_is_our_fault() -> None:
    def broken() -> Iterator[Arrival]:
        yield Arrival(0, "desk")
        raise ZeroDivisionError

    faults: list[Exception] = []
    Pacer(broken(), Listener(), pytest.fail, faults.append)
    settle()
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


def test_a_dropped_arrival_is_a_row_that_was_due_and_never_began() -> None:
    raw = {
        "analysts": [{"name": "desk", "dialect": "nat-ws"}],
        "questions": {"texts": ["q"]},
        "load": {"model": "open", "rate": 1},
    }
    plan = parse_plan(raw, "plan.toml", DIALECTS)
    record = dropped(plan, plan.analysts[0], "worker-1", 77, NOBODY_FREE)
    row = record.to_row()
    assert {"outcome": "dropped", "cause": "no_slot", "detail": NOBODY_FREE}.items() <= row.items()
    assert {"dialect": "nat-ws", "route": "/websocket", "worker": "worker-1"}.items() <= row.items()
    assert (row["started_mono_ns"], row["scheduled_mono_ns"]) == (0, 77)
    assert not [key for key in row if key.endswith("_ms")]
    assert not started(row)
    assert turn_clocks(row) == {}

    told: list[dict[str, Any]] = []
    request = SimpleNamespace(fire=lambda **facts: told.append(facts))
    environment = SimpleNamespace(events=SimpleNamespace(request=request))
    stats.fire(environment, record, row)
    (entry,) = told
    assert (entry["name"], entry["response_time"]) == ("completion", None)
    assert str(entry["exception"]) == "dropped: no_slot"


@pytest.mark.parametrize(("total", "parts"), [(10, 3), (3, 3), (100, 7)])
def test_a_limit_is_dealt_out_without_a_rest(total: int, parts: int) -> None:
    shares = [share_of(total, Part(number, parts)) for number in range(parts)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1
