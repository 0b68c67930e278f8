"""Runs in which something goes wrong on purpose: what is told of it is what happened."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import running_mock

from .conftest import Swarm

STORM = """
name = "storm"
failure_budget = 1.0
fitness = { hub_lag_ms = 5000, clock_step_ms = 86_400_000 }
load = { drain_s = 8 }
deadlines = { resume_s = 3 }
reconnect = { policy = "exponential", base_s = 2, attempts = 10 }
questions = { texts = ["q"] }

[human]
think_s = 0.2
reply_s = { median = 3, sigma = 0.2 }

[script]
words = "steps=1 step_ms=20 tokens=3 token_ms=5 hitl=text"

[[analysts]]
name = "desk"
dialect = "nat-ws"
identity = { method = "api_key", template = "analyst-{n}" }

[[adversity]]
at_s = 2.5
what = "control"
command = { drop = "all", how = 1012, refuse_s = 0.8 }

[[adversity]]
at_s = 6
what = "drop"
count = 7
"""


@pytest.mark.case("D-39")
def test_a_storm_is_told_as_the_server_saw_it(swarm: Swarm, mock_agent: Any) -> None:
    agent = mock_agent()
    swarm.plan.write_text(STORM)
    done = swarm.run(
        "--host", agent.url, "--headless", "-u", "40", "-r", "40", "-t", "9s", "--processes", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = swarm.summary()
    command, drop = summary["adversity"]
    assert command["what"] == "control drop all, how 1012, refuse_s 0.8"
    assert drop["dropped"] == 7, "two workers drop seven together"
    assert 2 < command["at_s"] < drop["at_s"]
    storm, second = summary["storms"]
    # The mock's answer to the command says how many sockets it closed.
    told = json.loads(manifest(swarm)["adversity"][0]["said"])
    assert storm["dropped"] + storm["idle"] == told["sockets"] >= 35
    assert storm["recovered"] + storm["lost"] == storm["dropped"]
    assert storm["recovered"] >= 0.8 * storm["dropped"]
    assert storm["logins"] >= storm["recovered"]
    assert storm["prompts_again"] >= 0.8 * storm["recovered"]
    assert storm["connects"] > storm["dropped"], "those that were refused came again"
    assert storm["peak_connects"] < storm["dropped"], "they did not come back in one second"
    assert second["dropped"] + second["idle"] == 7
    check_connects(swarm, agent.sockets())


def manifest(swarm: Swarm) -> dict[str, Any]:
    return dict(json.loads((swarm.run_folder() / "manifest.json").read_text()))


def check_connects(swarm: Swarm, happened: list[dict[str, Any]]) -> None:
    """The server's log has the connections that ours has, for each socket's conversation.

    One attempt may differ: the run's end comes while a connection is being made.
    """
    served = Counter(
        row["conversation"]
        for row in {row["socket"]: row for row in happened if row["event"] == "close"}.values()
    )
    ours = Counter()
    for copies in swarm.rows().values():
        stood = [item for item in copies[0].get("connections", ()) if "connected_ms" in item]
        ours[copies[0]["conversation"]] += len(stood)
    assert len(ours) >= 40
    assert sum(ours.values()) > 40
    wrong = {key: (ours[key], served[key]) for key in ours if abs(ours[key] - served[key]) > 1}
    assert not wrong


CROWD = """
name = "crowd"
failure_budget = 0.5
fitness = { hub_lag_ms = 5000, clock_step_ms = 86_400_000 }
slo = [{ clock = "ttc", within_s = 60 }]
questions = { texts = ["q"] }

[human]
think_s = 1

[script]
words = "first_ms=1500 steps=1 step_ms=20 tokens=4 token_ms=200"

[[analysts]]
name = "browser"
dialect = "nat-sse"
identity = { method = "session", template = "analyst-{n}" }
"""
ANALYSTS = 300
TURN_S = 2.3


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of 300 analysts over SSE against a mock whose streams change places now and then."""
    folder: Path = tmp_path_factory.mktemp("crowd")
    plan = folder / "crowd.toml"
    plan.write_text(CROWD)
    swarm = Swarm(folder, plan)
    with running_mock("--crosstalk", "0.02") as agent:
        done = swarm.run(
            "--host", agent.url, "--headless", "-u", str(ANALYSTS), "-r", "300", "-t", "6s"
        )  # fmt: skip
        return swarm, done, agent.truth(running=True)


@pytest.mark.case("D-53")
def test_three_hundred_analysts_are_all_served_at_once(crowd: Any) -> None:
    """A client that they shared would let a hundred through and make the others wait for a turn's
    length before they are sent.
    """
    swarm, _, truth = crowd
    steps = sorted(
        step
        for turn in truth
        for step in ((turn["received_ns"], 1), (turn["ended_ns"] or 2**63, -1))
    )
    under_way = most = 0
    for _, step in steps:
        under_way += step
        most = max(most, under_way)
    assert most > 0.9 * ANALYSTS
    received = {turn["id"]: turn["received_ns"] for turn in truth}
    rows = [copies[0] for copies in swarm.rows().values()]
    assert {row["turn"] for row in rows} == set(received)
    waits = sorted(received[row["turn"]] - row["started_mono_ns"] for row in rows)
    assert waits[len(waits) * 95 // 100] < TURN_S / 2 * 1e9


@pytest.mark.case("D-53")
def test_their_first_progress_is_stamped_when_the_server_sent_it(crowd: Any) -> None:
    swarm, _, truth = crowd
    sent = {turn["id"]: turn["first_progress_ns"] for turn in truth}
    rows = [copies[0] for copies in swarm.rows().values()]
    errors = sorted(
        row["started_mono_ns"] + row["first_progress_ms"] * 1e6 - sent[row["turn"]]
        for row in rows
        if "first_progress_ms" in row
    )
    assert len(errors) > ANALYSTS
    # The server stamps when it has handed the frame over, which may be a little after it left.
    assert abs(errors[len(errors) // 2]) < 20e6


@pytest.mark.case("D-41")
def test_crosstalk_fails_the_run_and_names_both_turns(crowd: Any) -> None:
    swarm, done, truth = crowd
    summary = swarm.summary()
    crossed = {turn["id"]: turn["crossed"] for turn in truth if turn["crossed"]}
    named = {item["turn"]: item["other"] for item in summary["isolation"]["named"]}
    completed = {key for key, copies in swarm.rows().items() if copies[0]["outcome"] != "cut_off"}
    assert crossed
    assert summary["isolation"]["violations"] == len(completed & set(crossed))
    assert named
    assert all(crossed[turn] == other for turn, other in named.items())
    assert {result["verdict"] for result in summary["slo"]} == {"PASS"}
    assert summary["verdict"] in ("FAIL", "INVALID"), summary["reasons"]
    if summary["verdict"] == "FAIL":
        assert done.returncode == 3
        assert summary["reasons"][0].startswith("isolation: ")


def test_a_command_is_for_a_mock_on_this_machine_only(swarm: Swarm) -> None:
    swarm.plan.write_text(STORM)
    done = swarm.run("--host", "http://agent.invalid", "--headless", "-u", "1", "-t", "1s")
    assert done.returncode == 2, done.stderr
    assert "adversity.0: control is for a mock agent on this machine" in done.stderr
    assert "Traceback" not in done.stderr
