"""Searches for the capacity by real locust processes, side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT

SCENARIO = ROOT / "scenarios" / "capacity.py"
PLAN = """
name = "swift"
failure_budget = 0.25
slo = [{ clock = "ttfp", within_s = 0.6, share = 0.75 }]
load = { drain_s = 5 }
# A machine that is busy with other tests makes the hub late; test_fitness.py is about that.
fitness = { hub_lag_ms = 5000, clock_step_ms = 86_400_000 }
questions = { texts = ["What is new?"] }

[capacity]
start = 6
precision = 0.25
ramp_s = 1
settle_s = 8
hold_s = 3
twice = false
confirm = false

[human]
think_s = { median = 0.5, sigma = 0.3 }

[script]
words = "first_ms=200 steps=2 step_ms=100 tokens=5 token_ms=20"

[[analysts]]
name = "browser"
dialect = "nat-sse"
"""


ARRIVALS = PLAN.replace(
    "load = {",
    'load = { model = "partly-open", rate = 1.0, arrivals = "constant", max_in_flight = 40,',
).replace("[human]", "[human]\nturns_per_conversation = 1")


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """A search on four places, a sweep of two processes, and one that cannot be."""
    begun = {}
    for name, arguments in (
        ("search", ["-m", "loadgen", "capacity", "--mock-args=--slots 4", "--need", "100"]),
        ("sweep", ["-m", "loadgen", "capacity", "--levels", "4,6", "--processes", "2"]),
        ("arrivals", ["-m", "loadgen", "capacity", "--levels", "120,480", "--processes", "2"]),
        ("nowhere", ["-m", "loadgen", "capacity", "--resume", "nowhere"]),
    ):
        folder = tmp_path_factory.mktemp(name)
        (folder / "plan.toml").write_text(ARRIVALS if name == "arrivals" else PLAN)
        command = [sys.executable, *arguments, "--plan", "plan.toml", f"--scenario={SCENARIO}"]
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        begun[name] = (folder, process)
    done = {}
    for name, (folder, process) in begun.items():
        text, _ = process.communicate(timeout=110)
        done[name] = (folder, subprocess.CompletedProcess([], process.returncode, text))
    return done


def answer_of(folder: Path) -> dict[str, Any]:
    (run,) = (folder / "results").iterdir()
    found: dict[str, Any] = json.loads((run / "capacity.json").read_text())
    return found


def test_a_search_brackets_its_answer_and_shows_how_it_goes(
    searches: dict[str, tuple[Path, Any]],
) -> None:
    folder, done = searches["search"]
    answer = answer_of(folder)
    assert done.returncode == answer["exit_code"] == 3, done.stdout
    assert answer["answer"]["end"] == "found"
    assert answer["answer"]["low"] < answer["answer"]["high"] <= 24
    assert "first progress" in answer["headline"]
    assert answer["levels"][0]["level"] == 6
    for one in answer["levels"]:
        assert f"level {one['level']:g}: {one['verdict']}" in done.stdout
    (run,) = (folder / "results").iterdir()
    assert {"capacity.json", "capacity.html", "capacity.md"} <= {p.name for p in run.iterdir()}
    assert answer["sizing"]["need"] == 100


def test_every_level_had_its_number_of_analysts(searches: dict[str, tuple[Path, Any]]) -> None:
    """Turns by how many analysts were there: no more users ask than the level has."""
    folder, _ = searches["search"]
    answer = answer_of(folder)
    (run,) = (folder / "results").iterdir()
    rows = [json.loads(line) for p in run.glob("turns-*") for line in p.read_text().splitlines()]
    assert len(rows) >= sum(one["turns"] for one in answer["levels"])
    for one in answer["levels"]:
        assert one["window"]["little"]["in_flight"] <= one["level"]
        assert one["turns"] == sum(one["outcomes"].values())


def test_processes_share_the_levels_of_a_sweep(searches: dict[str, tuple[Path, Any]]) -> None:
    folder, done = searches["sweep"]
    answer = answer_of(folder)
    assert done.returncode == 0, done.stdout
    assert [one["level"] for one in answer["levels"]] == [4, 6]
    assert answer["headline"].startswith("It holds >= 6 analysts")
    (run,) = (folder / "results").iterdir()
    workers = {json.loads(line)["worker"] for p in run.glob("turns-worker*")
               for line in p.read_text().splitlines()}  # fmt: skip
    assert workers == {"worker-0", "worker-1"}


def test_levels_of_arrivals_are_conversations_a_minute_of_all_processes(
    searches: dict[str, tuple[Path, Any]],
) -> None:
    """Two a second, then eight: each worker has its part, and no arrival is lost in between."""
    folder, done = searches["arrivals"]
    answer = answer_of(folder)
    slow, quick = answer["levels"]
    assert answer["unit"] == "conversations a minute", done.stdout
    assert (slow["level"], quick["level"]) == (120, 480)
    assert quick["per_s"]["value"] / slow["per_s"]["value"] == pytest.approx(4, rel=0.5)
    assert slow["per_s"]["value"] == pytest.approx(2, rel=0.4)
    assert slow["dropped"] == quick["dropped"] == 0
    assert "ttfp_intended" in quick["ecdf"]
    (run,) = (folder / "results").iterdir()
    for worker in ("worker-0", "worker-1"):
        assert (run / f"turns-{worker}.jsonl").stat().st_size > 0


def test_a_search_that_cannot_be_made_says_why(
    searches: dict[str, tuple[Path, Any]],
) -> None:
    _, done = searches["nowhere"]
    assert done.returncode == 2, done.stdout
    assert "nowhere: not a run folder" in done.stdout
    assert "Traceback" not in done.stdout
