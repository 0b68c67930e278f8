"""A credential given to a run is found nowhere afterwards."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import PLAN, Swarm

SECRET = "sk-VerySecret-4711"


RAG = """
[[analysts]]
name = "desk"
dialect = "arag-ws"
options = { agent = "agent-0001", account = "local" }
identity = { method = "service_account", env = "LOADGEN_TEST_TOKEN" }
"""
TOKEN = re.compile(rb"eph-[0-9a-f]{8}")
"""What the mock gives for one socket."""


@pytest.mark.parametrize(
    ("mock_args", "analysts"),
    [
        ((), None),
        (("--reject-auth",), None),
        (("--arag-require-token", "--arag-service-key", SECRET), RAG),
    ],
    ids=["nat", "rejected", "rag"],
)
def test_a_token_appears_in_no_file_no_log_and_no_page(
    swarm: Swarm,
    start: Callable[..., subprocess.Popen[str]],
    mock_agent: Any,
    free_port: int,
    mock_args: tuple[str, ...],
    analysts: str | None,
) -> None:
    agent = mock_agent(*mock_args)
    plan = PLAN.replace('template = "analyst-{n}"', 'env = "LOADGEN_TEST_TOKEN"')
    if analysts is not None:
        plan = plan.partition("[[analysts]]")[0] + analysts
    swarm.plan.write_text(plan)
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
    for text in (*pages, said):
        assert SECRET not in text
        assert not TOKEN.search(text.encode())
    for path in swarm.folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
            assert not TOKEN.search(path.read_bytes()), path
    if analysts is not None:
        assert swarm.summary()["turns"]["completed"] == len(swarm.rows())
        tokens = [row for row in agent.sockets() if row["event"] == "token"]
        assert len(tokens) >= len(swarm.rows()), "each turn had a token of its own"
