"""The scenario inside Locust's own web UI."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from .conftest import Swarm


def fetch(url: str, form: dict[str, str] | None = None) -> str:
    data = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(url, data=data, timeout=60) as got:
        return got.read().decode()


def wait_until(what: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if what():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


def test_options_are_shown_and_two_runs_in_a_row_have_a_folder_each(
    swarm: Swarm,
    start: Callable[..., subprocess.Popen[str]],
    mock_agent: Any,
    free_port: int,
) -> None:
    agent = mock_agent()
    start("--host", agent.url, "--web-host", "127.0.0.1", "--web-port", str(free_port))
    root = f"http://127.0.0.1:{free_port}"
    wait_until(lambda: "run_name" in fetch(root))
    page = fetch(root)
    assert "insecure" in page
    assert str(swarm.plan) in page
    for name in ("first", "second"):
        form = {"user_count": "4", "spawn_rate": "4", "host": agent.url, "run_name": name}
        form["plan"] = str(swarm.plan)
        assert json.loads(fetch(f"{root}/swarm", form))["success"]
        wait_until(lambda: "completion" in fetch(f"{root}/stats/requests"))
        fetch(f"{root}/stop", {"now": "1"})
        wait_until(lambda name=name: bool(list(swarm.results.glob(f"*-{name}/report.html"))))
    assert len(list(swarm.results.iterdir())) == 2
    names = {entry["name"] for entry in json.loads(fetch(f"{root}/stats/requests"))["stats"]}
    assert {"first progress", "first answer", "completion", "connect"} <= names
    assert len(names) <= 8
