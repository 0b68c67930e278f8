"""What a request meets before it meets the agent: a closed door, a deaf server, a proxy.

The mock's own paths, which begin with ``/_``, are spared all of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from loadgen.clock import now_ns
from mockagent.agent import Agent
from mockagent.answers import answer_json

_GZIP = 16 + zlib.MAX_WBITS


class Door(Enum):
    """How somebody is turned away."""

    REFUSED = "refused"
    """Nobody listens on the port."""
    RESET = "reset"
    """Connections are reset as soon as they are made."""
    FORBIDDEN = "403"
    BUSY = "429"
    DOWN = "503"

    @property
    def status(self) -> int:
        """The status of an answer; 0: there is none."""
        return int(self.value) if self.value.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Closed:
    """The door is closed until then; ``until_ns`` monotonic."""

    door: Door
    until_ns: int
    retry_after: int = 1

    @property
    def now(self) -> Door | None:
        """How somebody is turned away at this moment."""
        return self.door if now_ns() < self.until_ns else None


class Front:
    """The ASGI application that the server knows; behind it ``app`` may be another one tomorrow."""

    def __init__(self, agent: Agent, build: Callable[[Agent], ASGIApp]) -> None:
        self.closed = Closed(Door.REFUSED, 0)
        self._agent = agent
        self._build = build
        self._app = build(agent)

    def restart(self) -> None:
        """Forget everything that the routes know."""
        self._app = self._build(self._agent)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        network = self._agent.network
        if str(scope.get("path", "")).startswith("/_"):
            await self._app(scope, receive, send)
            return
        websocket = scope["type"] == "websocket"
        door = self.closed.now
        if door is not None and door.status:
            await _turn_away(scope, receive, send, door.status, self.closed.retry_after)
        elif websocket and network.ws_status:
            await _turn_away(scope, receive, send, network.ws_status, network.retry_after)
        elif network.half_open:
            await _ignore(receive)
        elif websocket:
            await self._app(scope, receive, send)
        else:
            if network.buffer:
                send = _Buffer(send)
            if network.gzip:
                send = _Gzip(send)
            await self._app(scope, receive, send)


def own_path(url: bytes) -> bool:
    """Whether a request is for the mock itself, and not for the agent that it plays."""
    return url.startswith(b"/_")


async def _turn_away(
    scope: Scope, receive: Receive, send: Send, status: int, retry_after: int
) -> None:
    response = answer_json({"detail": f"turned away with {status}"}, status)
    if status in (429, 503):
        response.headers["retry-after"] = str(retry_after)
    if scope["type"] == "websocket":
        await receive()
    # Starlette's response speaks the denial extension of ASGI on a WebSocket scope.
    await response(scope, receive, send)


async def _ignore(receive: Receive) -> None:
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


class _Buffer:
    """Sends an answer when it is complete."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Any = None
        self._body = b""

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            await self._send(self._start)
            await self._send({"type": "http.response.body", "body": self._body})


class _Gzip:
    """Compresses an answer and never flushes before its end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._compressor = zlib.compressobj(wbits=_GZIP)

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            kept = [(k, v) for k, v in message["headers"] if k.lower() != b"content-length"]
            await self._send(message | {"headers": [*kept, (b"content-encoding", b"gzip")]})
            return
        more = bool(message.get("more_body", False))
        body = self._compressor.compress(message.get("body", b""))
        if not more:
            body += self._compressor.flush()
        if body or not more:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
