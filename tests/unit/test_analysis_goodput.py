"""Turns that were good to their analyst, and percentiles in which failed turns are not left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import BEGIN_MONO, manifest, row

from loadgen.analysis import bootstrap, frame, goodput
from loadgen.analysis.summary import summarise
from loadgen.journal import RunData

Rows = list[dict[str, Any]]

VISIBLE = {"clock": "ttfv", "within_s": 2.0, "share": 0.95}
COMPLETE = {"clock": "ttc", "within_s": 20.0, "share": 0.95}


def good(rows: Rows, *targets: dict[str, Any]) -> goodput.Goodput:
    run = RunData(Path(), manifest(), rows)
    found = goodput.find(targets, frame.turns(run), frame.happened(run))
    assert found is not None
    return found


def hundred() -> Rows:
    """90 complete, 5 of them late to show and 5 late to end, 2 of these both; 10 failed."""
    late_sign = {"first_progress_ms": 2500.0}
    late_end = {"ended_ms": 21_000.0, "last_answer_ms": None}
    kinds = [late_sign] * 3 + [late_end] * 3 + [late_sign | late_end] * 2 + [{}] * 82
    rows = [row(str(n), conversation=str(n), **facts) for n, facts in enumerate(kinds)]
    return rows + [row(f"f{n}", conversation=f"f{n}", outcome="failed") for n in range(10)]


def test_a_turn_is_good_if_it_met_every_target() -> None:
    found = good(hundred(), VISIBLE, COMPLETE)
    assert (found.judged, found.good, found.attained) == (100, 82, 0.82)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.82 < found.high
    assert found.low == pytest.approx(0.74, abs=0.03)


def test_a_looser_target_never_lowers_it_and_it_is_never_above_the_throughput() -> None:
    rows = hundred()
    shares = [
        good(rows, VISIBLE | {"within_s": limit}, COMPLETE).good for limit in (0.5, 1, 2, 2.6, 9)
    ]
    assert shares == sorted(shares)
    found = good(rows, VISIBLE, COMPLETE)
    assert found.per_s is not None
    assert found.throughput_per_s is not None
    assert found.per_s <= found.throughput_per_s


def test_what_was_cut_off_before_its_limit_is_no_evidence_and_after_it_not_good() -> None:
    cut = {"outcome": "cut_off", "first_answer_ms": None, "last_answer_ms": None}
    rows = [row("done"), row("young", **cut), row("old", **(cut | {"ended_ms": 25_000.0}))]
    found = good(rows, VISIBLE, COMPLETE)
    assert (found.judged, found.good, found.undecided) == (2, 1, 1)


def test_a_login_that_was_late_or_never_came_spoils_its_turn() -> None:
    login = {"begun_ms": 0.0, "connected_ms": 1.0, "login_ms": 1.0}
    rows = [
        row("quick", connections=[login | {"authenticated_ms": 6.0}]),
        row("late", connections=[login | {"authenticated_ms": 2500.0}]),
        row("never", connections=[login]),
        row("none"),
    ]
    assert good(rows, {"clock": "auth", "within_s": 1, "share": 0.9}).good == 2


def test_a_target_of_one_dialect_is_about_its_turns_only() -> None:
    rows = [row("a", ended_ms=25_000.0), row("b", dialect="nat-ws", ended_ms=25_000.0)]
    assert good(rows, COMPLETE | {"dialect": "nat-ws"}).good == 1


def test_conversations_are_drawn_whole_for_the_interval_of_a_share() -> None:
    alike = np.repeat(np.arange(40) < 32, 5)
    by_turn = bootstrap.ends(bootstrap.shares(alike, np.arange(200)))
    by_conversation = bootstrap.ends(bootstrap.shares(alike, np.arange(200) // 5))
    assert by_turn[0] > by_conversation[0]
    assert by_turn[1] < by_conversation[1]
    assert by_conversation[0] == pytest.approx(0.8 - 1.96 * (0.16 / 40) ** 0.5, abs=0.03)


@pytest.mark.case("D-25")
def test_percentiles_over_started_turns_stand_beside_those_of_completed_ones() -> None:
    rows = [row(str(n), conversation=str(n), ended_ms=1000.0, first_answer_ms=900.0,
                last_answer_ms=None) for n in range(100)]  # fmt: skip
    rows += [row(f"f{n}", conversation=f"f{n}", outcome="refused", cause="rate_limited",
                 first_progress_ms=None, first_answer_ms=None, last_answer_ms=None, ended_ms=5.0)
             for n in range(20)]  # fmt: skip
    ttc = summarise(RunData(Path(), manifest(), rows))["metrics"]["ttc"]
    assert (ttc["n"], ttc["p50"]["value_ms"], ttc["p90"]["value_ms"]) == (100, 1000, 1000)
    started = ttc["started"]
    assert (started["n"], started["lost"], started["p50"]["value_ms"]) == (120, 20, 1000)
    assert started["p90"] == {
        "value_ms": None, "low_ms": None, "high_ms": None, "needs_n": None, "never": True,
    }  # fmt: skip


def test_where_turns_of_a_conversation_are_alike_the_interval_resamples_conversations() -> None:
    rng = np.random.default_rng(2)

    def ttc(alike: bool) -> dict[str, Any]:
        levels = rng.lognormal(9, 0.3, 60)
        rows = [
            row(f"{talk}-{n}", conversation=str(talk), user=str(talk), last_answer_ms=None,
                ended_ms=float(levels[talk] if alike else rng.lognormal(9, 0.3)) + 4000,
                started_mono_ns=BEGIN_MONO + n)
            for talk in range(60) for n in range(5)
        ]  # fmt: skip
        found: dict[str, Any] = summarise(RunData(Path(), manifest(), rows))["metrics"]["ttc"]
        return found

    alone, together = ttc(alike=False), ttc(alike=True)
    assert alone["interval"] == "order statistics"
    assert together["interval"] == "conversations"
    assert together["design_effect"] == pytest.approx(5, abs=0.1)
    widths = [found["p50"]["high_ms"] - found["p50"]["low_ms"] for found in (alone, together)]
    assert widths[1] > 1.4 * widths[0]
