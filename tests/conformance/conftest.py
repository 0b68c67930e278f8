"""The conformance suite: our product against the real NeMo Agent Toolkit, and our mock beside it.

It installs the toolkit and takes minutes, so it runs only with ``--conformance``
(``make conformance``) or with ``LOADGEN_CONFORMANCE=1``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import counterparts
import pytest
import tokens
from counterparts import Server
from hyperforge import serve as rag
from nat.serve import InstallError

_HERE = Path(__file__).parent
_TIMEOUT_S = 600


def _verifying(keys: str) -> tuple[str, ...]:
    """The switches of a mock that verifies tokens with that set of the provider's keys."""
    place = f"{counterparts.PROVIDER}/keys/{keys}.json"
    return "--jwt", place, "--jwt-issuer", tokens.ISSUER, "--jwt-audience", tokens.AUDIENCE


KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "": ("wide", ()),
    "8": ("stock", ("--slots", "8")),
    "full": ("full", ("--interactive-completions",)),
    "strict": ("strict", ("--accepted-credentials", "api_key")),
    "header": ("header", ("--identity-header", "X-User-ID")),
    "peruser": ("peruser", ("--per-user", "--slots", "8")),
    "jwt": ("jwt", (*_verifying("one"), "--jwt-scope", tokens.SCOPE)),
    "jwts": ("jwts", _verifying("several")),
    "arag": (counterparts.HYPERFORGE, ("--arag-reference",)),
}
"""Servers by kind: the real one's configuration, and the mock's switches that mean the same."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance",
        action="store_true",
        help="Install the real NeMo Agent Toolkit and run the conformance suite against it.",
    )
    parser.addoption(
        "--searches",
        action="store_true",
        help="Run the searches for capacity too, for most of an hour.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance: needs the real NeMo Agent Toolkit")
    config.addinivalue_line("markers", "search: a search for capacity, which takes many minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.getoption("--conformance", default=False)
    wanted = asked or os.environ.get("LOADGEN_CONFORMANCE") == "1"
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.conformance)
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
            if not wanted:
                item.add_marker(pytest.mark.skip(reason="needs --conformance"))
            elif item.get_closest_marker("search") and not config.getoption("--searches"):
                item.add_marker(pytest.mark.skip(reason="needs --searches"))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """Gives the server of a name: ``real`` or ``mock``, and with a kind of `KINDS` behind it,
    ``real-8`` or ``mock-full``, another than the usual one, which runs any number of turns at once.
    ``real-arag`` is no toolkit but Hyperforge.  Each starts when it is first asked for; what this
    machine has no Python for skips the test.
    """
    folder = tmp_path_factory.mktemp("servers")
    with contextlib.ExitStack() as stack:
        started: dict[str, Server] = {}
        impossible: dict[str, str] = {}

        def server(name: str) -> Server:
            if name in impossible:
                pytest.skip(impossible[name])
            if name not in started:
                try:
                    started[name] = stack.enter_context(_server(name, folder))
                except rag.NoPython as error:
                    impossible[name] = f"conformance: {error}"
                    pytest.skip(impossible[name])
                except (InstallError, rag.InstallError) as error:
                    pytest.exit(f"conformance: {error}", returncode=1)
            return started[name]

        yield server


def _server(name: str, folder: Path) -> contextlib.AbstractContextManager[Server]:
    side, _, kind = name.partition("-")
    config, switches = KINDS[kind]
    if side == "real":
        return counterparts.real(folder, config)
    return counterparts.mock(folder, *switches)


@pytest.fixture(params=["real", "mock"])
def server(request: pytest.FixtureRequest, running: Callable[[str], Server]) -> Server:
    """The real server and the mock, one after the other."""
    return running(request.param)
