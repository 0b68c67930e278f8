"""A search from orders to answer, against simulated services with a known capacity."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from closed_crowd import PLAN, Crowd, end, play, run_folder
from synthetic import BEGIN_WALL, folder, manifest
from synthetic import crowd as synthetic_crowd

from loadgen.advisor import Advisor
from loadgen.analysis import capacity, contrast, numerals
from loadgen.analysis.hold import Terms
from loadgen.analysis.levelbook import read_book, read_levels
from loadgen.analysis.search import End, Scheme
from loadgen.clock import utc_text
from loadgen.errors import ConfigError, RunError
from loadgen.levels import Capacity
from loadgen.report import ladder, ticket
from loadgen.report.capacity import render
from loadgen.swarm.inquiry import searched as searched_table
from tests.pages import NUMBER, numbers, own_words

TERMS = Terms(ramp_s=5, settle_s=60, hold_s=32)
PLACES, SERVICE_S, THINK_S = 8, 1.0, 2.0
ANALYTIC = PLACES * (SERVICE_S + THINK_S) / SERVICE_S
"""24 analysts keep eight places busy."""


def searched(
    results: Path, scheme: Scheme | None = None, **service: Any
) -> tuple[Path, str, Crowd, Advisor]:
    made = run_folder(results)
    crowd = Crowd(made, **{"places": PLACES, "service_s": SERVICE_S, "think_s": THINK_S} | service)
    advisor = Advisor(scheme or Scheme(start=6), TERMS)
    how = play(advisor, crowd)
    end(made)
    return made, how, crowd, advisor


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    made, how, _, _ = searched(tmp_path_factory.mktemp("results"))
    assert how == End.FOUND.value
    return made, capacity.assess([made], need=60, cost=100)


@pytest.mark.case("D-76")
def test_the_answer_lies_at_the_analytic_capacity(found: tuple[Path, dict[str, Any]]) -> None:
    """95 % of the turns may wait for about one service time."""
    _, answer = found
    assert answer["answer"]["proven"] == pytest.approx(ANALYTIC, rel=0.15)
    assert answer["answer"]["high"] <= answer["answer"]["low"] + max(1, 0.05 * ANALYTIC)
    assert len(answer["levels"]) <= 12
    assert answer["verdict"] == "FAIL"
    assert "36 too many" in answer["findings"][0] or "many for one" in answer["findings"][0]


def test_the_sentence_names_first_progress_and_the_places(
    found: tuple[Path, dict[str, Any]],
) -> None:
    _, answer = found
    assert "first progress breaks first" in answer["headline"]
    assert answer["concurrency"]["at_once"] == pytest.approx(PLACES, rel=0.05)
    assert any("run at once" in text for text in answer["findings"])


def test_bounds_and_little_agree_with_what_was_simulated(
    found: tuple[Path, dict[str, Any]],
) -> None:
    _, answer = found
    walls = answer["bounds"]
    assert walls["saturated"]
    assert walls["crossing"] == pytest.approx(ANALYTIC, rel=0.12)
    assert walls["broken"] == []
    laws = [one["window"]["little"] for one in answer["levels"]]
    assert all(law["off"] < 0.05 for law in laws if law["ok"] is not None)
    assert not any("Little's law is off" in text for text in answer["findings"])


def test_time_is_spent_in_the_queue_at_twice_the_load(
    found: tuple[Path, dict[str, Any]],
) -> None:
    _, answer = found
    levels = {one["level"]: one for one in answer["levels"]}
    assert answer["twice"]["level"] >= 1.8 * answer["answer"]["proven"]
    assert answer["twice"]["verdict"] == "FAIL"
    for one in levels.values():
        assert sum(one["anatomy"]["share"].values()) == pytest.approx(1.0, abs=1e-3)
    assert levels[min(levels)]["anatomy"]["share"]["queueing"] < 0.05
    assert levels[max(levels)]["anatomy"]["share"]["queueing"] > 0.3


def test_replicas_are_sized_from_what_one_was_shown_to_hold(
    found: tuple[Path, dict[str, Any]],
) -> None:
    _, answer = found
    sizing = answer["sizing"]
    proven = answer["answer"]["proven"]
    assert sizing["replicas"] == -(-60 // proven)
    assert {row["replicas"]: row["cost"] for row in sizing["table"]}[sizing["replicas"]] == (
        100 * sizing["replicas"]
    )
    assert any("sticky" in text for text in sizing["assumptions"])
    rows = {(row["what"], round(row["value"])): row["analysts"]
            for row in answer["what_if"]["rows"]}  # fmt: skip
    assert rows["think time", 4] > rows["think time", 2] > rows["think time", 1]


def test_a_need_that_is_met_passes(found: tuple[Path, dict[str, Any]]) -> None:
    made, _ = found
    answer = capacity.assess([made], need=12)
    assert (answer["verdict"], answer["exit_code"]) == ("PASS", 0)
    assert answer["answer"]["headroom"] > 0


def test_the_page_shows_only_values_of_the_file(found: tuple[Path, dict[str, Any]]) -> None:
    _, answer = found
    page = render(json.loads(json.dumps(answer)))
    for text in (answer["headline"], *answer["findings"]):
        assert escape(text.split(":")[0][:40]).lower() in page.replace("\u00a0", " ").lower()
    for one in answer["levels"]:
        assert numerals.count(one["turns"]) in page
    assert page.count("data-figure=") == 5
    assert "http://" not in page.split("<script")[0].replace(answer["target"]["host"], "")


def test_every_number_of_the_page_is_one_of_the_file(found: tuple[Path, dict[str, Any]]) -> None:
    _, answer = found
    page = render(answer)
    body = page[page.index("<header>") : page.index("<script")]
    for script in page.split("<script")[1:]:
        body += script.partition("</script>")[2]
    known = {*numbers(answer), *NUMBER.findall(own_words()), "0.2"}
    texts = [part.partition(">")[2] for part in body.split("<")]
    shown = {number for text in texts for number in NUMBER.findall(text)}
    assert len(shown) > 60
    assert shown <= known, sorted(shown - known)


def test_the_page_tells_of_the_hosts_calibration(found: tuple[Path, dict[str, Any]]) -> None:
    _, answer = found
    known = {
        "made_at": "2026-11-30T12:00:00Z", "limit_ms": 1.0, "most_analysts": 640,
        "most_processes": 2, "limit": "time",
        "processes": 1, "cpus": 2,
        "wanted": {"held": True, "us_per_event": 48.5, "events_per_s": 3600.0, "analysts": 180},
    }  # fmt: skip
    page = render(answer | {"calibration": known}).replace("\u00a0", " ")
    assert "as calibrated on this host on 2026-11-30" in page
    assert "640 analysts in 2 processes were held" in page
    assert "calibrated on this host" not in render(answer)


def test_server_text_is_escaped_in_the_page(found: tuple[Path, dict[str, Any]]) -> None:
    _, answer = found
    evil = "</script><script>alert(1)</script>"
    told = answer | {"findings": [evil], "headline": evil, "scenario": evil}
    assert evil not in render(told)


def test_the_ticket_has_the_answer_and_a_row_a_level(
    found: tuple[Path, dict[str, Any]],
) -> None:
    _, answer = found
    text = ticket.render(answer)
    assert text.startswith(f"**FAIL**: {answer['headline']}")
    for one in answer["levels"]:
        assert f"| {one['level']:g} | {one['verdict']} | {numerals.count(one['turns'])} |" in text


def test_a_target_that_always_passes_is_at_least_what_was_tried(tmp_path: Path) -> None:
    made, how, _, _ = searched(tmp_path, Scheme(start=20, most=60), places=500)
    answer = capacity.assess([made])
    assert how == End.AT_MOST.value
    assert answer["answer"]["proven"] == 60
    assert answer["headline"].startswith("It holds >= 60 analysts")
    assert (answer["verdict"], answer["breaks"]) == ("PASS", None)


def test_a_target_that_always_fails_is_below_what_was_tried(tmp_path: Path) -> None:
    made, how, _, _ = searched(tmp_path, Scheme(start=4), works=lambda _: False)
    answer = capacity.assess([made])
    assert how == End.BELOW.value
    assert answer["headline"].startswith("It holds < 1 analysts")
    assert (answer["verdict"], answer["exit_code"]) == ("FAIL", 3)


def test_a_target_that_dies_keeps_its_levels(tmp_path: Path) -> None:
    made, how, _, _ = searched(tmp_path, Scheme(start=3), works=lambda at_s: at_s < 130)
    answer = capacity.assess([made])
    assert how == End.DIED.value
    assert answer["answer"]["proven"] is not None
    assert answer["levels"][-1]["dead"]
    assert answer["headline"].startswith("It holds >=")
    assert any("no longer answered" in text for text in answer["findings"])


def test_a_search_is_resumed_from_its_folder(tmp_path: Path) -> None:
    first = run_folder(tmp_path)
    crowd = Crowd(first, PLACES, SERVICE_S, THINK_S)
    play(Advisor(Scheme(start=6), TERMS), crowd, most_s=150)
    kept = read_levels(first)
    assert kept
    assert read_book(first)[1] is None
    assert capacity.assess([first])["answer"]["end"] is None

    second = run_folder(tmp_path)
    again = Advisor(Scheme(start=6), TERMS, carried=kept)
    assert play(again, Crowd(second, PLACES, SERVICE_S, THINK_S)) == End.FOUND.value
    end(second)
    answer = capacity.assess([second])
    carried = [one for one in answer["levels"] if one.get("carried")]
    assert [one["level"] for one in carried] == [one["level"] for one in kept]
    assert answer["answer"]["proven"] == pytest.approx(ANALYTIC, rel=0.15)


def test_time_that_is_used_up_ends_the_search(tmp_path: Path) -> None:
    made, how, crowd, _ = searched(tmp_path, Scheme(start=6, budget_s=60))
    answer = capacity.assess([made])
    assert how == End.TIME.value
    assert crowd.now_s < 250
    assert answer["verdict"] == "INCONCLUSIVE"
    assert any("time was used up" in text for text in answer["findings"])


def test_whole_runs_are_levels_too(tmp_path: Path) -> None:
    """Levels that were measured elsewhere: one run each."""
    runs = []
    for users in (20, 60, 180):
        facts = manifest(load={"model": "closed", "users": users, "spawn_rate": 25,
                               "run_time_s": 60})  # fmt: skip
        runs.append(folder(tmp_path, synthetic_crowd(users, seed=users), facts))
    answer = capacity.assess(runs)
    assert [one["level"] for one in answer["levels"]] == [20, 60, 180]
    assert answer["answer"]["end"] == End.SWEPT.value
    assert answer["usl"]["fitted"] is False
    assert "takes 6 levels" in answer["usl"]["note"]
    assert all(one["window"]["little"]["off"] < 0.2 for one in answer["levels"])


@pytest.mark.case("D-80")
def test_levels_of_different_models_are_never_put_together(tmp_path: Path) -> None:
    closed = folder(tmp_path, synthetic_crowd(20), manifest())
    plan = PLAN | {"load": {"model": "partly-open", "rate": 0.5}}
    short = [turn | {"conversation": turn["turn"]} for turn in synthetic_crowd(20)]
    arrive = folder(tmp_path, short, manifest(load={"model": "partly-open"}, plan=plan))
    with pytest.raises(RunError, match="different models"):
        capacity.assess([closed, arrive])


@pytest.mark.case("D-80")
def test_answers_of_different_models_or_targets_are_not_compared(
    found: tuple[Path, dict[str, Any]],
) -> None:
    _, answer = found
    told = contrast.beside(answer, answer)
    assert "1 times" in told["sentence"]
    assert render(answer | {"against": told}).count("Beside")
    for key, other in (("model", "partly-open"), ("targets", []), ("failure_budget", 0.5)):
        with pytest.raises(RunError, match="not to be compared"):
            contrast.beside(answer, answer | {key: other})


def test_a_lost_worker_makes_the_answer_invalid(found: tuple[Path, dict[str, Any]]) -> None:
    made, _ = found
    end(made, lost_workers=["worker-1"])
    try:
        answer = capacity.assess([made])
    finally:
        end(made)
    assert (answer["verdict"], answer["exit_code"]) == ("INVALID", 5)
    assert answer["findings"][0] == "a worker was lost: worker-1"


def test_an_interrupted_search_says_so(found: tuple[Path, dict[str, Any]]) -> None:
    made, _ = found
    end(made, interrupted=True)
    try:
        answer = capacity.assess([made])
    finally:
        end(made)
    assert answer["exit_code"] == 130
    assert any("--resume" in text for text in answer["findings"])


def test_progress_shows_level_phase_time_left_and_verdicts(
    found: tuple[Path, dict[str, Any]],
) -> None:
    made, answer = found
    now = {"level": 24.0, "number": 5, "phase": "hold", "left_s": 31.0, "extensions": 2}
    out = ladder.console()
    with out.capture() as told:
        out.print(ladder.progress(now, answer["levels"][:2], 125.0))
    text = told.get()
    for words in ("125 s", "level 5: 24", "turns are counted", "31 s left", "extended 2 times",
                  "PASS"):  # fmt: skip
        assert words in text
    assert json.loads((made / "capacity-now.json").read_text())["at_s"] > 0


def test_an_unfit_generator_stops_the_search(tmp_path: Path) -> None:
    made = run_folder(tmp_path)
    crowd = Crowd(made, PLACES, SERVICE_S, THINK_S)
    advance = crowd._health.append

    def late(row: dict[str, Any]) -> None:
        slow = crowd.users > 6
        advance(row | {"lags_ms": [400.0 if slow else 0.1] * 20})

    crowd._health.append = late  # type: ignore[method-assign]
    assert play(Advisor(Scheme(start=6), TERMS), crowd) == End.INVALID.value
    end(made)
    answer = capacity.assess([made])
    assert (answer["verdict"], answer["levels"][-1]["verdict"]) == ("INVALID", "INVALID")
    assert "hub lag" in answer["levels"][-1]["reasons"][0]
    assert answer["answer"]["proven"] == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"levels": "3,x"}, "--levels takes numbers with commas, got '3,x'"),
        ({"start": -1.0}, "capacity.start: Input should be greater than 0"),
        ({"most": 0.5}, "least is above most"),
        ({"levels": "3,3"}, "levels must differ"),
    ],
)
def test_options_of_a_search_are_checked(options: dict[str, Any], said: str) -> None:
    given = {"start": None, "most": None, "hold": None, "budget": None, "levels": ""} | options
    with pytest.raises(ConfigError, match=re.escape(said)):
        searched_table(Capacity(), SimpleNamespace(**given))


def test_options_of_a_search_stand_in_place_of_the_plan() -> None:
    given = SimpleNamespace(start=20.0, most=None, hold=30.0, budget=600.0, levels="10,20")
    table = searched_table(Capacity(start=5, most=300), given)
    assert (table.start, table.most, table.hold_s, table.budget_s) == (20, 300, 30, 600)
    assert table.levels == (10, 20)


def test_a_search_without_a_level_is_not_settled(tmp_path: Path) -> None:
    made = run_folder(tmp_path)
    advisor = Advisor(Scheme(start=6), TERMS)
    play(advisor, Crowd(made, PLACES, SERVICE_S, THINK_S), most_s=10)
    with pytest.raises(RunError, match="no level was measured") as refused:
        capacity.assess([made])
    assert refused.value.exit_code == 6


def test_nothing_to_report_is_an_error(tmp_path: Path) -> None:
    made = run_folder(tmp_path, started_at=utc_text(BEGIN_WALL))
    with pytest.raises(RunError, match="no steady window"):
        capacity.assess([made])


def test_holds_are_short_where_a_level_fails_clearly(tmp_path: Path) -> None:
    """The early look needs more certainty, and at least half of the time."""
    made, _, _, _ = searched(tmp_path, Scheme(levels=(96,)))
    (one,) = capacity.assess([made])["levels"]
    assert one["verdict"] == "FAIL"
    held = one["closed_s"] - one["opened_s"]
    assert TERMS.hold_s / 2 <= held < TERMS.hold_s
    assert replace(TERMS, hold_s=1) != TERMS
