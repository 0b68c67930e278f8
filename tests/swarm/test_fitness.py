"""A generator that is not fit says so: burnt CPU, a stop, too few descriptors, no disk."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadgen.clock import NS_PER_MS
from loadgen.journal import read_run

from .conftest import PLAN, Swarm

Start = Callable[..., "subprocess.Popen[str]"]
QUIET = (
    PLAN.replace("hub_lag_ms = 5000, ", "")
    .replace("prompt_share = 0.2", "")
    .replace("tokens=10 token_ms=20", "tokens=4 token_ms=60")
)
"""Events further apart than the burning lasts: no two of them wait to be read together."""


def own_share_of_ttfa_ms(swarm: Swarm, truth: list[dict[str, Any]]) -> list[float]:
    """What the generator added to each first answer: until the question was sent, and from the
    server's write to the arrival's stamp.  How long a busy server left it unread is not in it.
    """
    written = {line["id"]: line["first_answer_ns"] for line in truth if line["first_answer_ns"]}
    return [
        row["sent_ms"]
        + row["first_answer_ms"]
        - (written[row["turn"]] - row["started_mono_ns"]) / NS_PER_MS
        for row in read_run(swarm.run_folder()).rows
        if row["turn"] in written and row["outcome"] == "completed"
    ]


@pytest.mark.case("D-54")
def test_a_burnt_processor_makes_the_run_invalid_and_moves_no_stamped_arrival(
    tmp_path: Path, mock_agent: Any
) -> None:
    seen, verdicts = {}, {}
    for burn in ("30", "0"):
        swarm = Swarm(tmp_path / burn, tmp_path / burn / "swift.toml")
        swarm.folder.mkdir()
        swarm.plan.write_text(QUIET)
        command = swarm.command("--headless", "-u", "20", "-r", "20", "-t", "6s")
        command[command.index("-f") + 1] = str(Path(__file__).with_name("burnt_analysts.py"))
        # A machine that others keep busy may be unfit without any burning: it is asked again.
        for _ in range(1 if burn == "30" else 3):
            agent = mock_agent("--seed", "3")
            done = subprocess.run(
                [*command, "--host", agent.url], cwd=swarm.folder, capture_output=True, text=True,
                env=os.environ | {"BURN_MS": burn}, timeout=60, check=False,
            )  # fmt: skip
            verdicts[burn] = done.returncode
            seen[burn] = own_share_of_ttfa_ms(swarm, agent.truth())
            summary = swarm.summary()
            if done.returncode == 0:
                break
            if burn == "0":
                swarm.run_folder().rename(tmp_path / f"unfit-{time.monotonic_ns()}")
        if burn == "30":
            assert "hub lag: local was late by" in summary["reasons"][0]
            assert "INVALID" in (swarm.run_folder() / "report.html").read_text()
            (pulse,) = summary["generator"]["processes"]
            assert pulse["lag_p90_ms"] > 10
            assert pulse["unstamped"] < 0.01
    assert verdicts == {"30": 5, "0": 0}, done.stdout + done.stderr
    burnt, clean = (statistics.median(values) for values in seen.values())
    assert abs(burnt - clean) < 1


def test_a_generator_that_was_stopped_for_a_while_is_noticed(
    swarm: Swarm, start: Start, mock_agent: Any
) -> None:
    agent = mock_agent()
    swarm.plan.write_text(QUIET)
    locust = start("--headless", "-u", "10", "-r", "10", "-t", "6s", "--host", agent.url)
    agent.await_turns(45)
    locust.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    locust.send_signal(signal.SIGCONT)
    said, _ = locust.communicate(timeout=60)
    assert locust.returncode == 5, said
    summary = swarm.summary()
    assert "hub lag: local was late by" in summary["reasons"][0]
    assert summary["generator"]["processes"][0]["lag_max_ms"] > 1000


@pytest.mark.case("D-29")
def test_too_few_descriptors_are_predicted_with_the_limit_that_it_takes(swarm: Swarm) -> None:
    command = swarm.command(
        "--headless", "-u", "200", "-r", "200", "-t", "4s", "--host", "http://127.0.0.1:9"
    )
    limited = [
        sys.executable, "-c",
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "os.execv(sys.argv[1], sys.argv[1:])", *command,
    ]  # fmt: skip
    done = subprocess.run(
        limited, cwd=swarm.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert (
        "200 analysts in one process need at least 248 open files, the limit is 64" in done.stderr
    )
    assert "ulimit -n 448" in done.stderr
    assert not swarm.results.exists()


def test_a_disk_that_fills_up_ends_the_run_before_a_row_is_lost(
    swarm: Swarm, start: Start, mock_agent: Any
) -> None:
    agent = mock_agent()
    swarm.plan.write_text(QUIET)
    margin = 300 << 20
    status = os.statvfs(swarm.folder)
    free = status.f_bavail * status.f_frsize
    if free < 3 * margin:
        pytest.skip("too little disk to fill some of it")
    reserve = str((free - margin) >> 20)
    locust = start(
        "--headless", "-u", "10", "-r", "10", "-t", "30s", "--host", agent.url,
        "--disk-reserve", reserve,
    )  # fmt: skip
    agent.await_turns(10)
    filler = swarm.folder / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2 * margin)
    said, _ = locust.communicate(timeout=60)
    filler.unlink()
    assert locust.returncode == 5, said
    assert "MiB of disk are free" in said
    summary = swarm.summary()
    assert summary["verdict"] == "INVALID"
    assert "the run is stopped before rows are lost" in " ".join(summary["reasons"])
    assert {line["id"] for line in agent.truth()} == set(swarm.rows())


def test_a_full_disk_is_refused_before_the_run(swarm: Swarm) -> None:
    done = swarm.run(
        "--headless", "-u", "1", "-r", "1", "-t", "1s", "--host", "http://127.0.0.1:9",
        "--disk-reserve", str(1 << 40),
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "free some space, name another folder with --results" in done.stderr
    assert not swarm.results.exists()


def test_both_workers_keep_health_and_their_clocks_are_compared(
    swarm: Swarm, mock_agent: Any
) -> None:
    agent = mock_agent()
    swarm.plan.write_text(QUIET)
    swarm.run(
        "--headless", "-u", "10", "-r", "10", "-t", "3s", "--processes", "2", "--host", agent.url
    )  # fmt: skip
    run = read_run(swarm.run_folder())
    assert set(run.health) == {"master", "worker-0", "worker-1"}
    for rows in run.health.values():
        assert [row["n"] for row in rows] == list(range(len(rows)))
        assert len(rows) >= 3
        assert all(row["descriptors"] > 5 and row["rss"] > 1 << 20 for row in rows)
    assert "heartbeats_missed" in run.health["master"][-1]
    copies = (swarm.run_folder() / "health-master.jsonl").read_text()
    assert '"process":"worker-1"' in copies, "a run on other machines is whole on the master too"
    for worker in run.manifest["workers"]:
        # One machine, one monotonic clock: whatever the round trip, the truth is within it.
        assert abs(worker["offset_ns"]) <= worker["offset_error_ns"]
