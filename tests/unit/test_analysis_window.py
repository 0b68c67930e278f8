from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import BEGIN_MONO, BEGIN_WALL, crowd, manifest, row

from loadgen.analysis import frame, window
from loadgen.analysis.summary import summarise
from loadgen.clock import utc_text
from loadgen.journal import RunData
from loadgen.report.page import render


def regular(wall_s: float, every_s: float, number: int) -> pd.DataFrame:
    begin = np.arange(number) * every_s
    return pd.DataFrame({"asked": True, "begin_s": begin, "end_s": begin + wall_s})


def test_littles_law_holds_in_a_steady_window() -> None:
    law = window.little(regular(2.0, 0.1, 1000), 10.0, 90.0)
    assert law is not None
    assert (law.in_flight, law.wall_s) == pytest.approx((20.0, 2.0), rel=0.01)
    assert law.ok is True


def test_littles_law_finds_turns_that_never_ended_in_the_window() -> None:
    table = pd.concat([regular(2.0, 0.1, 1000), regular(500.0, 0.1, 50)])
    law = window.little(table, 10.0, 90.0)
    assert law is not None
    assert law.ok is False


def test_a_window_of_few_turns_does_not_tell() -> None:
    law = window.little(regular(20.0, 1.0, 100), 10.0, 90.0)
    assert law is not None
    assert law.ok is None


def test_the_window_opens_after_the_ramp_and_counts_what_it_leaves_out() -> None:
    run = RunData(Path(), manifest(), crowd())
    table = frame.turns(run)
    found = window.find(run.manifest, table)
    assert found is not None
    assert found.from_s >= 180 / 25
    assert found.to_s == table["begin_s"].max()
    assert found.turns + found.trimmed == int(table["asked"].sum())
    assert found.turns > 0
    assert found.trimmed > 0


def turns_of(
    users: int = 40, seconds: float = 120.0, wall_s: float = 2.0, first_extra_s: float = 0.0
) -> list[dict[str, Any]]:
    """Analysts who ask, wait about ``wall_s``, think about 3 s; their first turns take longer."""
    rng = np.random.default_rng(3)
    rows = []
    for user in range(users):
        at, extra = float(rng.uniform(0, 1)), first_extra_s
        while at < seconds:
            took = extra + float(rng.uniform(0.8, 1.2)) * wall_s
            rows.append(row(
                f"{user}-{len(rows)}", user=f"u{user}", conversation=f"u{user}-{len(rows)}",
                started_mono_ns=BEGIN_MONO + round(at * 1e9), first_progress_ms=100.0,
                first_answer_ms=500.0 + extra * 1000, last_answer_ms=None, ended_ms=took * 1000,
            ))  # fmt: skip
            at, extra = at + took + float(rng.uniform(2, 4)), 0.0
    return rows


def at_s(seconds: float) -> str:
    return utc_text(BEGIN_WALL + round(seconds * 1e9))


CLOSED = {"model": "closed", "users": 40, "spawn_rate": 40, "run_time_s": 120}


@pytest.mark.case("D-51")
def test_slow_first_turns_are_outside_the_window_and_inside_the_run() -> None:
    rows = turns_of(first_extra_s=10.0)
    facts = manifest(load=CLOSED, stopping_at=at_s(120))
    found = summarise(RunData(Path(), facts, rows))
    steady = found["window"]
    assert steady["from_s"] >= 10
    assert steady["to_s"] == pytest.approx(120, abs=0.01)
    assert steady["steady"] is True
    assert steady["metrics"]["ttc"]["max_ms"] < 3000 < found["metrics"]["ttc"]["max_ms"]
    assert steady["turns"] + steady["trimmed"] == found["turns"]["started"] == len(rows)
    assert steady["trimmed"] >= 40
    assert steady["little"]["ok"] is True
    assert steady["little"]["in_flight"] == pytest.approx(40 * 2 / 5, rel=0.1)
    page = render(RunData(Path(), facts, rows), found)
    assert f"{steady['trimmed']} of those that were started lie outside" in page


def test_a_warm_up_that_design_does_not_see_is_cut_by_the_data() -> None:
    """All turns that end in the first 30 s are slow, also the second ones of an analyst."""
    begin = np.arange(0, 120, 0.1)
    walls = np.where(begin < 30, 8.0, 1.0) + 0.1 * np.random.default_rng(1).random(begin.size)
    rows = [
        row(str(n), user=f"u{n % 10}", conversation=str(n), first_progress_ms=100.0,
            first_answer_ms=500.0, last_answer_ms=None, ended_ms=wall * 1000,
            started_mono_ns=BEGIN_MONO + round(at * 1e9))
        for n, (at, wall) in enumerate(zip(begin, walls, strict=True))
    ]  # fmt: skip
    load = {"model": "closed", "users": 10, "spawn_rate": 10}
    run = RunData(Path(), manifest(load=load), rows)
    found = window.find(run.manifest, frame.turns(run))
    assert found is not None
    assert found.designed_s is not None
    assert found.designed_s < 10 < 29 < found.from_s < 40
    assert found.times is not None
    assert found.times.cut > 0


@pytest.mark.parametrize(
    ("load", "says", "level"),
    [
        (CLOSED, {}, (1.0, np.inf)),
        (CLOSED | {"spawn_rate": 4}, {}, (10.0, np.inf)),
        ({"model": "open", "users": 40, "spawn_rate": 1}, {"rate": 2.0}, (0.0, np.inf)),
        (CLOSED, {"stages": [(10, 20), (60, 20), (5, 40), (30, 40)]}, (10.0, 70.0)),
        (CLOSED, {"stages": [(10, 20), (5, 40), (20, 40), (20, 40), (5, 0)]}, (15.0, 55.0)),
        (CLOSED, {"stages": [(10, 20), (20, 0)]}, (0.0, 0.0)),
        ({"model": "open"}, {"rate": 2.0, "stages": [(30, 2), (10, 4)]}, (0.0, 30.0)),
    ],
)
def test_the_level_is_held_after_the_ramp_or_in_the_longest_stage(
    load: dict[str, Any], says: dict[str, Any], level: tuple[float, float]
) -> None:
    stages = [{"over_s": over, "to": to} for over, to in says.get("stages", ())]
    facts = {"load": load, "plan": {"load": says | {"stages": stages}}}
    assert window._level(facts) == level


def test_a_load_that_never_holds_its_level_has_no_window() -> None:
    stages = [{"over_s": 60, "to": 40}, {"over_s": 60, "to": 0}]
    run = RunData(Path(), manifest(load=CLOSED, plan={"load": {"stages": stages}}), turns_of())
    assert window.find(run.manifest, frame.turns(run)) is None
    found = summarise(run)
    assert found["window"] is None
    assert "no steady window" in found["consistency"][-1]["detail"]


def test_where_turns_arrive_the_window_opens_when_the_first_ones_may_have_gone() -> None:
    rows = [
        row(str(n), user=f"u{n % 30}", conversation=str(n), ended_ms=9000.0,
            started_mono_ns=BEGIN_MONO + round(n * 0.5e9))
        for n in range(240)
    ]  # fmt: skip
    run = RunData(Path(), manifest(load={"model": "open", "users": 30}), rows)
    found = window.find(run.manifest, frame.turns(run))
    assert found is not None
    assert found.designed_s == pytest.approx(9.0)
    assert found.to_s == pytest.approx(119.5)


def test_a_service_that_gets_slower_all_the_time_is_not_steady() -> None:
    begin = np.arange(1000) * 0.1
    table = frame.turns(RunData(Path(), manifest(), crowd(users=1, seconds=5)))
    table = pd.concat([table.head(1)] * 1000, ignore_index=True)
    wall = 1.0 + begin / 10
    table = table.assign(asked=True, outcome="completed", recovered=False, begin_s=begin)
    table = table.assign(end_s=begin + wall, elapsed_ms=wall * 1000, ttfa_ms=wall * 900)
    found = window.find({}, table)
    assert found is not None
    assert found.steady is False
    assert "cannot answer a capacity question" in (window.sentence(found) or "")
