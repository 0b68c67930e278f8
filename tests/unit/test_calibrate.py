"""The search for the most analysts, on made-up trials; and a trial, on literal rows."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from synthetic import BEGIN_MONO, BEGIN_WALL, manifest, row

from loadgen.analysis.summary import summarise
from loadgen.analysis.truth import Spread, errors
from loadgen.calibrate import Calibration, calibrate
from loadgen.calibration import fingerprint, keep, recall
from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.journal import RunData
from loadgen.report.calibration import overhead, show
from loadgen.report.page import render
from loadgen.trial import Crowd, Trial, compare


def trial(crowd: Crowd, p99: float | None = 0.05, late_ms: float = 1.0, bad: int = 0) -> Trial:
    error = Spread(400, 0.01, 0.03, p99, p99)
    clocks = {"ttfp": error, "ttfa": error, "ttc": error}
    return Trial(
        crowd, 400, bad, {"nat-sse": clocks, "nat-ws": clocks}, crowd.analysts * crowd.rate, 41.0,
        2.0, late_ms, (),
    )  # fmt: skip


def search(limit: int, wanted: int = 180, budget_s: float = 1e6, **facts: Any) -> Calibration:
    def attempt(crowd: Crowd) -> Trial:
        return trial(crowd, 0.05 if crowd.analysts <= limit else 7.0, **facts)

    return calibrate(Crowd(wanted, 20.0, 1), budget_s, attempt)


@pytest.mark.parametrize(
    ("n", "p95", "p99"),
    [(19, "\u2013", "\u2013"), (20, "0.030 ms", "\u2013"), (100, "0.030 ms", "0.030 ms")],
)
def test_a_percentile_of_fewer_turns_than_it_takes_is_not_shown(n: int, p95: str, p99: str) -> None:
    error = {"n": n, "p50": 0.01, "p95": 0.03, "p99": 0.03, "max": 0.05}
    (shown,) = overhead({"errors": {"nat-ws": {"ttfa": error}}})
    assert (shown["p95"], shown["p99"], shown["max"]) == (p95, p99, "0.050 ms")


@pytest.mark.parametrize("limit", [12, 90, 180, 700, 1234, 6000])
@pytest.mark.parametrize("wanted", [1, 180, 3000])
def test_the_search_ends_within_a_tenth_below_the_limit(limit: int, wanted: int) -> None:
    found = search(limit, wanted)
    assert found.best is not None
    assert 0.9 * limit - 1 <= found.best.crowd.analysts <= limit
    assert found.limit == "generator"


def test_a_host_that_holds_everything_is_searched_to_the_end() -> None:
    found = search(100_000)
    assert found.best is not None
    assert (found.best.crowd.analysts, found.limit) == (8000, "time")


def test_a_host_that_holds_nothing_says_so() -> None:
    found = search(0)
    assert (found.best, found.processes, found.as_json()["most_analysts"]) == (None, None, 0)
    out = io.StringIO()
    show(found.as_json(), None, out)
    assert "no crowd was held with errors below 1.00 ms at p99" in out.getvalue()


def test_no_trial_is_begun_that_would_not_end_in_time() -> None:
    found = search(700, budget_s=0)
    assert [item.crowd.analysts for item in found.trials] == [180]
    assert found.limit == "time"


def test_a_trial_that_others_disturbed_is_made_once_more() -> None:
    tried: list[int] = []

    def attempt(crowd: Crowd) -> Trial:
        tried.append(crowd.analysts)
        first = tried.count(crowd.analysts) == 1
        return trial(crowd, 7.0 if first or crowd.analysts > 300 else 0.05)

    found = calibrate(Crowd(180, 20.0, 1), 1e6, attempt)
    assert found.wanted.error_p99_ms == 0.05
    assert found.best is not None
    assert found.best.crowd.analysts >= 270


@pytest.mark.parametrize(
    ("wanted", "processes", "needed"), [(180, 1, 1), (2000, 1, 3), (2000, 2, 5)]
)
def test_the_number_of_processes_follows_from_what_one_holds(
    wanted: int, processes: int, needed: int
) -> None:
    """700 to 770 are held, in one process or in two."""

    def attempt(crowd: Crowd) -> Trial:
        return trial(crowd, 0.05 if crowd.analysts <= 800 else 7.0)

    found = calibrate(Crowd(wanted, 20.0, processes), 1e6, attempt)
    assert found.processes is not None
    assert found.processes in (needed, needed + 1)


def test_a_mock_agent_that_lags_behind_is_named_as_the_limit() -> None:
    assert search(700, late_ms=400.0).limit == "mock agent"


@pytest.mark.parametrize(
    ("facts", "held"),
    [({"p99": 0.99}, True), ({"p99": 1.01}, False), ({"p99": None}, False), ({"bad": 4}, True),
     ({"bad": 5}, False)],
)  # fmt: skip
def test_what_is_held(facts: dict[str, Any], held: bool) -> None:
    found = Calibration(trial(Crowd(180, 20.0, 1), **facts), ())
    assert found.as_json()["wanted"]["held"] is held


def truth(at_ms: float, **facts: Any) -> dict[str, Any]:
    """The log's row of a turn that begins ``at_ms`` into the run: `synthetic.row`, exactly."""
    begun = BEGIN_MONO + round(at_ms * NS_PER_MS)
    marks = {"first_progress": 700, "first_answer": 4000, "ended": 9000}
    base = {f"{name}_ns": begun + ms * NS_PER_MS for name, ms in marks.items()}
    return base | {"chunks": 80, "steps": 3, "max_late_ns": 2 * NS_PER_MS} | facts


def test_the_error_of_a_clock_is_how_far_its_milestone_is_from_the_truth() -> None:
    rows = [row("a"), row("b", first_answer_ms=4000.5), row("c", outcome="failed"), row("d")]
    truths = {turn: truth(0) for turn in "abc"}
    found = errors(rows, truths)
    assert found["ttfp"] == Spread(2, 0, 0, 0, 0)
    assert (found["ttfa"].n, found["ttfa"].p50, found["ttfa"].max) == (2, 0, 0.5)


def test_a_trial_counts_the_window_only() -> None:
    """A window from 3 to 9 s: 83 events in 8.3 s of the turn, ten a second; half a core."""
    crowd = Crowd(100, 20.0, 1)
    rows = [
        row(str(at), dialect=dialect, started_mono_ns=BEGIN_MONO + at * NS_PER_MS)
        for at, dialect in ((0, "nat-sse"), (4000, "nat-sse"), (5000, "nat-ws"), (20_000, "nat-ws"))
    ]
    pulse = [
        {"process": "local", "n": n, "wall_ns": BEGIN_WALL + n * NS_PER_S, "span_ms": 1000.0,
         "mono_ns": BEGIN_MONO + n * NS_PER_S, "lags_ms": [0.5] * 20, "cpu": 0.5}
        for n in range(12)
    ]  # fmt: skip
    truths = {str(at): truth(at) for at in (0, 4000, 5000, 20_000)}
    found = compare(crowd, RunData(Path(), manifest(), rows, health={"local": pulse}), truths)
    assert (found.turns, found.bad, found.error_p99_ms) == (2, 0, 0)
    assert found.events_per_s == pytest.approx((60 + 43 + 33) / 6)
    assert found.us_per_event == pytest.approx(0.5 * 6e6 / (60 + 43 + 33))
    assert found.unfit == ()


def test_what_was_found_is_kept_for_this_host_and_shown_in_later_reports(tmp_path: Path) -> None:
    found = search(700).as_json()
    assert recall(tmp_path) is None
    path = keep(tmp_path, found)
    assert fingerprint() in path.name
    kept = recall(tmp_path)
    assert kept is not None
    run = RunData(tmp_path, manifest(calibration=kept), [row(str(n)) for n in range(30)])
    page = render(run, summarise(run))
    assert "Client overhead at 180 analysts" in page
    assert "0.050 ms" in page
    assert "were held with errors below 1.00 ms at p99" in page
    path.write_text("{")
    assert recall(tmp_path) is None
