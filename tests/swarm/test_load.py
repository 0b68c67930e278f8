"""Workload models in real locust processes, against what a mock with one slot must give."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice, pairwise
from operator import itemgetter
from random import Random
from statistics import mean
from typing import Any

import pytest

from loadgen.clock import NS_PER_S, now_ns
from loadgen.pacing import Part, Profile, arrivals

from .conftest import PLAN, Swarm

Row = dict[str, Any]
Start = Callable[..., "subprocess.Popen[str]"]

BARE = """
name = "load"
seed = 7
fitness = {{ hub_lag_ms = 5000, clock_step_ms = 86_400_000 }}
slo = [{{ clock = "ttc", within_s = 2.0, share = 0.5 }}]
questions = {{ texts = ["What is new?"] }}
human = {{ think_s = 0 }}

[load]
{load}

[script]
words = "steps=0 {words}"

[[analysts]]
name = "browser"
dialect = "nat-sse"
"""


def plan(swarm: Swarm, words: str, *load: str) -> None:
    swarm.plan.write_text(BARE.format(load="\n".join(load), words=words))


def headless(swarm: Swarm, *arguments: str) -> str:
    done = swarm.run("--headless", *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    assert (swarm.run_folder() / "report.html").exists(), done.stdout + done.stderr
    return done.stdout + done.stderr


def turns(swarm: Swarm, outcome: str | None = "completed") -> list[Row]:
    """One row a turn, in the order in which turns were due."""
    rows = [copies[0] for copies in swarm.rows().values()]
    chosen = [row for row in rows if outcome in (None, row["outcome"])]
    return sorted(chosen, key=due_ns)


def due_ns(row: Row) -> float:
    known = row.get("scheduled_mono_ns")
    return known or row["started_mono_ns"] + row["scheduled_ms"] * 1e6


def intended_ms(row: Row) -> float:
    return row["ended_ms"] - row["scheduled_ms"]


@pytest.mark.case("D-44")
def test_turns_that_wait_for_their_analyst_are_timed_from_when_they_were_due(swarm: Swarm) -> None:
    """Service 500 ms, one at a time, ten a second, eight turns: mean 1900, max 3300, lag 1400."""
    lines = [f"{n / 10},one,What is {n}?" for n in range(8)]
    (swarm.folder / "eight.csv").write_text("time,conversation,question\n" + "\n".join(lines))
    plan(swarm, "tokens=0 first_ms=500", 'model = "replay"', 'file = "eight.csv"',
         "max_in_flight = 2")  # fmt: skip
    said = headless(swarm)
    rows = turns(swarm)
    assert len(rows) == 8
    offsets = [(due_ns(row) - due_ns(rows[0])) / 1e6 for row in rows]
    assert offsets == pytest.approx([100 * n for n in range(8)], abs=0.01)
    service = mean(row["ended_ms"] for row in rows)
    assert service >= 500
    assert mean(-row["scheduled_ms"] for row in rows) / service == pytest.approx(2.8, rel=0.15)
    assert mean(map(intended_ms, rows)) / service == pytest.approx(3.8, rel=0.15)
    assert max(map(intended_ms, rows)) / service == pytest.approx(6.6, rel=0.15)
    assert len({(row["user"], row["conversation"]) for row in rows}) == 1
    summary = swarm.summary()
    (slo,) = summary["slo"]
    assert slo["clock"] == "ttc_intended"
    assert (slo["met"], slo["missed"]) == (4, 4), "all of them took less than 2 s once they began"
    assert summary["headline"].startswith("replay of eight.csv")
    assert "ttc_intended completion, from the intended start" in said
    assert "lag start lag" in said


def test_one_exponential_slot_is_the_queue_of_the_books(swarm: Swarm, mock_agent: Any) -> None:
    """M/M/1 at 0.8: the arrivals are those of the seed, the service times are those of the mock's,
    and each turn takes as long as Lindley's recursion says.
    """
    agent = mock_agent("--slots", "1", "--seed", "3")
    plan(swarm, "tokens=0 service_ms=50", 'model = "open"', "rate = 16", "max_in_flight = 100",
         "drain_s = 20")  # fmt: skip
    headless(swarm, "--host", agent.url, "-t", "8s")
    asked, truth = turns(swarm, None), {line["id"]: line for line in agent.truth()}
    # Those due in the very instant of the end may find nobody who still begins a turn.
    rows = [row for row in asked if row["outcome"] != "dropped"]
    late = [row for row in asked if row["outcome"] == "dropped"]
    assert len(rows) == len(truth) > 60
    assert asked == rows + late, "only the last ones"
    assert all("the run ended" in row["detail"] for row in late)
    # The schedule is that of the seed, to the nanosecond.
    steady = Profile(((0.0, 16.0),), endless=True)
    scheduled = list(islice(arrivals(steady, "poisson", Part(), 7), len(rows)))
    offsets = [due_ns(row) - due_ns(rows[0]) for row in rows]
    assert offsets == pytest.approx([ns - scheduled[0] for ns in scheduled], abs=2000)
    # The server is one exponential server: its draws, and a little that its work takes.
    served = sorted(truth.values(), key=lambda line: line["slot_ns"])
    took = [(line["ended_ns"] - line["slot_ns"]) / 1e6 for line in served]
    drawn = sorted(Random(f"3\0service\0{n}").expovariate(1 / 50) for n in range(1, len(rows) + 1))
    assert all(real >= ideal for real, ideal in zip(sorted(took), drawn, strict=True))
    assert all(a["ended_ns"] <= b["slot_ns"] for a, b in pairwise(served))
    # What we measured is what such a queue gives.
    free, expected = 0.0, []
    for row in sorted(rows, key=lambda row: truth[row["turn"]]["slot_ns"]):
        line = truth[row["turn"]]
        at_ns = max(line["received_ns"], free)
        free = at_ns + line["ended_ns"] - line["slot_ns"]
        expected.append((free - due_ns(row)) / 1e6)
    measured = [intended_ms(row) for row in rows]
    assert mean(measured) / mean(expected) == pytest.approx(1, rel=0.1)
    assert all(-row["scheduled_ms"] >= 0 for row in rows)
    came = swarm.summary()["arrivals"]
    assert (came["offered"], came["dropped"]) == (len(asked), len(late))


@pytest.mark.case("D-50")
def test_a_closed_crowd_obeys_the_response_time_law_and_loses_no_turn_at_its_end(
    swarm: Swarm, mock_agent: Any
) -> None:
    """N = 10, Z = 0 on one slot: X R = 10; at the end those ten are cut off, and counted."""
    agent = mock_agent("--slots", "1", "--seed", "3")
    plan(swarm, "tokens=0 service_ms=60", 'model = "closed"', "drain_s = 0.05", "jitter_s = 0.2")
    said = headless(swarm, "--host", agent.url, "-u", "10", "-r", "10", "-t", "7s")
    assert "closed, 10 analysts: " in said
    rows = turns(swarm, None)
    lines = agent.truth(running=True)
    assert {row["turn"] for row in rows} >= {line["id"] for line in lines}
    outcomes = Counter(row["outcome"] for row in rows)
    assert set(outcomes) == {"completed", "cut_off"}
    assert 5 <= outcomes["cut_off"] <= 10
    summary = swarm.summary()
    assert summary["turns"]["started"] == len(rows)
    ttc = summary["metrics"]["ttc"]
    assert (ttc["n"], ttc["censored"]) == (len(rows), outcomes["cut_off"])
    # In steady state ten turns are always open: throughput times response time is ten.
    done = sorted((row for row in rows if row["outcome"] == "completed"), key=ended_ns)[20:]
    rate = (len(done) - 1) / (ended_ns(done[-1]) - ended_ns(done[0]))
    assert rate * mean(row["ended_ms"] for row in done) * 1e6 == pytest.approx(10, rel=0.12)
    busy = [(line["ended_ns"] - line["slot_ns"]) / 1e6 for line in agent.truth() if line["slot_ns"]]
    assert mean(row["ended_ms"] for row in done) / mean(busy) == pytest.approx(10, rel=0.25)
    starts = [row["started_mono_ns"] for row in rows if row["number"] == 1]
    assert (max(starts) - min(starts)) / NS_PER_S > 0.05, "they march in step"


def await_rows(swarm: Swarm, number: int) -> None:
    """Until so many turns have ended, without a burden on the mock."""
    limit = time.monotonic() + 60
    while sum(path.read_text().count("\n") for path in swarm.results.glob("*/turns-*")) < number:
        assert time.monotonic() < limit, "no turns"
        time.sleep(0.1)


def ended_ns(row: Row) -> float:
    return row["started_mono_ns"] + row["ended_ms"] * 1e6


@pytest.mark.case("D-45")
def test_a_target_that_stands_still_shows_in_what_was_due_meanwhile(
    swarm: Swarm, start: Start, mock_agent: Any
) -> None:
    """Two processes offer 30 a second for 7 s, of which the target is stopped for 3."""
    agent = mock_agent()
    plan(swarm, "tokens=2 token_ms=5 first_ms=20", 'model = "open"', "rate = 30",
         "max_in_flight = 160", "drain_s = 10")  # fmt: skip
    locust = start(
        "--headless", "--host", agent.url, "-t", "9s", "--processes", "2"
    )  # fmt: skip
    await_rows(swarm, 30)
    os.kill(agent.pid, signal.SIGSTOP)
    begun_ns = now_ns()
    time.sleep(3)
    until_ns = now_ns()
    os.kill(agent.pid, signal.SIGCONT)
    stood_ms = (until_ns - begun_ns) / 1e6
    said, _ = locust.communicate(timeout=60)
    assert "Traceback" not in said, said
    rows = turns(swarm)
    assert len(rows) > 120
    assert {row["worker"] for row in rows} == {"worker-0", "worker-1"}
    share = Counter(row["worker"] for row in rows).most_common()
    assert share[0][1] < 1.6 * share[1][1], "each has its share of the rate"
    # Arrivals went on: they wait from their instant to the end of the stop.
    held = [row for row in rows if begun_ns + 50e6 < due_ns(row) < until_ns]
    assert len(held) > 45
    for row in held:
        assert intended_ms(row) >= (until_ns - due_ns(row)) / 1e6 - 1
    assert max(map(intended_ms, held)) > 0.9 * stood_ms
    summary = swarm.summary()
    assert summary["headline"].startswith("open, Poisson 30 turns/s: ")
    still = max(summary["standstills"], key=itemgetter("lasted_s"))
    assert still["lasted_s"] * 1000 > 0.85 * stood_ms
    assert any("stood still for" in note for note in summary["notes"])
    page = (swarm.run_folder() / "report.html").read_text()
    assert f'"x0":{still["begin_s"]}' in page


def test_an_arrival_that_finds_no_free_analyst_is_counted_everywhere(
    swarm: Swarm, mock_agent: Any
) -> None:
    agent = mock_agent()
    plan(swarm, "tokens=0 first_ms=1200", 'model = "open"', 'arrivals = "constant"', "rate = 20",
         "max_in_flight = 4", "drain_s = 5")  # fmt: skip
    said = headless(swarm, "--host", agent.url, "-t", "4s", "--csv", "locust")
    rows = turns(swarm, None)
    outcomes = Counter(row["outcome"] for row in rows)
    assert outcomes["completed"] == len(agent.truth())
    assert outcomes["dropped"] > 3 * outcomes["completed"]
    offsets = [(due_ns(row) - due_ns(rows[0])) / 1e6 for row in rows]
    assert offsets == pytest.approx([50 * n for n in range(len(rows))], abs=0.01)
    assert max(-row["scheduled_ms"] for row in turns(swarm)) < 1200, "none has waited for a seat"
    came = swarm.summary()["arrivals"]
    assert (came["taken"], came["dropped"]) == (outcomes["completed"], outcomes["dropped"])
    assert came["offered_per_s"] == pytest.approx(20, rel=0.1)
    assert swarm.summary()["verdict"] == "INVALID"
    failures = (swarm.folder / "locust_failures.csv").read_text()
    assert "dropped: no_slot" in failures
    assert "-u (users) is the pool of analysts" not in said


def test_conversations_arrive_and_have_turns_with_think_time_between(
    swarm: Swarm, mock_agent: Any
) -> None:
    agent = mock_agent()
    plan(swarm, "tokens=0 first_ms=30", 'model = "partly-open"', "rate = 6", "max_in_flight = 60",
         "drain_s = 5")  # fmt: skip
    text = swarm.plan.read_text()
    swarm.plan.write_text(text.replace("think_s = 0", "think_s = 0.2, turns_per_conversation = 3"))
    headless(swarm, "--host", agent.url, "-t", "4s")
    talks: dict[str, list[Row]] = {}
    for row in turns(swarm, None):
        if row["outcome"] == "dropped":  # due in the very instant of the end, see above
            assert "the run ended" in row["detail"]
            continue
        talks.setdefault(row["conversation"], []).append(row)
    lengths = Counter(len(talk) for talk in talks.values())
    assert max(lengths) == 3
    assert lengths[3] > 10
    for talk in talks.values():
        assert len({row["user"] for row in talk}) == 1
        for before, after in pairwise(talk):
            assert (due_ns(after) - ended_ns(before)) / 1e6 == pytest.approx(200, abs=0.01)
            assert after["scheduled_ms"] <= 0
    assert swarm.summary()["arrivals"]["taken"] == len(talks)


def test_stages_of_a_closed_crowd_go_up_and_down(swarm: Swarm, mock_agent: Any) -> None:
    agent = mock_agent()
    stages = "stages = [{ over_s = 2, to = 12 }, { over_s = 0, to = 24 }, { over_s = 2, to = 24 }, "
    plan(swarm, "tokens=0 first_ms=100", 'model = "closed"', stages + "{ over_s = 1, to = 4 }]",
         "drain_s = 5")  # fmt: skip
    said = headless(swarm, "--host", agent.url)
    assert "closed, up to 24 analysts in 4 stages: " in said
    rows = turns(swarm, None)
    assert {row["turn"] for row in rows} == {line["id"] for line in agent.truth()}
    begin = min(row["started_mono_ns"] for row in rows)
    active: dict[int, set[str]] = {}
    for row in rows:
        active.setdefault(int((row["started_mono_ns"] - begin) / NS_PER_S), set()).add(row["user"])
    # Which second a busy machine is in when it spawns does not matter: up, then down, then the end.
    counts = [len(active[second]) for second in sorted(active)]
    top = counts.index(max(counts))
    assert counts[top] >= 20
    assert 0 < top < len(counts) - 1
    assert counts[0] < counts[top] > counts[-1]
    assert max(active) <= 15


@pytest.mark.parametrize(
    ("load", "arguments", "said"),
    [
        (['model = "open"', "rate = 1", "max_in_flight = 9"], ("-u", "5"),
         "swift.toml: load: the model is open, so -u (users) is the pool of analysts: 5 of them "
         "can never be max_in_flight = 9; give -u 9"),
        (['model = "open"', "rate = 1"], (), "give it, or set load.max_in_flight"),
        (['model = "replay"', 'file = "no.csv"'], ("-u", "5"), "load.file: cannot read"),
    ],
)  # fmt: skip
def test_a_pool_that_is_too_small_is_refused(
    swarm: Swarm, load: list[str], arguments: tuple[str, ...], said: str
) -> None:
    plan(swarm, "tokens=0", *load)
    done = swarm.run("--headless", "-t", "1s", "--host", "http://127.0.0.1:9", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not swarm.results.exists()


def test_a_group_without_an_analyst_in_the_pool_ends_the_run(swarm: Swarm, mock_agent: Any) -> None:
    swarm.plan.write_text(
        PLAN.replace("load = { drain_s = 10 }", 'load = { model = "open", rate = 5 }')
    )
    done = swarm.run("--headless", "-u", "1", "-t", "20s", "--host", mock_agent().url)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no analyst of desk among the 1 users of this process" in done.stderr
