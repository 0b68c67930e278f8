"""``compare``, ``gate --baseline``, ``bless`` and ``history`` over run folders."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import BEGIN_MONO, BEGIN_WALL, crowd, manifest, row

from loadgen.analysis import baseline
from loadgen.analysis.evidence import MOST_TURNS, gather
from loadgen.analysis.summary import summarise, write_summary
from loadgen.cli import main
from loadgen.clock import NS_PER_MS, NS_PER_S, utc_text
from loadgen.errors import RunError
from loadgen.journal import Journal, new_run_folder, read_run, write_manifest

Rows = list[dict[str, Any]]


def made(results: Path, hour: int, rows: Rows, **facts: Any) -> str:
    """A run that began at that hour; returns its name."""
    at = utc_text(BEGIN_WALL + hour * 3600 * NS_PER_S)
    folder = new_run_folder(results, "analysts", at)
    write_manifest(folder, manifest(run=folder.name, started_at=at, **facts))
    journal = Journal.open(folder, "w1")
    for item in rows:
        journal.append(item)
    journal.close()
    return folder.name


def turns(seed: int, slow: float = 1.0, users: int = 180) -> Rows:
    return [r for r in crowd(users, 60.0, seed, slow) if r["outcome"] != "cut_off"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Runs: a base that is blessed as ``main``, one like it, one with slow first steps, one that
    misses its targets, one that is INVALID.
    """
    results = tmp_path_factory.mktemp("results")
    bad = [item | {"ended_ms": item["ended_ms"] + 30_000} for item in turns(4)]
    names = {
        "base": made(results, 0, turns(1)),
        "same": made(results, 1, turns(2)),
        "slow": made(results, 2, turns(3, slow=3)),
        "late": made(results, 3, bad),
        "invalid": made(results, 4, turns(5), lost_workers=["w1"]),
        "elsewhere": made(results, 5, turns(2), host={"hostname": "runner-7", "cpus": 64}),
        "few": made(results, 6, turns(2, users=60)[:150]),
    }
    assert main(["bless", names["base"], "--name", "main", "--results", str(results)]) == 0
    return results, names


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.mark.case("D-74")
@pytest.mark.parametrize(
    ("run", "more", "verdict", "code"),
    [
        ("same", [], "PASS", 0),
        ("slow", [], "REGRESSION", 4),
        ("late", [], "FAIL", 3),
        ("invalid", [], "INVALID", 5),
        ("elsewhere", [], "REFUSED", 2),
        ("elsewhere", ["--allow", "host"], "PASS", 0),
        ("few", [], "INCONCLUSIVE", 6),
        ("few", ["--inconclusive", "pass"], "INCONCLUSIVE", 0),
        ("slow", ["--tolerance-p50", "100", "--tolerance-p95", "200"], "PASS", 0),
        ("slow", ["--metric", "max_gap"], "PASS", 0),
    ],
)
def test_the_gate_says_why_first_and_exits_by_it(
    kept: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    run: str, more: list[str], verdict: str, code: int,
) -> None:  # fmt: skip
    results, names = kept
    arguments = ["gate", names[run], "--baseline", "main", "--out", str(tmp_path), *more]
    assert main([*arguments, "--results", str(results)]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{verdict}  ")
    assert lines[1].startswith("  - ")
    compared = verdict not in ("INVALID", "REFUSED")
    assert any(line.startswith("measure ") for line in lines) == compared
    files = {"junit.xml", "summary.md", "metrics.txt"} | (
        {"comparison.json", "comparison.html"} if compared else set()
    )
    assert {path.name for path in tmp_path.iterdir()} == files


def test_the_gate_writes_nothing_that_it_is_not_asked_for(
    kept: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    results, names = kept
    before = sorted(results.rglob("*"))
    assert main(["gate", names["same"], "--baseline", "main", "--results", str(results)]) == 0
    assert sorted(results.rglob("*")) == before


@pytest.mark.case("D-75")
def test_the_gate_adds_its_summary_to_the_page_of_the_job(
    kept: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    results, names = kept
    page = tmp_path / "step.md"
    page.write_text("# earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    assert main(["gate", names["slow"], "--baseline", "main", "--results", str(results)]) == 4
    text = page.read_text()
    assert text.startswith("# earlier\n## \u274c REGRESSION: ")
    assert len(text) < 2**20


def test_compare_shows_a_table_and_leaves_json_beside_the_new_run(
    kept: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    results, names = kept
    assert main(["compare", names["base"], names["slow"], "--results", str(results)]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("REGRESSION  ")
    assert any(line.startswith("visible progress, typical turn") for line in lines)
    path = results / names["slow"] / "comparison.json"
    found = json.loads(path.read_text())
    path.unlink()
    assert (found["verdict"], found["exit_code"]) == ("REGRESSION", 4)
    assert (found["base"], found["new"]) == ([names["base"]], [names["slow"]])
    worse = {m["metric"] for m in found["measures"] if m["change"] == "REGRESSION"}
    assert {"ttfv", "ttfp"} <= worse
    assert "max_gap" not in worse


def test_a_baseline_stands_for_its_run(
    kept: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says is what the run would have said, but for the seventh digit."""
    results, names = kept
    found = []
    for base in ("main", names["base"]):
        arguments = ["compare", base, names["same"], "--out", str(tmp_path)]
        main([*arguments, "--results", str(results)])
        found.append(json.loads((tmp_path / "comparison.json").read_text()))
    for one, other in zip(found[0]["measures"], found[1]["measures"], strict=True):
        assert one["change"] == other["change"]
        for key in ("value", "low", "high"):
            near = other[key] if other[key] is None else pytest.approx(other[key], rel=1e-4)
            assert one[key] == near, one["title"]


def test_several_runs_may_stand_on_both_sides(
    kept: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, names = kept
    arguments = ["compare", names["base"], names["slow"], names["slow"], "--and-base", "main"]
    assert main([*arguments, "--out", str(tmp_path), "--results", str(results)]) == 4
    found = json.loads((tmp_path / "comparison.json").read_text())
    assert (len(found["base"]), len(found["new"])) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "main", "{invalid}"], "is INVALID"),
        (["compare", "main", "{elsewhere}"], "hostname bench / runner-7"),
        (["compare", "main", "{same}", "--metric", "bogus"], "'bogus' is not one of 'ttfv'"),
        (["compare", "main", "{same}", "--metric", "consent"], "consent: no run has it; there are"),
        (["compare", "nowhere", "{same}"], "nowhere: not a run folder"),
        (["gate", "{same}", "--baseline", "nowhere"], "no such baseline"),
        (["bless", "{invalid}"], "is INVALID, no baseline"),
        (["bless", "{same}", "--name", "../up"], "--name takes"),
        (["bless", "{same}", "--name", ""], None),
        (["history", "nowhere"], "no run of the name nowhere"),
    ],
)
def test_what_cannot_be_done_exits_with_2_and_says_what(
    kept: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str],
    arguments: list[str], words: str | None,
) -> None:  # fmt: skip
    results, names = kept
    filled = [argument.format(**names) for argument in arguments]
    code = main([*filled, "--results", str(results)])
    if words is None:
        assert code == 0
        shutil.rmtree(results / "baselines" / "analysts")
        return
    assert code == 2
    assert words in capsys.readouterr().err


def test_a_baseline_that_lost_its_samples_is_not_taken_for_none(
    kept: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results, names = kept
    there = tmp_path / "results"
    shutil.copytree(results, there)
    (there / "baselines" / "main" / "samples.npz").unlink()
    assert main(["gate", names["same"], "--baseline", "main", "--results", str(there)]) == 2
    assert "samples.npz: is not there, though baseline.json is" in capsys.readouterr().err


def test_a_run_that_is_held_against_itself_is_said(
    kept: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    results, names = kept
    arguments = ["compare", names["same"], names["same"], "--out", str(tmp_path)]
    main([*arguments, "--results", str(results)])
    warnings = json.loads((tmp_path / "comparison.json").read_text())["warnings"]
    assert any(f"on both sides ({names['same']})" in warning for warning in warnings)


# what a baseline keeps


def test_a_baseline_is_small_and_names_no_host_but_its_own(
    kept: tuple[Path, dict[str, str]],
) -> None:
    results, _ = kept
    folder = results / "baselines" / "main"
    assert {path.name for path in folder.iterdir()} == {
        "baseline.json", "samples.npz", "history.jsonl",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000
    assert b"127.0.0.1" not in (folder / "baseline.json").read_bytes()


def test_a_big_run_is_blessed_by_some_of_its_conversations(tmp_path: Path) -> None:
    rows = [
        row(
            f"t{n}", conversation=f"c{n // 4}", started_mono_ns=BEGIN_MONO + n * NS_PER_MS,
            first_answer_ms=4000.0 + n % 997,
        )
        for n in range(24_000)
    ]  # fmt: skip
    run = read_run(tmp_path / made(tmp_path, 0, rows))
    evidence = gather(run, summarise(run), baseline.MOST_TURNS)
    vector = evidence.clocks["ttfa"]
    assert 0.9 * baseline.MOST_TURNS < vector.values.size < 1.1 * baseline.MOST_TURNS
    assert set(np.unique(vector.conversations, return_counts=True)[1]) == {4}
    assert (evidence.judged, evidence.thinned_from) == (24_000, 24_000)
    whole = gather(run, summarise(run))
    assert (whole.clocks["ttfa"].values.size, whole.thinned_from) == (24_000, None)
    assert whole.clocks["ttfa"].values.size < MOST_TURNS


@pytest.mark.parametrize("damage", ["baseline.json", "samples.npz"])
@pytest.mark.parametrize("content", [b"", b"{}", b"PK\x03\x04rubbish", b"\x80\x04pickle"])
def test_a_damaged_baseline_is_said_to_be_one(
    kept: tuple[Path, dict[str, str]], tmp_path: Path, damage: str, content: bytes
) -> None:
    results, _ = kept
    shutil.copytree(results / "baselines", tmp_path / "baselines")
    (tmp_path / "baselines" / "main" / damage).write_bytes(content)
    with pytest.raises(RunError, match="not a baseline this version can read"):
        baseline.load(tmp_path, "main")


# history


def summarised(results: Path, hour: int, rows: Rows, **facts: Any) -> str:
    name = made(results, hour, rows, **facts)
    write_summary(results / name, summarise(read_run(results / name)))
    return name


def test_history_names_the_run_at_which_the_level_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        summarised(tmp_path, n, turns(100 + n, 1.0 if n < 8 else 4.0, users=20)) for n in range(13)
    ]
    summarised(tmp_path, 20, turns(1, users=20), plan_hash="other")
    summarised(tmp_path, 21, turns(1, users=20), lost_workers=["w1"])
    main(["bless", names[0], "--name", "main", "--results", str(tmp_path)])
    shutil.rmtree(tmp_path / names[0])
    capsys.readouterr()
    assert main(["history", "main", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    changes = [line for line in out.splitlines() if " from 2026" in line]
    assert any("visible progress, p50: " in line and names[8] in line for line in changes), out
    assert not any("share of failed" in line for line in changes)
    assert "1 INVALID run is left out" in out
    assert sum(line.startswith("2026") for line in out.splitlines()) == 13
    page = (tmp_path / "history.html").read_text()
    assert "<script" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", page)
    assert page.count("<tr>") == 1 + 13
    assert re.search(rf"visible progress, p50: from [\d.]+ m?s to [\d.]+ m?s at {names[8]}", page)


def test_few_runs_have_no_history_and_it_says_so(
    kept: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, _ = kept
    page = tmp_path / "page.html"
    assert main(["history", "main", "--out", str(page), "--results", str(results)]) == 0
    assert "too few to tell a change of level, which takes 8" in capsys.readouterr().out
    assert page.exists()
