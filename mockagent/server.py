"""The server around the application: uvicorn as the real servers run it, with a prompt end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from loadgen.clock import NS_PER_MS, now_ns
from loadgen.errors import ConfigError
from mockagent.agent import Agent, Settings
from mockagent.app import build_app
from mockagent.control import Control
from mockagent.front import Front, own_path
from mockagent.network import Line, reset

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; ``port`` 0 takes a free one.

    Raises:
        ConfigError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
        raise ConfigError(
            f"cannot listen on {host}:{port}: {reason}; choose another --port (0 takes a free one)"
        ) from None


def serve(
    settings: Settings,
    listener: socket.socket,
    origin: str,
    log_level: str,
    ready: Callable[[], None],
    certificate: Path | None = None,
    key: Path | None = None,
) -> None:
    """Serve on ``listener``, which is reached at ``origin``, until SIGTERM or SIGINT; ``ready`` is
    called when it serves.
    """
    logging.basicConfig(level=log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").addFilter(_expected)
    agent = Agent(settings)
    agent.origin = origin
    if agent.consents is not None:
        agent.consents.origin = origin
    front = Front(agent, build_app)
    config = uvicorn.Config(
        front,
        loop="uvloop",
        ws="websockets-sansio",
        ws_ping_interval=20,
        ws_ping_timeout=20,
        ws_max_size=16 * 1024 * 1024,
        timeout_keep_alive=settings.keep_alive_s,
        lifespan="off",
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    # uvicorn sends itself the signal again after its end; this is what then receives it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: collections that walk it would stall all streams
    server = Server(config, agent, listener, ready)
    control = Control(agent, front, server)
    agent.control = control.serve
    config.http = partial(_Http, agent, control)  # type: ignore[assignment]  # uvicorn calls it
    server.run(sockets=[listener])


class Server(uvicorn.Server):
    """uvicorn that breaks off all turns when it is told to stop: NAT waits for them for ever."""

    def __init__(
        self,
        config: uvicorn.Config,
        agent: Agent,
        listener: socket.socket,
        ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._agent = agent
        self._address = listener.getsockname()[:2]
        self._ready = ready
        agent.connections = lambda: len(self.server_state.connections)
        agent.reset = self.reset

    def reset(self, client: tuple[str, int] | None) -> None:
        """Reset the TCP connection of the client at that address."""
        for protocol in self.lines():
            if client is not None and getattr(protocol, "client", None) == client:
                reset(protocol.transport)

    def lines(self) -> list[Any]:
        """The protocol objects of all open connections."""
        return list(self.server_state.connections)

    def shut(self) -> None:
        """Stop listening; who connects is refused by the kernel."""
        for server in self.servers:
            server.close()
        self.servers = []

    async def listen(self) -> None:
        """Listen again, on the same port."""
        if self.should_exit:
            return
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        listener = listen(*self._address)
        made = await loop.create_server(
            protocol, sock=listener, ssl=config.ssl, backlog=config.backlog
        )
        self.servers = [made]  # uvloop's is as good

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets=sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Break off the turns, then stop."""
        self._agent.stop()
        await super().shutdown(sockets=sockets)
        self._agent.deadlines.close()


class _Http(HttpToolsProtocol):
    """A connection, with the network of its time behind it."""

    def __init__(self, agent: Agent, control: Control, **options: Any) -> None:
        super().__init__(**options)
        self._agent = agent
        self._control = control
        self._unread: bytearray | None = None
        """What was said before anybody reads; None: everything is read."""

    def connection_made(self, transport: Any) -> None:
        """Called when a connection is made."""
        network = self._agent.network
        if network.shapes:
            rng = Random(f"{self._agent.settings.seed}/{transport.get_extra_info('peername')}")
            spared = lambda: own_path(getattr(self, "url", b""))  # noqa: E731 - a name for it
            transport = Line(transport, network, self._agent.deadlines, rng, spared)
        super().connection_made(transport)
        if self._control.resets:
            reset(transport)
        elif network.accept_ms:
            self._unread = bytearray()
            due_ns = now_ns() + int(network.accept_ms * NS_PER_MS)
            self._reading = asyncio.get_running_loop().create_task(self._read_from(due_ns))

    def data_received(self, data: bytes) -> None:
        """Called when something was said."""
        if self._unread is None:
            super().data_received(data)
        else:
            self._unread += data

    async def _read_from(self, due_ns: int) -> None:
        await self._agent.deadlines.until(due_ns)
        unread, self._unread = self._unread, None
        if unread and self.parser is not None and not self.transport.is_closing():
            super().data_received(bytes(unread))


def _expected(record: logging.LogRecord) -> bool:
    """Drop uvicorn's complaint about an unfinished answer: a cut connection is meant to be one."""
    return not record.getMessage().startswith("ASGI callable returned without")
