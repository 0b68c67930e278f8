"""A/B runs by real locust processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from .conftest import PLAN, ROOT

FILES = {"comparison.html", "comparison.json", "junit.xml", "summary.md", "report.html"}


def locust(folder: Path, *arguments: str, plan: str = PLAN) -> subprocess.CompletedProcess[str]:
    (folder / "plan.toml").write_text(plan)
    scenario = str(ROOT / "scenarios" / "regression.py")
    own = ["--plan", "plan.toml", "--headless", "--only-summary"]
    command = [sys.executable, "-m", "locust", "-f", scenario, *own, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=90, check=False
    )


def run_of(folder: Path) -> Path:
    (found,) = (folder / "results").iterdir()
    return found


def rows_of(run: Path) -> list[dict[str, Any]]:
    rows = {}
    for path in run.glob("turns-*.jsonl"):
        for line in path.read_text().splitlines():
            rows[json.loads(line)["turn"]] = json.loads(line)
    return list(rows.values())


def asked(agent: Any) -> set[str]:
    return {line["id"] for line in agent.truth()}


@pytest.mark.case("D-73")
def test_conversations_alternate_and_each_side_gets_its_own(
    tmp_path: Path, mock_agent: Any
) -> None:
    """Two workers, two URLs: each turn is known to the agent of its side and to no other."""
    base, new = mock_agent("--seed", "1"), mock_agent("--seed", "1")
    plan = PLAN.replace("[human]\n", "[human]\nturns_per_conversation = 2\n")
    done = locust(
        tmp_path, "--baseline", base.url, "--candidate", new.url, "-u", "12", "-r", "12",
        "-t", "5s", "--processes", "2", "--gate-args", "--inconclusive pass --metric ttc",
        plan=plan,
    )  # fmt: skip
    assert done.returncode in (0, 4), done.stdout + done.stderr
    run = run_of(tmp_path)
    assert {path.name for path in run.iterdir()} >= FILES
    rows = rows_of(run)
    sides = defaultdict(set)
    for row in rows:
        sides[row["side"]].add(row["turn"])
    assert sides["base"] == asked(base)
    assert sides["new"] == asked(new)
    by_user = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["started_mono_ns"]):
        by_user[row["user"]].append((row["conversation"], row["side"]))
    for turns in by_user.values():
        order = list(dict.fromkeys(turns))
        assert len({name for name, _ in order}) == len(order), "a conversation stays on its side"
        assert "".join(side[0] for _, side in order) in "bnnb" * 9
    assert len(by_user) == 12
    manifest = json.loads((run / "manifest.json").read_bytes())
    assert {side: facts["host"] for side, facts in manifest["sides"].items()} == {
        "base": base.url, "new": new.url,
    }  # fmt: skip


def test_two_bundled_mocks_that_differ_and_the_verb(tmp_path: Path) -> None:
    """The candidate delays everything by more than a question takes without it."""
    (tmp_path / "plan.toml").write_text(PLAN)
    done = subprocess.run(
        [
            sys.executable, "-m", "loadgen", "ab", "--plan", "plan.toml", "-u", "20", "-r", "20",
            "-t", "6s", "--mock-args", "", "--mock-args", "--fault delay_ms=500",
            "--metric", "ttfa", "--allow", "dialects",
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stdout + done.stderr
    assert "REGRESSION" in done.stdout
    run = run_of(tmp_path)
    assert Counter(row["side"] for row in rows_of(run)).keys() == {"base", "new"}
    sides = json.loads((run / "manifest.json").read_bytes())["sides"]
    assert sides["new"]["mock_args"] == "--fault delay_ms=500"
    assert "mock_args" not in sides["base"]


def test_a_target_that_is_dead_is_called_by_its_name(tmp_path: Path, mock_agent: Any) -> None:
    live, dead = mock_agent().url, "http://127.0.0.1:9"
    done = locust(tmp_path, "--baseline", live, "--candidate", dead, "-u", "1", "-t", "1s")
    assert done.returncode == 2
    assert f"loadgen: candidate: {dead}: connection refused" in done.stderr
    assert "baseline" not in done.stderr
    assert not (tmp_path / "results").exists()


def test_ctrl_c_ends_the_run_and_what_there_is_gets_judged(tmp_path: Path) -> None:
    """A terminal sends it to the verb and to locust alike; neither may kill the other's report."""
    (tmp_path / "plan.toml").write_text(PLAN)
    command = [sys.executable, "-m", "loadgen", "ab", "--plan", "plan.toml", "-u", "6", "-t", "60s"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        await_turns(tmp_path / "results")
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    made = {path.name for path in run_of(tmp_path).iterdir()}
    assert made >= {"report.html", "junit.xml", "summary.md"}, said
    assert "Traceback" not in said


def await_turns(results: Path) -> None:
    deadline = time.monotonic() + 60
    while sum(path.stat().st_size for path in results.glob("*/turns-*.jsonl")) == 0:
        assert time.monotonic() < deadline, "no turn was recorded"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "http://127.0.0.1:9"], "two targets"),
        (["--baseline", "http://127.0.0.1:9"], "need each other"),
        (["--mock-args=-x", "--mock-args=-y", "--mock-args=-z"], "twice at most"),
    ],
)
def test_what_means_one_target_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = locust(tmp_path, *arguments, "-u", "1", "-t", "1s")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
