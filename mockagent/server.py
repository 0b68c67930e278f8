"""The server around the application: uvicorn as the real servers run it, with a prompt end."""

from __future__ import annotations

import gc
import logging
import signal
import socket
from collections.abc import Callable

import uvicorn

from loadgen.errors import ConfigError
from mockagent.agent import Agent, Settings
from mockagent.app import build_app

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
) -> None:
    """Serve on ``listener``, which is reached at ``origin``, until SIGTERM or SIGINT; ``ready`` is
    called when it serves.
    """
    logging.basicConfig(level=log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").addFilter(_expected)
    agent = Agent(settings)
    if agent.consents is not None:
        agent.consents.origin = origin
    config = uvicorn.Config(
        build_app(agent),
        loop="uvloop",
        http="httptools",
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
    )
    # uvicorn sends itself the signal again after its end; this is what then receives it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: collections that walk it would stall all streams
    Server(config, agent, ready).run(sockets=[listener])


class Server(uvicorn.Server):
    """uvicorn that breaks off all turns when it is told to stop: NAT waits for them for ever."""

    def __init__(self, config: uvicorn.Config, agent: Agent, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._agent = agent
        self._ready = ready
        agent.connections = lambda: len(self.server_state.connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets=sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Break off the turns, then stop."""
        self._agent.stop()
        await super().shutdown(sockets=sockets)
        self._agent.deadlines.close()


def _expected(record: logging.LogRecord) -> bool:
    """Drop uvicorn's complaint about an unfinished answer: a cut connection is meant to be one."""
    return not record.getMessage().startswith("ASGI callable returned without")
