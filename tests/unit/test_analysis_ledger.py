"""Columns of a run are what the formula book says of each of its rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from synthetic import crowd, folder, manifest, row

from loadgen.analysis import frame, ledger
from loadgen.journal import RunData, read_run
from loadgen.metrics import MARKS, TURN_CLOCKS, elapsed, happenings, impossible, marks, turn_clocks

PROMPT = {"kind": "text", "paused_ms": 800.0, "resumed_ms": 5800.0, "replied": True}
ODD = [
    row("plain"),
    row("late", scheduled_ms=-250.0, scheduled_mono_ns=5),
    row("no progress", first_progress_ms=None),
    row("nothing seen", first_progress_ms=None, first_answer_ms=None, outcome="timed_out"),
    row("failed", outcome="failed", cause="agent_error"),
    row("cut off", outcome="cut_off", first_answer_ms=None, last_answer_ms=None),
    row("never ended", ended_ms=None, outcome="incomplete"),
    row("dropped", outcome="dropped", started_mono_ns=0, sent_ms=None, ended_ms=None),
    row("asked for a reply first", first_progress_ms=None, prompts=[PROMPT]),
    row("reply that never came", prompts=[PROMPT | {"resumed_ms": None, "replied": False}]),
    row("told only", prompts=[PROMPT | {"kind": "notification"}], max_gap_ms=70.0),
    row("recovered", recovered=True, losses=[
        {"lost_ms": 100.0, "during": "working", "recovered_ms": 700.0},
        {"lost_ms": 9000.0, "during": "idle"},
    ]),
    row("before the question", scheduled_ms=3.0),
    row("after the end", first_answer_ms=9500.0),
    row("before its begin", connections=[{"begun_ms": 5.0, "connected_ms": 1.0}]),
    row("two connections", connections=[
        {"begun_ms": 0.0, "failure": "reset"},
        {"begun_ms": 9.0, "connected_ms": 10.0, "login_ms": 10.0, "authenticated_ms": 12.0},
    ], preparations=[{"name": "token", "begun_ms": 0.0, "done_ms": 4.0}]),
    row("read late", notices={"looked_away": 1}),
    row("told its work", work={"summarize": {"seconds": 1.0}}),
]  # fmt: skip


def clean(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without prompts' keys that are None: absent is how a row says that."""
    for item in rows:
        for prompt in item.get("prompts", ()):
            for key in [key for key, value in prompt.items() if value is None]:
                del prompt[key]
    return rows


def same(found: float, wanted: float | None) -> bool:
    return math.isnan(found) if wanted is None else found == wanted


@pytest.mark.parametrize("rows", [clean(ODD), crowd(60, 60.0)], ids=["odd", "crowd"])
def test_columns_are_those_of_the_formula_book(rows: list[dict[str, Any]]) -> None:
    kept = ledger.keep(RunData(Path(), manifest(), rows))
    assert len(kept.turns) == len(rows)
    for item, columns in zip(rows, kept.turns.to_dict("records"), strict=True):
        clocks, reached = turn_clocks(item), marks(item)
        for clock in TURN_CLOCKS:
            assert same(columns[f"{clock}_ms"], clocks.get(clock)), (item["turn"], clock)
        for mark in MARKS:
            assert same(columns[f"at_{mark}"], reached.get(mark)), (item["turn"], mark)
        assert same(columns["elapsed_ms"], elapsed(item)), item["turn"]
        assert columns["impossible"] == (impossible(item) is not None), item["turn"]
        assert columns["losses"] == len(item.get("losses", ()))
    flags = [("recovered", "recovered"), ("looked_away", "read late"), ("worked", "told its work")]
    for flag, turn in flags if rows is ODD else ():
        assert kept.turns.loc[kept.turns[flag], "turn"].tolist() == [turn]
    inside = kept.happenings.to_dict("records")
    wanted = [(item, h) for item in rows if turn_clocks(item) for h in happenings(item)]
    for found, (item, happening) in zip(inside, wanted, strict=True):
        assert kept.turns["turn"][found["row"]] == item["turn"]
        assert (found["clock"], found["at_ms"]) == (happening.clock, happening.at_ms)
        assert same(found["value_ms"], happening.value_ms)


def test_pages_and_batches_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = crowd(30, 60.0)
    whole = ledger.keep(RunData(Path(), manifest(), rows))
    monkeypatch.setattr(ledger, "_BATCH", 7)
    monkeypatch.setattr(ledger, "_PAGE", 20)
    pieces = ledger.keep(RunData(Path(), manifest(), rows))
    assert len(rows) > 60
    assert whole.turns.equals(pieces.turns)
    assert whole.happenings.equals(pieces.happenings)


def test_a_run_without_turns_has_its_columns_too() -> None:
    run = RunData(Path(), manifest(), [])
    assert {"turn", "ttfa_ms", "begin_s", "late_ms"} <= {*frame.turns(run).columns}
    assert len(frame.turns(run)) == len(frame.happened(run)) == 0


def test_a_run_is_gone_through_once(tmp_path: Path) -> None:
    run = read_run(folder(tmp_path, crowd(10, 20.0)))
    assert frame.turns(run) is frame.turns(run)
    assert frame.happened(run) is frame.happened(run)
