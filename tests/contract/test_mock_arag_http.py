"""The mock's other Progress Agentic RAG routes: one-shot questions, tokens, sessions, logins."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.conftest import MockAgent, StartMock
from tests.contract.arag_client import (
    NAMES,
    Frame,
    ask,
    kind_of,
    listen,
    open_socket,
    reply,
    tagged,
)

FAST = "steps=1 step_ms=1 token_ms=1 tokens=4"
PLAIN = "start step context source chunk possible_answer step answer done"
API = "/api/v1/agent/agent-0001"
TOKENS = [
    "/api/v1/account/acc/kb/agent-0001/ephemeral_tokens",
    "/api/v1/agent/agent-0001/ephemeral_token",
    "/api/v1/ephemeral_token",
]
URI = "https://mcp.example.com/mcp"


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent()


@pytest.fixture
def name() -> str:
    """A session and a tag that no other test uses."""
    return f"arag-http-{next(NAMES)}"


def post(agent: MockAgent, path: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{agent.url}{path}", **more)


def shape_of(lines: list[Frame]) -> str:
    """What each line is, in a word; repeated ones once."""
    words: list[str] = []
    for line in lines:
        if not words or words[-1] != kind_of(line):
            words.append(kind_of(line))
    return " ".join(words)


@pytest.mark.parametrize(
    ("words", "shape", "outcome"),
    [
        ("", PLAIN, "completed"),
        ("fail=start", "start error done", "failed"),
        ("feedback=1", "start step context error", "failed"),
        ("oauth=1", "start error", "failed"),
        ("eof=2", "start step context source chunk", "eof"),
        ("eof=0 break_at=done", PLAIN.removesuffix(" done"), "eof"),
    ],
)
@pytest.mark.parametrize("inner", ["", "/workflow/ask"])
def test_a_question_is_answered_in_lines(
    agent: MockAgent, name: str, words: str, shape: str, outcome: str, inner: str
) -> None:
    body = {"question": f"{FAST} {words} tag={name}", "streaming": True}
    answer = post(agent, f"{API}{inner}/session/ephemeral", json=body)
    assert answer.status_code == 200
    assert shape_of([json.loads(line) for line in answer.text.splitlines()]) == shape
    truth = tagged(agent, name)
    assert (truth["outcome"], truth["transport"]) == (outcome, "arag-http")


@pytest.mark.parametrize("words", ["cut=2", "cut=2 reset=1", "cut=0 break_at=open"])
def test_an_answer_in_lines_can_break_off(agent: MockAgent, name: str, words: str) -> None:
    body = {"question": f"{FAST} {words} tag={name}", "streaming": True}
    with pytest.raises(httpx.TransportError):
        post(agent, f"{API}/session/ephemeral", json=body)
    assert tagged(agent, name)["outcome"] == "cut"


@pytest.mark.parametrize(
    ("words", "status", "headers"),
    [
        ("status=503 retry_after=7", 503, {"retry-after": "7"}),
        ("status=403", 403, {}),
        ("html=1", 200, {"content-type": "text/html; charset=utf-8"}),
    ],
)
def test_a_question_can_be_refused(
    agent: MockAgent, name: str, words: str, status: int, headers: dict[str, str]
) -> None:
    body = {"question": f"{words} tag={name}"}
    answer = post(agent, f"{API}/session/ephemeral", json=body)
    assert answer.status_code == status
    assert headers.items() <= dict(answer.headers).items()
    assert tagged(agent, name)["outcome"] == "refused"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "json_invalid"),
        (b"", "missing"),
        (b'{"question": 1}', "string_type"),
        (b'{"question": "x", "operation": 5}', "enum"),
    ],
)
def test_a_bad_body_is_422_as_fastapi_words_it(agent: MockAgent, body: bytes, problem: str) -> None:
    kind = {"content-type": "application/json"}
    answer = post(agent, f"{API}/session/ephemeral", content=body, headers=kind)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["type"] == problem


def test_a_client_that_left_leaves_its_turn_running(agent: MockAgent, name: str) -> None:
    body = {"question": f"{FAST} first_ms=400 tag={name}"}
    with httpx.stream("POST", f"{agent.url}{API}/session/ephemeral", json=body) as answer:
        next(answer.iter_lines())
    running = [turn for turn in agent.truth(running=True) if turn["tag"] == name]
    assert running[0]["outcome"] == "running"
    assert tagged(agent, name)["outcome"] == "client_gone"


@pytest.mark.parametrize("path", TOKENS)
def test_a_token_opens_a_socket(shared_mock_agent: StartMock, path: str) -> None:
    mock = shared_mock_agent("--arag-require-token")
    answer = post(mock, path, json={"agent_session": "ephemeral"})
    token = answer.json()["token"]
    assert (answer.status_code, token[:4]) == (200, "eph-")
    for _ in range(2):
        with open_socket(mock, query=f"?eph-token={token}") as client:
            ask(client, FAST)
            assert listen(client).shape == PLAIN


@pytest.mark.parametrize(
    ("options", "body", "uses"),
    [
        ((), None, 0),
        (("--arag-token-life", "0"), {}, 0),
        (("--arag-token-life", "0"), {"ttl": 60}, 9),
        (("--arag-single-use-token",), {}, 1),
    ],
)
def test_an_unknown_dead_or_used_token_is_403(
    shared_mock_agent: StartMock, options: tuple[str, ...], body: Frame | None, uses: int
) -> None:
    mock = shared_mock_agent("--arag-require-token", *options)
    token = "made-up" if body is None else post(mock, TOKENS[0], json=body).json()["token"]
    for number in range(2):
        if number < uses:
            with open_socket(mock, query=f"?eph-token={token}"):
                continue
        with (
            pytest.raises(InvalidStatus) as refused,
            open_socket(mock, query=f"?eph-token={token}"),
        ):
            pass
        assert refused.value.response.status_code == 403


def test_the_published_server_looks_at_no_token(agent: MockAgent) -> None:
    with open_socket(agent, query="?eph-token=made-up") as client:
        ask(client, FAST)
        assert listen(client).shape == PLAIN


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer other"}, 403),
        ({"authorization": "Bearer key-1"}, 200),
        ({"x-nuclia-serviceaccount": "Bearer key-1"}, 200),
        ({"x-nuclia-nuakey": "Bearer key-1"}, 200),
        ({"x-nuclia-nuakey": "key-1"}, 403),
    ],
)
def test_a_service_key_is_looked_at_if_there_is_one(
    shared_mock_agent: StartMock, headers: dict[str, str], status: int
) -> None:
    mock = shared_mock_agent("--arag-service-key", "key-1")
    assert post(mock, TOKENS[0], json={}, headers=headers).status_code == status
    body = {"question": FAST}
    one_shot = post(mock, f"{API}/session/ephemeral", json=body, headers=headers)
    assert one_shot.status_code == status
    listed = httpx.get(f"{mock.url}{API}/sessions", headers=headers)
    assert listed.status_code == (400 if status == 200 else status)


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_tokens_can_fail(shared_mock_agent: StartMock, status: int) -> None:
    mock = shared_mock_agent("--arag-token-failure", str(status))
    answer = post(mock, TOKENS[1], json={})
    assert answer.status_code == status
    assert ("retry-after" in answer.headers) is (status in (429, 503))


def test_a_share_of_the_tokens_fails_and_the_truth_says_which(
    shared_mock_agent: StartMock,
) -> None:
    mock = shared_mock_agent("--arag-token-failure", "503:0.5")
    got = [post(mock, TOKENS[2], json={"agent_session": "s"}).status_code for _ in range(40)]
    assert 5 < got.count(503) < 35
    assert got.count(200) == 40 - got.count(503)
    seen = [row for row in mock.sockets() if row["event"] == "token"]
    assert [row["status"] for row in seen] == got
    assert "eph-" not in json.dumps(mock.sockets())


def test_a_token_can_be_slow(shared_mock_agent: StartMock) -> None:
    mock = shared_mock_agent("--arag-token-delay", "300")
    assert post(mock, TOKENS[0], json={}).elapsed.total_seconds() >= 0.3


def session(slug: str) -> Frame:
    return {"slug": slug, "name": "n", "summary": "s", "data": "d", "format": "PLAIN"}


def test_sessions_are_stored_listed_changed_and_deleted(
    shared_mock_agent: StartMock, name: str
) -> None:
    mock = shared_mock_agent("--arag-memory")
    made = post(mock, f"{API}/sessions", json=session(name)).json()
    assert set(made) == {"uuid", "elapsed", "seqid"}
    place = f"{mock.url}{API}/session/{made['uuid']}"
    assert httpx.get(place).json()["slug"] == name
    assert httpx.patch(place, json=session(name) | {"name": "new"}).status_code == 200
    listed = httpx.get(f"{mock.url}{API}/sessions", params={"page": 0, "size": 100}).json()
    assert {"new"} == {row["title"] for row in listed["resources"] if row["slug"] == name}
    assert post(mock, f"{API}/sessions", json=session(name)).status_code == 422
    assert httpx.delete(place).status_code == 200
    assert [httpx.get(place).status_code, httpx.delete(place).status_code] == [404, 404]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/sessions"),
        ("POST", "/sessions"),
        ("GET", "/session/x"),
        ("PATCH", "/session/x"),
        ("DELETE", "/session/x"),
    ],
)
def test_an_agent_without_memory_has_no_sessions(agent: MockAgent, method: str, path: str) -> None:
    body = session("x") if method in ("POST", "PATCH") else None
    answer = httpx.request(method, f"{agent.url}{API}{path}", json=body)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("Sessions are currently only supported")
    unknown = httpx.get(f"{agent.url}/api/v1/agent/nope/sessions")
    assert unknown.status_code == 404


def test_a_bad_session_is_422_before_anything_else(agent: MockAgent) -> None:
    answer = post(agent, f"{API}/sessions", json=session("x") | {"format": "ODT"})
    assert answer.json()["detail"][0]["loc"] == ["body", "format"]


@pytest.mark.parametrize("create", [True, False])
def test_a_socket_stores_its_session_if_it_may(
    shared_mock_agent: StartMock, name: str, create: bool
) -> None:
    mock = shared_mock_agent("--arag-memory")
    query = f"?create_session_if_not_exists={str(create).lower()}"
    with open_socket(mock, name, query) as client:
        if create:
            ask(client, FAST)
            assert listen(client).shape == PLAIN
        else:
            heard = listen(client)
            assert heard.errors == [f"Session '{name}' does not exist"]
            assert heard.end == 1000
    listed = httpx.get(f"{mock.url}{API}/sessions", params={"size": 1000}).json()["resources"]
    assert (name in {row["slug"] for row in listed}) is create


def test_a_stored_session_is_the_same_by_slug_and_by_uuid(
    shared_mock_agent: StartMock, name: str
) -> None:
    mock = shared_mock_agent("--arag-memory")
    uuid = post(mock, f"{API}/sessions", json=session(name)).json()["uuid"]
    with open_socket(mock, name) as client:
        ask(client, FAST)
        listen(client)
    with open_socket(mock, uuid) as client:
        ask(client, "#history")
        assert listen(client).answer == "history entries: 1"


def log_in(url: str, deny: bool = False) -> httpx.Response:
    """Follow a login as a browser does."""
    return httpx.get(url + ("&deny=access_denied" if deny else ""), follow_redirects=True)


def existing(credentials: Frame) -> str:
    return json.dumps({"existing_credentials": credentials})


def test_a_login_on_one_socket_gives_credentials_to_keep(agent: MockAgent, name: str) -> None:
    with open_socket(agent, name) as client:
        ask(client, f"{FAST} oauth=1 tag={name}")
        asked = listen(client, until="ask").frames[-1]["feedback"]
        assert (asked["question"], asked["get_credentials"]) == (
            "Get credentials",
            {URI: "mcp_oauth"},
        )
        reply(client, existing({}))
        url = listen(client, until="ask").frames[-1]["oauth"]["oauth_url"]
        assert url.startswith(f"{agent.url}/_oauth/authorize?")
        page = log_in(url)
        assert (page.status_code, "Authentication successful" in page.text) == (200, True)
        given = listen(client, until="ask").frames[-1]["feedback"]
        assert given["question"] == "Send credentials"
        reply(client, "kept")
        assert listen(client).shape.endswith("answer done")
    kinds = [prompt["kind"] for prompt in tagged(agent, name)["prompts"]]
    assert kinds == ["get_credentials", "oauth_consent", "send_credentials"]
    with open_socket(agent, name) as client:
        ask(client, f"{FAST} oauth=1")
        heard = listen(client, lambda frame: existing(given["credentials"]))
    assert heard.parts("oauth") == []
    assert heard.parts("step")[0]["value"] == "used cached credentials"
    assert heard.end == 1000
    with open_socket(agent, f"{name}-other") as client:
        ask(client, f"{FAST} oauth=1")
        listen(client, until="ask")
        reply(client, existing(given["credentials"]))
        assert listen(client, until="ask").parts("oauth") != []


def test_a_login_that_is_denied_fails_the_turn(agent: MockAgent, name: str) -> None:
    with open_socket(agent, name) as client:
        ask(client, f"{FAST} oauth=1 tag={name}")
        listen(client, until="ask")
        reply(client, existing({}))
        url = listen(client, until="ask").frames[-1]["oauth"]["oauth_url"]
        assert log_in(url, deny=True).status_code == 400
        heard = listen(client)
    assert heard.errors == ["OAuth authorization failed (access_denied)"]
    assert tagged(agent, name)["outcome"] == "failed"


def test_a_login_of_the_reference_agent_comes_back_at_the_older_route(agent: MockAgent) -> None:
    with open_socket(agent) as client:
        ask(client, "#oauth x")
        listen(client, until="ask")
        reply(client, existing({}))
        url = listen(client, until="ask").frames[-1]["oauth"]["oauth_url"]
        query = parse_qs(urlsplit(url).query)
        back, state = query["redirect_uri"][0], query["state"][0]
        assert httpx.get(f"{agent.url}{back}").status_code == 422
        page = httpx.get(f"{agent.url}{back}&state={state}")
        assert "Authentication successful" in page.text
        given = listen(client, until="ask").frames[-1]["feedback"]["credentials"]
        assert given == {URI: {"access_token": "tok-1", "token_type": "Bearer"}}
        reply(client, "kept")
        assert listen(client).answer == f"oauth callback payload: {state}"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "Missing OAuth state parameter"),
        ("?state=other&code=1", "Invalid or expired OAuth state"),
    ],
)
def test_a_stray_callback_is_refused(agent: MockAgent, query: str, text: str) -> None:
    page = httpx.get(f"{agent.url}/api/auth/mcp/callback{query}")
    assert (page.status_code, page.text) == (400, text)


@pytest.mark.parametrize("reconnects", [True, False])
def test_by_the_documentation_the_login_comes_first_and_the_connection_is_restored(
    shared_mock_agent: StartMock, name: str, reconnects: bool
) -> None:
    mock = shared_mock_agent("--edition", "documented")
    with open_socket(mock, name) as client:
        ask(client, f"{FAST} oauth=1 tag={name}")
        url = listen(client, until="ask").frames[-1]["oauth"]["oauth_url"]
        if not reconnects:
            log_in(url)
            heard = finish(client)
    if reconnects:
        log_in(url)
        with open_socket(mock, name) as client:
            heard = finish(client)
    assert heard.shape.endswith("answer done")
    assert tagged(mock, name)["outcome"] == "completed"
    with open_socket(mock, name) as client:
        ask(client, f"{FAST} oauth=1")
        again = listen(client, until="done")
    assert again.parts("oauth") == []


def finish(client: Any) -> Any:
    """Give the credentials that the documentation asks for, and listen to the rest."""
    asked = listen(client, until="ask").frames[-1]["feedback"]
    assert asked["question"] == "Get credentials"
    credentials = {"request_id": asked["request_id"], "existing_credentials": {URI: "sim-code"}}
    client.send(json.dumps(credentials))
    return listen(client, until="done")


def test_without_a_provider_a_login_fails_the_turn(shared_mock_agent: StartMock) -> None:
    mock = shared_mock_agent("--no-oauth")
    with open_socket(mock) as client:
        ask(client, f"{FAST} oauth=1")
        heard = listen(client, lambda frame: existing({}))
    assert heard.errors == ["no auth_provider in the configuration"]
