"""Locustfile: the other ways to read streams in Locust, each as its users write it.

All of them parse each event with orjson, note when the first answer came out of their iterator, and
fire the same two Locust entries a turn.
"""

import ssl
from typing import Any
from uuid import uuid4

import gevent
import httpx
import orjson
from locust import FastHttpUser, User, constant, events, task
from websockets.sync.client import connect

from loadgen.clock import NS_PER_MS, now_ns
from tests.bench.meter import Meter, order

_order = order()
_meter = Meter(_order)
_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_ROUTE = "/v1/chat/stream"


@events.spawning_complete.add_listener  # type: ignore[untyped-decorator]  # Locust has no types
def _measure(user_count: int, **_: Any) -> None:
    gevent.spawn(_meter.measure, gevent.sleep)


class Turn:
    """One answer as it arrives."""

    def __init__(self, user: User, kind: str) -> None:
        self.id = uuid4().hex
        self.events = 0
        self._user = user
        self._kind = kind
        self._started_ns = now_ns()
        self._first_ns = 0

    def line(self, line: str) -> None:
        """A line of an event stream."""
        if line.startswith("data: "):
            chunk = orjson.loads(line[6:])
            if not self._first_ns and chunk["choices"][0]["delta"]["content"]:
                self._first_ns = now_ns()
            self.events += 1
        elif line.startswith("intermediate_data: "):
            orjson.loads(line[19:])
            self.events += 1

    def message(self, text: str | bytes) -> bool:
        """A message of a socket; False for the last one."""
        message = orjson.loads(text)
        if message["type"] == "system_response_message":
            if message["status"] == "complete":
                return False
            if not self._first_ns and message["content"]["text"]:
                self._first_ns = now_ns()
        self.events += 1
        return True

    def end(self) -> None:
        """The answer is whole."""
        ended_ns = now_ns()
        _meter.turns.append((self.id, self.events, self._first_ns, ended_ns))
        for name, at_ns in (("first answer", self._first_ns), ("completion", ended_ns)):
            self._user.environment.events.request.fire(
                request_type=self._kind,
                name=name,
                response_time=(at_ns - self._started_ns) / NS_PER_MS,
                response_length=0,
                exception=None,
                context={},
            )


def _body() -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": _order.question}], "stream": True}


def _headers(turn: Turn) -> dict[str, str]:
    return {"accept": "text/event-stream", "user-message-id": turn.id}


class HttpxAnalyst(User):
    """A client of its own for each user: a shared pool adds seconds of waiting for its lock."""

    wait_time = constant(0)

    def on_start(self) -> None:
        self.client = httpx.Client(timeout=None, trust_env=False, verify=_tls)

    @task
    def turn(self) -> None:
        turn = Turn(self, "httpx")
        url = _order.url + _ROUTE
        with self.client.stream("POST", url, json=_body(), headers=_headers(turn)) as answer:
            for line in answer.iter_lines():
                turn.line(line)
        turn.end()


class FastAnalyst(FastHttpUser):
    """Locust's own streaming reader."""

    wait_time = constant(0)
    network_timeout = connection_timeout = 600.0

    @task
    def turn(self) -> None:
        turn = Turn(self, "fast")
        for line in self.client.iter_lines(_ROUTE, "POST", json=_body(), headers=_headers(turn)):
            turn.line(line)
        turn.end()


class SocketAnalyst(User):
    """websockets' threading client, its threads made greenlets by Locust's patching."""

    wait_time = constant(0)

    def on_start(self) -> None:
        uri = _order.url.replace("http", "ws", 1) + "/websocket"
        self.socket = connect(uri, compression=None, ping_interval=None)

    @task
    def turn(self) -> None:
        turn = Turn(self, "websockets")
        content = {"messages": [{"role": "user", "content": [
            {"type": "text", "text": _order.question}]}]}  # fmt: skip
        asked = {"type": "user_message", "schema_type": "chat_stream", "id": turn.id,
                 "conversation_id": turn.id, "content": content}  # fmt: skip
        self.socket.send(orjson.dumps(asked), text=True)
        while turn.message(self.socket.recv()):
            pass
        turn.end()
