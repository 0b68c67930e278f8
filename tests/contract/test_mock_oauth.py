"""OAuth on the mock: who is asked, how, and what comes of it; the provider is the mock itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from time import sleep
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from loadgen.clock import NS_PER_S, now_ns
from tests.conftest import MockAgent, StartMock

_USERS = count(1)
QUESTION = "steps=0 tokens=1 token_ms=5 tag=t oauth=1"
DENIED = "Authentication callback failed: Authorisation denied: access_denied ()"


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent()


@pytest.fixture
def user() -> str:
    """An API key that no other test uses."""
    return f"oauth-user-{next(_USERS)}"


def body(question: str = QUESTION) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def consent(url: str, deny: str = "") -> httpx.Response:
    """Follow the URL as a browser does."""
    more = f"&deny={deny}" if deny else ""
    return httpx.get(url + more, follow_redirects=True)


@contextmanager
def stream(agent: MockAgent, user: str, path: str = "/v1/chat/stream") -> Iterator[Iterator[str]]:
    headers = {"x-api-key": user} if user else {}
    with httpx.stream("POST", agent.url + path, json=body(), headers=headers) as answer:
        yield answer.iter_lines()


def asked(lines: Iterator[str]) -> dict[str, Any]:
    """The content of the frame that asks for a consent."""
    for line in lines:
        if line == "event: oauth_required":
            return dict(json.loads(next(lines).removeprefix("data: ")))
    raise AssertionError("nobody was asked")


def test_a_stream_asks_once_for_each_user_and_goes_on(agent: MockAgent, user: str) -> None:
    with stream(agent, user) as lines:
        question = asked(lines)
        assert list(question) == ["event_type", "execution_id", "auth_url", "oauth_state"]
        assert question["oauth_state"] in question["auth_url"]
        status = httpx.get(f"{agent.url}/executions/{question['execution_id']}").json()
        assert (status["status"], status["auth_url"]) == ("oauth_required", question["auth_url"])
        page = consent(question["auth_url"])
        assert (page.status_code, page.headers["cache-control"]) == (200, "no-cache")
        assert "Authentication complete. Redirecting" in page.text
        rest = "\n".join(lines)
    assert "[oauth ok] " in rest
    assert "event: error" not in rest
    with stream(agent, user) as lines:
        assert "oauth_required" not in "\n".join(lines)


def test_polling_shows_the_url_until_the_user_came_back(agent: MockAgent, user: str) -> None:
    answer = httpx.post(f"{agent.url}/v1/chat", json=body(), headers={"x-api-key": user})
    assert answer.status_code == 202
    accepted = answer.json()
    url = agent.url + accepted["status_url"]
    assert httpx.get(url).json()["status"] == accepted["status"] == "oauth_required"
    consent(accepted["auth_url"])
    while (status := httpx.get(url).json())["status"] == "running":
        sleep(0.01)
    text = status["result"]["choices"][0]["message"]["content"]
    assert text == "[oauth ok] w0 tag=t"
    legacy = httpx.post(f"{agent.url}/chat", json=body(), headers={"x-api-key": user})
    assert legacy.status_code == 200, "the token is there: nobody need be asked"


@pytest.mark.parametrize(
    ("deny", "title", "error"),
    [
        ("access_denied", "Authorization Cancelled", DENIED),
        ("server_error", "Authentication Error", "OAuth error: server_error ()"),
    ],
)
def test_a_consent_that_is_not_given_fails_the_run(
    agent: MockAgent, user: str, deny: str, title: str, error: str
) -> None:
    with stream(agent, user) as lines:
        assert title in consent(asked(lines)["auth_url"], deny).text
        rest = "\n".join(lines)
    assert "event: error" in rest
    assert error in rest
    with stream(agent, user) as lines:
        assert asked(lines)["auth_url"], "the next turn asks again"


def test_a_caller_without_identity_cannot_be_asked(agent: MockAgent) -> None:
    with stream(agent, "") as lines:
        rest = "\n".join(lines)
    assert "No resolved user identity is available." in rest
    assert "oauth_required" not in rest


@pytest.mark.parametrize("mode", ["redirect", "popup"])
def test_a_socket_asks_by_a_message_that_wants_no_reply(
    agent: MockAgent, user: str, mode: str
) -> None:
    with connect(f"{agent.url.replace('http', 'ws')}/websocket?session={user}") as socket:
        payload = {"method": "oauth_mode_preference", "mode": mode}
        socket.send(json.dumps({"type": "auth_message", "payload": payload}))
        ask(socket)
        prompt = json.loads(socket.recv(timeout=3))
        assert prompt["type"] == "system_interaction_message"
        assert prompt["content"]["input_type"] == "oauth_consent"
        page = consent(prompt["content"]["text"])
        assert ("You may now close this window." in page.text) == (mode == "popup")
        said = ""
        while '"status":"complete"' not in said:
            said += str(socket.recv(timeout=3))
    assert "[oauth ok] " in said


def ask(socket: ClientConnection) -> None:
    said = {"role": "user", "content": [{"type": "text", "text": QUESTION}]}
    content = {"messages": [said]}
    message = {"type": "user_message", "schema_type": "chat_stream", "content": content}
    socket.send(json.dumps(message))


def test_nobody_waits_longer_than_the_limit(mock_agent: StartMock) -> None:
    agent = mock_agent("--oauth-timeout", "0.4")
    begin_ns = now_ns()
    with stream(agent, "slow") as lines:
        url = asked(lines)["auth_url"]
        rest = "\n".join(lines)
    assert 0.4 * NS_PER_S <= now_ns() - begin_ns < 3 * NS_PER_S
    assert "Authentication flow timed out after 0.4 seconds." in rest
    late = consent(url)
    assert (late.status_code, late.text[:14]) == (400, "Invalid state.")


def test_a_wrong_code_is_refused(agent: MockAgent, user: str) -> None:
    with stream(agent, user) as lines:
        state = asked(lines)["oauth_state"]
        page = httpx.get(f"{agent.url}/auth/redirect?state={state}&code=wrong")
        assert "Authentication failed." in page.text
        assert "invalid_grant" in "\n".join(lines)


def test_a_server_without_a_provider_says_so(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--no-oauth")
    with stream(agent, "ann") as lines:
        assert "no auth_provider in the configuration" in "\n".join(lines)


def test_the_consent_is_in_the_truth(mock_agent: StartMock) -> None:
    agent = mock_agent()
    with stream(agent, "ann") as lines:
        consent(asked(lines)["auth_url"])
        list(lines)
    (turn,) = agent.await_turns(1)
    (prompt,) = turn["prompts"]
    assert prompt["kind"] == "oauth_consent"
    assert prompt["sent_ns"] < prompt["answered_ns"]
