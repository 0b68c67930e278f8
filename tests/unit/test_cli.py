from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from synthetic import crowd, folder, manifest, row

from loadgen.cli import main
from loadgen.dialects import DIALECTS

ROOT = Path(__file__).parents[2]
ROWS = crowd(120, 20.0)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder(tmp_path, ROWS)
    return tmp_path


def loadgen(results: Path, *arguments: str) -> int:
    return main([*arguments, "--results", str(results)])


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from loadgen.cli import main\n"
        "code = main(['--help'])\n"
        "heavy = {'pandas', 'numpy', 'scipy', 'plotly', 'locust', 'gevent', 'jinja2', 'pydantic',\n"
        "         'rich', 'httpx'}\n"
        "print(code, sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
    assert "Usage: loadgen" in done.stdout


def test_report_makes_the_summary_and_the_page_again(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert loadgen(results, "report", "latest") == 0
    (made,) = results.iterdir()
    assert {"manifest.json", "report.html", "summary.json"} <= {p.name for p in made.iterdir()}
    assert capsys.readouterr().out.rstrip().endswith(str(made / "report.html"))
    summary = json.loads((made / "summary.json").read_text())
    assert summary["turns"]["started"] == len(ROWS)


@pytest.mark.case("D-74")
@pytest.mark.parametrize(
    ("rows", "facts", "code", "verdict"),
    [
        ([r for r in ROWS if r["outcome"] != "cut_off"], {}, 0, "PASS"),
        (ROWS, {}, 6, "INCONCLUSIVE"),
        ([row(str(n), ended_ms=20_400.0) for n in range(100)], {}, 3, "FAIL"),
        (ROWS, {"lost_workers": ["w1"]}, 5, "INVALID"),
        (ROWS, {"plan": {"name": "x"}}, 6, "INCONCLUSIVE"),
        (ROWS, {"interrupted": True}, 130, "INCONCLUSIVE"),
    ],
)
def test_gate_says_why_and_exits_by_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[dict[str, Any]],
    facts: dict[str, Any], code: int, verdict: str,
) -> None:  # fmt: skip
    made = folder(tmp_path, rows, manifest(**facts))
    before = sorted(path.name for path in made.iterdir())
    assert loadgen(tmp_path, "gate", made.name) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{verdict}  ")
    assert lines[1].startswith("  - ")
    assert sorted(path.name for path in made.iterdir()) == before


def test_export_writes_a_csv_row_a_turn_with_the_derived_columns(
    results: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert loadgen(results, "export", "latest", "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode())))
    assert {row["turn"] for row in rows} == {row["turn"] for row in ROWS}
    names = "turn user conversation scenario dialect route outcome cause started_at worker"
    derived = "ttfp_ms ttfa_ms ttc_ms ttfv_ms wall_ms human_ms setup_ms lag_ms"
    assert {*names.split(), *derived.split()} <= set(rows[0])
    cut = next(row for row in rows if row["outcome"] == "cut_off")
    assert (cut["ttc_ms"], cut["ttfa_ms"]) == ("", "")


def test_export_writes_json_lines_that_hold_the_row_and_its_durations(
    results: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("out") / "turns.jsonl"
    assert loadgen(results, "export", "latest", "--format", "jsonl", "--out", str(out)) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == len(ROWS)
    assert all(row["wall_ms"] == pytest.approx(row["ended_ms"]) for row in rows)
    assert all("ttc_ms" in row for row in rows if row["outcome"] == "completed")
    assert not any("ttc_ms" in row for row in rows if row["outcome"] != "completed")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gate", "nowhere"], 2, "nowhere: not a run folder"),
        (["report", "/dev"], 2, "/dev: not a run folder"),
        (["export", "latest", "--format", "csv", "--out", "/nowhere/x"], 1, "/nowhere/x: cannot"),
    ],
)
def test_what_goes_wrong_is_one_line_on_stderr(
    results: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert loadgen(results, *arguments) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"loadgen: {words}")


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["gate"], ["export", "latest"], ["export", "latest", "--format", "x"]]
)
def test_a_wrong_command_line_exits_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_that_stops_early_is_no_error(results: Path) -> None:
    script = f"{sys.executable} -m loadgen.cli export latest --format jsonl --results {results}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script} | head -c 10"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_dialects_are_listed_with_their_routes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(DIALECTS)
    assert all("/" in line for line in lines)
