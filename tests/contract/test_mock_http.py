"""The mock's chat streams over real sockets: times, faults, slots, prompts, truth."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import httpx
import pytest

from loadgen.clock import NS_PER_MS, now_ns
from tests.conftest import MockAgent, StartMock

_TURNS = count(1)
_LATE_MS = 150
"""How late a busy test machine may make a frame; none may be early."""


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent()


class Stream:
    """A question asked over a raw socket; what arrives is kept with its time."""

    def __init__(
        self, agent: MockAgent, question: str, route: str = "/v1/chat/stream", headers: str = ""
    ) -> None:
        self.turn = f"http-{next(_TURNS)}"
        self.agent = agent
        body = json.dumps({"messages": [{"role": "user", "content": question}]}).encode()
        self.client = socket.create_connection((agent.host, agent.port), timeout=5)
        head = (
            f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"User-Message-Id: {self.turn}\r\nConversation-Id: c-{self.turn}\r\n{headers}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.asked_ns = now_ns()
        self.client.sendall(head.encode() + body)
        self.reads: list[tuple[int, bytes]] = []

    def until(self, mark: bytes) -> int:
        """Read until ``mark`` has come; when it did, in ms after the question."""
        while mark not in self.bytes:
            data = self.client.recv(1 << 16)
            assert data, f"the connection ended before {mark!r} came: {self.bytes!r}"
            self.reads.append((now_ns(), data))
        return (self.reads[-1][0] - self.asked_ns) // NS_PER_MS

    def rest(self) -> bytes:
        """Read to the end of the connection; all that came."""
        while data := self.client.recv(1 << 16):
            self.reads.append((now_ns(), data))
        return self.bytes

    @property
    def bytes(self) -> bytes:
        """All that came so far."""
        return b"".join(data for _, data in self.reads)

    def truth(self) -> dict[str, Any]:
        """The mock's line about this turn."""
        limit_ns = now_ns() + 3_000 * NS_PER_MS
        while now_ns() < limit_ns:
            for line in self.agent.truth():
                if line["id"] == self.turn:
                    return line
        raise AssertionError(f"no truth about {self.turn}")


@contextmanager
def asking(agent: MockAgent, question: str, **how: str) -> Iterator[Stream]:
    """Ask ``question``; close the connection at the end."""
    stream = Stream(agent, question, **how)
    with closing(stream.client):
        yield stream


def on_time(at_ms: int, due_ms: int) -> bool:
    """Whether something due came neither early nor much later."""
    return due_ms <= at_ms <= due_ms + _LATE_MS


@pytest.mark.case("D-08")
def test_first_step_and_first_answer_come_when_the_script_says(agent: MockAgent) -> None:
    timeline = (
        "first_ms=200 steps=1 step_ms=300 think_ms=250 tokens=2 token_ms=50 role_chunk=1 role_ms=40"
    )
    with asking(agent, timeline) as stream:
        synthetic = stream.until(b"Function Start: <workflow>")
        role = stream.until(b'"role":"assistant"')
        step = stream.until(b'"name":"Tool: search"')
        answer = stream.until(b'"content":"w0 "')
        stream.until(b"0\r\n\r\n")
    assert synthetic <= _LATE_MS
    assert on_time(role, 40)
    assert on_time(step, 200)
    assert on_time(answer, 800), "the role chunk must not consume the delay"
    truth = stream.truth()
    assert truth["outcome"] == "completed"
    assert (truth["steps"], truth["chunks"]) == (4, 3)
    offsets = [
        (truth[name] - truth["slot_ns"]) / NS_PER_MS
        for name in ("first_progress_ns", "first_answer_ns", "last_answer_ns")
    ]
    assert all(on_time(int(at), due) for at, due in zip(offsets, (200, 800, 850), strict=True))
    assert truth["received_ns"] <= truth["slot_ns"] <= truth["first_step_ns"]
    assert truth["last_answer_ns"] <= truth["ended_ns"]


def test_the_truth_is_near_to_what_the_client_saw(agent: MockAgent) -> None:
    with asking(agent, "steps=0 tokens=1 token_ms=60 tag=near") as stream:
        stream.until(b'"content":"w0 "')
        arrived_ns = stream.reads[-1][0]
        stream.until(b"0\r\n\r\n")
    truth = stream.truth()
    assert truth["tag"] == "near"
    assert truth["conversation"] == f"c-{stream.turn}"
    assert truth["transport"] == "sse"
    assert truth["route"] == "/v1/chat/stream"
    assert abs(arrived_ns - truth["first_answer_ns"]) < _LATE_MS * NS_PER_MS


def test_keep_alives_are_comments_and_nothing_else(agent: MockAgent) -> None:
    with asking(agent, "steps=0 tokens=1 think_ms=200 keepalive_ms=30") as stream:
        first = stream.until(b": ping\n\n")
        stream.until(b"0\r\n\r\n")
    assert first >= 30
    assert 4 <= stream.bytes.count(b": ping\n\n") <= 8
    assert stream.truth()["steps"] == 2


def test_a_burst_arrives_in_one_piece(agent: MockAgent) -> None:
    with asking(agent, "steps=0 tokens=5 token_ms=20 burst=4") as stream:
        stream.until(b"0\r\n\r\n")
    assert any(b'"w0 "' in data and b'"w3 "' in data for _, data in stream.reads), (
        "the chunks of the burst came apart"
    )
    assert stream.truth()["last_answer_ns"] > stream.truth()["first_answer_ns"]


def test_what_is_held_back_counts_when_it_is_delivered(agent: MockAgent) -> None:
    with asking(agent, "steps=1 step_ms=10 tokens=3 hold_ms=250") as stream:
        held = stream.until(b'"content":"w0 "')
        stream.until(b"0\r\n\r\n")
    assert on_time(held, 250)
    truth = stream.truth()
    assert (truth["first_answer_ns"] - truth["slot_ns"]) >= 250 * NS_PER_MS


@pytest.mark.parametrize(
    ("word", "outcome", "clean"),
    [("cut=2", "cut", False), ("cut=0", "cut", False), ("eof=2", "eof", True)],
)
def test_a_stream_breaks_off_after_so_many_chunks(
    agent: MockAgent, word: str, outcome: str, clean: bool
) -> None:
    with asking(
        agent, f"steps=0 tokens=4 token_ms=5 {word}", headers="Connection: close\r\n"
    ) as stream:
        said = stream.rest()
    assert said.count(b'"content":"w') == int(word[-1])
    assert said.endswith(b"0\r\n\r\n") is clean
    assert b"Function Complete" not in said
    truth = stream.truth()
    assert (truth["outcome"], truth["chunks"]) == (outcome, int(word[-1]))


def test_a_stalled_stream_stays_open_until_its_client_leaves(agent: MockAgent) -> None:
    with asking(agent, "steps=0 tokens=4 token_ms=5 stall=2") as stream:
        stream.until(b'"content":"w1 "')
        stream.client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stream.client.recv(1)
    assert stream.truth()["outcome"] == "client_gone"


def test_an_error_inside_the_stream_is_followed_by_done(agent: MockAgent) -> None:
    with asking(
        agent, "steps=0 tokens=4 token_ms=5 inband_error=1", headers="Connection: close\r\n"
    ) as stream:
        said = stream.rest()
    assert said.count(b'"content":"w') == 2
    assert said.index(b'data: {"error":') < said.index(b"data: [DONE]\n\n")
    assert said.endswith(b"0\r\n\r\n")
    assert stream.truth()["outcome"] == "failed"


@pytest.mark.parametrize(
    ("word", "status", "headers"),
    [
        ("status=503", 503, {"retry-after": "1", "content-type": "application/json"}),
        ("status=429 retry_after=7", 429, {"retry-after": "7"}),
        ("status=500", 500, {}),
        ("html=1", 200, {"content-type": "text/html; charset=utf-8"}),
    ],
)
def test_a_refusal_is_answered_at_once(
    agent: MockAgent, word: str, status: int, headers: dict[str, str]
) -> None:
    turn = f"http-{next(_TURNS)}"
    answer = httpx.post(
        f"{agent.url}/v1/chat/stream",
        json={"messages": [{"role": "user", "content": word}]},
        headers={"user-message-id": turn},
    )
    assert answer.status_code == status
    assert headers.items() <= dict(answer.headers).items()
    assert [x["outcome"] for x in agent.truth() if x["id"] == turn] == ["refused"]


def test_the_legacy_route_ends_with_stop_usage_and_done(agent: MockAgent) -> None:
    with asking(agent, "steps=0 tokens=1 tail_ms=60 usage=1", route="/chat/stream") as stream:
        answer = stream.until(b'"content":"end"')
        done = stream.until(b"data: [DONE]\n\n")
    order = [b'"content":"end"', b"Function Complete", b'"stop"', b'"choices":[]', b"[DONE]"]
    places = [stream.bytes.index(mark) for mark in order]
    assert places == sorted(places)
    assert done - answer >= 50


def test_slots_are_shared_first_come_first_served(mock_agent: StartMock) -> None:
    agent = mock_agent("--slots", "1")
    streams = [Stream(agent, f"steps=0 tokens=1 think_ms=150 tag={n}") for n in range(3)]
    for stream in streams:
        stream.until(b"HTTP/1.1 200 OK")
    waits = [stream.until(b"Function Start: <workflow>") for stream in streams]
    for stream in streams:
        stream.until(b"0\r\n\r\n")
        stream.client.close()
    assert waits[0] < 100
    assert all(on_time(wait, 155 * n) for n, wait in enumerate(waits))
    assert [line["tag"] for line in agent.await_turns(3)] == ["0", "1", "2"]


def test_a_slot_is_kept_by_a_waiting_human_and_freed_by_a_leaving_one(
    mock_agent: StartMock,
) -> None:
    agent = mock_agent("--slots", "1")
    with asking(agent, "steps=0 hitl=text") as first, asking(agent, "steps=0 tokens=0") as second:
        first.until(b"event: interaction_required")
        second.until(b"HTTP/1.1 200 OK")
        second.client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            second.client.recv(1)
        assert agent.summary()["slots"] == {"total": 1, "held": 1, "waiting": 1}
        first.client.close()
        second.client.settimeout(5)
        second.until(b"0\r\n\r\n")
    assert [x["outcome"] for x in agent.await_turns(2)] == ["client_gone", "completed"]


def test_a_turn_that_leaves_the_line_frees_its_place_in_it(mock_agent: StartMock) -> None:
    agent = mock_agent("--slots", "1")
    with asking(agent, "steps=0 stall=0 tokens=1") as first:
        first.until(b"Function Start: <workflow>")
        with asking(agent, "steps=0") as second:
            second.until(b"HTTP/1.1 200 OK")
        assert agent.await_turns(1)[0]["slot_ns"] is None
    agent.await_turns(2)
    assert agent.summary()["slots"] == {"total": 1, "held": 0, "waiting": 0}


def test_each_way_to_answer_a_prompt_has_its_status(agent: MockAgent) -> None:
    good = {"response": {"type": "text", "text": "2024"}}
    with asking(agent, "steps=0 hitl=text tokens=1 token_ms=200") as stream:
        stream.until(b"event: interaction_required")
        event = stream.bytes.split(b"event: interaction_required\ndata: ")[1]
        prompt = json.loads(event.split(b"\n")[0])
        url = agent.url + prompt["response_url"]
        status = f"{agent.url}/executions/{prompt['execution_id']}"
        waiting = httpx.get(status).json()
        assert waiting["status"] == "interaction_required"
        assert waiting["response_url"] == prompt["response_url"]
        bad = {"response": {"input_type": "text", "text": "2024"}}
        assert httpx.post(url, json=bad).status_code == 422
        assert httpx.post(url, json=good).status_code == 204
        again = httpx.post(url, json=good)
        assert (again.status_code, again.json()) == (
            404,
            {
                "detail": f"'Interaction {prompt['interaction_id']} not found for execution "
                f"{prompt['execution_id']}'"
            },
        )
        assert httpx.get(status).json()["status"] == "running"
        stream.until(b"[hitl text:2024] ")
        stream.until(b"0\r\n\r\n")
        assert httpx.get(status).json()["status"] == "running"
    (prompt_truth,) = stream.truth()["prompts"]
    assert prompt_truth["kind"] == "text"
    assert prompt_truth["sent_ns"] < prompt_truth["answered_ns"]


def test_an_abandoned_prompt_still_takes_an_answer(agent: MockAgent) -> None:
    with asking(agent, "steps=0 hitl=radio") as stream:
        stream.until(b"response_url")
        stream.until(b"\n\n")
        url = stream.bytes.split(b'"response_url":"')[1].split(b'"')[0].decode()
    assert stream.truth()["outcome"] == "client_gone"
    body = {"response": {"type": "radio", "selected_option": {"value": "sms"}}}
    assert httpx.post(agent.url + url, json=body).status_code == 204


def test_a_prompt_times_out_five_seconds_late(agent: MockAgent) -> None:
    question = "steps=0 tokens=0 hitl=text hitl_timeout=1"
    failure = {
        "code": "workflow_error",
        "message": "HITL prompt timed out after 1s waiting for human response",
        "details": "TimeoutError",
    }
    with asking(agent, question) as failing, asking(agent, f"{question} hitl_catch=1") as caught:
        for stream in (failing, caught):
            stream.client.settimeout(8)
        failed = failing.until(b"event: error\ndata: ")
        assert on_time(caught.until(b"[hitl text:TIMEOUT] "), 6_000)
    assert on_time(failed, 6_000)
    assert json.loads(failing.bytes.split(b"event: error\ndata: ")[1].split(b"\n")[0]) == failure
    url = failing.bytes.split(b'"response_url":"')[1].split(b'"')[0].decode()
    late = httpx.post(agent.url + url, json={"response": {"type": "text", "text": "x"}})
    assert late.status_code == 400
    assert "has already been resolved" in late.json()["detail"]


def test_no_identity_is_refused_when_it_is_required(mock_agent: StartMock) -> None:
    agent = mock_agent("--require-auth")
    for headers, status in (
        ({}, 401),
        ({"authorization": "Bearer a.b.c"}, 401),
        ({"authorization": "Bearer key"}, 200),
        ({"x-api-key": "key"}, 200),
        ({"cookie": "nat-session=ann"}, 200),
    ):
        answer = httpx.post(
            f"{agent.url}/v1/chat/stream",
            json={"messages": [{"role": "user", "content": "steps=0 tokens=0"}]},
            headers=headers,
        )
        assert answer.status_code == status, headers
    outcomes = [line["outcome"] for line in agent.truth()]
    assert outcomes == ["refused", "refused", "completed", "completed", "completed"]


def test_running_turns_are_in_the_truth_on_request(mock_agent: StartMock) -> None:
    agent = mock_agent()
    with asking(agent, "steps=0 tokens=1 stall=1") as stream:
        stream.until(b'"content":"w0 "')
        assert agent.truth() == []
        (line,) = agent.truth(running=True)
        assert (line["outcome"], line["id"], line["chunks"]) == ("running", stream.turn, 1)
        summary = agent.summary()
        assert (summary["turns"], summary["running"]) == (1, 1)
        assert summary["connections"] >= 1
    assert agent.await_turns(1)[0]["id"] == stream.turn
    assert agent.truth(since=1) == []
