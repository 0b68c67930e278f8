"""The mock's HTTP answers against those of a real NAT 1.9.0 server, one recording after the other:
same status, same headers, same frames in the same order, same text.

Only ids, times and dates may differ; ids must be equal where they are equal in the recording.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from tests.conftest import StartMock
from tests.contract.mock_shapes import normal_answer

RECORDINGS = Path(__file__).parents[1] / "recordings" / "nat"
NAMES = sorted(path.stem for path in RECORDINGS.glob("http_*.jsonl"))
OPTIONS = {
    "8000": (),
    "8001": ("--interactive-completions",),
    "8003": ("--identity-header", "X-User-ID"),
    "8004": ("--per-user",),
    "8005": (),
}
"""How the mock is started for recordings from the server that was on that port."""
FOREIGN = ":8899"
"""A recorded OAuth provider: ours is another, and only sends the browser back."""

_KEYS = re.compile(r'"(?:execution_id|interaction_id|oauth_state)":"([^"]+)"')
_LONGEST_PAUSE_S = 0.6


class Exchange:
    """A request and its answer, as recorded and as the mock gives it."""

    def __init__(self, port: int, request: str) -> None:
        self.recorded = ""
        self.ours = ""
        self.foreign = FOREIGN in request
        self._client = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._client.sendall(request.encode())

    @property
    def streamed(self) -> bool:
        """Whether its answer comes in pieces of unknown number."""
        return "transfer-encoding: chunked" in self.recorded

    @property
    def whole(self) -> bool:
        """Whether the recorded answer has come to the end that its header promises."""
        head, blank, body = self.recorded.partition("\r\n\r\n")
        length = re.search(r"(?i)content-length: (\d+)", head)
        return bool(blank) and (length is None or len(body.encode()) >= int(length[1]))

    def read(self) -> bool:
        """Read some more; False when there is no more, or not for a while."""
        try:
            data = self._client.recv(1 << 20)
        except TimeoutError:
            return False
        self.ours += data.decode()
        return bool(data)

    def read_up_to_recorded(self) -> None:
        """Read until as many prompts and consents have come as in the recording."""
        while self.ours.count("\nevent: ") < self.recorded.count("\nevent: "):
            assert self.read(), f"it never came:\n{self.recorded}\nbut\n{self.ours}"

    def close(self) -> None:
        """Leave."""
        self._client.close()


def records(name: str) -> Iterator[tuple[float, str, str]]:
    """Time in ms, direction and text of a recording's lines."""
    for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        yield record["t_ms"], record["dir"], record["text"]


def replay(name: str, port: int) -> list[Exchange]:
    """Ask what the recording asked, with our ids in place of the recorded ones."""
    exchanges: list[Exchange] = []
    open_: list[Exchange] = []
    before_ms = 0.0
    for at_ms, direction, text in records(name):
        if direction == ">":
            sleep(min((at_ms - before_ms) / 1000, _LONGEST_PAUSE_S))
            for exchange in open_:
                exchange.read_up_to_recorded()
            exchanges.append(Exchange(port, with_our_ids(text, exchanges)))
            exchanges[-1].foreign = FOREIGN in text
            open_.append(exchanges[-1])
        elif direction == "<":
            belongs = open_[0] if open_[-1].whole and open_[0].streamed else open_[-1]
            belongs.recorded += text
        elif text.startswith("server closed") and not open_[-1].streamed:
            finish(open_.pop())
        elif text.startswith(("client closes", "nothing ended")):
            leave(open_.pop())
        before_ms = at_ms
    for exchange in open_:
        finish(exchange)
    return exchanges


def finish(exchange: Exchange) -> None:
    """Read to the end of the connection."""
    while exchange.read():
        pass
    exchange.close()


def leave(exchange: Exchange) -> None:
    """Read as many frames as the recording has, and leave."""
    frames = exchange.recorded.count("\n\n")
    while exchange.ours.count("\n\n") < frames:
        assert exchange.read(), f"only this came:\n{exchange.ours}"
    exchange.ours = "\n\n".join(exchange.ours.split("\n\n")[:frames]) + "\n\n\r\n"
    exchange.close()


def with_our_ids(request: str, before: list[Exchange]) -> str:
    """A recorded request with the ids that the mock has given in the exchanges before."""
    for exchange in before:
        pairs = zip(_KEYS.findall(exchange.recorded), _KEYS.findall(exchange.ours), strict=False)
        for theirs, ours in pairs:
            request = request.replace(theirs, ours)
    return request.replace("GET /authorize?", "GET /_oauth/authorize?")


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_nats(shared_mock_agent: StartMock, name: str) -> None:
    _, _, request = next(records(name))
    where: Any = re.search(r"Host: 127\.0\.0\.1:(\d+)", request)
    agent = shared_mock_agent(*OPTIONS[where[1]])
    exchanges = replay(name, agent.port)
    assert exchanges
    for exchange in exchanges:
        assert exchange.recorded
        if exchange.foreign:
            assert " 302 " in exchange.ours
            continue
        ours, theirs = normal_answer(exchange.ours), normal_answer(exchange.recorded)
        assert ours.split("\n") == theirs.split("\n")
