"""A credential given to a run is found nowhere afterwards."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import PLAN, Swarm

SECRET = "sk-VerySecret-4711"


@pytest.mark.parametrize("mock_args", [(), ("--reject-auth",)])
def test_a_token_appears_in_no_file_no_log_and_no_page(
    swarm: Swarm,
    start: Callable[..., subprocess.Popen[str]],
    mock_agent: Any,
    free_port: int,
    mock_args: tuple[str, ...],
) -> None:
    agent = mock_agent(*mock_args)
    plan = PLAN.replace('template = "analyst-{n}"', 'env = "LOADGEN_TEST_TOKEN"')
    swarm.plan.write_text(plan.replace("keep_answers", "") + "")
    locust = start(
        "--host", agent.url, "--autostart", "--autoquit", "3", "-u", "6", "-r", "6", "-t", "4s",
        "--web-host", "127.0.0.1", "--web-port", str(free_port), "--loglevel", "DEBUG",
        LOADGEN_TEST_TOKEN=SECRET,
    )  # fmt: skip
    pages = []
    deadline = time.monotonic() + 30
    while locust.poll() is None and time.monotonic() < deadline:
        for page in ("/", "/stats/requests", "/exceptions", "/logs", "/tasks"):
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{free_port}{page}", timeout=2
                ) as got:
                    pages.append(got.read().decode())
            except OSError:
                continue
        time.sleep(0.5)
    said, _ = locust.communicate(timeout=30)
    assert len(pages) > 5
    assert len(swarm.rows()) >= 6
    for page in pages:
        assert SECRET not in page
    assert SECRET not in said
    for path in swarm.folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
