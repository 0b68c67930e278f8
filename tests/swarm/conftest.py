"""Real locust processes on small plans."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

PLAN = """
name = "swift"
failure_budget = 0.05
# A share that the turns of a few seconds can prove: 21 for 80 %, 90 for 95 %.
slo = [{ clock = "ttfv", within_s = 2.0, share = 0.8 }]
load = { drain_s = 10 }
# A machine that is busy with other tests makes the hub late; test_fitness.py is about that.
fitness = { hub_lag_ms = 5000, clock_step_ms = 86_400_000 }
questions = { texts = ["What is new?"] }

[human]
think_s = { median = 0.4, sigma = 0.6 }
reply_s = 0.2

[script]
words = "first_ms=50 steps=1 step_ms=100 tokens=10 token_ms=20"
prompt_share = 0.2
prompt_kinds = ["text", "radio"]

[[analysts]]
name = "browser"
dialect = "nat-sse"
weight = 60
identity = { method = "session", template = "analyst-{n}" }

[[analysts]]
name = "desk"
dialect = "nat-ws"
weight = 40
identity = { method = "api_key", template = "analyst-{n}" }
drop_between_turns = 0.1
drop_at_prompt = 0.5
drop_after_s = 0.1
"""


@dataclass(frozen=True)
class Swarm:
    """Starts locust on ``plan`` with results in ``folder``."""

    folder: Path
    plan: Path

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def command(self, *arguments: str) -> list[str]:
        locust = [sys.executable, "-m", "locust", "-f", str(ROOT / "scenarios" / "analysts.py")]
        own = ["--plan", str(self.plan), "--results", str(self.results), "--only-summary"]
        return [*locust, *own, *arguments]

    def run(
        self, *arguments: str, timeout: float = 90, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; stdout and stderr as text."""
        return subprocess.run(
            self.command(*arguments),
            env=os.environ | environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def run_folder(self) -> Path:
        """The only run folder."""
        (folder,) = self.results.iterdir()
        return folder

    def summary(self) -> dict[str, Any]:
        return json.loads((self.run_folder() / "summary.json").read_text())

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Rows by turn id; each list holds the copies of one row."""
        found: dict[str, list[dict[str, Any]]] = {}
        for path in self.run_folder().glob("turns-*.jsonl"):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                found.setdefault(row["turn"], []).append(row)
        return found


@pytest.fixture
def swarm(tmp_path: Path) -> Swarm:
    plan = tmp_path / "swift.toml"
    plan.write_text(PLAN)
    return Swarm(tmp_path, plan)


@pytest.fixture
def start(swarm: Swarm) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start locust processes that are ended with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, inside: str | None = None, **environ: str) -> subprocess.Popen[str]:
        """``inside`` is the network namespace to start it in."""
        there = ["ip", "netns", "exec", inside] if inside else []
        process = subprocess.Popen(
            [*there, *swarm.command(*arguments)],
            env=os.environ | environ,
            cwd=swarm.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
