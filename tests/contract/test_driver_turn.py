"""The body over loopback: whole turns in both dialects, prompts, kept connections, big frames."""

from __future__ import annotations

import threading

import gevent
import pytest
from analyst import (
    QUICK,
    Analyst,
    Habits,
    answer,
    by_kernel,
    clocks,
    descriptors,
    end,
    story,
    watchers,
)
from gevent import GreenletExit, monkey
from raw_server import (
    LAST_CHUNK,
    NO_CONTENT,
    SSE,
    Peer,
    chunk,
    delta,
    prompt,
    raw_server,
    read_request,
    reset,
)

from loadgen.clock import NS_PER_S, now_ns, wall_ns
from loadgen.commands import Finish
from loadgen.errors import GeneratorError, TargetError
from loadgen.net import connection, driver
from loadgen.net.endpoint import Endpoint, resolve
from loadgen.turn import Cause, Milestone, Outcome

BOTH = pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
OK = (Outcome.COMPLETED, None)
FAST = "steps=1 step_ms=5 tokens=3 token_ms=2"

EARLY_MS = 2
"""A server's timer may fire so much early (uvloop rounds to 1 ms), as may our own clock's reading
of its write."""


@pytest.mark.case("D-03")
@BOTH
def test_a_whole_turn_has_the_whole_answer_and_its_milestones_in_order(shared_mock_agent, dialect):
    analyst = Analyst(shared_mock_agent().url, dialect)
    record = analyst.ask("first_ms=60 steps=1 step_ms=50 think_ms=40 tokens=5 token_ms=20", tag="t")
    analyst.close()

    assert end(record) == OK
    assert record.answer == answer(5, "tag=t")
    assert record.tag_seen == "t"
    assert by_kernel(record)
    assert record.reads >= 3
    assert record.bytes > 500
    marks = [mark for mark in story(record) if mark is not Milestone.AUTHENTICATED]
    assert marks == [mark for mark in Milestone if mark is not Milestone.AUTHENTICATED]
    assert (Milestone.AUTHENTICATED in story(record)) == (dialect == "nat-ws")
    found = clocks(record)
    assert found["ttfp"] >= 60 - EARLY_MS
    assert found["ttfa"] >= 170 - EARLY_MS
    assert found["ttc"] >= found["ttfa"] + 4 * 20 - EARLY_MS


@BOTH
def test_the_milestones_lie_after_the_servers_own_writes(mock_agent, dialect):
    agent = mock_agent()
    analyst = Analyst(agent.url, dialect)
    records = [analyst.ask(FAST, turn=f"turn-{number}") for number in range(20)]
    analyst.close()
    truth = {turn["id"]: turn for turn in agent.await_turns(20)}
    for record in records:
        told, at = truth[record.turn], record.timeline.at
        assert told["chunks"] == 4
        # A stamp is the arrival, the truth the moment after the write: they are as good as one.
        for mark, name in (
            (Milestone.FIRST_STEP, "first_step_ns"),
            (Milestone.FIRST_PROGRESS, "first_progress_ns"),
            (Milestone.FIRST_ANSWER, "first_answer_ns"),
            (Milestone.LAST_ANSWER, "last_answer_ns"),
        ):
            assert at[Milestone.SENT] <= at[mark]
            assert at[mark] >= told["slot_ns"], (mark, name)


@BOTH
@pytest.mark.parametrize("kind", ["text", "binary_choice", "radio", "checkbox", "dropdown"])
def test_a_prompt_of_every_kind_is_answered_and_heard(shared_mock_agent, dialect, kind):
    analyst = Analyst(shared_mock_agent().url, dialect, habits=Habits(reply_ms=60))
    record = analyst.ask(f"{FAST} hitl={kind} think_ms=500", tag="t")
    analyst.close()
    assert end(record) == OK
    value = analyst.habits.seen[0][0].options[0].value if kind != "text" else "2024"
    assert f"[hitl {kind}:{value}]" in record.answer
    (asked,) = record.to_row()["prompts"]
    assert asked["kind"] == kind
    assert asked["replied"]
    assert asked.get("reply_status") == (204 if dialect == "nat-sse" else None)
    assert clocks(record)["human"] >= 60 - EARLY_MS
    assert asked["next_event_ms"] >= asked["resumed_ms"]


@BOTH
def test_several_prompts_answered_at_once_are_each_heard(shared_mock_agent, dialect):
    analyst = Analyst(shared_mock_agent().url, dialect)
    record = analyst.ask(f"{FAST} hitl=text,radio,text,checkbox", tag="t")
    analyst.close()
    assert end(record) == OK
    assert [asked["replied"] for asked in record.to_row()["prompts"]] == [True] * 4
    assert len(analyst.habits.seen) == 4


def test_a_notification_needs_no_reply(shared_mock_agent):
    analyst = Analyst(shared_mock_agent().url, "nat-ws")
    record = analyst.ask(f"{FAST} hitl=notification,text", tag="t")
    analyst.close()
    assert end(record) == OK
    assert [p["kind"] for p in record.to_row()["prompts"]] == ["notification", "text"]
    assert len(analyst.habits.seen) == 1


@pytest.mark.case("D-42")
def test_a_prompt_over_sse_is_no_answer_text_and_its_reply_goes_to_its_url(shared_mock_agent):
    analyst = Analyst(shared_mock_agent().url, "nat-sse")
    record = analyst.ask("steps=0 tokens=2 token_ms=1 hitl=text", tag="t")
    analyst.close()
    assert record.answer == "[hitl text:2024] " + answer(2, "tag=t")
    assert record.execution


# connections that are kept


@BOTH
def test_a_connection_is_used_again(shared_mock_agent, dialect):
    analyst = Analyst(shared_mock_agent().url, dialect)
    records = [analyst.ask(FAST) for _ in range(3)]
    analyst.close()
    assert [len(record.connections) for record in records] == [1, 0, 0]
    assert [end(record) for record in records] == [OK] * 3


def test_a_reply_connection_is_used_again():
    def handle(stream, server):
        if read_request(stream, server).startswith(b"POST /exec"):
            stream.sendall(NO_CONTENT)
            replied.release()
            read_request(stream, server)
            stream.sendall(NO_CONTENT)
            replied.release()
            stream.recv(1)
            return
        stream.sendall(SSE)
        for key in ("p1", "p2"):
            stream.sendall(prompt(key))
            replied.acquire()
            threading.Event().wait(0.05)
        stream.sendall(delta("done") + LAST_CHUNK)

    replied = threading.Semaphore(0)
    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    assert server.taken == 2
    assert [p["reply_status"] for p in record.to_row()["prompts"]] == [204, 204]


def test_an_acknowledgement_that_does_not_come_does_not_stop_the_next_reply():
    def handle(stream, server):
        first = read_request(stream, server)
        if first.startswith(b"POST /exec"):
            if b"/p1/" in first:
                stream.sendall(NO_CONTENT)
            else:
                replied.release()
            read_request(stream, server)
            replied.release()
            stream.recv(1)
            return
        stream.sendall(SSE + prompt("p1"))
        while len(server.requests) < 2:
            threading.Event().wait(0.005)
        threading.Event().wait(0.05)
        stream.sendall(prompt("p2"))
        replied.acquire()
        stream.sendall(prompt("p3"))
        replied.acquire()
        stream.sendall(delta("done") + LAST_CHUNK)

    replied = threading.Semaphore(0)
    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    found = record.to_row()["prompts"]
    assert [p["replied"] for p in found] == [True] * 3
    assert [p.get("reply_status") for p in found] == [204, None, None]


def _closes_after_answer(stream, server):
    """Keep-alive that ends behind every answer, without saying so in it."""
    read_request(stream, server)
    stream.sendall(SSE + delta("done") + LAST_CHUNK)


@pytest.mark.parametrize("blocked", [False, True], ids=["noticed", "unnoticed"])
def test_a_connection_that_expired_is_replaced_and_the_question_asked_once(blocked):
    with raw_server(_closes_after_answer) as server:
        analyst = Analyst(server.url, "nat-sse")
        first = analyst.ask("one")
        # Unnoticed: the hub stands still, so the server's FIN is read after the question is out.
        threading.Event().wait(0.2) if blocked else gevent.sleep(0.2)
        second = analyst.ask("two")
        analyst.close()
    assert (end(first), end(second)) == (OK, OK)
    assert second.notices.get("stale_connection", 0) == int(blocked)
    assert "losses" not in second.to_row()
    assert [b'"two"' in request for request in server.requests] == [False, True]
    assert len(second.connections) == 1
    assert Milestone.SENT in story(second)


def test_a_connection_closed_by_reset_is_replaced_too():
    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE + delta("done") + LAST_CHUNK)
        threading.Event().wait(0.05)
        reset(stream)

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        analyst.ask("one")
        threading.Event().wait(0.2)
        assert end(analyst.ask("two")) == OK
        analyst.close()


def test_an_idle_connection_is_not_trusted_longer_than_the_server_keeps_it(shared_mock_agent):
    """uvicorn closes an idle connection after 5 s, and says nothing."""
    trusting = Analyst(shared_mock_agent().url, "nat-sse", keep_alive_s=60)
    wary = Analyst(shared_mock_agent().url, "nat-sse", keep_alive_s=4)
    for analyst in (trusting, wary):
        analyst.ask(FAST)
    threading.Event().wait(5.3)
    assert end(trusting.ask(FAST)) == OK
    assert end(wary.ask(FAST)) == OK
    assert trusting.records[1].notices.get("stale_connection") == 1
    assert "stale_connection" not in wary.records[1].notices
    assert len(wary.records[1].connections) == 1
    trusting.close()
    wary.close()


def test_a_connection_on_which_the_server_spoke_unasked_is_not_used_again():
    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE + delta("done") + LAST_CHUNK)
        threading.Event().wait(0.05)
        stream.sendall(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        read_request(stream, server)

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        analyst.ask("one")
        gevent.sleep(0.15)
        record = analyst.ask("two")
        analyst.close()
    assert end(record) == OK
    assert len(record.connections) == 1
    assert server.taken == 2


def test_a_body_whose_last_chunk_comes_behind_the_end_of_the_turn_leaves_a_connection_to_use():
    seen = threading.Event()

    def handle(stream, server):
        for _ in range(2):
            read_request(stream, server)
            stream.sendall(SSE + delta("done") + chunk(b"data: [DONE]\n\n"))
            seen.wait()
            stream.sendall(LAST_CHUNK)

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse", route="/chat/stream")
        first = analyst.ask("one")
        seen.set()
        gevent.sleep(0.15)
        second = analyst.ask("two")
        analyst.close()
    assert [end(first), end(second)] == [OK] * 2
    assert len(first.connections) == 1
    assert not second.connections
    assert not second.late_events
    assert server.taken == 1


def test_a_body_that_has_not_ended_when_the_next_question_is_asked_costs_its_connection():
    left = threading.Event()

    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE + delta("done") + chunk(b"data: [DONE]\n\n"))
        if server.taken == 1:
            left.wait(5)

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse", route="/chat/stream")
        records = [analyst.ask("q") for _ in range(2)]
        left.set()
        analyst.close()
    assert [end(record) for record in records] == [OK] * 2
    assert [len(record.connections) for record in records] == [1, 1]


def test_an_answer_that_ends_with_its_connection_has_an_end_of_our_own_stamping():
    def handle(stream, server):
        read_request(stream, server)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        stream.sendall(head + b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        records = [analyst.ask("q") for _ in range(2)]
        analyst.close()
    assert [end(record) for record in records] == [OK] * 2
    assert [record.stamp for record in records] == ["user"] * 2
    assert [len(record.connections) for record in records] == [1, 1]


def test_time_does_not_run_back_when_the_clocks_jitter(monkeypatch):
    stamps: list[int] = []

    def jittering(stamp, earlier, wall, now):
        stamps.append(stamps[0] - len(stamps) if stamps else now)
        return stamps[-1]

    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE)
        for text in "abc":
            stream.sendall(delta(text))
            threading.Event().wait(0.02)
        stream.sendall(LAST_CHUNK)

    monkeypatch.setattr(connection, "arrival_ns", jittering)
    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    assert stamps[-1] < stamps[0]
    assert record.max_gap_ns == 0
    assert record.timeline.at[Milestone.ENDED] == stamps[0]


def test_what_arrives_while_the_wall_clock_is_set_has_our_own_stamp(monkeypatch):
    asked: list[int] = []

    def set_forward_and_back() -> int:
        asked.append(1)
        return wall_ns() + (NS_PER_S if len(asked) == 4 else 0)

    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE)
        for text in "abcdef":
            stream.sendall(delta(text))
            threading.Event().wait(0.02)
        stream.sendall(LAST_CHUNK)

    monkeypatch.setattr(connection, "wall_ns", set_forward_and_back)
    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    assert record.user_reads == 2
    assert record.reads > 4


# how answers flow


@pytest.mark.parametrize(("dialect", "route"), [("nat-sse", "/chat/stream"), ("nat-ws", None)])
def test_gaps_stalls_and_tokens_are_those_that_the_server_made(mock_agent, dialect, route):
    agent = mock_agent()
    analyst = Analyst(agent.url, dialect, route=route)
    record = analyst.ask("steps=0 tokens=3 token_ms=1100 usage=1")
    analyst.close()
    assert end(record) == OK
    row = record.to_row()
    assert sum(row["gaps"][1::2]) == record.chunks - 1
    assert row["stalls"] == 2
    assert row["stalled_ms"] >= 2000
    assert record.output_tokens == (record.chunks if dialect == "nat-sse" else None)


# addresses


def test_ipv6_loopback_works(mock_agent):
    try:
        agent = mock_agent("--host", "::1")
    except AssertionError:
        pytest.skip("this machine has no IPv6 loopback")
    for dialect in ("nat-sse", "nat-ws"):
        analyst = Analyst(agent.url, dialect)
        record = analyst.ask(FAST, tag="t")
        analyst.close()
        assert end(record) == OK
        assert by_kernel(record)


def test_the_next_address_of_a_name_is_tried_when_the_first_refuses(shared_mock_agent):
    agent = shared_mock_agent()
    good = resolve(agent.url, None)
    refusing = (good.addresses[0][0], ("127.0.0.1", 1))
    endpoint = Endpoint(
        good.origin, good.host, good.port, (refusing, *good.addresses), None, good.base_path
    )
    analyst = Analyst(agent.url, "nat-sse", endpoint=endpoint)
    assert end(analyst.ask(FAST)) == OK
    assert len(analyst.records[0].connections) == 1
    analyst.close()


@pytest.mark.parametrize("name", ["no-such-host.invalid", f"{'a' * 70}.invalid"])
def test_a_name_that_does_not_resolve_is_one_line(name):
    with pytest.raises(TargetError, match=r"cannot resolve '.*': .*; check the host") as caught:
        resolve(f"http://{name}", None)
    assert "\n" not in str(caught.value)


def test_a_prefix_of_the_host_stands_before_every_path():
    def handle(stream, server):
        if read_request(stream, server).startswith(b"POST /proxy/exec"):
            stream.sendall(NO_CONTENT)
            replied.release()
            return
        stream.sendall(SSE + prompt())
        replied.acquire()
        stream.sendall(delta("done") + LAST_CHUNK)

    replied = threading.Semaphore(0)
    with raw_server(handle) as server:
        analyst = Analyst(f"{server.url}/proxy/", "nat-sse")
        assert end(analyst.ask("q")) == OK
        analyst.close()
    assert [request.split(b" ")[1] for request in server.requests] == [
        b"/proxy/v1/chat/stream",
        b"/proxy/executions/e1/interactions/p1/response",
    ]


# sizes


def _sse_burst(stream, server):
    read_request(stream, server)
    stream.sendall(SSE + b"".join(map(delta, "abcde")))
    threading.Event().wait(0.05)
    stream.sendall(LAST_CHUNK)


def _socket_burst(stream, server):
    peer = Peer(stream)
    peer.accept()
    peer.receive()
    peer.say({"type": "auth_response_message", "status": "success"})
    turn = peer.receive()["id"]
    peer.say(*(peer.answer(turn, text) for text in "abcde"))
    threading.Event().wait(0.05)
    peer.say(peer.answer(turn, None, "complete"))


@pytest.mark.case("D-17")
@pytest.mark.parametrize(
    ("dialect", "handle"), [("nat-sse", _sse_burst), ("nat-ws", _socket_burst)]
)
def test_events_of_one_write_share_a_stamp_and_are_a_burst(dialect, handle):
    with raw_server(handle) as server:
        analyst = Analyst(server.url, dialect)
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    assert record.answer == "abcde"
    assert record.max_burst >= 5
    at = record.timeline.at
    assert at[Milestone.FIRST_ANSWER] == at[Milestone.LAST_ANSWER]
    assert record.max_gap_ns == 0


@BOTH
def test_a_step_of_a_megabyte_and_a_half_is_one_event(shared_mock_agent, dialect):
    analyst = Analyst(shared_mock_agent().url, dialect)
    record = analyst.ask("steps=1 step_ms=1 step_kb=1500 tokens=3 token_ms=1", tag="t")
    analyst.close()
    assert end(record) == OK
    assert record.answer == answer(3, "tag=t")
    assert record.bytes > 1_500_000
    assert record.reads > 20
    assert by_kernel(record)


def test_a_question_too_big_for_one_write_is_sent_whole_and_stamped_when_it_is():
    def handle(stream, server):
        threading.Event().wait(0.15)
        woke.append(now_ns())
        read_request(stream, server)
        stream.sendall(SSE + delta("done") + LAST_CHUNK)

    woke: list[int] = []
    text = "x" * 8_000_000
    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        record = analyst.ask(text)
        analyst.close()
    assert end(record) == OK
    assert text.encode() in server.requests[0]
    assert record.timeline.at[Milestone.SENT] > woke[0]


# greenlets that are killed


@BOTH
@pytest.mark.parametrize("outcome", [Outcome.CUT_OFF, Outcome.ABANDONED])
def test_a_greenlet_killed_in_mid_turn_writes_its_record_and_dies(
    shared_mock_agent, dialect, outcome
):
    analyst = Analyst(shared_mock_agent().url, dialect, interrupted=lambda: outcome)
    asking = analyst.begin("steps=0 tokens=100 token_ms=20")
    gevent.sleep(0.2)
    asking.kill()
    assert isinstance(asking.value, GreenletExit)
    (record,) = analyst.records
    assert end(record) == (outcome, None)
    assert record.chunks > 0
    assert story(record)[-1] is Milestone.ENDED
    assert end(analyst.ask(FAST)) == OK
    assert len(analyst.records) == 2
    analyst.close()


def test_an_exception_thrown_into_a_turn_is_raised_after_the_record():
    with raw_server(lambda stream, server: read_request(stream) and stream.recv(1)) as server:
        analyst = Analyst(server.url, "nat-sse")
        with pytest.raises(gevent.Timeout), gevent.Timeout(0.1):
            analyst.ask("q")
        assert end(analyst.records[0]) == (Outcome.CUT_OFF, None)
        analyst.close()


def test_a_turn_that_ended_before_its_greenlet_was_killed_is_recorded_as_it_ended(
    shared_mock_agent, monkeypatch
):
    analyst = Analyst(shared_mock_agent().url, "nat-sse")
    asking = analyst.begin(FAST)
    while analyst.conversation.phase.value == "idle":
        gevent.sleep(0.001)

    def kill_and_finish(self, command):
        asking.kill(block=False)
        driver.Driver._finish(self, command)

    monkeypatch.setitem(driver._ACTIONS, Finish, kill_and_finish)
    asking.join(5)
    assert isinstance(asking.value, GreenletExit)
    assert [end(record) for record in analyst.records] == [OK]
    analyst.close()


def test_an_analyst_who_leaves_in_mid_turn_leaves_a_record():
    with raw_server(lambda stream, server: read_request(stream) and stream.recv(1)) as server:
        analyst = Analyst(server.url, "nat-sse")
        before = watchers()
        asking = analyst.begin("q")
        gevent.sleep(0.1)
        analyst.close()
        asking.join(1)
        assert end(analyst.records[0]) == (Outcome.CUT_OFF, None)
        assert watchers() == before


def test_two_turns_at_once_are_the_callers_fault(shared_mock_agent):
    analyst = Analyst(shared_mock_agent().url, "nat-sse")
    asking = analyst.begin("tokens=10 token_ms=10")
    gevent.sleep(0.05)
    with pytest.raises(GeneratorError, match="while another is under way"):
        analyst.ask("q")
    asking.join(5)
    assert end(asking.value) == OK
    analyst.close()


# faults of ours


@pytest.mark.parametrize("where", ["ask", "decoder", "reply"])
def test_a_fault_of_ours_is_a_record_and_the_next_turn_goes_on(
    shared_mock_agent, monkeypatch, caplog, where
):
    analyst = Analyst(shared_mock_agent().url, "nat-sse")

    def broken(*arguments):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(type(analyst.conversation.dialect), where, broken)
    record = analyst.ask(f"{FAST} hitl=text")
    assert end(record) == (Outcome.FAILED, Cause.GENERATOR_FAULT)
    assert "a bug of ours" in record.detail
    assert where == "reply" or "a bug of ours" in caplog.text
    monkeypatch.undo()
    assert end(analyst.ask(FAST)) == OK
    analyst.close()


def test_a_fault_in_reading_is_a_record_and_a_traceback_in_the_log(
    shared_mock_agent, monkeypatch, caplog
):
    analyst = Analyst(shared_mock_agent().url, "nat-ws")
    analyst.ask(FAST)

    def broken(*arguments):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(analyst.conversation, "receive", broken)
    record = analyst.ask(FAST)
    assert end(record) == (Outcome.FAILED, Cause.GENERATOR_FAULT)
    assert "Traceback" in caplog.text
    monkeypatch.undo()
    record = analyst.ask(FAST)
    assert end(record) == OK
    assert len(record.connections) == 1
    analyst.close()


def test_a_fault_between_turns_costs_the_connection_and_not_the_next_turn(monkeypatch, caplog):
    def handle(stream, server):
        peer = Peer(stream)
        peer.accept()
        while True:
            message = peer.receive()
            if message["type"] == "auth_message":
                peer.say({"type": "auth_response_message", "status": "success"})
            else:
                peer.complete(message["id"])
                threading.Event().wait(0.05)
                peer.say({"type": "observability_trace_message"})

    def broken(*arguments):
        raise RuntimeError("a bug of ours")

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-ws")
        analyst.ask("q")
        with monkeypatch.context() as patch:
            patch.setattr(analyst.conversation, "receive", broken)
            gevent.sleep(0.15)
        assert "a bug of ours" in caplog.text
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    assert len(record.connections) == 1


# leaks


def test_five_hundred_turns_leave_no_descriptor_and_no_watcher_behind(shared_mock_agent):
    agent = shared_mock_agent()
    limits = QUICK.model_copy(update={"resume_s": 0.05})
    crowd = [
        Analyst(agent.url, dialect, habits=Habits(drop_ms=drop_ms), deadlines=limits)
        for dialect in ("nat-sse", "nat-ws")
        for drop_ms in (None, None, None, None, 1)
    ]
    kinds = ["", "hitl=text", "cut=1", "fail=mid", "status=503", "eof=1"]
    quick = "steps=0 tokens=3 token_ms=0"

    def live(analyst: Analyst, first: int, turns: int) -> None:
        for number in range(first, first + turns):
            if number % 7 == 3:
                analyst.driver.drop()
            analyst.ask(f"{quick} {kinds[number % len(kinds)]}")

    def run(first: int, turns: int) -> None:
        gevent.joinall([gevent.spawn(live, a, first, turns) for a in crowd], raise_error=True)
        for analyst in crowd:
            analyst.close()
        gevent.sleep(0.01)

    run(0, 6)
    before = descriptors(), watchers()
    run(6, 50)
    assert (descriptors(), watchers()) == before
    outcomes = {record.outcome for analyst in crowd for record in analyst.records}
    assert len([record for analyst in crowd for record in analyst.records]) == 560
    assert outcomes >= {Outcome.COMPLETED, Outcome.FAILED, Outcome.INCOMPLETE, Outcome.REFUSED}


def test_none_of_this_needed_monkey_patching():
    assert not monkey.is_module_patched("socket")
