"""The mock's frames beside the real server's, taken by a client that is not ours.

Every frame is compared member by member, in order, with ids and digits masked: both answer the same
question, so even the texts must agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, TypeVar

import bareclient
import pytest
from bareclient import Seen
from counterparts import Server

SLOW = "steps=1 step_ms=80 think_ms=80 tokens=3 token_ms=80 tag=t"
QUIET = f"{SLOW} step_kind=none"
PROMPTS = ("text", "binary_choice", "radio", "checkbox", "dropdown", "notification")

ORDERED = {
    "plain": SLOW,
    "function steps": f"{SLOW} step_kind=function",
    "model steps": f"{SLOW} step_kind=llm",
    "custom steps": f"{SLOW} step_kind=custom",
    "failure at start": f"{SLOW} fail=start",
    "failure in mid answer": f"{QUIET} fail=mid",
    **{f"{kind} prompt": f"{QUIET} hitl={kind}" for kind in PROMPTS},
    "prompt with a time limit": f"{QUIET} hitl=radio hitl_timeout=30",
}
"""Questions whose frames have time to come in order."""

RACING = {
    "model that streams": f"{SLOW} llm=1",
    "trace id": f"{SLOW} trace=1",
    "odd characters": f"{SLOW} odd=1",
    "prompt behind a step": f"{SLOW} hitl=text",
    "failure behind a step": f"{QUIET} fail=answer",
}
"""Questions whose steps and chunks race each other to the client: each kind is in order."""

ASK = {"sse": bareclient.ask_sse, "ws": bareclient.ask_ws}
Answer = TypeVar("Answer")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")


def masked(value: Any) -> Any:
    """``value`` without what differs from run to run; members stay in their order."""
    if isinstance(value, dict):
        return [(key, masked(member)) for key, member in value.items()]
    if isinstance(value, list):
        return [masked(member) for member in value]
    if isinstance(value, str):
        return re.sub(r"\d+", "0", _ID.sub("<id>", value))
    return value if value is None or isinstance(value, bool) else type(value).__name__


def by_kind(seen: list[Seen]) -> dict[str, list[Any]]:
    """The masked frames of each kind, in order."""
    kinds: dict[str, list[Any]] = {}
    for frame in seen:
        kinds.setdefault(frame.kind, []).append(masked(frame.content))
    return kinds


def both(running: Callable[[str], Server], ask: Callable[[Server], Answer]) -> list[Answer]:
    """What the real server and the mock answer, asked at the same time."""
    servers = [running(name) for name in ("real", "mock")]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(ask, servers))


@pytest.fixture(params=["sse", "ws"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("about", [*ORDERED, *RACING])
def test_the_mock_writes_the_frames_of_the_real_server(
    running: Callable[[str], Server], transport: str, about: str
) -> None:
    question = (ORDERED | RACING)[about]
    real, mock = both(running, lambda server: ASK[transport](server, question))
    assert len(real) >= 2
    assert by_kind(mock) == by_kind(real)
    if about in ORDERED:
        orders = [[kind for kind, _ in groupby(turn, lambda f: f.kind)] for turn in (mock, real)]
        assert orders[0] == orders[1]


def test_the_mock_answers_an_auth_message_as_the_real_server_does(
    running: Callable[[str], Server],
) -> None:
    real, mock = both(running, lambda server: bareclient.ask_ws(server, SLOW, api_key="a key"))
    (greeting,) = by_kind(real)["auth_response_message"]
    assert dict(greeting)["status"] == "success"
    assert by_kind(mock) == by_kind(real)
    assert mock[0].content["user_id"] == real[0].content["user_id"]


def test_a_second_question_on_a_socket_silences_the_first(server: Server) -> None:
    first, second = (
        bareclient.user_message(f"{QUIET} tokens=30 token_ms=30", turn) for turn in ("one", "two")
    )
    seen: list[dict[str, Any]] = []
    with bareclient.connect_ws(server) as socket:
        socket.send(json.dumps(first))
        while not seen or seen[-1]["type"] != "system_response_message":
            seen.append(json.loads(socket.recv(30)))
        socket.send(json.dumps(second))
        while seen[-1].get("status") != "complete":
            seen.append(json.loads(socket.recv(30)))
    spoken = [m["parent_id"] for m in seen if m["type"] == "system_response_message"]
    assert [turn for turn, _ in groupby(spoken)] == ["one", "two"]
    assert spoken.count("two") == 32
    assert spoken.count("one") < 30


REQUESTS: dict[str, tuple[str, str, Any]] = {
    "a question": ("POST", "/v1/chat/stream", {"messages": [{"role": "user", "content": QUIET}]}),
    "no messages": ("POST", "/v1/chat/stream", {"messages": []}),
    "no body of the schema": ("POST", "/v1/chat/stream", {"question": "?"}),
    "a wrong method": ("GET", "/v1/chat/stream", None),
    "an unknown path": ("GET", "/v1/nothing", None),
    "an unknown execution": ("GET", "/executions/nobody", None),
    "a reply to nobody": ("POST", "/executions/a/interactions/b/response", {"response": {
        "type": "text", "text": "2024"}}),
    "health": ("GET", "/health", None),
}  # fmt: skip


@pytest.mark.parametrize("about", REQUESTS)
def test_the_mock_answers_a_request_with_status_and_headers_of_the_real_server(
    running: Callable[[str], Server], about: str
) -> None:
    real, mock = both(running, lambda server: bareclient.head(server, *REQUESTS[about]))
    assert mock == real
