"""The mock's WebSocket: what NAT does to a client that breaks, returns, repeats itself or logs in.

Whole conversations are compared with recordings in ``test_mock_recordings``.
"""

from __future__ import annotations

import json
from itertools import count
from time import sleep
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.conftest import MockAgent, StartMock

_NAMES = count(1)
_SILENCE_S = 0.25


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent()


@pytest.fixture
def name() -> str:
    """A conversation that no other test uses."""
    return f"ws-{next(_NAMES)}"


def open_socket(agent: MockAgent, query: str = "") -> ClientConnection:
    return connect(f"ws://{agent.host}:{agent.port}/websocket{query}", compression=None)


def ask(client: ClientConnection, text: str, turn: str, conversation: str | None) -> None:
    part = {"type": "text", "text": text}
    message = {
        "type": "user_message",
        "schema_type": "chat_stream",
        "id": turn,
        "conversation_id": conversation,
        "content": {"messages": [{"role": "user", "content": [part]}]},
    }
    client.send(json.dumps(message))


def reply(client: ClientConnection, text: str) -> None:
    part = {"type": "text", "text": text}
    content = {"messages": [{"role": "user", "content": [part]}]}
    client.send(json.dumps({"type": "user_interaction_message", "content": content}))


def login(client: ClientConnection, token: str) -> dict[str, Any]:
    payload = {"method": "api_key", "token": token}
    client.send(json.dumps({"type": "auth_message", "payload": payload}))
    return dict(json.loads(client.recv(timeout=3)))


def until(client: ClientConnection, mark: str) -> list[dict[str, Any]]:
    """Messages up to the first that holds ``mark``."""
    messages = []
    while True:
        text = str(client.recv(timeout=5))
        messages.append(json.loads(text))
        if mark in text:
            return messages


def silent(client: ClientConnection) -> bool:
    """Whether nothing comes for a while."""
    try:
        client.recv(timeout=_SILENCE_S)
    except TimeoutError:
        return True
    return False


def close_of(client: ClientConnection) -> int:
    """Read to the close; its code, 1006 without a close frame."""
    while True:
        try:
            client.recv(timeout=3)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006


def truth_of(agent: MockAgent, turn: str) -> dict[str, Any]:
    for _ in range(300):
        for line in agent.truth():
            if line["id"] == turn:
                return line
        sleep(0.01)
    raise AssertionError(f"no truth about {turn}")


PROMPT = "system_interaction_message"
COMPLETE = '"status":"complete"'


def test_truth_of_a_turn_on_a_socket(agent: MockAgent, name: str) -> None:
    with open_socket(agent) as client:
        ask(client, "steps=1 step_ms=20 tokens=2 token_ms=20 hitl=text tag=t", name, name)
        until(client, PROMPT)
        reply(client, "2024")
        messages = until(client, COMPLETE)
    answer = "".join(
        m["content"].get("text") or "" for m in messages if m["type"] == "system_response_message"
    )
    assert answer == "[hitl text:2024] w0 w1 tag=t"
    truth = truth_of(agent, name)
    assert (truth["transport"], truth["route"]) == ("ws", "/websocket")
    assert (truth["conversation"], truth["tag"]) == (name, "t")
    assert (truth["outcome"], truth["chunks"], truth["steps"]) == ("completed", 4, 4)
    times = ["received_ns", "slot_ns", "first_step_ns", "first_progress_ns"]
    times += ["first_answer_ns", "last_answer_ns", "ended_ns"]
    assert [truth[t] for t in times] == sorted(truth[t] for t in times)


@pytest.mark.parametrize(
    ("word", "code", "outcome"),
    [("drop_ws=2", 1006, "cut"), ("cut=2", 1006, "cut"), ("eof=2", 1000, "eof")],
)
def test_a_socket_breaks_after_so_many_chunks(
    agent: MockAgent, name: str, word: str, code: int, outcome: str
) -> None:
    with open_socket(agent) as client:
        ask(client, f"steps=0 tokens=4 token_ms=5 {word}", name, name)
        until(client, '"w1 "')
        assert close_of(client) == code
    truth = truth_of(agent, name)
    assert (truth["outcome"], truth["chunks"]) == (outcome, 2)


def test_a_stall_ends_with_its_socket(agent: MockAgent, name: str) -> None:
    with open_socket(agent) as client:
        ask(client, "steps=0 tokens=4 token_ms=5 stall=1", name, name)
        until(client, '"w0 "')
        assert silent(client)
    assert truth_of(agent, name)["outcome"] == "client_gone"


def test_a_second_question_cancels_the_first_without_a_word(agent: MockAgent, name: str) -> None:
    with open_socket(agent) as client:
        ask(client, "steps=0 tokens=50 token_ms=20", f"{name}-1", name)
        until(client, '"w1 "')
        ask(client, "steps=0 tokens=1 tag=second", f"{name}-2", name)
        messages = until(client, COMPLETE)
    assert messages[-1]["parent_id"] == f"{name}-2"
    assert "error_message" not in {m["type"] for m in messages}
    assert truth_of(agent, f"{name}-1")["outcome"] == "cancelled"
    assert truth_of(agent, f"{name}-2")["outcome"] == "completed"


def test_a_running_turn_speaks_in_the_name_of_the_last_message(agent: MockAgent, name: str) -> None:
    unusable = {
        "type": "user_message",
        "schema_type": "generate",
        "id": f"{name}-2",
        "content": {"messages": []},
    }
    with open_socket(agent) as client:
        ask(client, "steps=0 tokens=4 token_ms=80", f"{name}-1", name)
        until(client, '"w0 "')
        client.send(json.dumps(unusable))
        messages = until(client, COMPLETE)
    named = {m["parent_id"] for m in messages if m["type"] == "system_response_message"}
    assert f"{name}-2" in named
    assert messages[-1]["parent_id"] == f"{name}-2"


@pytest.mark.parametrize("hitl", ["", "hitl=text"], ids=["unasked", "duplicate"])
def test_a_reply_that_nobody_waits_for_kills_the_socket(
    agent: MockAgent, name: str, hitl: str
) -> None:
    with open_socket(agent) as client:
        ask(client, f"steps=0 {hitl} tokens=20 token_ms=30", name, name)
        until(client, PROMPT if hitl else '"w0 "')
        if hitl:
            reply(client, "one")
        reply(client, "two")
        assert close_of(client) == 1006
    assert truth_of(agent, name)["outcome"] == "client_gone", "noticed at the next send"


@pytest.mark.parametrize("text", ["{not json", "[1]", "5", '"x"', b"\x00"])
def test_what_is_no_json_object_kills_the_socket(agent: MockAgent, text: str | bytes) -> None:
    with open_socket(agent) as client:
        client.send(text)
        assert close_of(client) == 1006


@pytest.mark.parametrize("path", ["/nothing", "/websocket?session=a%20b"])
def test_a_handshake_is_refused_with_403(agent: MockAgent, path: str) -> None:
    with (
        pytest.raises(InvalidStatus) as caught,
        connect(f"ws://{agent.host}:{agent.port}{path}", compression=None),
    ):
        raise AssertionError("the handshake was accepted")
    assert caught.value.response.status_code == 403


def test_resuming_repeats_the_prompt_under_a_new_id_any_number_of_times(
    agent: MockAgent, name: str
) -> None:
    query = f"?session={name}&conversation_id={name}"
    with open_socket(agent, f"?session={name}") as client:
        ask(client, "steps=0 tokens=1 hitl=text", name, name)
        ids = [until(client, PROMPT)[-1]["id"]]
    for _ in range(2):
        with open_socket(agent, query) as client:
            ids.append(until(client, PROMPT)[0]["id"])
    with open_socket(agent, query) as client:
        until(client, PROMPT)
        reply(client, "2024")
        assert until(client, COMPLETE)[0]["content"]["text"] == "[hitl text:2024] "
    assert len(set(ids)) == 3
    assert truth_of(agent, name)["outcome"] == "completed"
    events = [x["event"] for x in agent.sockets() if x["conversation"] == name]
    assert events.count("prompt_again") == 3


def test_resuming_after_a_login_message(agent: MockAgent, name: str) -> None:
    with open_socket(agent) as client:
        assert login(client, name)["status"] == "success"
        ask(client, "steps=0 tokens=1 hitl=radio", name, name)
        until(client, PROMPT)
    with open_socket(agent, f"?conversation_id={name}") as client:
        assert silent(client), "nobody is known yet"
        assert login(client, name)["type"] == "auth_response_message"
        until(client, PROMPT)
        reply(client, "sms")
        until(client, COMPLETE)


@pytest.mark.parametrize("how", ["silent", "spoken"])
def test_a_turn_survives_a_lost_socket_only_while_it_says_nothing(
    agent: MockAgent, name: str, how: str
) -> None:
    words = "steps=1 step_ms=600 step_kind=none" if how == "silent" else "steps=6 step_ms=100"
    with open_socket(agent, f"?session={name}") as client:
        ask(client, f"{words} tokens=1 tag=t", name, name)
        until(client, "Function Start: <workflow>")
    sleep(0.25)
    with open_socket(agent, f"?session={name}&conversation_id={name}") as client:
        if how == "silent":
            assert until(client, COMPLETE)[0]["content"]["text"] == "w0 "
        else:
            assert silent(client)
    outcome = "completed" if how == "silent" else "client_gone"
    assert truth_of(agent, name)["outcome"] == outcome


def test_a_new_socket_takes_the_stream_over_from_an_open_one(agent: MockAgent, name: str) -> None:
    with open_socket(agent, f"?session={name}") as first:
        ask(first, "steps=0 tokens=40 token_ms=15", name, name)
        until(first, '"w1 "')
        with open_socket(agent, f"?session={name}&conversation_id={name}") as second:
            until(second, COMPLETE)
            while not silent(first):
                pass
        assert first.ping().wait(2), "the old socket stays open"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("?session={0}", "?session={0}-other&conversation_id={0}"),
        ("?session={0}", "?conversation_id={0}"),
        ("?session={0}", "?session={0}&conversation_id={0}-wrong"),
        ("", "?session={0}&conversation_id={0}"),
    ],
    ids=["other identity", "no identity", "wrong conversation", "begun anonymously"],
)
def test_nobody_else_gets_the_prompt(agent: MockAgent, name: str, first: str, second: str) -> None:
    with open_socket(agent, first.format(name)) as client:
        ask(client, "steps=0 hitl=text", name, name)
        until(client, PROMPT)
    with open_socket(agent, second.format(name)) as client:
        assert silent(client)


def test_an_identity_is_required_before_the_question(mock_agent: StartMock) -> None:
    agent = mock_agent("--require-auth")
    with open_socket(agent) as client:
        ask(client, "steps=0 tokens=0", "m1", "c1")
        error, complete = until(client, COMPLETE)
        assert (error["type"], error["content"]["code"]) == ("error_message", "user_auth_error")
        assert (error["parent_id"], complete["parent_id"]) == ("m1", "m1")
        assert login(client, "secret-token")["status"] == "success"
        ask(client, "steps=0 tokens=0", "m2", "c1")
        until(client, COMPLETE)
    assert [x["outcome"] for x in agent.await_turns(2)] == ["refused", "completed"]
    log = agent.sockets()
    assert [x["event"] for x in log[:4]] == [
        "connect",
        "user_message",
        "auth_message",
        "user_message",
    ]
    assert [x.get("authenticated") for x in log if x["event"] == "user_message"] == [False, True]
    assert [x["ns"] for x in log] == sorted(x["ns"] for x in log)
    assert "secret-token" not in json.dumps([log, agent.truth()])


def test_every_login_is_rejected_on_request(mock_agent: StartMock) -> None:
    agent = mock_agent("--reject-auth")
    with open_socket(agent) as client:
        answer = login(client, "key")
        assert (answer["status"], answer["user_id"]) == ("error", None)
        assert answer["payload"]["code"] == "user_auth_error"
    assert [x["ok"] for x in agent.sockets() if x["event"] == "auth_message"] == [False]


def test_both_transports_share_the_slots(mock_agent: StartMock) -> None:
    agent = mock_agent("--slots", "1")
    with open_socket(agent) as first, open_socket(agent) as second:
        ask(first, "steps=0 hitl=text", "m1", "c1")
        until(first, PROMPT)
        ask(second, "steps=0 tokens=0", "m2", "c2")
        assert silent(second)
        reply(first, "x")
        until(first, COMPLETE)
        until(second, COMPLETE)
    assert [x["id"] for x in agent.await_turns(2)] == ["m1", "m2"]


def test_a_close_is_logged_with_its_code(mock_agent: StartMock) -> None:
    agent = mock_agent()
    with open_socket(agent) as client:
        client.close(code=1001)
    for _ in range(100):
        closed = [x for x in agent.sockets() if x["event"] == "close"]
        if closed:
            break
        sleep(0.01)
    assert [x["code"] for x in closed] == [1001]
