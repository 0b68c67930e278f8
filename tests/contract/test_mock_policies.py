"""Who is let in: accepted credentials, verified JWTs, a trusted header, workflows for each user."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from loadgen.clock import NS_PER_S, wall_ns
from mockagent.identity import user_id
from tests.conftest import MockAgent, StartMock

QUICK = "steps=0 tokens=1 tag=t"
ISSUER, AUDIENCE, SCOPE = "https://identity.example", "loadgen", "workflow:resume"


def body(question: str = QUICK) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def open_socket(agent: MockAgent, headers: dict[str, str] | None = None) -> ClientConnection:
    url = f"ws://{agent.host}:{agent.port}/websocket"
    return connect(url, compression=None, additional_headers=headers)


def login(socket: ClientConnection, **payload: str) -> dict[str, Any]:
    socket.send(json.dumps({"type": "auth_message", "payload": payload}))
    return dict(json.loads(socket.recv(timeout=3)))


def turned_away(socket: ClientConnection) -> tuple[str, int, str]:
    """What a refused handshake is told, and how it ends."""
    answer = json.loads(socket.recv(timeout=3))
    with suppress(ConnectionClosed):
        socket.recv(timeout=3)
    assert socket.close_code is not None
    return answer["payload"]["details"], socket.close_code, str(socket.close_reason)


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"Authorization": "Basic YW5uOnB3"}, "basic"),
        ({"Cookie": "nat-session=ann"}, "session_cookie"),
        ({"Authorization": "Bearer a.b.c"}, "jwt"),
    ],
)
def test_a_refused_credential_is_told_and_closed(
    shared_mock_agent: StartMock, headers: dict[str, str], kind: str
) -> None:
    agent = shared_mock_agent("--accepted-credentials", "api_key")
    with open_socket(agent, headers) as socket:
        assert turned_away(socket) == (
            f"Identity credential type '{kind}' is not accepted",
            1008,
            "Identity credential was rejected",
        )
    assert httpx.post(f"{agent.url}/v1/chat", json=body(), headers=headers).status_code in (
        200,
        422,
    )


def test_credentials_are_refused_on_sockets_only(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--accepted-credentials", "api_key")
    cookie = {"Cookie": "nat-session=ann"}
    assert httpx.post(f"{agent.url}/v1/chat", json=body(), headers=cookie).status_code == 200


def test_a_refused_login_leaves_the_socket_open(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--accepted-credentials", "api_key")
    with open_socket(agent) as socket:
        assert login(socket, method="basic", username="a", password="b")["status"] == "error"
        assert login(socket, method="api_key", token="k")["user_id"] == user_id("k")


def test_an_empty_list_accepts_nothing(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--accepted-credentials", "")
    with open_socket(agent, {"X-API-Key": "k"}) as socket:
        assert turned_away(socket)[1] == 1008


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def verifying(
    shared_mock_agent: StartMock, key: RSAPrivateKey, tmp_path_factory: pytest.TempPathFactory
) -> MockAgent:
    """A mock that verifies JWTs with a file of keys."""
    public = json.loads(RSAAlgorithm.to_jwk(key.public_key())) | {"kid": "k1", "use": "sig"}
    jwks: Path = tmp_path_factory.mktemp("keys") / "jwks.json"
    jwks.write_text(json.dumps({"keys": [public]}))
    policy = ("--jwt", str(jwks), "--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE)
    return shared_mock_agent(*policy, "--jwt-scope", SCOPE)


def claims(**changes: Any) -> dict[str, Any]:
    """Good claims but for ``changes``; None leaves one out."""
    good = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "scope": f"other {SCOPE}",
        "exp": in_s(60),
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def in_s(seconds: int) -> int:
    """A NumericDate so many seconds from now."""
    return wall_ns() // NS_PER_S + seconds


@dataclass(frozen=True)
class At:
    """A moment so many seconds after the test runs: a table is made long before that."""

    seconds: int
    as_text: bool = False

    def value(self) -> int | str:
        moment = in_s(self.seconds)
        return str(moment) if self.as_text else moment


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({}, None),
        ({"exp": At(-30)}, None),
        ({"aud": ["other", AUDIENCE]}, None),
        ({"scope": None, "scp": [SCOPE]}, None),
        ({"exp": At(-300)}, "JWT verification failed"),
        ({"exp": None}, "JWT verification failed"),
        ({"nbf": At(300)}, "JWT verification failed"),
        ({"iat": At(300)}, "JWT verification failed"),
        ({"aud": "other"}, "JWT verification failed"),
        ({"aud": None}, "JWT verification failed"),
        ({"scope": "other"}, "JWT verification failed"),
        ({"scope": None}, "JWT verification failed"),
        ({"scope": None, "scp": 5}, "JWT verification failed"),
        ({"exp": "soon"}, "JWT verification failed"),
        ({"exp": At(60, as_text=True)}, "JWT verification failed"),
        ({"iss": "https://other"}, "JWT issuer is not accepted: https://other"),
        ({"iss": None}, "JWT verification requires a non-empty issuer claim"),
    ],
)
def test_a_jwt_is_verified(
    verifying: MockAgent, key: RSAPrivateKey, changes: dict[str, Any], refusal: str | None
) -> None:
    now = {name: each.value() if isinstance(each, At) else each for name, each in changes.items()}
    payload = json.dumps(claims(**now)).encode()
    token = jwt.PyJWS().encode(payload, key, "RS256", headers={"kid": "k1"})
    with open_socket(verifying) as socket:
        answer = login(socket, method="jwt", token=token)
        if refusal is None:
            assert answer["user_id"] == user_id(f"{ISSUER}\x1fann")
        else:
            assert answer["payload"]["details"] == refusal
    with open_socket(verifying, {"Authorization": f"Bearer {token}"}) as socket:
        if refusal is None:
            with pytest.raises(TimeoutError):
                socket.recv(timeout=0.2)
        else:
            assert turned_away(socket)[:2] == (refusal, 1008)


@pytest.mark.parametrize("how", ["other key", "tampered", "unknown kid", "no signature"])
def test_a_signature_must_be_right(verifying: MockAgent, key: RSAPrivateKey, how: str) -> None:
    signing = generate_private_key(65537, 2048) if how == "other key" else key
    kid = "k2" if how == "unknown kid" else "k1"
    token = jwt.encode(claims(), signing, "RS256", headers={"kid": kid})
    if how == "no signature":
        token = jwt.encode(claims(), None, "none", headers={"kid": kid})
    elif how == "tampered":
        token = f"{token[:-8]}AAAAAAAA"
    with open_socket(verifying) as socket:
        answer = login(socket, method="jwt", token=token)
        assert answer["payload"]["details"] == "JWT verification failed"


def test_jwts_are_not_verified_over_http(verifying: MockAgent) -> None:
    token = jwt.encode({"sub": "ann"}, "k" * 32, "HS256")
    answer = httpx.post(
        f"{verifying.url}/v1/chat", json=body(), headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([], "is missing"),
        ([("X-User-ID", "")], "must not be empty"),
        ([("X-User-ID", "ann"), ("X-User-ID", "bob")], "must occur exactly once"),
    ],
)
def test_a_trusted_header_must_be_there_once(
    shared_mock_agent: StartMock, headers: list[tuple[str, str]], why: str
) -> None:
    agent = shared_mock_agent("--identity-header", "X-User-ID")
    said = f"Configured identity header 'X-User-ID' {why}"
    single = httpx.post(f"{agent.url}/v1/chat", json=body(), headers=headers)
    assert (single.status_code, single.json()["message"]) == (422, said)
    stream = httpx.post(f"{agent.url}/v1/chat/stream", json=body(), headers=headers)
    assert stream.status_code == 200
    assert "event: error" in stream.text
    assert "IdentityHeaderError" in stream.text
    legacy = httpx.post(f"{agent.url}/chat", json=body(), headers=headers)
    assert (legacy.status_code, legacy.json()) == (401, {"detail": said})
    url = f"ws://{agent.host}:{agent.port}/websocket"
    with connect(url, compression=None, additional_headers=headers) as socket:
        assert turned_away(socket)[:2] == (said, 1008)


def test_a_trusted_header_is_not_replaced_by_a_login(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--identity-header", "X-User-ID")
    with open_socket(agent, {"X-User-ID": "ann"}) as socket:
        answer = login(socket, method="api_key", token="k")
        assert "cannot replace an identity" in answer["payload"]["details"]


def test_each_user_has_slots_and_figures_of_his_own(mock_agent: StartMock) -> None:
    agent = mock_agent("--per-user", "--slots", "1")
    ann, bob = {"X-API-Key": "ann"}, {"X-API-Key": "bob"}
    waiting = httpx.post(f"{agent.url}/v1/chat", json=body(f"{QUICK} hitl=text"), headers=ann)
    assert waiting.status_code == 202
    assert httpx.post(f"{agent.url}/v1/chat", json=body(), headers=bob).status_code == 200
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{agent.url}/v1/chat", json=body(), headers=ann, timeout=0.3)
    httpx.post(f"{agent.url}/v1/chat", json=body("steps=0 fail=start"), headers=bob)
    usage = httpx.get(f"{agent.url}/monitor/users").json()
    assert usage["total_active_users"] == 2
    figures = {user["user_id"]: user["requests"] for user in usage["users"]}
    assert figures[user_id("ann")]["active_requests"] == 2
    assert figures[user_id("bob")]["total_requests"] == 2
    assert figures[user_id("bob")]["error_count"] == 1
    one = httpx.get(f"{agent.url}/monitor/users", params={"user_id": user_id("bob")}).json()
    assert [user["user_id"] for user in one["users"]] == [user_id("bob")]


def test_without_identity_there_is_no_workflow(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--per-user")
    single = httpx.post(f"{agent.url}/v1/chat", json=body())
    assert single.status_code == 422
    assert "user_id is required" in single.json()["message"]
    legacy = httpx.post(f"{agent.url}/chat", json=body())
    assert (legacy.status_code, legacy.text) == (500, "Internal Server Error")
    assert "event: error" in httpx.post(f"{agent.url}/v1/chat/stream", json=body()).text


@pytest.mark.parametrize(
    ("path", "kind"), [("/generate", "ValueError"), ("/v1/workflow", "ExecutionFailed")]
)
def test_the_text_of_a_users_own_workflow_cannot_be_given_in_one_piece(
    shared_mock_agent: StartMock, path: str, kind: str
) -> None:
    server = shared_mock_agent("--per-user")
    documented = shared_mock_agent("--per-user", "--edition", "documented")
    question, who = {"input_message": QUICK}, {"X-API-Key": "ann"}
    failed = httpx.post(server.url + path, json=question, headers=who)
    assert (failed.status_code, failed.json()["details"]) == (422, kind)
    assert failed.json()["message"].startswith("Cannot convert type <class 'str'> to ")
    good = httpx.post(documented.url + path, json=question, headers=who)
    assert (good.status_code, good.json()) == (200, {"value": "w0 tag=t"})
    streamed = httpx.post(f"{server.url}{path}/stream", json=question, headers=who)
    assert 'data: {"value": "tag=t"}' in streamed.text


@pytest.mark.parametrize("path", ["/chat", "/chat/stream", "/generate/full", "/v1/workflow/atif"])
@pytest.mark.parametrize("credential", ["Bearer a.b.c", "Basic %%%"])
def test_a_garbage_credential_crashes_routes_that_are_not_interactive(
    shared_mock_agent: StartMock, path: str, credential: str
) -> None:
    agent = shared_mock_agent()
    question = body() if "chat" in path else {"input_message": QUICK}
    answer = httpx.post(agent.url + path, json=question, headers={"Authorization": credential})
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
