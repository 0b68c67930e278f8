from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import BEGIN_MONO, BEGIN_WALL, crowd, manifest, row

from loadgen.analysis import frame, storm
from loadgen.analysis.storm import Moment
from loadgen.analysis.summary import summarise
from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.journal import RunData
from loadgen.report.page import render


def run_of(rows: list[dict[str, Any]], adversity: list[dict[str, Any]] | None = None) -> RunData:
    return RunData(Path(), manifest(adversity=adversity), rows)


def storms_of(run: RunData) -> list[storm.Storm]:
    return storm.find(run, frame.turns(run))


def lost(number: int, back_ms: float | None = None, **facts: Any) -> dict[str, Any]:
    """A turn that starts with the run and loses its socket at 10 s; it is back ``back_ms`` later,
    at its second attempt.
    """
    loss: dict[str, Any] = {"lost_ms": 10_000.0, "during": "turn", "code": 1012}
    tries = [{"begun_ms": 10_500.0, "failure": "connect_failed", "resumes": True}]
    if back_ms is not None:
        loss["recovered_ms"] = 10_000.0 + back_ms
        begun = loss["recovered_ms"] - 5
        tries.append(
            {"begun_ms": begun, "connected_ms": begun + 1, "login_ms": begun + 1,
             "authenticated_ms": begun + 2, "resumes": True}
        )  # fmt: skip
    ended = {"ended_ms": 40_000.0, "last_answer_ms": 39_000.0, "first_answer_ms": 30_000.0}
    if back_ms is None:
        ended |= {"outcome": "incomplete", "cause": "lost_resume", "first_answer_ms": None}
    made = {"losses": [loss], "connections": tries, "dialect": "nat-ws", "user": f"u{number}"}
    return row(f"t{number}", **ended | made | facts)


def dropped(at_s: float, **facts: Any) -> dict[str, Any]:
    """What a manifest says of a drop."""
    wall_ns = BEGIN_WALL + int(at_s * NS_PER_S)
    return {"number": 0, "what": "drop", "worker": "w1", "wall_ns": wall_ns} | facts


@pytest.mark.case("D-39")
def test_dropped_recovered_lost_and_how_long_it_took() -> None:
    rows = [lost(n, 1000.0 * (n + 1)) for n in range(9)] + [lost(9)]
    (found,) = storms_of(run_of(rows, [dropped(9.9, dropped=10)]))
    assert (found.dropped, found.recovered, found.lost, found.idle) == (10, 9, 1, 0)
    # From the moment of the drop, 0.1 s before the first loss: the fifth and the ninth of ten.
    assert found.recovered_after_ms == {
        "p50": pytest.approx(5100.0), "p90": pytest.approx(9100.0), "p99": None,
    }  # fmt: skip
    assert found.at_s == 9.9
    assert found.what == "drop"


def test_connects_are_counted_by_the_second_and_failed_ones_are_told() -> None:
    rows = [lost(n, 1000.0 * (n + 1)) for n in range(9)] + [lost(9)]
    (found,) = storms_of(run_of(rows, [dropped(10.0)]))
    # Ten first attempts in the first second, with the one that succeeds at 10.995 s.
    assert (found.connects, found.failed_connects, found.peak_connects) == (19, 10, 11)
    assert found.logins == 9


def test_a_prompt_that_comes_back_with_the_turn_is_delivered_again() -> None:
    def prompt(at_ms: float, kind: str = "text") -> dict[str, Any]:
        return {"kind": kind, "paused_ms": at_ms, "resumed_ms": at_ms + 100, "replied": True}

    again = lost(0, 1000.0, prompts=[prompt(9000.0), prompt(11_000.0)])
    later = lost(1, 1000.0, prompts=[prompt(9000.0), prompt(20_000.0)])
    other = lost(2, 1000.0, prompts=[prompt(9000.0), prompt(11_000.0, "radio")])
    none = lost(3, 1000.0, prompts=[prompt(11_000.0)])
    (found,) = storms_of(run_of([again, later, other, none], [dropped(10.0)]))
    assert found.prompts_again == 1


def test_idle_connections_are_counted_apart() -> None:
    start = BEGIN_MONO + 15_000 * NS_PER_MS
    idle = [
        row(f"i{n}", user=f"u{n}", started_mono_ns=start,
            losses=[{"lost_ms": -5000.0, "during": "idle", "code": 1012}])
        for n in range(4)
    ]  # fmt: skip
    (found,) = storms_of(run_of([*idle, lost(9, 500.0)], [dropped(10.0)]))
    assert (found.dropped, found.idle, found.recovered) == (1, 4, 1)


def test_a_storm_that_nobody_planned_is_found_by_its_size() -> None:
    (found,) = storms_of(run_of([lost(n, 100.0) for n in range(5)]))
    assert found.what == "not planned"
    assert storms_of(run_of([lost(n, 100.0) for n in range(4)])) == []


def test_connections_lost_one_by_one_are_no_storm() -> None:
    rows = crowd(180, 60.0)
    assert sum(len(item.get("losses", ())) for item in rows) > 20
    assert storms_of(run_of(rows)) == []


def test_a_connection_lost_by_chance_just_before_does_not_give_the_storm_its_name() -> None:
    stray = lost(99, 100.0, started_mono_ns=BEGIN_MONO - 500 * NS_PER_MS)
    (found,) = storms_of(run_of([stray, *(lost(n, 100.0) for n in range(6))], [dropped(10.0)]))
    assert (found.what, found.at_s, found.dropped) == ("drop", 10.0, 6)


def test_two_storms_have_their_own_connects() -> None:
    first = [lost(n, 100.0) for n in range(6)]
    second = [lost(n + 6, 100.0, started_mono_ns=BEGIN_MONO + 5000 * NS_PER_MS) for n in range(6)]
    found = storms_of(run_of([*first, *second, lost(20)], [dropped(10.0), dropped(15.0, number=1)]))
    assert [item.at_s for item in found] == [10.0, 15.0]
    assert [item.dropped for item in found] == [7, 6]
    assert [item.connects for item in found] == [13, 12]


def test_the_parts_of_several_workers_are_one_moment() -> None:
    facts = [
        dropped(10.02, dropped=3, worker="worker-1"),
        dropped(10.0, dropped=4, worker="worker-0"),
        dropped(2.0, number=1, what="control", command={"drop": "all", "refuse_s": 3}),
    ]
    assert storm.moments(run_of([], facts)) == [
        Moment(2.0, "control drop all, refuse_s 3"),
        Moment(10.0, "drop", 7),
    ]


@pytest.mark.parametrize(
    ("times", "most"), [([], 0), ([0.0, 0.99, 1.0], 2), ([0.5, 1.4, 1.6, 1.9, 2.0], 3)]
)
def test_a_peak_is_the_busiest_bin(times: list[float], most: int) -> None:
    assert storm.peak(times) == most


def test_the_report_has_the_storm_and_marks_the_moment() -> None:
    run = run_of([lost(n, 1000.0 * (n + 1)) for n in range(10)], [dropped(9.9, dropped=10)])
    summary = summarise(run)
    assert summary["storms"][0]["recovered"] == 10
    assert any(note.startswith("storm at 9.90 s (drop): 10 conn") for note in summary["notes"])
    page = render(run, summary)
    assert '<section id="storms" ' in page
    assert "drop; 10 connections lost by analysts" in page.replace("\n", "")
    assert '"x0":9.9' in page or '"x0": 9.9' in page, "no line in the chart"


def test_a_run_without_a_storm_has_no_such_section() -> None:
    run = run_of(crowd(20, 20.0))
    assert 'id="storms"' not in render(run, summarise(run))
