"""Sums that must come out, and runs in which they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import BEGIN_MONO, BEGIN_WALL, manifest, row

from loadgen.analysis.summary import summarise
from loadgen.clock import NS_PER_S
from loadgen.journal import RunData

Rows = list[dict[str, Any]]


def beats(process: str, turns: list[int], in_flight: list[int]) -> Rows:
    """Rows of health of a process that drains in its last two seconds."""
    return [
        {
            "process": process, "n": n, "wall_ns": BEGIN_WALL + n * NS_PER_S,
            "mono_ns": BEGIN_MONO + n * NS_PER_S, "span_ms": 1000.0, "lags_ms": [0.1] * 20,
            "turns": ended, "in_flight": open_turns,
            **({"draining": True} if n >= len(turns) - 2 else {}),
        }
        for n, (ended, open_turns) in enumerate(zip(turns, in_flight, strict=True))
    ]  # fmt: skip


def judged(rows: Rows, health: dict[str, Rows], **facts: Any) -> dict[str, Any]:
    return summarise(RunData(Path(), manifest(**facts), rows, health=health))


def line(summary: dict[str, Any], check: str) -> dict[str, Any]:
    (found,) = (one for one in summary["consistency"] if one["check"] == check)
    return found


FINE = [row(str(n)) for n in range(100)]
WELL = beats("w1", [0, 40, 40, 15, 5], [20, 30, 20, 5, 0])


def test_a_run_whose_sums_come_out_says_so() -> None:
    found = judged(FINE, {"w1": WELL})
    assert found["verdict"] == "PASS"
    assert all(one["ok"] for one in found["consistency"])
    assert line(found, "sum of outcomes")["detail"] == "outcomes add up to 100 started turns"
    assert line(found, "sum of rows")["detail"] == (
        "rows of 1 processes add up to the 100 they counted"
    )
    assert line(found, "in flight at the stop")["detail"].startswith("20 turns were under way when")


@pytest.mark.parametrize(
    ("rows", "health", "check", "says"),
    [
        (FINE[:-1], WELL, "sum of rows", "rows are missing or too many: w1 99 of 100"),
        ([*FINE, row("more")], WELL, "sum of rows", "rows are missing or too many: w1 101 of 100"),
        (FINE, beats("w1", [0, 40, 40, 15, 5], [20, 30, 20, 5, 2]), "in flight at the stop",
         "2 turns that were under way have no row"),
        ([*FINE[:-1], row("odd", outcome="novel")], WELL, "sum of outcomes",
         "99 turns have an outcome, 100 were started"),
    ],
)  # fmt: skip
def test_a_sum_that_is_wrong_makes_the_run_invalid(
    rows: Rows, health: Rows, check: str, says: str
) -> None:
    found = judged(rows, {"w1": health})
    assert found["verdict"] == "INVALID"
    assert line(found, check) == {"check": check, "ok": False, "detail": says}
    assert any(says in reason for reason in found["reasons"])


def test_a_process_that_was_lost_is_not_counted() -> None:
    cut = [row for row in WELL if not row.get("draining")]
    found = judged(FINE, {"w1": cut}, lost_workers=["w1"])
    assert line(found, "sum of rows")["ok"]
    assert line(found, "in flight at the stop")["ok"]
