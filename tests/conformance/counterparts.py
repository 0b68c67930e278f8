"""The agents that are held against each other, as processes: the real toolkit or the real
Hyperforge, and our mock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import tokens
from hyperforge import serve as rag
from nat import serve

from loadgen.clock import NS_PER_S, now_ns

PROVIDER = "{provider}"
"""Stands in the switches of a mock for the origin of the provider that it needs."""

HYPERFORGE = "hyperforge"
"""The configuration that is no file of the toolkit's, but the other server."""

_PROVIDER = Path(serve.__file__).with_name("provider.py")
_RAG_PROVIDER = Path(rag.__file__).with_name("provider.py")
_AUTHORITY = "authority.pem"
_NEED_PROVIDER = ("full", "jwt", "jwts")
_READY_S = 60
_TERM_S = 3


@dataclass(frozen=True, slots=True)
class Server:
    """A running agent; ``origin`` is ``http://127.0.0.1:PORT``.

    ``elsewhere``: other origins that it sends its users to; ``trust``: the certificate authority
    of those that speak TLS.
    """

    name: str
    origin: str
    pid: int
    log: Path
    elsewhere: tuple[str, ...] = ()
    trust: Path | None = None

    @property
    def websocket(self) -> str:
        """The URI of its socket."""
        return self.origin.replace("http", "ws", 1) + "/websocket"


def real(folder: Path, config: str = "wide") -> contextlib.AbstractContextManager[Server]:
    """The NeMo Agent Toolkit with the scripted workflow; ``config`` names a file of ``nat/``.

    One that needs an OAuth provider comes with it.  `HYPERFORGE` is the real Hyperforge with the
    scripted agents of ``hyperforge/``.  Raises an ``InstallError``, of `nat.serve` or of
    `hyperforge.serve`, when it cannot be installed.
    """
    if config == HYPERFORGE:
        return _hyperforge(folder)
    if config in _NEED_PROVIDER:
        return _with_provider(folder, lambda provider: _real(folder, config, provider))
    return _real(folder, config, "")


def mock(folder: Path, *switches: str) -> contextlib.AbstractContextManager[Server]:
    """Our mock agent; `PROVIDER` in its ``switches`` lets one be started."""
    if any(PROVIDER in switch for switch in switches):
        return _with_provider(folder, lambda provider: _mock(folder, switches, provider))
    return _mock(folder, switches, "")


@contextlib.contextmanager
def _with_provider(
    folder: Path, start: Callable[[str], contextlib.AbstractContextManager[Server]]
) -> Iterator[Server]:
    port = _free_port()
    keys = folder / f"keys-{port}"
    keys.mkdir()
    tokens.write_key_sets(keys)
    command = [sys.executable, str(_PROVIDER), "--port", str(port), "--keys", str(keys)]
    with (
        _running("provider", port, command, folder, os.environ) as provider,
        start(provider.origin) as server,
    ):
        yield replace(server, elsewhere=(provider.origin,))


def _mock(
    folder: Path, switches: Sequence[str], provider: str
) -> contextlib.AbstractContextManager[Server]:
    port = _free_port()
    given = [switch.replace(PROVIDER, provider) for switch in switches]
    command = [sys.executable, "-m", "mockagent", "--port", str(port), *given]
    return _running("mock", port, command, folder, os.environ)


def _real(folder: Path, config: str, provider: str) -> contextlib.AbstractContextManager[Server]:
    nat, port = serve.install(), _free_port()
    environ = serve.environ(port, provider)
    return _running("real", port, serve.command(nat, port, config), folder, environ)


@contextlib.contextmanager
def _hyperforge(folder: Path) -> Iterator[Server]:
    python, port, port_of_provider = rag.install(), _free_port(), _free_port()
    place = folder / f"provider-{port_of_provider}"
    place.mkdir()
    provider = f"https://127.0.0.1:{port_of_provider}"
    command = [sys.executable, str(_RAG_PROVIDER), "--port", str(port_of_provider)]
    command += ["--folder", str(place)]
    environ = rag.environ(provider)
    with (
        _running(
            "provider", port_of_provider, command, place, os.environ, trust=place / _AUTHORITY
        ),
        _running(
            "real", port, rag.command(python, port), folder, environ, "/health/ready"
        ) as server,
    ):
        yield replace(server, elsewhere=(provider,), trust=place / _AUTHORITY)


@contextlib.contextmanager
def _running(
    name: str,
    port: int,
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    ready: str = "/health",
    trust: Path | None = None,
) -> Iterator[Server]:
    log = folder / f"{name}-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=output, stderr=subprocess.STDOUT
        )
    scheme = "http" if trust is None else "https"
    server = Server(name, f"{scheme}://127.0.0.1:{port}", process.pid, log, trust=trust)
    try:
        _wait_until_ready(server, process, ready)
        yield server
    finally:
        _end(process)


def _wait_until_ready(server: Server, process: subprocess.Popen[bytes], ready: str) -> None:
    deadline = now_ns() + _READY_S * NS_PER_S
    while now_ns() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if _get(server, ready).status_code == 200:
                return
        try:
            code = process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"the {server.name} server ended at once with {code}: {_last(server)}")
    raise RuntimeError(f"the {server.name} server is not ready in {_READY_S} s: {_last(server)}")


def _get(server: Server, path: str) -> httpx.Response:
    if server.trust is None or not server.trust.is_file():  # it is written before the port opens
        return httpx.get(server.origin + path, trust_env=False)
    trusted = ssl.create_default_context(cafile=server.trust)
    return httpx.get(server.origin + path, verify=trusted, trust_env=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop it.  The toolkit waits without limit for runs that are at a prompt, Hyperforge for
    sockets."""
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
