"""The mock's frames against those of a real NAT 1.9.0 server: same order, same keys, same text.

Only ids, times and dates may differ; ids must be equal where they are equal in the recording.
"""

from __future__ import annotations

import ast
import json
import re
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from time import sleep

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.conftest import MockAgent, StartMock

RECORDINGS = Path(__file__).parents[1] / "recordings" / "nat"
TURN = "hello steps=1 step_ms=50 tokens=3 token_ms=20 tag=t1"
TEXT = {"type": "text", "text": "2024"}

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_DATES = (
    (re.compile(r'"created":\d+'), '"created":0'),
    (re.compile(r"datetime\.datetime\([\d, ]+, tzinfo"), "datetime.datetime(tzinfo"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?\+00:00"), "DATE"),
    (re.compile(r"date: [^\r]+ GMT"), "date: DATE"),
)
_CHUNK_SIZE = re.compile(r"^[0-9a-f]+\r\n", re.MULTILINE)


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent()


def normal(text: str) -> str:
    """``text`` with ids numbered in order of appearance and without dates and chunk sizes (a step
    quotes dates, whose length varies).
    """
    for pattern, instead in _DATES:
        text = pattern.sub(instead, text)
    text = _CHUNK_SIZE.sub("", text)
    seen: dict[str, int] = {}
    return _UUID.sub(lambda match: f"ID{seen.setdefault(match[0], len(seen))}", text)


def exchange(agent: MockAgent, path: str, content: object, replies: list[object]) -> str:
    """The bytes of a streamed answer; each prompt gets the next of ``replies``."""
    body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    received, waiting = b"", list(replies)
    with closing(socket.create_connection((agent.host, agent.port), timeout=5)) as client:
        client.sendall(head.encode() + body)
        while data := client.recv(1 << 20):
            received += data
            urls = re.findall(rb'"response_url":"([^"]+)"', received)
            while waiting and len(urls) > len(replies) - len(waiting):
                url = urls[len(replies) - len(waiting)].decode()
                answer = httpx.post(agent.url + url, json={"response": waiting.pop(0)})
                assert (answer.status_code, answer.content) == (204, b"")
    return received.decode()


@pytest.mark.parametrize(
    ("recording", "path", "question", "replies"),
    [
        ("http_v1_chat_stream", "/v1/chat/stream", TURN, []),
        ("http_v1_chat_stream_trace", "/v1/chat/stream", f"{TURN} trace=1", []),
        ("http_v1_chat_stream_llm", "/v1/chat/stream", f"{TURN} llm=1", []),
        ("http_fail_mid_v1_chat_stream", "/v1/chat/stream", f"{TURN} fail_after=2", []),
        ("http_fail_start_v1_chat_stream", "/v1/chat/stream", f"{TURN} fail=start", []),
        ("http_odd_characters_chat_stream", "/v1/chat/stream", "steps=0 tokens=1 odd=1", []),
        ("http_hitl_text_v1_chat_stream", "/v1/chat/stream", f"{TURN} hitl=text", [TEXT]),
        (
            "http_hitl_binary_choice_v1_chat_stream",
            "/v1/chat/stream",
            f"{TURN} hitl=binary_choice",
            [{"type": "binary_choice", "selected_option": {"value": "continue"}}],
        ),
        (
            "http_hitl_checkbox_v1_chat_stream",
            "/v1/chat/stream",
            f"{TURN} hitl=checkbox",
            [{"type": "checkbox", "selected_option": {"value": "push"}}],
        ),
        (
            "http_hitl_notification_stream",
            "/v1/chat/stream",
            f"{TURN} hitl=notification",
            [],
        ),
        ("http_chat_stream", "/chat/stream", TURN, []),
        ("http_fail_mid_chat_stream", "/chat/stream", f"{TURN} fail_after=2", []),
        ("http_hitl_chat_stream_legacy", "/chat/stream", f"{TURN} hitl=text", []),
    ],
)
def test_an_sse_stream_is_nats(
    agent: MockAgent, recording: str, path: str, question: str, replies: list[object]
) -> None:
    real = (RECORDINGS / f"{recording}.raw").read_bytes().decode()
    assert normal(exchange(agent, path, question, replies)) == normal(real)


@pytest.mark.parametrize(
    ("recording", "request_line", "body"),
    [
        ("http_wrong_method", "GET /v1/chat/stream", ""),
        ("http_no_such_path", "POST /v1/nothing", "{}"),
        ("http_invalid_json", "POST /v1/chat/stream", "{not json"),
        ("http_invalid_body", "POST /v1/chat/stream", '{"nonsense": 1}'),
        ("http_empty_messages", "POST /v1/chat/stream", '{"messages": []}'),
        (
            "http_interaction_unknown",
            "POST /executions/nope/interactions/nope/response",
            '{"response": {"type": "text", "text": "x"}}',
        ),
        ("http_health", "GET /health", ""),
    ],
)
def test_status_headers_and_body_are_nats(
    agent: MockAgent, recording: str, request_line: str, body: str
) -> None:
    lengths = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    request = f"{request_line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lengths}\r\n{body}"
    with closing(socket.create_connection((agent.host, agent.port), timeout=5)) as client:
        client.sendall(request.encode())
        said = b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()
    real = (RECORDINGS / f"{recording}.raw").read_bytes().decode()
    head, _, content = normal(said).partition("\r\n\r\n")
    real_head, _, real_content = normal(real).partition("\r\n\r\n")
    assert content == real_content
    assert sorted(head.split("\r\n")) == sorted(real_head.split("\r\n"))


def replay(agent: MockAgent, recording: str) -> list[tuple[str, str]]:
    """Send what the recording sent; what it received, each beside what we receive.

    Only the time without a connection is as in the recording.
    """
    pairs: list[tuple[str, str]] = []
    prompt = ""
    before_ms = 0.0
    with ExitStack() as sockets:
        for line in (RECORDINGS / f"{recording}.jsonl").read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            direction, text = record["dir"], record["text"]
            if text.startswith("connect "):
                sleep((record["t_ms"] - before_ms) / 1000)
                client = sockets.enter_context(reconnect(agent, text))
            elif direction == ">":
                client.send(re.sub(r'("parent_id": ")[0-9a-f-]{36}', rf"\g<1>{prompt}", text))
            elif direction == "<":
                said = str(client.recv(timeout=8))
                if "system_interaction_message" in said:
                    prompt = json.loads(said)["id"]
                pairs.append((text, said))
            elif text.startswith("closed by the server"):
                with pytest.raises(ConnectionClosed) as caught:
                    client.recv(timeout=3)
                assert caught.value.rcvd is None, "a close frame, where the server sent none"
            elif text.startswith(("client closes", "client drops")):
                client.close()
            elif text.startswith("nothing for"):
                with pytest.raises(TimeoutError):
                    client.recv(timeout=0.3)
            before_ms = record["t_ms"]
    return pairs


def reconnect(agent: MockAgent, text: str) -> ClientConnection:
    """The connection that a record like ``connect ws://…/websocket?a=b {headers}`` opens."""
    path, _, headers = text.split("/websocket", 1)[1].partition(" ")
    url = f"ws://{agent.host}:{agent.port}/websocket{path}"
    return connect(url, compression=None, additional_headers=ast.literal_eval(headers or "{}"))


@pytest.mark.parametrize(
    "recording",
    [
        "ws_plain_chat_stream",
        "ws_plain_chat",
        "ws_plain_generate",
        "ws_fail_mid",
        "ws_llm_steps",
        "ws_two_turns_one_socket",
        "ws_hitl_text",
        "ws_hitl_binary_choice",
        "ws_hitl_dropdown",
        "ws_hitl_notification",
        "ws_hitl_value_not_offered",
        "ws_hitl_reply_with_wrong_ids",
        "ws_auth_api_key",
        "ws_auth_jwt_good",
        "ws_auth_jwt_garbage",
        "ws_auth_jwt_no_identity",
        "ws_auth_unknown_method",
        "ws_auth_oauth_mode",
        "ws_auth_header_bad_basic",
        "ws_auth_header_garbage_jwt",
        "ws_invalid_bad_schema_type",
        "ws_invalid_empty_messages",
        "ws_invalid_no_content",
        "ws_invalid_no_type",
        "ws_invalid_no_user_role",
        "ws_invalid_string_content",
        "ws_invalid_unknown_type",
        "ws_resume_pending_prompt",
        "ws_resume_no_identity",
        "ws_resume_other_user",
        "ws_resume_without_query",
        "ws_resume_then_second_prompt",
        "ws_resume_with_timeout",
        "ws_disconnect_mid_turn_then_reconnect",
    ],
)
def test_a_websocket_conversation_is_nats(agent: MockAgent, recording: str) -> None:
    pairs = replay(agent, recording)
    real = normal("\n".join(text for text, _ in pairs))
    ours = normal("\n".join(text for _, text in pairs))
    assert ours.split("\n") == real.split("\n")
