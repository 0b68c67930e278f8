"""``--edition documented``: the words of the published documents instead of the server's."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.conftest import MockAgent, StartMock

DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent("--edition", "documented")


def open_socket(agent: MockAgent) -> ClientConnection:
    return connect(f"ws://{agent.host}:{agent.port}/websocket", compression=None)


def turn(socket: ClientConnection, question: str) -> list[dict[str, Any]]:
    """All messages of a turn."""
    said = {"role": "user", "content": [{"type": "text", "text": question}]}
    message = {
        "type": "user_message",
        "schema_type": "chat_stream",
        "id": "m1",
        "content": {"messages": [said]},
    }
    socket.send(json.dumps(message))
    messages: list[dict[str, Any]] = []
    while not messages or messages[-1].get("status") not in ("completed", "failed"):
        messages.append(json.loads(socket.recv(timeout=3)))
    return messages


def test_a_turn_says_completed_and_dates_with_t_and_z(agent: MockAgent) -> None:
    with open_socket(agent) as socket:
        messages = turn(socket, "steps=1 step_ms=5 tokens=1 token_ms=5")
    assert all(DATE.fullmatch(message["timestamp"]) for message in messages)
    last = messages[-1]
    assert (last["status"], last["content"]) == ("completed", {"text": ""})
    steps = [m for m in messages if m["type"] == "system_intermediate_message"]
    assert {step["parent_id"] for step in steps} == {"m1"}
    assert steps[1]["intermediate_parent_id"] == steps[0]["id"]


def test_a_failed_turn_says_failed(agent: MockAgent) -> None:
    with open_socket(agent) as socket:
        *_, error, last = turn(socket, "steps=0 fail=start")
    assert error["type"] == "error_message"
    assert last["status"] == "failed"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{}", "invalid_message"),
        ('{"type":"what"}', "invalid_message_type"),
        (
            '{"type":"user_message","schema_type":"chat","content":"x"}',
            "invalid_user_message_content",
        ),
        ('{"type":"user_message","schema_type":"x","content":{"messages":[]}}', "invalid_message"),
        ("no json", "invalid_data_content"),
        ("[1]", "invalid_data_content"),
        (b"\x00", "invalid_data_content"),
    ],
)
def test_a_bad_message_is_answered_with_its_code(
    agent: MockAgent, message: str | bytes, code: str
) -> None:
    with open_socket(agent) as socket:
        socket.send(message)
        answer = json.loads(socket.recv(timeout=3))
        assert (answer["type"], answer["content"]["code"]) == ("error_message", code)
        assert turn(socket, "steps=0 tokens=0")[-1]["status"] == "completed"


@pytest.mark.parametrize(
    "payload",
    [{"method": "jwt", "token": "x"}, {"method": "jwt"}, {"method": "what"}],
)
def test_every_bad_login_is_answered(agent: MockAgent, payload: dict[str, str]) -> None:
    with open_socket(agent) as socket:
        socket.send(json.dumps({"type": "auth_message", "payload": payload}))
        answer = json.loads(socket.recv(timeout=3))
    assert (answer["type"], answer["status"]) == ("auth_response_message", "error")
    assert answer["payload"]["details"].startswith("Could not resolve user identity")


@pytest.mark.parametrize(
    ("kind", "response", "said"),
    [
        ("text", {"input_type": "text", "text": "2024"}, "text:2024"),
        ("text", {"type": "text", "text": "2024"}, "text:2024"),
        (
            "checkbox",
            {"input_type": "checkbox", "selected_options": [{"id": "sms", "value": "sms"}]},
            "checkbox:sms",
        ),
        ("radio", {"input_type": "radio", "selected_option": {"value": "sms"}}, "radio:sms"),
    ],
)
def test_replies_are_taken_as_the_documents_show_them(
    agent: MockAgent, kind: str, response: dict[str, Any], said: str
) -> None:
    question = {"messages": [{"role": "user", "content": f"steps=0 tokens=0 hitl={kind}"}]}
    accepted = httpx.post(f"{agent.url}/v1/chat", json=question).json()
    assert accepted["prompt"]["required"] is True
    url = agent.url + accepted["response_url"]
    assert httpx.post(url, json={"response": response}).status_code == 204
    while (status := httpx.get(agent.url + accepted["status_url"]).json())["status"] == "running":
        pass
    assert f"[hitl {said}]" in str(status["result"])
