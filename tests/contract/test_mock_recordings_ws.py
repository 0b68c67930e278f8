"""The mock's WebSocket against that of a real NAT 1.9.0 server, one recording after the other: the
same messages in the same order, the same silences, the same ends.

Only ids, times and dates may differ; ids must be equal where they are equal in the recording.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.conftest import MockAgent, StartMock
from tests.contract.mock_shapes import normal

RECORDINGS = Path(__file__).parents[1] / "recordings" / "nat"
NAMES = sorted(path.stem for path in RECORDINGS.glob("ws_*.jsonl"))
OPTIONS = {
    "8000": (),
    "8001": (),
    "8002": ("--accepted-credentials", "api_key"),
    "8003": ("--identity-header", "X-User-ID"),
    "8004": ("--per-user",),
}
"""How the mock is started for recordings from the server that was on that port."""
RACES = {
    "ws_hitl_duplicate_reply": "whether the run still speaks between two replies 0.6 ms apart is a "
    "race; see test_mock_ws for the end of the socket",
    "ws_resume_lost_because_closed_at_once": "whether the step behind the prompt still met the "
    "open socket is for the server's scheduler to say; see test_mock_ws for both ways",
}

_SILENCE_S = 0.3
_LONGEST_PAUSE_S = 2.0


def records(name: str) -> Iterator[tuple[float, str, str]]:
    """Time in ms, direction and text of a recording's lines."""
    for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        yield record["t_ms"], record["dir"], record["text"]


class Replay:
    """What a recording sent, sent again; what it received, beside what we receive."""

    def __init__(self, agent: MockAgent, sockets: ExitStack) -> None:
        self.theirs: list[str] = []
        self.ours: list[str] = []
        self._agent = agent
        self._sockets = sockets
        self._client: ClientConnection | None = None
        self._prompt = ""
        self._url = ""
        self._page = ""
        self._refusal = 0

    def happen(self, text: str) -> None:
        """Something that was no message."""
        if text.startswith("connect "):
            self._connect(text)
        elif text.startswith("refused: "):
            assert text.endswith(f"HTTP {self._refusal}")
        elif text.startswith("closed by the server"):
            self._expect_close(text)
        elif text.startswith(("client closes", "client drops")):
            self._open.close()
        elif text.startswith("the socket no longer"):
            with pytest.raises(ConnectionClosed):
                self._open.recv(timeout=3)
        elif text.startswith("nothing for"):
            with pytest.raises(TimeoutError):
                self._open.recv(timeout=_SILENCE_S)

    def send(self, text: str) -> None:
        """A message, or a request that the analyst's browser made."""
        if text.startswith("GET /authorize"):
            answer = httpx.get(self._url, follow_redirects=False)
            self._url = answer.headers["location"]
        elif text.startswith("GET /auth/redirect"):
            self._page = httpx.get(self._url).text
        elif text.startswith("b'"):
            self._send(ast.literal_eval(text))
        else:
            self._send(re.sub(r'("parent_id": ")[0-9a-f-]{36}', rf"\g<1>{self._prompt}", text))

    def receive(self, text: str) -> None:
        """A message, or what came to the analyst's browser."""
        if text.startswith("HTTP/1."):
            return
        if "<html>" in text:
            assert self._page == text
            return
        said = str(self._open.recv(timeout=8))
        if "system_interaction_message" in said:
            message: dict[str, Any] = json.loads(said)
            self._prompt, self._url = message["id"], message["content"]["text"]
        self.theirs.append(text)
        self.ours.append(said)

    @property
    def _open(self) -> ClientConnection:
        assert self._client is not None
        return self._client

    def _connect(self, text: str) -> None:
        url, _, headers = text.removeprefix("connect ").partition(" ")
        place = urlsplit(url)
        ours = f"ws://{self._agent.host}:{self._agent.port}{place.path}?{place.query}"
        try:
            client = connect(ours, compression=None, additional_headers=json_of(headers))
        except InvalidStatus as refused:
            self._refusal = refused.response.status_code
        else:
            self._client = self._sockets.enter_context(client)

    def _send(self, message: str | bytes) -> None:
        try:
            self._open.send(message)
        except ConnectionClosed:
            assert self._open.close_code == 1006

    def _expect_close(self, text: str) -> None:
        with pytest.raises(ConnectionClosed) as caught:
            self._open.recv(timeout=3)
        received = caught.value.rcvd
        code, reason = (None, None) if received is None else (received.code, received.reason)
        assert text == f"closed by the server: code {code} reason {reason!r}"


def json_of(headers: str) -> dict[str, str]:
    """Headers as the recordings print them."""
    return dict(ast.literal_eval(headers)) if headers else {}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in RACES])
def test_a_conversation_is_nats(shared_mock_agent: StartMock, name: str) -> None:
    _, _, opening = next(records(name))
    where: Any = re.search(r"127\.0\.0\.1:(\d+)", opening)
    before_ms = 0.0
    with ExitStack() as sockets:
        replay = Replay(shared_mock_agent(*OPTIONS[where[1]]), sockets)
        for at_ms, direction, text in records(name):
            if text.startswith("connect "):
                sleep(min((at_ms - before_ms) / 1000, _LONGEST_PAUSE_S))
            if direction == "!":
                replay.happen(text)
            elif direction == ">":
                replay.send(text)
            else:
                replay.receive(text)
            before_ms = at_ms
    ours, theirs = normal("\n".join(replay.ours)), normal("\n".join(replay.theirs))
    assert ours.split("\n") == theirs.split("\n")
