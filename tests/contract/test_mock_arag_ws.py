"""The mock's Progress Agentic RAG socket: turns, what breaks them, replies, sessions, returns.

Whole conversations are compared with a real server's in ``test_mock_recordings_arag``.
"""

from __future__ import annotations

import json
import socket
import struct
from time import sleep

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.conftest import MockAgent, StartMock
from tests.contract.arag_client import (
    NAMES,
    SILENCE_S,
    Frame,
    ask,
    converse,
    listen,
    open_socket,
    reply,
    tagged,
)

FAST = "steps=1 step_ms=1 token_ms=1 tokens=4"
PLAIN = "start step context source chunk possible_answer step answer done"


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent()


@pytest.fixture(scope="module")
def documented(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent("--edition", "documented")


@pytest.fixture
def name() -> str:
    """A session and a tag that no other test uses."""
    return f"arag-{next(NAMES)}"


@pytest.mark.parametrize(
    ("words", "shape", "end", "outcome"),
    [
        ("", PLAIN, 1000, "completed"),
        ("reasoning=2", PLAIN.replace("source", "reasoning source"), 1000, "completed"),
        ("cut=2", "start step context source chunk", 1006, "cut"),
        ("cut=2 reset=1", "start step context source chunk", 1006, "cut"),
        ("drop_ws=0", "start step context source", 1006, "cut"),
        ("cut=0 break_at=open", "", 1006, "cut"),
        ("cut=0 break_at=open reset=1", "", 1006, "cut"),
        ("cut=0 break_at=start", "start", 1006, "cut"),
        ("cut=0 break_at=close", PLAIN, 1006, "completed"),
        ("eof=3 close_code=1011", "start step context source chunk", 1011, "eof"),
        ("eof=0 break_at=open", "", 1000, "eof"),
        ("eof=0 break_at=done", PLAIN.removesuffix(" done"), 1000, "eof"),
        ("eof=0 break_at=close close_code=1012", PLAIN, 1012, "completed"),
        ("stall=1", "start step context source chunk", None, "client_gone"),
        ("stall=0 break_at=start", "start", None, "client_gone"),
        ("stall=0 break_at=close", PLAIN, None, "completed"),
        ("fail=start", "start error done", 1000, "failed"),
        ("fail=mid", "start step context source chunk error done", 1000, "failed"),
        ("fail=timeout", "start step context error done", 1000, "failed"),
        ("fail=activation", "error done", 1000, "failed"),
        ("fail=silent", "start step context error", 1000, "failed"),
        ("fail=start eof=0 break_at=done", "start error", 1000, "eof"),
        ("fail=start stall=0 break_at=done", "start error", None, "client_gone"),
    ],
)
def test_a_turn_goes_as_its_words_say(
    agent: MockAgent, name: str, words: str, shape: str, end: int | None, outcome: str
) -> None:
    heard = converse(agent, f"{FAST} {words} tag={name}", silence_s=0.5 if end is None else 5)
    assert (heard.shape, heard.end) == (shape, end)
    truth = tagged(agent, name)
    assert (truth["outcome"], truth["transport"]) == (outcome, "arag-ws")
    assert truth["chunks"] == len(heard.chunks)


def test_a_reset_is_one(agent: MockAgent) -> None:
    """On a plain socket: a FIN would be an empty read."""
    with socket.create_connection((agent.host, agent.port), timeout=5) as plain:
        plain.sendall(
            b"GET /api/v1/agent/agent-0001/session/ephemeral/ws HTTP/1.1\r\nHost: x\r\n"
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert plain.recv(4096).startswith(b"HTTP/1.1 101")
        question = json.dumps({"question": "cut=0 break_at=open reset=1"}).encode()
        plain.sendall(struct.pack("!BB4x", 0x81, 0x80 | len(question)) + question)
        with pytest.raises(ConnectionResetError):
            plain.recv(4096)


@pytest.mark.parametrize(
    ("words", "streaming", "chunks", "answer"),
    [
        ("", True, 5, "w0 w1 w2 w3 end"),
        ("", False, 0, "w0 w1 w2 w3 end"),
        ("drop_chunks=2", True, 3, "w0 w1 w2 w3 end"),
        ("drop_chunks=99", True, 0, "w0 w1 w2 w3 end"),
        ("agents=2", True, 10, "v0 v1 v2 v3 end"),
        ("restarts=2", True, 15, "w0 w1 w2 w3 end"),
        ("burst=3", True, 5, "w0 w1 w2 w3 end"),
        ("hold_ms=50", True, 5, "w0 w1 w2 w3 end"),
    ],
)
def test_chunks_come_if_asked_for_and_the_answer_comes_whole(
    agent: MockAgent, words: str, streaming: bool, chunks: int, answer: str
) -> None:
    heard = converse(agent, f"{FAST} {words}", streaming=streaming)
    assert len(heard.chunks) == chunks
    assert heard.answer is not None
    assert heard.answer.startswith(f"{answer} [1]")
    assert heard.shape.endswith("answer done")


def test_chunks_of_several_agents_are_told_apart_at_their_start_only(agent: MockAgent) -> None:
    heard = converse(agent, f"{FAST} agents=2 tokens=1")
    assert heard.parts("agent_request") == ["summarize@/generation/0", "summarize@/generation/1"]
    assert [chunk[:2] for chunk in heard.chunks] == ["w0", "v0", "en", "en"]
    assert len(heard.parts("possible_answer")) == 2


@pytest.mark.parametrize(("words", "resolved"), [("", True), ("lost_context=1", False)])
def test_citations_lead_to_a_context_unless_it_was_lost(
    agent: MockAgent, words: str, resolved: bool
) -> None:
    heard = converse(agent, f"{FAST} {words}")
    cited = [c["context_id"] for c in heard.parts("answer_citations")[-1]["metadata"].values()]
    shown = [context["id"] for context in heard.parts("context")]
    assert (cited[0] in shown) is resolved


def test_contexts_can_be_larger_than_a_mebibyte_and_charts_are_counted(agent: MockAgent) -> None:
    heard = converse(agent, f"{FAST} big_kb=1500 visualizations=2")
    assert len(heard.parts("context")[0]["chunks"][0]["text"]) == 1500 * 1024
    assert len(heard.frames[-2]["data_visualizations"]) == 2


@pytest.mark.parametrize(
    ("message", "detail", "before"),
    [
        ({"operation": 0}, "Invalid request payload", True),
        ({"request_id": "x", "response": "y"}, "Invalid request payload", True),
        ({"question": "x"}, "Unexpected message from user", False),
        ({"request_id": "x", "response": "y"}, "Unexpected message from user", False),
        ({"question": "", "operation": 1}, "Unexpected message from user", False),
    ],
)
def test_bad_and_unexpected_messages_end_nothing(
    agent: MockAgent, message: Frame, detail: str, before: bool
) -> None:
    with open_socket(agent) as client:
        if before:
            client.send(json.dumps(message))
            ask(client, FAST)
        else:
            ask(client, f"{FAST} first_ms=200")
            client.send(json.dumps(message))
        heard = listen(client)
    assert heard.errors == [detail]
    assert heard.shape.endswith("answer done")
    assert heard.end == 1000


@pytest.mark.parametrize("message", ["{", b'{"question":"x"}', ""])
def test_what_is_no_json_ends_the_socket_but_not_a_turn(
    agent: MockAgent, message: str | bytes
) -> None:
    with open_socket(agent) as client:
        client.send(message)
        assert (listen(client).frames, listen(client).end) == ([], 1000)
    with open_socket(agent, query="?keep_open=true") as client:
        ask(client, f"{FAST} first_ms=100")
        client.send(message)
        heard = listen(client)
    assert (heard.shape, heard.end) == (PLAIN, 1000)


def test_what_is_no_json_ends_the_socket_while_a_reply_is_waited_for(agent: MockAgent) -> None:
    with open_socket(agent) as client:
        ask(client, f"{FAST} feedback=1")
        listen(client, until="ask")
        client.send("{")
        assert listen(client).end == 1000


@pytest.mark.parametrize(
    "kind", ["string", "enum", "number", "integer", "boolean", "array", "object", "tool", "free"]
)
def test_a_reply_is_taken_whatever_its_request_id(agent: MockAgent, name: str, kind: str) -> None:
    heard = converse(agent, f"{FAST} feedback={kind} tag={name}", lambda frame: '{"x": 1}')
    (asked,) = heard.parts("feedback")
    assert asked["request_id"] == "ephemeral"
    assert asked["timeout_ms"] == 10_000
    steps = {step["title"]: step["value"] for step in heard.parts("step")}
    assert steps["Smart: User feedback"] == '{"x": 1}'
    (prompt,) = tagged(agent, name)["prompts"]
    assert prompt["kind"] == kind
    assert prompt["sent_ns"] < prompt["answered_ns"]


@pytest.mark.parametrize(
    "message",
    [
        {"request_id": "x", "response": {"a": 1}},
        {"response": "x"},
        {"question": "", "operation": 1},
        {"request_id": "x", "existing_credentials": {"u": "t"}},
    ],
)
def test_a_bad_reply_is_refused_and_the_good_one_still_taken(
    agent: MockAgent, message: Frame
) -> None:
    with open_socket(agent) as client:
        ask(client, f"{FAST} feedback=1")
        listen(client, until="ask")
        client.send(json.dumps(message))
        assert listen(client, until="error").errors == ["Invalid request payload"]
        reply(client, "2024")
        heard = listen(client)
    assert heard.shape.endswith("answer done")


def test_frames_are_withheld_after_the_timeout_until_a_late_reply(
    agent: MockAgent, name: str
) -> None:
    with open_socket(agent) as client:
        ask(client, f"{FAST} feedback=1 feedback_timeout=0.1 tag={name}")
        listen(client, until="ask")
        assert listen(client, silence_s=0.6).frames == []
        running = [turn for turn in agent.truth(running=True) if turn["tag"] == name]
        assert running[0]["outcome"] == "running"
        reply(client, "too late")
        heard = listen(client)
    assert heard.parts("step")[0]["value"] == "(No response received)"
    assert (heard.shape.split()[-1], heard.end) == ("done", 1000)
    assert tagged(agent, name)["outcome"] == "completed"


def test_a_client_that_leaves_while_frames_are_withheld_frees_the_turn(
    agent: MockAgent, name: str
) -> None:
    with open_socket(agent) as client:
        ask(client, f"{FAST} feedback=1 feedback_timeout=0.1 tag={name}")
        listen(client, until="ask")
    assert tagged(agent, name)["outcome"] == "client_gone"


def test_by_the_documentation_the_agent_goes_on_in_sight(documented: MockAgent) -> None:
    with open_socket(documented, query="?keep_open=false") as client:
        ask(client, f"{FAST} feedback=1 feedback_timeout=0.1")
        heard = listen(client)
        assert heard.parts("step")[1]["value"] == "(No response received)"
    assert (heard.shape.split()[-1], heard.end) == ("done", 1000)
    assert all("answer_urls" not in frame for frame in heard.frames)


@pytest.mark.parametrize("words", ["hitl=radio,text", "feedback=enum,string"])
def test_questions_are_asked_in_turn(agent: MockAgent, words: str) -> None:
    heard = converse(agent, f"{FAST} {words}", lambda frame: "x")
    assert [asked["question"] for asked in heard.parts("feedback")] == [
        "Which of these policy years?",
        "Which policy year?",
    ]


def test_a_second_question_of_the_agent_is_withheld_with_all_else(agent: MockAgent) -> None:
    with open_socket(agent) as client:
        ask(client, f"{FAST} feedback=enum,string feedback_timeout=0.1")
        listen(client, until="ask")
        assert listen(client, silence_s=SILENCE_S).frames == []
        reply(client, "late")
        assert listen(client, until="ask").shape == "step ask"
        reply(client, "second")
        assert listen(client).shape.endswith("answer done")


def test_an_open_socket_takes_the_next_question_behind_done(agent: MockAgent) -> None:
    with open_socket(agent, query="?keep_open=true") as client:
        for _ in range(2):
            ask(client, FAST)
            assert listen(client, until="done").shape == PLAIN
        assert listen(client, silence_s=SILENCE_S).end is None


@pytest.mark.parametrize(("edition", "shape"), [("server", PLAIN), ("documented", "quit")])
def test_quit_is_a_question_on_the_server_and_an_end_in_the_documentation(
    shared_mock_agent: StartMock, edition: str, shape: str
) -> None:
    mock = shared_mock_agent("--edition", edition, "--arag-reference")
    with open_socket(mock) as client:
        client.send(json.dumps({"question": "", "operation": 1, "streaming": True}))
        heard = listen(client)
    assert (heard.shape, heard.end) == (shape, 1000)


def test_by_the_documentation_quit_cancels_the_turn(documented: MockAgent, name: str) -> None:
    with open_socket(documented) as client:
        ask(client, f"{FAST} feedback=1 tag={name}")
        listen(client, until="ask")
        client.send(json.dumps({"question": "", "operation": 1}))
        heard = listen(client)
    assert (heard.shape, heard.end) == ("quit", 1000)
    assert tagged(documented, name)["outcome"] == "cancelled"


def test_a_turn_that_is_cancelled_before_it_begins_is_in_the_truth(
    documented: MockAgent, name: str
) -> None:
    with open_socket(documented) as client:
        ask(client, f"{FAST} tag={name}")
        client.send(json.dumps({"question": "", "operation": 1}))
        assert listen(client).frames[-1]["operation"] == 1
    assert tagged(documented, name)["outcome"] in ("cancelled", "completed")


@pytest.mark.parametrize(
    ("history", "before", "expected"),
    [(None, 0, 0), (None, 2, 2), ([], 2, 0), ([{"question": "a", "answer": "b"}], 2, 1)],
)
def test_history_is_the_clients_or_the_sessions(
    agent: MockAgent, name: str, history: list[Frame] | None, before: int, expected: int
) -> None:
    for question in [FAST] * before + ["#history"]:
        with open_socket(agent, name) as client:
            asked = {"chat_history": history} if question == "#history" else {}
            ask(client, question, **asked)
            answer = listen(client).answer
    assert answer == f"history entries: {expected}"


def test_an_ephemeral_session_remembers_nothing(agent: MockAgent) -> None:
    assert converse(agent, FAST).end == 1000
    assert converse(agent, "#history").answer == "history entries: 0"


@pytest.mark.parametrize(
    ("query", "workflow", "detail"),
    [
        ("?workflow_id=ask", None, None),
        ("", "ask", None),
        ("?workflow_id=nope", None, "Failed to verify agent configuration: Workflow not found"),
        ("", "nope", "Failed to verify agent configuration: Workflow not found"),
    ],
)
def test_the_workflow_is_in_the_path_or_the_query(
    agent: MockAgent, query: str, workflow: str | None, detail: str | None
) -> None:
    with open_socket(agent, query=query, workflow=workflow) as client:
        if detail is None:
            ask(client, FAST)
            assert listen(client).shape == PLAIN
        else:
            heard = listen(client)
            assert (heard.errors, heard.end) == ([detail], 1000)


@pytest.mark.parametrize("query", ["?keep_open=perhaps", "?create_session_if_not_exists=x"])
def test_a_flag_that_is_none_refuses_the_upgrade(agent: MockAgent, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused, open_socket(agent, query=query):
        pass
    assert refused.value.response.status_code == 403


def test_a_turn_can_end_with_its_client(shared_mock_agent: StartMock, name: str) -> None:
    mock = shared_mock_agent("--arag-stop-on-leave")
    with open_socket(mock) as client:
        ask(client, f"{FAST} first_ms=60000 tag={name}")
        listen(client, until="start")
    truth = tagged(mock, name)
    assert truth["outcome"] == "client_gone"
    assert truth["first_progress_ns"] is None


def test_a_client_gets_the_frames_that_it_missed(shared_mock_agent: StartMock, name: str) -> None:
    mock = shared_mock_agent("--arag-resume")
    question = f"{FAST} token_ms=50 tag={name}"
    with open_socket(mock, name) as client:
        ask(client, question)
        first = listen(client, until="context")
    last = first.frames[-1]["seqid"]
    sleep(0.1)
    with open_socket(mock, name, f"?from_cursor={last + 1}") as client:
        ask(client, question)
        second = listen(client)
    seen = [frame["seqid"] for frame in first.frames + second.frames]
    assert seen == list(range(1, len(seen) + 1))
    assert (second.shape.split()[-1], second.end) == ("done", 1000)
    assert [turn["tag"] for turn in mock.truth()].count(name) == 1


def test_a_cursor_means_nothing_to_the_published_server(agent: MockAgent, name: str) -> None:
    question = f"{FAST} tag={name}"
    for query in ("", "?from_cursor=3"):
        with open_socket(agent, name, query) as client:
            ask(client, question)
            assert listen(client).shape == PLAIN


def test_a_break_happens_once_to_a_question_that_is_asked_again(agent: MockAgent) -> None:
    question = f"{FAST} cut=1 once=1 tag=arag-once-{next(NAMES)}"
    assert [converse(agent, question).end for _ in range(2)] == [1006, 1000]


def test_turns_of_both_families_share_the_slots(shared_mock_agent: StartMock, name: str) -> None:
    mock = shared_mock_agent("--slots", "1")
    with open_socket(mock) as first, open_socket(mock) as second:
        ask(first, f"{FAST} first_ms=300")
        listen(first, until="start")
        ask(second, f"{FAST} tag={name}")
        assert listen(second, silence_s=0.1).frames == []
        assert listen(second).shape == PLAIN
    truth = tagged(mock, name)
    assert truth["slot_ns"] - truth["received_ns"] > 50_000_000


def test_a_stopped_mock_ends_turns_and_sockets(mock_agent: StartMock) -> None:
    mock = mock_agent()
    with open_socket(mock) as client:
        ask(client, f"{FAST} first_ms=60000")
        listen(client, until="start")
        assert mock.stop() == 0
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=5)
