from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import BEGIN_MONO, BEGIN_WALL, manifest, row

from loadgen.analysis import drift, frame
from loadgen.analysis.summary import summarise
from loadgen.clock import NS_PER_S
from loadgen.journal import RunData
from loadgen.metrics import Clock
from loadgen.report.page import render

MIB = 1 << 20


def made(values: list[float], at: list[float] | None = None, least: float = 0.0) -> drift.Trend:
    found = drift.trend(
        np.array(at if at is not None else range(len(values)), dtype=float),
        np.array(values, dtype=float),
        least,
    )
    assert found is not None
    return found


def test_a_straight_line_is_found_as_it_is() -> None:
    found = made([1000 + 10 * n for n in range(101)])
    assert (found.first, found.last) == (pytest.approx(1000), pytest.approx(2000))
    assert found.per_hour == pytest.approx(36_000)
    assert found.change == pytest.approx(1.0)
    assert found.p < 1e-20
    assert found.trend


def test_outliers_do_not_move_the_slope() -> None:
    """Theil-Sen bears 29 % of the points being wrong."""
    values = [1000.0 + n for n in range(100)]
    values[::5] = [1e6] * 20
    assert made(values).per_hour == pytest.approx(3600, rel=0.2)


def test_the_significance_is_that_of_mann_and_kendall() -> None:
    """S and its normal approximation without ties, var = n(n-1)(2n+5)/18 (Kendall 1975)."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=60)
    s = sum(np.sign(values[j] - values[i]) for i in range(60) for j in range(i + 1, 60))
    z = s / np.sqrt(60 * 59 * 125 / 18)
    two_sided = 2 * (1 - _normal(abs(z)))
    assert made(list(values)).p == pytest.approx(two_sided, rel=0.05)


def _normal(z: float) -> float:
    from scipy.stats import norm

    return float(norm.cdf(z))


@pytest.mark.parametrize(
    ("slope", "noise", "trend"),
    [(0.0, 50.0, False), (0.5, 1.0, False), (2.0, 20.0, True), (-2.0, 20.0, True)],
    ids=["steady", "5 % is not worth a word", "20 % up", "20 % down"],
)
def test_a_trend_is_significant_and_more_than_a_tenth(
    slope: float, noise: float, trend: bool
) -> None:
    rng = np.random.default_rng(1)
    values = [1000 + slope * n + rng.normal(0, noise) for n in range(100)]
    assert made(values).trend is trend


def test_white_noise_has_a_trend_once_in_a_hundred_at_most() -> None:
    rng = np.random.default_rng(5)
    flagged = sum(made(list(rng.lognormal(0, 0.6, 100))).trend for _ in range(200))
    assert flagged <= 6


@pytest.mark.parametrize("apart", [1, 2])
def test_turns_that_nearly_all_began_at_once_have_no_trend(apart: int) -> None:
    at = [0.0] * (40 - apart) + [1.0] * apart
    found = made([5.0] * 39 + [6.0], at)
    assert found.per_hour == pytest.approx(3600 if apart == 1 else 1800)
    assert found.first == pytest.approx(5.0)


def test_few_points_say_nothing() -> None:
    assert drift.trend(np.arange(19.0), np.arange(19.0)) is None
    assert drift.trend(np.zeros(50), np.arange(50.0)) is None
    assert not made([5.0] * 40).trend


def test_hours_of_turns_are_made_medians_first() -> None:
    found = made([1000 + n / 50 for n in range(50_000)])
    assert found.n == 50_000
    assert found.change == pytest.approx(1.0, rel=0.01)


def turn(n: int, ttfa: float = 1000.0, ttc: float = 2000.0) -> dict[str, Any]:
    """Turn ``n`` of one of ten analysts, started ``n`` seconds into the run."""
    return row(
        f"t{n}", user=f"u{n % 10}", started_mono_ns=BEGIN_MONO + n * NS_PER_S,
        first_answer_ms=ttfa, last_answer_ms=ttc, ended_ms=ttc,
    )  # fmt: skip


def pulse(name: str, mib: float, grows: float, seconds: int = 200) -> list[dict[str, Any]]:
    return [
        {"process": name, "n": n, "wall_ns": BEGIN_WALL + n * NS_PER_S,
         "mono_ns": BEGIN_MONO + n * NS_PER_S, "rss": int((mib + grows * n) * MIB)}
        for n in range(seconds)
    ]  # fmt: skip


def test_drifting_latencies_are_named_in_the_report() -> None:
    rows = [turn(n, 1000 + 5 * n) for n in range(200)]
    run = RunData(Path(), manifest(), rows)
    summary = summarise(run)
    assert summary["drift"]["ttfa"]["trend"]
    assert not summary["drift"]["ttc"]["trend"]
    assert any(note.startswith("ttfa drifted: 1.05 s") for note in summary["notes"])
    assert not any(note.startswith("ttc") for note in summary["notes"])
    assert '<section id="drift" ' in render(run, summary)


def test_the_begin_of_a_run_while_the_crowd_grows_is_left_out() -> None:
    """The first turn of each analyst waits for the others: no drift of the service."""
    rows = [turn(n, 5000.0 if n < 10 else 1000.0, 6000.0) for n in range(200)]
    assert drift.steady_from(frame.turns(RunData(Path(), manifest(), rows))) == 15.0
    assert not drift.clocks(frame.turns(RunData(Path(), manifest(), rows)))[Clock.TTFA].trend


def test_a_leak_on_either_side_is_named() -> None:
    health = {"worker-0": pulse("worker-0", 100, 0.2), "worker-1": pulse("worker-1", 100, 0.01)}
    target = pulse("target", 50, 0.5)
    run = RunData(Path(), manifest(), [turn(n) for n in range(200)], health=health, target=target)
    summary = summarise(run)
    assert {name: made["trend"] for name, made in summary["memory"].items()} == {
        "worker-0": True, "worker-1": False, "target": True,
    }  # fmt: skip
    assert summary["memory"]["target"]["per_hour"] == pytest.approx(1800, rel=0.01)
    notes = " ".join(summary["notes"])
    assert "the generator's process worker-0 grew: " in notes
    assert "the mock agent grew: " in notes
    assert "worker-1" not in notes


def test_memory_that_settles_or_shrinks_is_no_leak() -> None:
    """Growth below 16 MiB is what an interpreter does when it gets to work."""
    health = {"local": pulse("local", 60, 0.07), "worker-1": pulse("worker-1", 100, -0.2)}
    run = RunData(Path(), manifest(), [turn(n) for n in range(200)], health=health)
    assert not any("grew" in note for note in summarise(run)["notes"])
