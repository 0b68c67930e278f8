"""Whole runs by real locust processes: nothing is lost, counted twice or misreported."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadgen.turn import Outcome

from .conftest import ROOT, Swarm

Start = Callable[..., "subprocess.Popen[str]"]


def turns_in_csv(path: Path) -> int:
    with path.open() as file:
        return sum(
            int(row["Request Count"]) for row in csv.DictReader(file) if row["Name"] == "completion"
        )


def turns_in_html(path: Path) -> int:
    found = re.search(r"<li>turns <b>([^<]+)</b>", path.read_text())
    assert found, "the report does not say how many turns were started"
    return int(re.sub(r"\D", "", found[1]))


def check_union(swarm: Swarm, truth: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    rows = swarm.rows()
    assert set(rows) == {line["id"] for line in truth}
    assert len(truth) == len(rows), "the mock saw a turn twice"
    for copies in rows.values():
        assert all(copy == copies[0] for copy in copies)
    return rows


@pytest.mark.case("D-31")
def test_two_processes_lose_and_double_nothing(swarm: Swarm, mock_agent: Any) -> None:
    agent = mock_agent("--seed", "3")
    done = swarm.run(
        "--host", agent.url, "--headless", "-u", "50", "-r", "25", "-t", "8s",
        "--processes", "2", "--csv", "locust",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "asyncio" not in done.stderr
    # Not "no traceback": Locust's own CSV writer sometimes meets its file closed at the end.
    assert "/loadgen/" not in done.stderr
    rows = check_union(swarm, agent.truth())
    summary = swarm.summary()
    assert summary["verdict"] == "PASS"
    outcomes = Counter(copies[0]["outcome"] for copies in rows.values())
    assert summary["turns"]["started"] == sum(outcomes.values()) == len(rows)
    assert outcomes == {name: summary["turns"][name] for name in Outcome if summary["turns"][name]}
    assert turns_in_csv(swarm.folder / "locust_stats.csv") == len(rows)
    assert turns_in_html(swarm.run_folder() / "report.html") == len(rows)
    users = {copies[0]["user"] for copies in rows.values()}
    numbers = Counter(user.rpartition("/")[2] for user in users)
    assert len(users) == 50
    assert max(numbers.values()) == 1, "two analysts share a number, and so an identity"
    dialects = Counter(
        copies[0]["analyst_group"] for copies in rows.values() if copies[0]["number"] == 1
    )
    assert set(dialects) == {"browser", "desk"}
    assert any("recovered" in copies[0] for copies in rows.values())
    assert json.loads((swarm.run_folder() / "manifest.json").read_text())["load"]["users"] == 50


def test_a_master_with_two_workers_of_their_own(
    swarm: Swarm, start: Start, mock_agent: Any, free_port: int
) -> None:
    agent = mock_agent()
    port = str(free_port)
    master = start(
        "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port,
        "--expect-workers", "2", "--headless", "-u", "20", "-r", "20", "-t", "5s",
        "--host", agent.url,
    )  # fmt: skip
    # On another machine a worker has no plan: the master's is what counts.
    elsewhere = ("--plan", "nowhere.toml", "--results", "worker-results")
    workers = [
        start("--worker", "--master-host", "127.0.0.1", "--master-port", port, *elsewhere)
        for _ in range(2)
    ]
    said, _ = master.communicate(timeout=60)
    assert master.returncode == 0, said
    for worker in workers:
        worker.communicate(timeout=20)
    check_union(swarm, agent.truth())
    assert len(json.loads((swarm.run_folder() / "manifest.json").read_text())["workers"]) == 2


@pytest.mark.case("D-61")
def test_a_killed_worker_loses_no_finished_turn_and_the_run_is_invalid(
    swarm: Swarm, start: Start, mock_agent: Any
) -> None:
    agent = mock_agent()
    master = start(
        "--headless", "-u", "20", "-r", "20", "-t", "8s", "--processes", "2", "--host", agent.url
    )  # fmt: skip
    victim = wait_for_worker(master.pid, swarm)
    os.kill(victim, signal.SIGKILL)
    said, _ = master.communicate(timeout=60)
    assert master.returncode == 5, said
    # A turn the mock ended last may never have reached the killed analyst; one that its analyst
    # went on from has.
    turns = sorted(agent.truth(running=True), key=lambda line: line["received_ns"])
    last = {line["conversation"]: line["id"] for line in turns}
    finished = {line["id"] for line in turns} - set(last.values())
    assert len(finished) > 20, "too few turns to tell anything"
    assert finished <= set(swarm.rows())
    summary = swarm.summary()
    assert summary["verdict"] == "INVALID"
    (named,) = summary_of_lost(summary)
    (lost,) = json.loads((swarm.run_folder() / "manifest.json").read_text())["lost_workers"]
    heard = re.search(rf"{re.escape(lost)}, last heard at ([0-9.]+) s", named)
    assert heard, named
    assert 0 <= float(heard[1]) < 8, "a killed worker is named with the time of its end"
    assert named in html.unescape((swarm.run_folder() / "report.html").read_text())


def summary_of_lost(summary: dict[str, Any]) -> list[str]:
    return [reason for reason in summary["reasons"] if "worker" in reason and "lost" in reason]


@pytest.mark.case("D-61")
def test_a_killed_master_leaves_journals_that_report_reads(
    swarm: Swarm, start: Start, mock_agent: Any, free_port: int
) -> None:
    """Nobody is left to conclude the run, so that is done afterwards, by hand."""
    agent = mock_agent()
    port = str(free_port)
    master = start(
        "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port,
        "--expect-workers", "2", "--headless", "-u", "20", "-r", "20", "-t", "60s",
        "--host", agent.url,
    )  # fmt: skip
    workers = [start("--worker", "--master-host", "127.0.0.1", "--master-port", port)
               for _ in range(2)]  # fmt: skip
    wait_for_turns(agent, 60)
    master.kill()
    master.wait()
    turns = sorted(agent.truth(running=True), key=lambda line: line["received_ns"])
    last = {line["conversation"]: line["id"] for line in turns}
    finished = {line["id"] for line in turns} - set(last.values())
    for worker in workers:
        worker.kill()
        worker.wait()
    folder = swarm.run_folder()
    assert not (folder / "summary.json").exists(), "somebody concluded a run without a master"
    done = subprocess.run(
        [sys.executable, "-m", "loadgen", "report", folder.name, "--results", str(swarm.results)],
        cwd=swarm.folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(finished) > 20, "too few turns to tell anything"
    assert finished <= set(swarm.rows())
    summary = swarm.summary()
    assert summary["turns"]["started"] == len(swarm.rows())
    assert summary["verdict"] == "INCONCLUSIVE", "nobody saw this run's end"
    assert any("no end in its manifest" in reason for reason in summary["reasons"]), summary[
        "reasons"
    ]
    assert (folder / "report.html").exists()


def wait_for_turns(agent: Any, count: int) -> None:
    deadline = time.monotonic() + 40
    while len(agent.truth(running=True)) < count:
        assert time.monotonic() < deadline, "too few turns began"
        time.sleep(0.2)


def wait_for_worker(master: int, swarm: Swarm) -> int:
    """The pid of a worker that has written some turns."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
        for pid in map(int, children):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    target = Path(os.readlink(link))
                except OSError:
                    continue
                ours = target.name.startswith("turns-") and "master" not in target.name
                if ours and target.exists() and target.read_text().count("\n") >= 5:
                    return pid
        time.sleep(0.1)
    raise AssertionError("no worker wrote a turn")


MIXED = """
[[analysts]]
name = "research"
dialect = "arag-ws"
weight = 100
options = { agent = "agent-0001", account = "local" }
identity = { method = "service_account", template = "key-{n}" }

[analysts.script]
words = "first_ms=50 steps=2 step_ms=50 tokens=10 token_ms=20"
first_words = "oauth=1"
prompt_share = 0.3
prompt_kinds = ["feedback"]
"""


def test_two_services_are_asked_in_one_run_and_compared_in_one_report(
    swarm: Swarm, mock_agent: Any
) -> None:
    nat, rag = mock_agent(), mock_agent()
    elsewhere = MIXED.replace("weight = 100", f'weight = 100\nhost = "{rag.url}"')
    consent = 'consent = { do = "follow", delay_s = 0.2 }\n'
    plan = swarm.plan.read_text().replace("reply_s = 0.2\n", f"reply_s = 0.2\n{consent}")
    swarm.plan.write_text(plan + elsewhere)
    done = swarm.run("--host", nat.url, "--headless", "-u", "16", "-r", "16", "-t", "5s")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [copies[0] for copies in swarm.rows().values()]
    by_service = Counter("arag" in row["dialect"] for row in rows)
    assert by_service == {False: len(nat.truth()), True: len(rag.truth())}
    mine = {row["tag"] for row in rows if row["dialect"] == "arag-ws"}
    assert mine == {line["tag"] for line in rag.truth()}
    consents = [p for row in rows for p in row.get("prompts", ()) if p["kind"] == "oauth_consent"]
    assert len(consents) == 8, "one for each of the analysts there"
    summary = swarm.summary()
    assert set(summary["dialects"]) == {"nat-sse", "nat-ws", "arag-ws"}
    assert summary["work"]["arag-ws"]["lost_chunks"] == 0
    page = (swarm.run_folder() / "report.html").read_text()
    assert "What the service says of its work" in page


def test_a_stock_cap_of_eight_misses_the_target(swarm: Swarm) -> None:
    swarm.plan.write_text(swarm.plan.read_text().replace("within_s = 2.0", "within_s = 0.3"))
    done = swarm.run(
        "--headless", "-u", "40", "-r", "40", "-t", "5s", "--mock-args", "--slots 4"
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert "bundled mock agent" in done.stderr
    assert swarm.summary()["verdict"] == "FAIL"


def test_an_interrupted_run_is_concluded_and_says_so(
    swarm: Swarm, start: Start, mock_agent: Any
) -> None:
    agent = mock_agent()
    locust = start("--headless", "-u", "10", "-r", "10", "-t", "60s", "--host", agent.url)
    agent.await_turns(10)
    locust.send_signal(signal.SIGINT)
    said, _ = locust.communicate(timeout=60)
    assert locust.returncode == 130, said
    rows = {turn: copies[0] for turn, copies in swarm.rows().items()}
    # A question can die unread in the mock's socket when ours is closed.
    seen = {line["id"] for line in agent.truth(running=True)}
    assert seen <= rows.keys()
    assert {rows[turn]["outcome"] for turn in rows.keys() - seen} <= {"cut_off"}
    assert (swarm.run_folder() / "report.html").exists()
    assert {row["outcome"] for row in rows.values()} <= {"completed", "cut_off"}


@pytest.mark.parametrize("processes", [(), ("--processes", "1")])
def test_a_run_whose_folder_is_lost_never_passes(
    swarm: Swarm, start: Start, mock_agent: Any, processes: tuple[str, ...]
) -> None:
    """No verdict could be written: the exit code says so, in one line, without a traceback."""
    agent = mock_agent()
    locust = start(
        "--headless", "-u", "4", "-r", "4", "-t", "4s", "--host", agent.url, *processes
    )  # fmt: skip
    agent.await_turns(4)
    shutil.rmtree(swarm.run_folder())
    said, _ = locust.communicate(timeout=60)
    assert locust.returncode == 1, said
    assert "manifest.json: cannot write" in said
    assert "/loadgen/" not in said
