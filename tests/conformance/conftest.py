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
from counterparts import Server
from nat.serve import InstallError

_HERE = Path(__file__).parent
_TIMEOUT_S = 600


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance",
        action="store_true",
        help="Install the real NeMo Agent Toolkit and run the conformance suite against it.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance: needs the real NeMo Agent Toolkit")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.getoption("--conformance", default=False)
    wanted = asked or os.environ.get("LOADGEN_CONFORMANCE") == "1"
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.conformance)
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
            if not wanted:
                item.add_marker(pytest.mark.skip(reason="needs --conformance"))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """Gives the server of a name: ``real`` and ``mock`` run any number of turns at once,
    ``real-8`` and ``mock-8`` eight.  Each starts when it is first asked for.
    """
    folder = tmp_path_factory.mktemp("servers")
    makers = {
        "real": lambda: counterparts.real(folder),
        "mock": lambda: counterparts.mock(folder),
        "real-8": lambda: counterparts.real(folder, "stock"),
        "mock-8": lambda: counterparts.mock(folder, slots=8),
    }
    with contextlib.ExitStack() as stack:
        started: dict[str, Server] = {}

        def server(name: str) -> Server:
            if name not in started:
                try:
                    started[name] = stack.enter_context(makers[name]())
                except InstallError as error:
                    pytest.exit(f"conformance: {error}", returncode=1)
            return started[name]

        yield server


@pytest.fixture(params=["real", "mock"])
def server(request: pytest.FixtureRequest, running: Callable[[str], Server]) -> Server:
    """The real server and the mock, one after the other."""
    return running(request.param)
