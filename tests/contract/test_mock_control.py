"""The mock broken while it runs: what is lost, who gets in, what is forgotten."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

import gevent
import httpx
import pytest
from analyst import QUICK, Analyst, Habits, end
from websockets.sync.client import connect

from loadgen.clock import now_ns
from loadgen.dialects.contract import Identity
from loadgen.plan import Reconnect
from loadgen.turn import Cause, Outcome

OK = (Outcome.COMPLETED, None)
CUT = (Outcome.INCOMPLETE, Cause.STREAM_CUT)
NEVER = Reconnect(policy="none")
SOON = Reconnect(policy="fixed", base_s=0.2, attempts=20)
LONG = "steps=1 step_ms=5 tokens=200 token_ms=10"
FAST = "steps=1 step_ms=5 tokens=3 token_ms=2"
AT_PROMPT = f"{FAST} hitl=text"
ALL = ("nat-sse", "nat-ws", "arag-ws", "arag-http")


def analyst_of(agent: Any, dialect: str, **options: Any) -> Analyst:
    if dialect.startswith("arag"):
        spoken = {"agent": "agent-0001"} | ({"token": "none"} if dialect == "arag-ws" else {})
        options |= {"options": spoken, "identity": Identity()}
    return Analyst(agent.url, dialect, **options)


@contextlib.contextmanager
def under_way(agent: Any, question: str, dialects: tuple[str, ...], **options: Any):
    """Analysts whose turns have begun: their greenlets."""
    analysts = [analyst_of(agent, dialect, **options) for dialect in dialects]
    asking = [analyst.begin(question) for analyst in analysts]
    limit_ns = now_ns() + 5_000_000_000
    while not all(a.conversation._turn and a.conversation._turn.record.steps for a in analysts):
        assert now_ns() < limit_ns, "not all turns began"
        gevent.sleep(0.01)
    yield asking
    for analyst in analysts:
        analyst.close()


@pytest.mark.parametrize(
    ("how", "code"), [(1012, 1012), (4321, 4321), ("fin", 1006), ("rst", 1006)], ids=str
)
def test_all_sockets_and_streams_of_both_families_are_lost(shared_mock_agent, how, code):
    agent = shared_mock_agent("--seed", "42")
    with under_way(agent, LONG, ALL, reconnect=NEVER) as asking:
        told = agent.control(drop="all", how=how)
        records = [greenlet.get(timeout=5) for greenlet in asking]
    assert (told["sockets"], told["streams"]) == (2, 2)
    assert [end(record) for record in records] == [CUT] * 4
    assert [record.losses[0].code for record in records] == [None, code, code, None]


def test_some_of_them_are_lost_and_the_others_go_on(shared_mock_agent):
    agent = shared_mock_agent("--seed", "42")
    with under_way(agent, FAST + " think_ms=400", ("nat-ws",) * 6, reconnect=NEVER) as asking:
        assert agent.control(drop=2)["sockets"] == 2
        ends = [end(greenlet.get(timeout=5)) for greenlet in asking]
    assert sorted(ends.count(how) for how in (OK, CUT)) == [2, 4]


def test_idle_connections_and_questions_for_the_mock_itself_are_no_streams(shared_mock_agent):
    agent = shared_mock_agent("--seed", "42")
    with httpx.Client() as client:
        client.get(f"{agent.url}/health")
        assert agent.control(drop="all")["streams"] == 0


@pytest.mark.parametrize(
    ("door", "failure"),
    [
        ("refused", "connect_failed"), ("reset", "connect_failed"), ("403", None),
        ("429", "rate_limited"), ("503", "connect_failed"),
    ],
)  # fmt: skip
def test_nobody_gets_in_for_a_while_and_then_all_do(shared_mock_agent, door, failure):
    """The turn waits at its prompt, so it is there when the analyst is let in."""
    agent = shared_mock_agent("--seed", "42")
    habits = Habits(reply_ms=200)
    with under_way(agent, AT_PROMPT, ("nat-ws",), reconnect=SOON, habits=habits) as asking:
        agent.control(drop="all", refuse_s=0.5, door=door)
        record = asking[0].get(timeout=10)
    if door == "403":
        agent.control(refuse_s=0.001, door="503")  # opens it again
        assert end(record) == (Outcome.INCOMPLETE, Cause.AUTH_REJECTED)
        return
    assert end(record) == OK
    assert record.recovered
    tries = [connection.failure for connection in record.connections]
    assert tries[0] is None
    assert failure in tries
    assert tries[-1] is None


def test_a_refused_crowd_hears_how_long_to_wait(shared_mock_agent):
    agent = shared_mock_agent("--seed", "42")
    agent.control(refuse_s=2, door="429", retry_after=9)
    answer = httpx.post(f"{agent.url}/v1/chat/stream", json={"messages": []})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "9")
    assert httpx.get(f"{agent.url}/_truth/summary").status_code == 200, "it is spared"
    gevent.sleep(2.05)
    assert httpx.get(f"{agent.url}/health").status_code == 200


def test_a_restart_forgets_all_but_the_truth(mock_agent):
    agent = mock_agent()
    lost = {"reconnect": SOON, "deadlines": QUICK.model_copy(update={"resume_s": 0.3})}
    habits = Habits(reply_ms=5000)
    with under_way(agent, AT_PROMPT, ("nat-ws", "nat-sse"), habits=habits, **lost) as asking:
        agent.control(restart=True, down_s=0.3)
        socket_, stream = (greenlet.get(timeout=10) for greenlet in asking)
    assert end(socket_) == (Outcome.INCOMPLETE, Cause.LOST_RESUME)
    assert socket_.losses[0].code == 1006
    assert end(stream) == CUT
    assert stream.execution_state == "unreachable" or "404" in str(stream.execution_state)
    assert agent.summary()["outcomes"] == {"stopped": 2}
    assert agent.summary()["running"] == 0
    assert any(row["event"] == "control" for row in agent.sockets())
    again = analyst_of(agent, "nat-ws")
    assert end(again.ask(FAST)) == OK
    again.close()


def test_a_pause_holds_everything_up_and_loses_nothing(shared_mock_agent):
    agent = shared_mock_agent("--seed", "42")
    with under_way(agent, "steps=1 step_ms=5 tokens=60 token_ms=10", ALL) as asking:
        agent.control(pause_s=0.5)
        records = [greenlet.get(timeout=10) for greenlet in asking]
    assert [end(record) for record in records] == [OK] * 4
    assert all((record.max_gap_ns or 0) > 400_000_000 for record in records)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"drop": -1}, 422, "drop"),
        ({"drop": "some"}, 422, "drop"),
        ({"refuse_s": 3, "door": "ajar"}, 422, "door"),
        ({"explode": True}, 422, "explode"),
        ({"pause_s": 1e9}, 422, "pause_s"),
        ({"faults": ["delay_ms=fast"]}, 422, "delay_ms must be a number"),
        ({"faults": ["ws_status=200"]}, 422, "ws_status must be 400 to 599"),
        ({"faults": ["weather=1"]}, 422, "'weather' is no fault; known are accept_ms, "),
    ],
    ids=str,
)
def test_a_command_that_cannot_be_is_named(shared_mock_agent, body, status, said):
    url = shared_mock_agent("--seed", "42").url
    answer = httpx.post(f"{url}/_control", json=body)
    assert answer.status_code == status
    assert said in answer.text


def test_a_form_of_a_web_page_commands_nothing(shared_mock_agent):
    url = shared_mock_agent("--seed", "42").url
    plain = httpx.post(f"{url}/_control", content='{"drop": "all"}')
    assert plain.status_code == 415
    assert httpx.get(f"{url}/_control").status_code == 405


def test_a_caller_who_is_not_on_this_machine_commands_nothing(mock_agent):
    """The check is of the peer's address: an address of this machine that is not loopback."""
    own = _own_address()
    if own is None:
        pytest.skip("this machine has loopback only")
    agent = mock_agent("--host", "0.0.0.0", "--allow-non-loopback")
    answer = httpx.post(f"http://{own}:{agent.port}/_control", json={"drop": "all"})
    assert answer.status_code == 403


def _own_address() -> str | None:
    """The address that this machine would send from; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return None if address.startswith("127.") else address


def test_a_mock_says_how_much_memory_it_holds(shared_mock_agent):
    assert shared_mock_agent("--seed", "42").summary()["rss"] > 10 << 20


@pytest.mark.parametrize("gap_ms", [0, 30])
def test_a_turn_that_another_message_displaces_ends_in_the_truth(shared_mock_agent, gap_ms):
    """Even one that had no time to begin."""
    agent = shared_mock_agent("--seed", "42")
    text = "steps=1 step_ms=200 tokens=2 token_ms=2"
    ids = [f"{gap_ms}-{number}" for number in range(3)]
    with connect(f"ws://{agent.host}:{agent.port}/websocket", max_queue=None) as peer:
        for id_ in ids:
            peer.send(json.dumps(_user_message(id_, text)))
            threading.Event().wait(gap_ms / 1000)
        gevent.sleep(0.5)
    found = {turn["id"]: turn["outcome"] for turn in agent.truth(running=True)}
    assert [found[id_] for id_ in ids] == ["cancelled", "cancelled", "completed"]


def _user_message(id_: str, text: str) -> dict[str, Any]:
    content = {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}
    return {
        "type": "user_message", "schema_type": "chat_stream", "id": id_, "conversation_id": "c1",
        "content": content, "timestamp": "2026-11-30T10:00:00Z",
    }  # fmt: skip


@pytest.mark.case("D-41")
@pytest.mark.parametrize("dialect", ALL)
def test_streams_that_change_places_are_found_and_no_others(shared_mock_agent, dialect):
    agent = shared_mock_agent("--crosstalk", "1")
    analysts = [analyst_of(agent, dialect) for _ in range(6)]
    tags = [f"{dialect}{number}" for number in range(6)]
    question = "steps=1 step_ms=50 tokens=4 token_ms=20"
    asking = [
        gevent.spawn(analyst.ask, question, tag=tag)
        for analyst, tag in zip(analysts, tags, strict=True)
    ]
    seen = {tag: greenlet.get(timeout=10) for tag, greenlet in zip(tags, asking, strict=True)}
    for analyst in analysts:
        analyst.close()
    told = [turn for turn in agent.truth() if turn["tag"] in tags]
    by_id = {turn["id"]: turn["tag"] for turn in told}
    crossed = {turn["tag"]: by_id[turn["crossed"]] for turn in told if turn["crossed"]}
    assert crossed, "no two of six changed places"
    for tag, record in seen.items():
        assert record.tag_seen == crossed.get(tag, tag)
        assert end(record) == ((Outcome.FAILED, Cause.ISOLATION) if tag in crossed else OK)
