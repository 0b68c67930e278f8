"""The two agents that are held against each other: the real toolkit and our mock, as processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from nat import serve

from loadgen.clock import NS_PER_S, now_ns

_PROVIDER = Path(serve.__file__).with_name("provider.py")
_READY_S = 60
_TERM_S = 3


@dataclass(frozen=True, slots=True)
class Server:
    """A running agent; ``origin`` is ``http://127.0.0.1:PORT``.

    ``elsewhere``: other origins that it sends its users to.
    """

    name: str
    origin: str
    pid: int
    log: Path
    elsewhere: tuple[str, ...] = ()

    @property
    def websocket(self) -> str:
        """The URI of its socket."""
        return self.origin.replace("http", "ws", 1) + "/websocket"


def real(folder: Path, config: str = "wide") -> contextlib.AbstractContextManager[Server]:
    """The NeMo Agent Toolkit with the scripted workflow; ``config`` names a file of ``nat/``.

    ``full`` comes with the OAuth provider that it needs.  Raises `serve.InstallError` when the
    toolkit cannot be installed.
    """
    return _real_with_provider(folder) if config == "full" else _real(folder, config, "")


def mock(folder: Path, *switches: str) -> contextlib.AbstractContextManager[Server]:
    """Our mock agent."""
    port = _free_port()
    command = [sys.executable, "-m", "mockagent", "--port", str(port), *switches]
    return _running("mock", port, command, folder, os.environ)


@contextlib.contextmanager
def _real_with_provider(folder: Path) -> Iterator[Server]:
    port = _free_port()
    command = [sys.executable, str(_PROVIDER), "--port", str(port)]
    with (
        _running("provider", port, command, folder, os.environ) as provider,
        _real(folder, "full", provider.origin) as server,
    ):
        yield replace(server, elsewhere=(provider.origin,))


def _real(folder: Path, config: str, provider: str) -> contextlib.AbstractContextManager[Server]:
    nat, port = serve.install(), _free_port()
    environ = serve.environ(port, provider)
    return _running("real", port, serve.command(nat, port, config), folder, environ)


@contextlib.contextmanager
def _running(
    name: str, port: int, command: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Iterator[Server]:
    log = folder / f"{name}-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=output, stderr=subprocess.STDOUT
        )
    server = Server(name, f"http://127.0.0.1:{port}", process.pid, log)
    try:
        _wait_until_ready(server, process)
        yield server
    finally:
        _end(process)


def _wait_until_ready(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = now_ns() + _READY_S * NS_PER_S
    while now_ns() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{server.origin}/health", trust_env=False).status_code == 200:
                return
        try:
            code = process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"the {server.name} server ended at once with {code}: {_last(server)}")
    raise RuntimeError(f"the {server.name} server is not ready in {_READY_S} s: {_last(server)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop it.  The toolkit waits without limit for runs that are at a prompt."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_TERM_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _last(server: Server) -> str:
    lines = server.log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
