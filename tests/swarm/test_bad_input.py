"""Bad input ends in one line that says what, where and what to do, with the right exit code."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import PLAN, Swarm

QUICK = ("--headless", "-u", "1", "-r", "1", "-t", "1s")


def with_line(line: str, table: str = "") -> str:
    return PLAN.replace(f"[{table}]\n", f"[{table}]\n{line}\n") if table else f"{line}\n{PLAN}"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (with_line("colour = 1"), "swift.toml: colour is not a key of the plan"),
        (
            PLAN.replace("reply_s = 0.2", "reply_s = { median = -2 }"),
            "swift.toml: human.reply_s.median must be >= 0, got -2",
        ),
        (
            PLAN.replace("weight = 60", "weight = 0").replace("weight = 40", "weight = 0"),
            "the weights sum to nothing",
        ),
        (
            PLAN.replace('template = "analyst-{n}"', 'env = "LOADGEN_TEST_ABSENT"'),
            "environment variable LOADGEN_TEST_ABSENT is not set",
        ),
        (PLAN.replace('"nat-ws"', '"nat-smoke"'), "nat-smoke"),
        (PLAN + "\n[", "not valid TOML"),
        (PLAN.replace('texts = ["What is new?"]', 'file = "none.txt"'), "none.txt"),
    ],
)
def test_a_bad_plan_is_refused_with_one_line(swarm: Swarm, plan: str, said: str) -> None:
    swarm.plan.write_text(plan)
    done = swarm.run(*QUICK, "--host", "http://127.0.0.1:9")
    check_refusal(done.returncode, done.stderr, said)
    assert not swarm.results.exists()


def check_refusal(code: int, stderr: str, said: str) -> None:
    assert code == 2, stderr
    assert "Traceback" not in stderr
    lines = [line for line in stderr.splitlines() if line.startswith("loadgen: ")]
    assert lines, stderr
    assert any(said in line for line in lines), stderr


@pytest.fixture
def mute_port() -> Iterator[int]:
    """A plain port that answers anything with a banner that is neither HTTP nor TLS."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            with peer:
                peer.settimeout(1)
                try:
                    peer.recv(4096)
                    peer.sendall(b"SSH-2.0-nobody\r\n")
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    stop.set()
    thread.join()
    listener.close()


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("http://127.0.0.1:{free}", "connection refused"),
        ("https://127.0.0.1:{mute}", "TLS failed"),
        ("http://no-such-host.invalid", "cannot resolve"),
        ("127.0.0.1:8000", "host must be http://"),
        ("http://ann:secret@127.0.0.1:8000", "must not hold credentials"),
    ],
)
def test_a_host_that_cannot_be_used_is_refused(
    swarm: Swarm, mute_port: int, free_port: int, host: str, said: str
) -> None:
    done = swarm.run(*QUICK, "--host", host.format(free=free_port, mute=mute_port))
    check_refusal(done.returncode, done.stderr, said)
    assert "secret" not in done.stderr.replace(host, "")


def test_a_host_that_speaks_no_http_is_a_cause_of_every_turn(swarm: Swarm, mute_port: int) -> None:
    done = swarm.run(*QUICK, "--host", f"http://127.0.0.1:{mute_port}")
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    causes = {copies[0]["cause"] for copies in swarm.rows().values()}
    assert causes == {"protocol_violation"}


def test_a_run_folder_that_cannot_be_made_is_one_line(swarm: Swarm, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file in the way")
    done = swarm.run(*QUICK, "--mock-args", "--slots 1")
    check_refusal(done.returncode, done.stderr, "no folder can be made there")


def test_bad_mock_arguments_are_one_line(swarm: Swarm) -> None:
    done = swarm.run(*QUICK, "--mock-args", "--slots many")
    check_refusal(done.returncode, done.stderr, "mock agent did not start")
