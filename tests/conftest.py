"""Fixtures for tests that need a running mock agent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from loadgen.clock import NS_PER_S, now_ns

_ROOT = Path(__file__).parent.parent
_STOP_S = 5


@dataclass(frozen=True, slots=True)
class MockAgent:
    """A mock agent in a process of its own."""

    url: str
    pid: int
    process: subprocess.Popen[str]

    @property
    def host(self) -> str:
        """The address it listens on."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port it listens on."""
        return urlsplit(self.url).port or 0

    def truth(self, since: int = 0, running: bool = False) -> list[dict[str, Any]]:
        """The truth log: ended turns in order of their ends, then the running ones if wanted."""
        return self._lines(f"/_truth?since={since}&running={int(running)}")

    def sockets(self) -> list[dict[str, Any]]:
        """What happened on WebSockets, in order."""
        return self._lines("/_truth/sockets")

    def summary(self) -> dict[str, Any]:
        """Counts of turns, connections and slots."""
        return dict(httpx.get(f"{self.url}/_truth/summary").raise_for_status().json())

    def await_turns(self, count: int, timeout_s: float = 60) -> list[dict[str, Any]]:
        """The truth log once it has ``count`` ended turns."""
        limit_ns = now_ns() + int(timeout_s * NS_PER_S)
        while len(turns := self.truth()) < count:
            assert now_ns() < limit_ns, f"only {len(turns)} of {count} turns ended"
        return turns

    def control(self, **command: Any) -> dict[str, Any]:
        """Give it a command."""
        answer = httpx.post(f"{self.url}/_control", json=command).raise_for_status()
        return dict(answer.json())

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the mock agent did not stop within {_STOP_S} s") from None

    def _lines(self, path: str) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self.url}{path}").raise_for_status()
        return [json.loads(line) for line in answer.content.splitlines()]


StartMock = Callable[..., MockAgent]


@contextmanager
def running_mock(*arguments: str) -> Iterator[MockAgent]:
    """A mock agent started with ``arguments``, stopped at the end."""
    command = [sys.executable, "-m", "mockagent", "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith("mock agent on http"), f"it said {line!r}"
        agent = MockAgent(line.removeprefix("mock agent on "), process.pid, process)
        try:
            yield agent
        finally:
            agent.stop()


@pytest.fixture
def mock_agent() -> Iterator[StartMock]:
    """Starts mock agents for one test: ``mock_agent("--slots", "8")``."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(running_mock(*arguments))


@pytest.fixture(scope="session")
def shared_mock_agent() -> Iterator[StartMock]:
    """Starts mock agents that all tests share, one for each set of arguments.

    Tell turns apart by their ids: other tests' are in the same truth log.
    """
    started: dict[tuple[str, ...], MockAgent] = {}
    with ExitStack() as stack:

        def start(*arguments: str) -> MockAgent:
            if arguments not in started or started[arguments].process.poll() is not None:
                started[arguments] = stack.enter_context(running_mock(*arguments))
            return started[arguments]

        yield start
