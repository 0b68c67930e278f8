"""The mock's Progress Agentic RAG routes against a recording of a published Hyperforge server: the
same frames in the same order, the same silences, the same ends.

Only ids, the validator's version and measured seconds may differ; ids must be equal where they are
equal in the recording.  What the recorder left out (nulls, empty lists and objects) is left out of
ours, too; that all keys are there is checked beside it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.conftest import MockAgent, StartMock

RECORDING = Path(__file__).parents[1] / "recordings" / "hyperforge" / "probe.jsonl"
BODIES: dict[str, Any] = {
    "post_plain": {"question": "x", "operation": 0, "streaming": True},
    "post_oauth": {"question": "#oauth x", "operation": 0},
    "post_no_question": {"operation": 0},
    "post_unknown_agent": {"question": "x", "operation": 0},
}
"""What was posted; the recording does not say."""
KEYS = (
    "exception", "answer", "answer_citations", "answer_urls", "agent_request", "generated_text",
    "step", "possible_answer", "context", "operation", "seqid", "original_question_uuid",
    "actual_question_uuid", "feedback", "oauth", "data_visualizations",
    "streaming_response_chunk", "reasoning",
)  # fmt: skip
"""Of every frame, as ``hyperforge.interaction.AragAnswer`` of that release declares them."""
_MIB = 1 << 20
_SILENCE_S = 1.8
"""Longer than the recorded timeout of a feedback, and as long as anything is waited for."""
_VARYING = (
    (re.compile(r"errors\.pydantic\.dev/[\d.]+/"), "errors.pydantic.dev/"),
    (re.compile(r"after \d+\.\d\ds"), "after SECONDS"),
)
_ID = re.compile(r"[0-9a-f]{32}")

Record = dict[str, Any]


def cases() -> dict[str, list[Record]]:
    """The lines of each case, by its name."""
    found: dict[str, list[Record]] = {}
    for line in RECORDING.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "case" in record:
            lines = found[record["case"]] = []
        lines.append(record)
    return found


CASES = cases()


def said(value: Any) -> Any:
    """``value`` without what the recorder leaves out."""
    if isinstance(value, dict):
        return {k: said(v) for k, v in value.items() if v is not None and v not in ([], {})}
    return [said(item) for item in value] if isinstance(value, list) else value


def alike(values: list[Any]) -> list[str]:
    """Frames as JSON, ids numbered in order of appearance."""
    seen: dict[str, int] = {}
    lines = []
    for value in values:
        text = json.dumps(said(value))
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        lines.append(_ID.sub(lambda match: f"ID{seen.setdefault(match[0], len(seen))}", text))
    return lines


def received(client: ClientConnection) -> tuple[str, Record]:
    """The next frame, as text and understood; it has all keys in the server's order."""
    text = str(client.recv(timeout=5))
    frame: Record = json.loads(text)
    assert tuple(frame) == KEYS
    assert text == json.dumps(frame, separators=(",", ":"), ensure_ascii=False)
    return text, frame


def replay(agent: MockAgent, lines: list[Record]) -> Iterator[tuple[Any, Any]]:
    """Send what was sent, when it was sent; what the server said and what we say to it."""
    opening = lines[0]
    limit = _MIB if opening["case"].endswith("limit 1 MiB") else None
    url = f"ws://{agent.host}:{agent.port}{opening['open']}"
    with connect(url, compression=None, max_size=limit) as client:
        for before, record in pairwise(lines):
            if "send" in record:
                sleep(max(record["t_ms"] - before["t_ms"] - 100, 0) / 1000)
                text = record["send"]
                with suppress(ConnectionClosed):  # a refusal does not wait for the question
                    client.send(ast.literal_eval(text) if text.startswith("b'") else text)
            elif "frame of" in record.get("recv", {}).get("note", ""):
                text, frame = received(client)
                assert record["recv"]["note"] == f"frame of {len(text.encode())} bytes"
                assert record["recv"]["operation"] == frame["operation"]
            elif "recv" in record:
                yield record["recv"], received(client)[1]
            elif "closed" in record:
                yield record["closed"], ended(client)
            elif "gives up" in record["note"]:
                with pytest.raises(TimeoutError):
                    client.recv(timeout=_SILENCE_S)
            else:
                assert record["note"] == "client closed 1000"


def ended(client: ClientConnection) -> Record:
    """The close, as the recorder wrote it."""
    with pytest.raises(ConnectionClosed) as caught:
        client.recv(timeout=5)
    received, sent = caught.value.rcvd, caught.value.sent
    return {
        "rcvd": [received.code, received.reason] if received else None,
        "sent": [sent.code, sent.reason] if sent else None,
    }


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent("--arag-reference")


@pytest.mark.parametrize("name", [name for name in CASES if name not in BODIES])
def test_a_conversation_is_hyperforges(agent: MockAgent, name: str) -> None:
    pairs = list(replay(agent, CASES[name]))
    theirs, ours = alike([pair[0] for pair in pairs]), alike([pair[1] for pair in pairs])
    if name.endswith("limit 1 MiB"):
        theirs, ours = (
            [re.sub("frame.*bytes", "", line) for line in side] for side in (theirs, ours)
        )
    assert ours == theirs


@pytest.mark.parametrize("name", list(BODIES))
def test_an_answer_in_lines_is_hyperforges(agent: MockAgent, name: str) -> None:
    opening, head, *lines = CASES[name]
    answer = httpx.post(f"{agent.url}{opening['post']}", json=BODIES[name])
    assert answer.status_code == head["status"]
    assert answer.headers["content-type"] == head["content_type"]
    ours = [json.loads(line) for line in answer.text.splitlines()]
    if head["status"] == 200:
        assert all(tuple(line) == KEYS for line in ours)
    assert alike(ours) == alike([line["line"] for line in lines])


def test_a_turn_whose_client_left_is_finished_and_seen_running(agent: MockAgent) -> None:
    """What the recorder could not see on the wire: the case "client closes while the turn runs"."""
    path = "/api/v1/agent/agent-0001/session/left-behind/ws"
    with connect(f"ws://{agent.host}:{agent.port}{path}", compression=None) as client:
        client.send(json.dumps({"question": "#slow 1"}))
        assert received(client)[1]["operation"] == 2
    running = [turn for turn in agent.truth(running=True) if turn["conversation"] == "left-behind"]
    assert [turn["outcome"] for turn in running] == ["running"]
    while not (mine := [t for t in agent.truth() if t["conversation"] == "left-behind"]):
        sleep(0.05)
    assert mine[0]["outcome"] == "client_gone"
    assert mine[0]["ended_ns"] - mine[0]["received_ns"] > 1_000_000_000
