"""The mock as a process: how it starts, what it refuses, how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from loadgen.clock import NS_PER_S, now_ns
from mockagent.agent import Agent, Settings
from mockagent.profile import read_profile
from tests.conftest import StartMock

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The mock with arguments that must not start it."""
    command = [sys.executable, "-m", "mockagent", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_at_once_whatever_is_open(
    mock_agent: StartMock, number: signal.Signals
) -> None:
    agent = mock_agent()
    body = json.dumps({"messages": [{"role": "user", "content": "steps=0 hitl=text"}]}).encode()
    head = b"POST /v1/chat/stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with ExitStack() as stack:
        client = socket.create_connection((agent.host, agent.port), timeout=5)
        stack.enter_context(closing(client))
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert b"200 OK" in client.recv(4096)
        ws = stack.enter_context(connect(f"ws://{agent.host}:{agent.port}/websocket"))
        part = {"type": "text", "text": "steps=0 stall=0"}
        content = {"messages": [{"role": "user", "content": [part]}]}
        message = {"type": "user_message", "schema_type": "chat_stream", "content": content}
        ws.send(json.dumps(message))
        ws.recv(timeout=5)
        asked_ns = now_ns()
        os.kill(agent.pid, number)
        assert agent.process.wait(5) == 0
        assert now_ns() - asked_ns < 3 * NS_PER_S


def test_it_says_one_line_on_stdout_and_nothing_else(mock_agent: StartMock) -> None:
    agent = mock_agent()
    assert agent.url == f"http://127.0.0.1:{agent.port}"
    agent.process.terminate()
    assert agent.process.wait(5) == 0
    assert agent.process.stdout is not None
    assert agent.process.stdout.read() == ""


def test_a_port_in_use_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("--port", str(port))
    assert result.returncode == 2
    assert result.stderr == (
        f"mockagent: cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another --port (0 takes a free one)\n"
    )
    assert result.stdout == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.invalid"])
def test_a_host_that_others_can_reach_needs_a_word(host: str) -> None:
    result = run("--host", host)
    assert result.returncode == 2
    assert f"--host {host} may be reached from other machines" in result.stderr
    assert "--allow-non-loopback" in result.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read (No such file or directory); give --profile a TOML file"),
        ("first_ms = 3", "first_ms: "),
        ("[", "not TOML: "),
    ],
)
def test_a_bad_profile_is_said_in_one_line(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "p.toml"
    if content is not None:
        file.write_text(content)
    result = run("--profile", str(file))
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "p.toml: " in result.stderr
    assert said in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--accepted-credentials jwt,what", "'what' is no credential; known are session_cookie"),
        ("--identity-header X --accepted-credentials jwt", "--identity-header is trusted instead"),
        ("--jwt keys.json", "--jwt needs --jwt-issuer and --jwt-audience"),
        ("--jwt-issuer x", "need --jwt"),
        (
            "--jwt k --jwt-issuer x --jwt-audience y --accepted-credentials basic",
            "--jwt verifies what --accepted-credentials refuses",
        ),
    ],
)
def test_options_that_contradict_each_other_are_said_in_one_line(options: str, said: str) -> None:
    result = run(*options.split())
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


def test_seed_and_profile_decide_what_a_question_without_words_gets(
    mock_agent: StartMock, tmp_path: Path
) -> None:
    file = tmp_path / "fast.toml"
    file.write_text(
        "prompt_share = 0\nanswer_ms = {median = 5}\nfirst_ms = {median = 2}\n"
        "token_ms = {median = 0.1}\ntokens = {low = 1, high = 60}\n"
    )
    agent = mock_agent("--seed", "7", "--profile", str(file))
    questions = [f"question {number}" for number in range(5)]
    for question in questions:
        body = {"messages": [{"role": "user", "content": question}]}
        httpx.post(f"{agent.url}/v1/chat/stream", json=body).raise_for_status()
    planned = Agent(Settings(seed=7, profile=read_profile(file)))
    expected = [planned.plan(question)[0].tokens + 1 for question in questions]
    assert [line["chunks"] for line in agent.await_turns(5)] == expected
    assert len(set(expected)) > 1
