from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import manifest, row

from loadgen.analysis.summary import summarise
from loadgen.journal import RunData
from loadgen.report.page import render


def run_of(rows: list[dict[str, Any]], **facts: Any) -> RunData:
    return RunData(Path(), manifest(**facts), rows)


def turn(name: str, seen: str | None = None) -> dict[str, Any]:
    """A turn with its own tag, fast enough for every target; ``seen`` is another's."""
    crossed = {"outcome": "failed", "cause": "isolation", "detail": f"tag {seen}"}
    own = {"tag": f"tag-{name}", "tag_seen": seen or f"tag-{name}", "user": f"analyst-{name}"}
    return row(name, **own | (crossed if seen else {}))


@pytest.mark.case("D-41")
def test_answers_that_crossed_fail_a_run_whose_latencies_all_pass() -> None:
    rows = [turn(str(n)) for n in range(2000)]
    rows[10], rows[20] = turn("10", "tag-20"), turn("20", "tag-10")
    run = run_of(rows)
    summary = summarise(run)
    assert {result["verdict"] for result in summary["slo"]} == {"PASS"}
    assert summary["failure_budget"]["verdict"] == "PASS"
    assert (summary["verdict"], summary["exit_code"]) == ("FAIL", 3)
    assert summary["isolation"]["violations"] == 2
    named = [(item["turn"], item["other"]) for item in summary["isolation"]["named"]]
    assert named == [("10", "20"), ("20", "10")]
    assert summary["reasons"][0] == (
        "isolation: 2 turns got the answer of another one; "
        "the first: turn 10 (analyst-10) got that of turn 20 (analyst-20)"
    )
    assert '<section id="isolation" ' in render(run, summary)


@pytest.mark.case("D-41")
def test_ten_thousand_turns_of_their_own_raise_no_alarm() -> None:
    summary = summarise(run_of([turn(str(n)) for n in range(10_000)]))
    assert summary["isolation"] == {"violations": 0, "named": []}
    assert summary["verdict"] == "PASS"


def test_a_tag_that_no_turn_of_the_run_has_is_named_as_that() -> None:
    summary = summarise(run_of([turn("a", "stranger"), *(turn(str(n)) for n in range(99))]))
    assert summary["isolation"]["named"][0]["other"] == ""
    assert "got that of a turn of no analyst" in summary["reasons"][0]


def test_a_run_that_is_no_evidence_stays_invalid() -> None:
    rows = [turn("a", "tag-b"), turn("b")]
    assert summarise(run_of(rows, lost_workers=["w2"]))["verdict"] == "INVALID"


def test_many_violations_are_all_counted_and_the_first_ones_named() -> None:
    summary = summarise(run_of([turn(str(n), f"tag-{n + 1}") for n in range(50)]))
    assert summary["isolation"]["violations"] == 50
    assert len(summary["isolation"]["named"]) == 20
