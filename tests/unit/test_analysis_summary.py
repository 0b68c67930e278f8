from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from synthetic import PLAN, crowd, folder, manifest, row

from loadgen.analysis import frame, numerals
from loadgen.analysis.phases import phases
from loadgen.analysis.summary import summarise, write_summary
from loadgen.journal import RunData, read_run
from loadgen.turn import Outcome

Rows = list[dict[str, Any]]


def summary_of(rows: Rows, facts: dict[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    return summarise(RunData(Path(), manifest() if facts is None else facts, rows, **data))


def many(number: int, **facts: Any) -> Rows:
    return [row(f"{facts}-{n}", **facts) for n in range(number)]


FINE = many(200)


@pytest.mark.parametrize(
    ("rows", "facts", "data", "verdict", "code", "because"),
    [
        (FINE, {}, {}, "PASS", 0, "visible progress within 2 s: 100 %"),
        (many(200, first_progress_ms=2500.0), {}, {}, "FAIL", 3, "visible progress within 2 s: 0"),
        (FINE + many(9, outcome="failed"), {}, {}, "FAIL", 3, "failures: 4.3 %"),
        (FINE, {"interrupted": True}, {}, "INCONCLUSIVE", 130, "the run was interrupted"),
        (FINE, {"ended_at": None}, {}, "INCONCLUSIVE", 6, "the run has no end in its manifest"),
        (FINE, {"plan": {}}, {}, "INCONCLUSIVE", 6, "the plan sets no SLO"),
        (FINE, {"lost_workers": ["w2"]}, {}, "INVALID", 5, "1 of 1 workers were lost (w2)"),
        ([], {}, {}, "INVALID", 5, "no turn was started"),
        (many(3, outcome="cut_off"), {}, {}, "INVALID", 5, "completion within 20 s: no evidence"),
        (FINE, {}, {"conflicts": 1}, "INVALID", 5, "1 turn ids stand for different turns"),
        (FINE, {}, {"torn_lines": 1, "files": ("a",)}, "PASS", 0, ""),
        (FINE, {}, {"torn_lines": 9, "files": ("a",)}, "INVALID", 5, "journals are damaged"),
        (FINE + many(2, outcome="failed", cause="client_resource"), {}, {}, "PASS", 0, ""),
        (FINE + many(3, outcome="failed", cause="generator_fault"), {}, {}, "INVALID", 5,
         "the generator spoilt 1.5 % of 203 turns, allowed 1 %"),
        (FINE + many(3, first_answer_ms=9999.0), {}, {}, "INVALID", 5, "3 have impossible times"),
        (FINE + many(1, outcome="novel"), {}, {}, "INVALID", 5, "version does not know (novel)"),
    ],
)  # fmt: skip
def test_the_verdict_its_exit_code_and_its_first_reason(
    rows: Rows, facts: dict[str, Any], data: dict[str, Any], verdict: str, code: int, because: str
) -> None:
    found = summary_of(rows, manifest(**facts), **data)
    assert (found["verdict"], found["exit_code"]) == (verdict, code)
    assert because in found["reasons"][0]


def test_a_manifest_that_cannot_be_read_makes_the_run_invalid() -> None:
    found = summary_of(FINE, {}, manifest_error="manifest.json: No such file")
    assert found["verdict"] == "INVALID"
    assert found["reasons"][0].startswith("the manifest cannot be read: manifest.json")


@pytest.mark.case("D-74")
def test_an_invalid_run_that_also_misses_its_targets_is_invalid() -> None:
    found = summary_of(many(20, ended_ms=30_000.0), manifest(lost_workers=["w1"]))
    assert found["exit_code"] == 5
    assert len(found["reasons"]) == 4


@pytest.mark.case("D-50")
def test_outcomes_add_up_to_started_turns() -> None:
    found = summary_of(crowd(60, 30.0))
    turns = found["turns"]
    assert turns["cut_off"] > 0
    assert sum(turns[outcome] for outcome in Outcome) - turns["dropped"] == turns["started"]
    assert sum(group["n"] for group in found["failures"]) == turns["started"] - turns["completed"]
    assert sum(d["turns"]["started"] for d in found["dialects"].values()) == turns["started"]


@pytest.mark.case("D-25")
def test_failed_turns_stay_out_of_latency_figures() -> None:
    rows = many(100, ended_ms=9000.0)
    rows += many(20, outcome="refused", cause="rate_limited", ended_ms=5.0, first_progress_ms=None)
    ttc = summary_of(rows)["metrics"]["ttc"]
    assert (ttc["n"], ttc["p50"]["value_ms"]) == (100, 9000)


def test_recovered_turns_are_kept_apart() -> None:
    found = summary_of(many(10) + many(2, recovered=True, ended_ms=15_000.0))
    assert found["metrics"]["ttc"]["n"] == 10
    assert found["recovered"]["turns"] == found["turns"]["recovered"] == 2
    assert found["recovered"]["metrics"]["ttc"]["max_ms"] == 15_000
    assert found["slo"][1]["recovered_met"] == 2
    assert "2 completed turns lost their connection" in found["notes"][0]


def test_a_clock_counts_what_is_missing_and_never_as_zero() -> None:
    found = summary_of(many(10) + many(5, first_progress_ms=None))
    assert (found["metrics"]["ttfp"]["n"], found["metrics"]["ttfp"]["missing"]) == (10, 5)
    assert found["turns"]["without_progress"] == 5
    assert "5 completed turns showed no progress before the answer" in found["notes"]
    assert "resume" not in found["metrics"]


def test_human_pauses_are_over_turns_that_had_one() -> None:
    pause = [{"kind": "text", "paused_ms": 1000.0, "resumed_ms": 3500.0, "replied": True}]
    human = summary_of(many(50) + many(5, prompts=pause))["metrics"]["human"]
    assert (human["n"], human["p50"]["value_ms"]) == (5, 2500)


@pytest.mark.case("D-66")
def test_fifty_turns_are_too_few_for_p99() -> None:
    ttc = summary_of(many(50))["metrics"]["ttc"]
    assert ttc["p99"] == {"value_ms": None, "low_ms": None, "high_ms": None, "needs_n": 299}
    assert ttc["p95"]["needs_n"] == 59
    assert (ttc["p50"]["low_ms"], ttc["max_ms"]) == (9000, 9000)
    ttc = summary_of(many(300))["metrics"]["ttc"]
    assert ttc["p99"] == {"value_ms": 9000, "low_ms": None, "high_ms": None, "needs_n": 368}


@pytest.mark.case("D-60")
def test_the_order_and_the_shards_of_the_rows_do_not_matter() -> None:
    rows = crowd(30, 20.0)
    shuffled = random.Random(7).sample(rows, len(rows))
    assert summary_of(rows)["metrics"] == summary_of(shuffled)["metrics"]


def test_in_flight_peaks_where_turns_overlap() -> None:
    begin = [5_000_000_000_000 + second * 1_000_000_000 for second in (0, 5, 9, 100)]
    found = summary_of([row(str(at), started_mono_ns=at) for at in begin])
    assert found["peak_in_flight"] == 2


def test_workers_with_anchors_of_their_own_share_one_axis() -> None:
    anchors = [
        {"worker": "w1", "anchor_wall_ns": 1_790_000_000_000_000_000, "anchor_mono_ns": 1_000},
        {"worker": "w2", "anchor_wall_ns": 1_790_000_001_000_000_000, "anchor_mono_ns": 7_000},
    ]
    rows = [
        row("b", worker="w2", started_mono_ns=7_000),
        row("a", worker="w1", started_mono_ns=1_000),
    ]
    table = frame.turns(RunData(Path(), manifest(workers=anchors), rows))
    assert table["begin_s"].round(3).tolist() == [0, 1]
    assert table["turn"].tolist() == ["a", "b"]
    assert table["answer_s"].round(3).tolist() == [4, 5]


def test_the_summary_on_disk_is_the_summary(tmp_path: Path) -> None:
    run = read_run(folder(tmp_path, crowd(20, 10.0)))
    found = summarise(run)
    path = write_summary(run.folder, found)
    assert json.loads(path.read_text()) == json.loads(json.dumps(found))
    assert [target["clock"] for target in found["slo"]] == [t["clock"] for t in PLAN["slo"]]


def test_a_stamp_before_the_write_it_answers_is_said_and_not_clamped() -> None:
    early = [{"kind": "text", "paused_ms": 100.0, "resumed_ms": 200.0, "replied": True,
              "next_event_ms": 199.943}]  # fmt: skip
    found = summary_of([*FINE, row("early", prompts=early)])
    assert found["metrics"]["resume"]["max_ms"] == -0.057
    assert (
        "1 answers were stamped before the write they answer, by at most 0.057 ms" in found["notes"]
    )


def test_errors_are_grouped_and_their_texts_counted() -> None:
    rows = [
        row(str(n), outcome="failed", cause="agent_error", detail=f"text {n % 7}" + "x" * 500)
        for n in range(70)
    ]
    (group,) = summary_of(rows)["failures"]
    assert (group["n"], len(group["details"]), group["other_details"]) == (70, 5, 2)
    assert {detail["n"] for detail in group["details"]} == {10}
    assert max(len(detail["text"]) for detail in group["details"]) == 200


def test_phases_cover_the_turn_without_gaps() -> None:
    turn = row(
        sent_ms=5.0, first_step_ms=600.0,
        connections=[{"begun_ms": 0.0, "connected_ms": 2.0, "login_ms": 2.0,
                      "authenticated_ms": 5.0}],
        prompts=[{"kind": "text", "paused_ms": 1000.0, "resumed_ms": 3000.0}],
        losses=[{"lost_ms": 5000.0, "during": "working", "recovered_ms": 5500.0}],
    )  # fmt: skip
    found = [(str(s.phase), s.begin_ms, s.end_ms) for s in phases(turn)]
    assert found == [
        ("connecting", 0, 2), ("authenticating", 2, 5), ("queueing", 5, 600),
        ("working", 600, 1000), ("human pause", 1000, 3000), ("working", 3000, 4000),
        ("answering", 4000, 5000), ("connection lost", 5000, 5500), ("answering", 5500, 9000),
    ]  # fmt: skip


@pytest.mark.parametrize("turn", crowd(12, 15.0, seed=5), ids=lambda turn: turn["turn"])
def test_phases_of_any_turn_add_up_to_its_wall_time(turn: dict[str, Any]) -> None:
    found = phases(turn)
    assert sum(span.end_ms - span.begin_ms for span in found) == pytest.approx(turn["ended_ms"])


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "\u2013"), (0, "0.00 ms"), (0.0521, "0.052 ms"), (7.456, "7.46 ms"),
        (812.44, "812.4 ms"), (999.96, "1,000 ms"), (5210, "5.21 s"), (123_456, "123.5 s"),
    ],
)  # fmt: skip
def test_durations_have_a_unit_and_at_most_four_digits(ms: float | None, text: str) -> None:
    assert numerals.duration(ms) == text


@pytest.mark.parametrize(
    ("part", "against", "text"),
    [
        (0.612, None, "61.2 %"), (1, None, "100 %"), (0.9996, None, "99.96 %"),
        (0.9496, 0.95, "94.96 %"), (0.95, 0.95, "95 %"), (0.0004, None, "0.04 %"), (0, None, "0 %"),
    ],
)  # fmt: skip
def test_a_share_shows_on_which_side_of_its_limit_it_lies(
    part: float, against: float | None, text: str
) -> None:
    assert numerals.share(part, against) == text
