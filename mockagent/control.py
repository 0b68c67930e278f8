"""``POST /_control``: break the mock while it runs, as an operator or a test would.

A command is one JSON object; what it does is done in the order of the fields below.  Only loopback
may say so, and only as JSON: no page in a browser can.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import threading
from random import Random
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from loadgen.clock import NS_PER_S, now_ns
from loadgen.errors import ConfigError
from mockagent.agent import Agent
from mockagent.answers import answer_json
from mockagent.front import Closed, Door, Front, own_path
from mockagent.network import faults_of, reset

_Seconds = Annotated[float, Field(ge=0, le=600, allow_inf_nan=False)]
_ANSWER_S = 0.05
"""A command that spoils the connection it came on is answered first."""
_log = logging.getLogger("mockagent")


class Command(BaseModel):
    """What is to happen.

    ``drop``: how many WebSockets and running streams are lost, chosen by the mock's seed, in the
    way of ``how``: a close code (streams just end), ``fin`` (WebSocket: 1006) or ``rst``.
    ``refuse_s``: for so long nobody gets in; ``door`` says how that looks.  ``restart``: the
    connections are reset, running turns stop, and everything is forgotten but the truth; nobody
    listens for ``down_s``.  ``pause_s``: the whole process stands still.  ``faults``: what
    ``--fault`` would say, in place of all that was said before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    drop: Literal["all"] | Annotated[int, Field(ge=0)] | None = None
    how: Literal["fin", "rst"] | Annotated[int, Field(ge=1000, le=4999)] = 1012
    refuse_s: _Seconds = 0.0
    door: Door = Door.REFUSED
    retry_after: Annotated[int, Field(ge=0, le=3600)] = 1
    restart: bool = False
    down_s: _Seconds = 0.2
    pause_s: _Seconds = 0.0
    faults: tuple[str, ...] | None = None


class Entrance(Protocol):
    """The part of a server through which connections come."""

    def lines(self) -> list[Any]:
        """The protocol objects of all open connections."""

    def shut(self) -> None:
        """Stop listening; who connects is refused by the kernel."""

    async def listen(self) -> None:
        """Listen again, on the same port."""


class Control:
    """Carries commands out."""

    def __init__(self, agent: Agent, front: Front, entrance: Entrance) -> None:
        self._agent = agent
        self._front = front
        self._entrance = entrance
        self._rng = Random(f"{agent.settings.seed}/control")
        self._open_ns = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, request: Request) -> Response:
        """The endpoint."""
        client = request.client
        if client is None or not ipaddress.ip_address(client.host).is_loopback:
            return answer_json({"detail": "only loopback may control a mock"}, 403)
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return answer_json({"detail": "a command is JSON (content-type)"}, 415)
        try:
            command = Command.model_validate_json(await request.body())
            done = self.obey(command)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            return answer_json({"detail": found}, 422)
        except ConfigError as error:
            return answer_json({"detail": str(error)}, 422)
        return answer_json(done)

    def obey(self, command: Command) -> dict[str, Any]:
        """Do what can be done at once, and let the rest follow.  Raises ConfigError."""
        agent, facts = self._agent, {"at_ns": now_ns()}
        if command.faults is not None:
            agent.network, agent.always = faults_of(command.faults)
        if command.drop is not None:
            facts |= self._drop(command)
        if command.refuse_s:
            until_ns = now_ns() + round(command.refuse_s * NS_PER_S)
            self._front.closed = Closed(command.door, until_ns, command.retry_after)
            if command.door is Door.REFUSED:
                self._close_until(until_ns)
        if command.restart:
            self._later(self._restart(command))
        if command.pause_s:
            self._later(self._pause(command.pause_s))
        agent.truth.happened("control", 0, None, command=command.model_dump(exclude_defaults=True))
        return facts

    @property
    def resets(self) -> bool:
        """Whether a new connection is to be reset."""
        return self._front.closed.now is Door.RESET

    def _drop(self, command: Command) -> dict[str, int]:
        chosen = sorted(filter(_busy, self._entrance.lines()), key=lambda line: str(line.client))
        if isinstance(command.drop, int):
            chosen = self._rng.sample(chosen, min(command.drop, len(chosen)))
        for line in chosen:
            _lose(line, command.how)
        sockets = sum(map(_is_socket, chosen))
        return {"sockets": sockets, "streams": len(chosen) - sockets}

    def _close_until(self, until_ns: int) -> None:
        """Of several commands the longest counts."""
        if until_ns > self._open_ns:
            shut = self._open_ns > now_ns()
            self._open_ns = until_ns
            if not shut:
                self._entrance.shut()
                self._later(self._open())

    async def _open(self) -> None:
        while now_ns() < self._open_ns:
            await self._agent.deadlines.until(self._open_ns)
        await self._entrance.listen()

    async def _restart(self, command: Command) -> None:
        agent = self._agent
        self._close_until(now_ns() + round((_ANSWER_S + command.down_s) * NS_PER_S))
        await asyncio.sleep(_ANSWER_S)
        for line in self._entrance.lines():
            reset(line.transport)
        agent.stopping = True
        running = list(agent.performing)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        agent.stopping = False
        agent.begin()
        self._front.restart()

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(_ANSWER_S)
        threading.Event().wait(seconds)

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a command broke: this is a fault of the mock", exc_info=task.exception())


def _is_socket(line: Any) -> bool:
    return hasattr(line, "handshake_complete")


def _busy(line: Any) -> bool:
    """Whether something would be missed: a WebSocket, or an answer under way."""
    if _is_socket(line):
        return bool(line.handshake_complete) and not line.close_sent
    cycle = line.cycle
    return cycle is not None and not cycle.response_complete and not own_path(line.url)


def _lose(line: Any, how: int | str) -> None:
    """As uvicorn ends connections when it is stopped, but with any code or none."""
    if how == "rst":
        reset(line.transport)
        return
    if _is_socket(line) and how != "fin":
        line.stop_keepalive()
        line.queue.put_nowait({"type": "websocket.disconnect", "code": how})
        line.conn.send_close(how)
        line.close_sent = True
        line.transport.write(b"".join(line.conn.data_to_send()))
    line.transport.close()
