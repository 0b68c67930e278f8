"""Analysts that hold their reads back, leave, or are dropped: what the wire and the stamps see."""

from __future__ import annotations

import threading

import gevent
import pytest
from analyst import QUICK, Analyst, Habits, by_kernel, descriptors, end, watchers
from raw_server import LAST_CHUNK, SSE, delta, raw_server, read_request

from loadgen.clock import now_ns
from loadgen.persona import Absence
from loadgen.plan import Reconnect
from loadgen.turn import Cause, Milestone, Outcome

BOTH = pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
OK = (Outcome.COMPLETED, None)
LEFT = (Outcome.ABANDONED, Cause.PATIENCE)
FAST = "steps=1 step_ms=5 tokens=3 token_ms=2"
AWAY = Habits(away=Absence(looks_away_ns=400_000_000))


@BOTH
def test_held_back_reads_are_merged_and_keep_the_kernels_stamp_of_the_last(
    shared_mock_agent, dialect
):
    """The answer was there long before it was read: what is stamped later than it arrived is so
    by at most the span of one read.
    """
    agent = shared_mock_agent()
    analyst = Analyst(agent.url, dialect, habits=AWAY)
    record = analyst.ask("steps=1 step_ms=5 tokens=20 token_ms=5 tail_ms=600")
    analyst.close()
    assert end(record) == OK
    assert by_kernel(record)
    assert record.notices["looked_away"] == 1
    assert record.max_burst >= 10
    at = record.timeline.at
    assert at[Milestone.LAST_ANSWER] - at[Milestone.FIRST_STEP] < 400_000_000, (
        "the last chunk came during the hold: its stamp is not of the read"
    )


def test_when_the_kernel_is_full_the_server_waits():
    """The whole of a big answer cannot be written while nobody reads."""

    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE + delta("one "))
        threading.Event().wait(0.1)
        begun = now_ns()
        for _ in range(120):
            stream.sendall(delta("x" * 100_000))
        took.append((now_ns() - begun) / 1e9)
        stream.sendall(LAST_CHUNK)

    took: list[float] = []
    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse", habits=AWAY, deadlines=QUICK)
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    assert record.answer_chars == 4 + 120 * 100_000
    assert took[0] > 0.25


def test_a_server_that_leaves_meanwhile_is_noticed_when_it_is_read_again():
    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE + delta("one "))

    before = descriptors(), watchers()
    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse", habits=AWAY)
        begun = now_ns()
        record = analyst.ask("q")
        assert now_ns() - begun > 390_000_000
        analyst.close()
    assert end(record) == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert descriptors() <= before[0] + 2
    assert watchers() <= before[1] + 1


def test_a_held_connection_that_is_dropped_leaves_no_timer(shared_mock_agent):
    before = watchers()
    habits = Habits(away=Absence(looks_away_ns=60_000_000_000))
    limits = QUICK.model_copy(update={"turn_s": 0.3})
    analyst = Analyst(shared_mock_agent().url, "nat-ws", habits=habits, deadlines=limits)
    record = analyst.ask("steps=1 step_ms=1 tokens=9 token_ms=1")
    analyst.close()
    assert end(record) == (Outcome.TIMED_OUT, Cause.STALLED)
    assert watchers() <= before + 1


@BOTH
def test_an_analyst_that_leaves_in_mid_answer_frees_the_server(shared_mock_agent, dialect):
    agent = shared_mock_agent()
    analyst = Analyst(agent.url, dialect, habits=Habits(away=Absence(leaves_at=4)))
    record = analyst.ask(
        "steps=0 tokens=400 token_ms=5", tag=f"leaves-{dialect}", turn=f"leaves-{dialect}"
    )
    analyst.close()
    assert end(record) == LEFT
    assert 4 <= record.chunks < 100
    limit_ns = now_ns() + 5_000_000_000
    while not [t for t in agent.truth() if t["id"] == f"leaves-{dialect}"]:
        assert now_ns() < limit_ns
        gevent.sleep(0.02)
    (turn,) = [t for t in agent.truth() if t["id"] == f"leaves-{dialect}"]
    assert turn["outcome"] == "client_gone"


@pytest.mark.parametrize(
    ("dialect", "idle", "open_", "how"),
    [
        ("nat-ws", True, True, OK),
        ("nat-sse", False, True, (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
    ],
)
def test_what_can_be_dropped_is_a_socket_or_a_request_under_way(
    shared_mock_agent, dialect, idle, open_, how
):
    habits = Habits(reply_ms=300)
    soon = Reconnect(policy="fixed", base_s=0.05, attempts=3)
    analyst = Analyst(shared_mock_agent().url, dialect, habits=habits, reconnect=soon)
    driver = analyst.driver
    assert not driver.connected, "nothing is open yet"
    assert end(analyst.ask(FAST)) == OK
    assert driver.connected is idle
    asking = analyst.begin(f"{FAST} hitl=text")
    while not habits.seen:
        gevent.sleep(0.01)
    assert driver.connected is open_
    assert driver.drop()
    assert not driver.connected
    assert not driver.drop()
    record = asking.get(timeout=5)
    assert end(record) == how
    assert len(record.losses) == 1
    analyst.close()
