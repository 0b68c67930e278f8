"""A/B runs: who asks whom, and what is made of the two sides."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from synthetic import crowd, folder, manifest, row

from loadgen import ab
from loadgen.analysis import wording
from loadgen.analysis.summary import summarise
from loadgen.cli import main
from loadgen.errors import ConfigError
from loadgen.journal import find_run, read_run
from loadgen.report import contrast
from loadgen.side import Side, side_of
from tests.pages import NUMBER, numbers, own_words

Rows = list[dict[str, Any]]
SIDES = {
    "base": {"host": "http://127.0.0.1:1001", "bundled_mock": True},
    "new": {"host": "http://127.0.0.1:1002", "bundled_mock": True},
}


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def test_conversations_go_a_b_b_a() -> None:
    order = [side_of(0, number) for number in range(8)]
    assert order == [Side.BASE, Side.NEW, Side.NEW, Side.BASE] * 2


@pytest.mark.parametrize("number", range(5))
def test_at_each_place_half_of_the_crowd_is_on_either_side(number: int) -> None:
    assert Counter(side_of(analyst, number) for analyst in range(40)) == {
        Side.BASE: 20, Side.NEW: 20,
    }  # fmt: skip


def both(seed: int = 1, slower: float = 1.0) -> Rows:
    """A crowd in one run; ``slower`` is how much later the candidate's first answer is."""
    rows = [r for r in crowd(seconds=60.0, seed=seed) if r["outcome"] != "cut_off"]
    made: Rows = []
    for number, item in enumerate(rows):
        side = side_of(0, number)
        turn = item | {"conversation": item["turn"], "side": side.value}
        if side is Side.NEW:
            # All that follows the question, pauses too.
            turn = stretched(turn, slower)
        made.append(turn)
    return made


def stretched(turn: dict[str, Any], times: float) -> dict[str, Any]:
    late = ("first_answer_ms", "last_answer_ms", "ended_ms")
    return turn | {key: times * turn[key] for key in late if key in turn}


def made(results: Path, rows: Rows, **facts: Any) -> str:
    return folder(results, rows, manifest(sides=SIDES, target=SIDES["new"], **facts)).name


@pytest.mark.case("D-73")
@pytest.mark.parametrize(("slower", "code", "verdict"), [(1.0, 0, "PASS"), (1.4, 4, "REGRESSION")])
def test_the_gate_of_an_ab_run_compares_its_sides(
    slower: float, code: int, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {"name": "regression", "failure_budget": 0.5}
    run = made(tmp_path, both(slower=slower), plan=plan)
    out = tmp_path / "out"
    options = ["--metric", "ttfa", "--results", str(tmp_path), "--out", str(out)]
    assert main(["gate", run, *options]) == code
    said = capsys.readouterr().out
    assert said.startswith(verdict)
    assert "give 5 runs a side" not in said, "within one run there is nothing between runs"
    names = {path.name for path in out.iterdir()}
    assert names == {
        "comparison.html", "comparison.json", "junit.xml", "metrics.txt", "summary.md",
    }  # fmt: skip
    found = json.loads((out / "comparison.json").read_bytes())
    assert found["base"] == ["base (http://127.0.0.1:1001)"]
    assert found["new"] == ["new (http://127.0.0.1:1002)"]


def test_targets_are_judged_on_the_candidate_alone(tmp_path: Path) -> None:
    slow = {"first_progress_ms": 9000.0, "first_answer_ms": 9500.0, "ended_ms": 12_000.0}
    rows = [
        row(f"{side}{n}", conversation=f"{side}{n}", side=side, **(slow if side == "base" else {}))
        for side in ("base", "new") for n in range(100)
    ]  # fmt: skip
    plan = {"slo": [{"clock": "ttfv", "within_s": 2.0, "share": 0.95}], "failure_budget": 0.01}
    run = made(tmp_path, rows, plan=plan)
    summary = summarise(read_run(find_run(tmp_path, run)))
    assert [slo["judged"] for slo in summary["slo"]] == [100]
    assert summary["slo"][0]["attained"] == 1.0
    assert summary["failure_budget"]["judged"] == 100
    assert summary["turns"]["started"] == 200
    assert any(note.startswith("an A/B run") for note in summary["notes"])


def test_a_candidate_that_fails_more_is_a_regression(tmp_path: Path) -> None:
    rows = [
        turn | ({"outcome": "failed", "cause": "agent_error"} if bad else {})
        for number, turn in enumerate(both())
        if (bad := turn["side"] == "new" and number % 8 == 1) in (True, False)
    ]
    run = made(tmp_path, rows, plan={"name": "regression", "failure_budget": 0.5})
    assert main(["gate", run, "--results", str(tmp_path), "--metric", "failures"]) == 4


def test_an_invalid_ab_run_says_nothing_of_either_side(tmp_path: Path) -> None:
    run = made(tmp_path, both(slower=2.0), lost_workers=["w1"])
    assert main(["gate", run, "--results", str(tmp_path)]) == 5


@pytest.mark.parametrize(
    "arguments",
    [["bless", "RUN"], ["compare", "RUN", "RUN"], ["gate", "RUN", "--baseline", "main"]],
)
def test_an_ab_run_stands_for_no_single_target(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(tmp_path, both()[:50])
    words = [run if word == "RUN" else word for word in arguments]
    assert main([*words, "--results", str(tmp_path)]) == 2
    assert "is an A/B run" in capsys.readouterr().err


def test_an_ab_run_has_no_place_in_the_history(tmp_path: Path) -> None:
    run = made(tmp_path, both()[:50])
    main(["report", run, "--results", str(tmp_path)])
    assert main(["history", "--results", str(tmp_path)]) == 2


def test_every_number_of_the_page_is_in_the_comparison(tmp_path: Path) -> None:
    run = made(tmp_path, both(slower=1.4), plan={"name": "regression", "failure_budget": 0.5})
    main(["gate", run, "--results", str(tmp_path), "--out", str(tmp_path / "out")])
    found = json.loads((tmp_path / "out" / "comparison.json").read_bytes())
    page = (tmp_path / "out" / "comparison.html").read_text()
    shown = unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL))
    known = {*numbers(found), *NUMBER.findall(own_words())}
    for measure in found["measures"]:
        assert measure["title"] in shown
        texts = [
            wording.changed(measure["metric"], measure[key])
            for key in ("value", "low", "high", "limit") if measure[key] is not None
        ]  # fmt: skip
        known |= set(NUMBER.findall(" ".join(texts)))
    here = set(NUMBER.findall(shown))
    assert len(here) > 20
    assert here <= known, sorted(here - known)
    again = contrast.render(found, found)
    assert again.count("<tr") == page.count("<tr") == len(found["measures"]) + 1
    assert "<script" not in page


def test_text_of_a_target_breaks_no_page() -> None:
    comparison = {
        "verdict": "OK", "headline": "<script>alert(1)</script>", "reasons": ["<b>"],
        "warnings": [], "base": ["<i>"], "new": ["&"], "method": {}, "measures": [],
        "confidence": 0.95,
    }  # fmt: skip
    page = contrast.render(comparison, comparison)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("metric", "limit", "value", "place"),
    [
        ("ttfa", 1.05, 1.0, 50.0),
        ("ttfa", 1.05, 1.05, 62.5),
        ("ttfa", 1.05, 1 / 1.05, 37.5),
        ("ttfa", 1.05, 100.0, 100.0),
        ("failures", 0.02, 0.02, 62.5),
        ("failures", 0.02, -1.0, 0.0),
        ("failures", 0.0, 0.1, 100.0),
    ],
)
def test_a_bar_has_its_tolerance_for_a_scale(
    metric: str, limit: float, value: float, place: float
) -> None:
    assert contrast.place({"metric": metric, "limit": limit}, value) == pytest.approx(place)


CONTEST = ab.Contest(None, (), 20, 10.0, "2m", Path("results"))


def test_ab_is_a_locust_run_of_the_scenario() -> None:
    gate = ("--inconclusive", "pass")
    urls = ("http://a", "http://b")
    command = ab.command(replace(CONTEST, targets=urls, gate=gate), Path("regression.py"))
    line = " ".join(command[1:])
    assert line.startswith("-m locust -f regression.py --headless")
    assert "--baseline http://a --candidate http://b" in line
    assert command[-1] == "--gate-args=--inconclusive pass"


def test_arguments_of_two_mocks_are_given_twice() -> None:
    command = ab.command(replace(CONTEST, mock_args=("--seed 1", "--slots 8")), Path("r.py"))
    assert [word for word in command if "mock" in word] == [
        "--mock-args=--seed 1", "--mock-args=--slots 8",
    ]  # fmt: skip


def test_a_scenario_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--scenario"):
        ab.found(tmp_path / "none.py")


def test_one_target_is_not_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", "--baseline", "http://a"]) == 2
    assert "need each other" in capsys.readouterr().err
