from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from synthetic import crowd, manifest, row

from loadgen.analysis.summary import summarise
from loadgen.journal import RunData
from loadgen.report.terminal import print_summary, print_verdict


def printed(rows: list[dict[str, Any]], **facts: Any) -> str:
    file = io.StringIO()
    run = RunData(Path(), manifest(**facts), rows)
    print_summary(summarise(run), Path("results/a/report.html"), file)
    return file.getvalue()


def test_the_verdict_is_first_and_the_path_is_last() -> None:
    rows = [row for row in crowd(40, 30.0) if row["outcome"] != "cut_off"]
    lines = printed(rows).strip().splitlines()
    assert lines[0] == "PASS  closed, 180 analysts: every target was met."
    assert lines[1].startswith("  - visible progress within 2 s: ")
    assert lines[-1] == "report: results/a/report.html"


def test_elsewhere_than_on_a_terminal_the_text_is_plain() -> None:
    text = printed(crowd(40, 30.0))
    assert "\x1b" not in text
    assert not set(text) & set("─━│┃")


def test_each_reason_stays_on_one_line() -> None:
    text = printed(crowd(40, 30.0), lost_workers=[f"worker-number-{n}" for n in range(30)])
    assert any("worker-number-29" in line for line in text.splitlines() if "were lost" in line)


@pytest.mark.parametrize("rows", [[], [row(outcome="failed", cause="agent_error")]])
def test_a_run_without_a_completed_turn_has_no_table(rows: list[dict[str, Any]]) -> None:
    assert "p95  " not in printed(rows)


def test_markup_for_the_terminal_has_no_effect() -> None:
    text = printed([row(outcome="failed", cause="[red]agent[/red] [/]")], lost_workers=["[bold]w"])
    assert "[bold]w" in text
    assert "[red]agent[/red] [/]" in text


def test_the_gate_prints_why_and_no_table() -> None:
    file = io.StringIO()
    print_verdict(summarise(RunData(Path(), manifest(), [])), file)
    lines = file.getvalue().splitlines()
    assert lines[0] == "INVALID  closed, 180 analysts: this run says nothing about the target."
    assert lines[1] == "  - no turn was started: there is nothing to judge"
