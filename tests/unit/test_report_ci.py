"""What a CI system reads: junit.xml, summary.md, metrics.txt."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
from schema import Schema
from sides import lognormal, side
from synthetic import crowd, folder, manifest

from loadgen.analysis.compare import as_json, compare
from loadgen.analysis.gate import decide
from loadgen.analysis.measure import Terms
from loadgen.analysis.summary import summarise
from loadgen.journal import read_run
from loadgen.report import junit, markdown, openmetrics

Json = dict[str, Any]

SCHEMA = Schema(Path(__file__).with_name("junit.xsd"))
HOSTILE = "</failure>\x00\x1b[31m | <script>alert(1)</script>\n\n| `x` &amp; \ud800*"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Json:
    rows = [row for row in crowd(40, 30.0) if row["outcome"] != "cut_off"]
    return summarise(read_run(folder(tmp_path_factory.mktemp("results"), rows)))


@pytest.fixture(scope="module")
def comparison() -> Json:
    clocks = {"ttfv": lognormal(1), "ttfa": lognormal(2), "ttc": lognormal(3), "auth": lognormal(5)}
    slower = clocks | {"ttfa": 1.5 * lognormal(4), "auth": lognormal(6, 5)}
    made = compare([side("base", clocks)], [side("new", slower)], Terms(resamples=400))
    return as_json(made)


def cases(content: bytes) -> dict[str, tuple[str, str | None]]:
    """Class name and what became of it, by name."""
    root = xml.fromstring(content)
    return {
        str(case.get("name")): (
            str(case.get("classname")), next((child.tag for child in case), None)
        )
        for case in root.iter("testcase")
    }  # fmt: skip


def invalid(tmp_path: Path) -> Json:
    rows = crowd(40, 30.0)
    return summarise(read_run(folder(tmp_path, rows, manifest(lost_workers=["w1"]))))


@pytest.mark.case("D-75")
@pytest.mark.parametrize("with_comparison", [False, True])
@pytest.mark.parametrize("pass_inconclusive", [False, True])
def test_junit_is_valid_and_has_a_case_a_target_and_a_measure(
    summary: Json, comparison: Json, with_comparison: bool, pass_inconclusive: bool
) -> None:
    held = comparison if with_comparison else None
    content = junit.render(summary, held, decide(summary, held), pass_inconclusive)
    assert SCHEMA.errors(content) == []
    made = cases(content)
    targets = [name for name, (where, _) in made.items() if where.startswith("loadgen.slo")]
    assert len(targets) == len(summary["slo"]) + 1
    measures = [name for name, (where, _) in made.items() if ".comparison." in where]
    judged = [m["title"] for m in comparison["measures"] if m["change"]]
    assert measures == (judged if with_comparison else [])


def test_junit_fails_what_failed_and_skips_what_nobody_waits_for(
    summary: Json, comparison: Json
) -> None:
    made = cases(junit.render(summary, comparison))
    wanted = {
        ("REGRESSION", True): "failure", ("REGRESSION", False): "failure",
        ("INCONCLUSIVE", True): "failure", ("INCONCLUSIVE", False): "skipped",
        ("OK", True): None, ("OK", False): None,
    }  # fmt: skip
    seen = set()
    for m in comparison["measures"]:
        if m["change"]:
            seen.add((m["change"], m["decides"]))
            assert made[m["title"]][1] == wanted[m["change"], m["decides"]], m["reason"]
    assert {("REGRESSION", True), ("INCONCLUSIVE", True), ("INCONCLUSIVE", False)} <= seen
    let_through = cases(junit.render(summary, comparison, pass_inconclusive=True))
    assert "failure" not in {
        let_through[m["title"]][1] for m in comparison["measures"] if m["change"] == "INCONCLUSIVE"
    }


def test_junit_counts_are_those_of_its_cases(summary: Json, comparison: Json) -> None:
    for suite in xml.fromstring(junit.render(summary, comparison)):
        assert int(str(suite.get("tests"))) == len(suite.findall("testcase"))
        for counter, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(str(suite.get(counter))) == len(suite.findall(f"testcase/{kind}"))


def test_junit_of_an_invalid_run_is_an_error_and_passes_no_target(tmp_path: Path) -> None:
    content = junit.render(invalid(tmp_path))
    assert SCHEMA.errors(content) == []
    made = cases(content)
    assert made["the run is evidence"][1] == "error"
    assert {kind for where, kind in made.values() if ".slo." in where} == {"skipped"}


def test_junit_says_why_there_was_no_comparison(summary: Json) -> None:
    decision = decide(summary, refusal="base and new differ in host: cpus 2 / 64")
    content = junit.render(summary, None, decision)
    assert SCHEMA.errors(content) == []
    assert cases(content)["the runs can be compared"][1] == "error"
    assert b"cpus 2 / 64" in content


def test_text_of_a_server_breaks_neither_xml_nor_markdown(summary: Json) -> None:
    wicked = copy.deepcopy(summary)
    wicked["reasons"], wicked["verdict"], wicked["run"] = [HOSTILE], "INVALID", HOSTILE
    for slo in wicked["slo"]:
        slo["reason"] = slo["title"] = HOSTILE
    assert SCHEMA.errors(junit.render(wicked)) == []
    text = markdown.render(wicked)
    assert "<script>" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {5, 8}


def test_the_schema_check_finds_what_is_wrong() -> None:
    """A check that cannot fail is none."""
    good = (
        b'<testsuites><testsuite package="x" id="0" name="x" timestamp="2026-01-01T00:00:00" '
        b'hostname="h" tests="1" failures="0" errors="0" time="0"><properties/>'
        b'<testcase name="a" classname="b" time="0.1"/><system-out/><system-err/></testsuite>'
        b"</testsuites>"
    )
    assert SCHEMA.errors(good) == []
    for old, new in (
        (b'id="0" ', b""),
        (b'tests="1"', b'tests="one"'),
        (b"00:00:00", b"00:00:00Z"),
        (b'name="a"', b'name="a  b"'),
        (b'name="a"', b'name=""'),
        (b"<properties/>", b""),
        (b"<system-out/>", b""),
        (b'time="0.1"/>', b'time="0.1"><error/></testcase>'),
        (b'time="0.1"/>', b'time="0.1" colour="red"/>'),
        (b'time="0.1"/>', b'time="0.1"><skipped/><skipped/></testcase>'),
        (b'time="0.1"/>', b'time="0.1">text</testcase>'),
    ):
        assert good.count(old) == 1
        assert SCHEMA.errors(good.replace(old, new)), new


@pytest.mark.case("D-75")
def test_the_job_summary_has_the_verdict_first_and_every_measure(
    summary: Json, comparison: Json
) -> None:
    text = markdown.render(summary, comparison, decide(summary, comparison))
    assert text.startswith("## \u274c REGRESSION: ")
    for m in comparison["measures"]:
        assert m["title"] in text
    for slo in summary["slo"]:
        assert slo["title"] in text
    assert text.index("- first answer, typical turn") < text.index("| target |")


def test_a_long_job_summary_is_cut_at_a_line_and_says_so(summary: Json) -> None:
    endless = copy.deepcopy(summary) | {"reasons": ["\u00e9" * 1000] * 3000}
    text = markdown.render(endless)
    assert len(text.encode()) <= 1_000_000 < 2**20
    assert "(cut: " in text.splitlines()[-1]
    assert {len(line) for line in text.splitlines() if line.startswith("- ")} == {1002}


def test_the_step_summary_is_added_to_and_never_outgrows_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "step"
    path.write_text("before\n")
    markdown.append(path, "first\n")
    markdown.append(path, "x" * 99 + "\n" + "second\n")
    assert path.read_text().startswith("before\nfirst\nxxx")
    markdown.append(path, "line\n" * 400_000)
    assert path.stat().st_size <= 1_000_000
    full = path.read_bytes()
    markdown.append(path, "more\n" * 10)
    assert path.stat().st_size <= 1_000_000
    assert path.read_bytes().startswith(full[:1000])


LINE = re.compile(
    r'(# (TYPE|UNIT|HELP) loadgen_\w+ .+|loadgen_\w+(\{(\w+="[^"\\\n]*",?)+\})? -?[0-9.e+-]+)'
)


def test_the_metrics_report_is_openmetrics_text(summary: Json, comparison: Json) -> None:
    lines = openmetrics.render(summary, comparison, decide(summary, comparison)).splitlines()
    assert lines[-1] == "# EOF"
    assert all(LINE.fullmatch(line) for line in lines[:-1])
    samples = [line for line in lines if not line.startswith("#")]
    names = [line.rpartition(" ")[0] for line in samples]
    assert len(set(names)) == len(names)
    assert "loadgen_exit_code 4" in samples
    families = re.findall(r"^# TYPE (\w+)", "\n".join(lines), re.MULTILINE)
    assert len(set(families)) == len(families)
    assert {name.partition("{")[0] for name in names} <= set(families)
    p95 = summary["metrics"]["ttfa"]["p95"]["value_ms"] / 1000
    assert f'loadgen_clock_seconds{{clock="ttfa",quantile="0.95"}} {p95:.6g}' in samples


# the gate's one answer


def judged(verdict: str, code: int, **facts: Any) -> Json:
    return {
        "verdict": verdict, "exit_code": code, "headline": "run.", "reasons": ["run reason"],
        "slo": [{}], "failure_budget": None, "ended_at": "2026",
    } | facts  # fmt: skip


def held(verdict: str, code: int) -> Json:
    return {
        "verdict": verdict, "exit_code": code, "headline": "compared.", "reasons": ["why"],
        "warnings": [],
    }  # fmt: skip


PASSED, FAILED = judged("PASS", 0), judged("FAIL", 3)
UNSETTLED, BAD = judged("INCONCLUSIVE", 6), judged("INVALID", 5)
NO_TARGETS = judged("INCONCLUSIVE", 6, slo=[])
KILLED = judged("INCONCLUSIVE", 6, slo=[], ended_at=None)
STOPPED = judged("PASS", 130)
WORSE, SAME = held("REGRESSION", 4), held("OK", 0)
BETTER, OPEN = held("IMPROVED", 0), held("INCONCLUSIVE", 6)


@pytest.mark.case("D-74")
@pytest.mark.parametrize(
    ("summary", "comparison", "verdict", "code"),
    [
        (PASSED, None, "PASS", 0),
        (FAILED, None, "FAIL", 3),
        (UNSETTLED, None, "INCONCLUSIVE", 6),
        (BAD, None, "INVALID", 5),
        (STOPPED, None, "PASS", 130),
        (PASSED, SAME, "PASS", 0),
        (PASSED, BETTER, "PASS", 0),
        (PASSED, WORSE, "REGRESSION", 4),
        (PASSED, OPEN, "INCONCLUSIVE", 6),
        (FAILED, WORSE, "FAIL", 3),
        (FAILED, SAME, "FAIL", 3),
        (BAD, WORSE, "INVALID", 5),
        (STOPPED, WORSE, "PASS", 130),
        (UNSETTLED, WORSE, "REGRESSION", 4),
        (UNSETTLED, SAME, "INCONCLUSIVE", 6),
        (NO_TARGETS, SAME, "PASS", 0),
        (NO_TARGETS, OPEN, "INCONCLUSIVE", 6),
        (KILLED, SAME, "INCONCLUSIVE", 6),
    ],
)
def test_validity_then_targets_then_the_comparison(
    summary: Json, comparison: Json | None, verdict: str, code: int
) -> None:
    said = decide(summary, comparison)
    assert (said["verdict"], said["exit_code"]) == (verdict, code)
    assert said["reasons"]
    let = decide(summary, comparison, pass_inconclusive=True)
    assert let["exit_code"] == (0 if code == 6 else code)
    assert let["verdict"] == verdict
    assert any("let through" in warning for warning in let["warnings"]) == (code == 6)


@pytest.mark.parametrize(
    ("summary", "verdict", "code"),
    [(PASSED, "REFUSED", 2), (UNSETTLED, "REFUSED", 2), (FAILED, "FAIL", 3), (BAD, "INVALID", 5)],
)
def test_a_refused_comparison_is_a_usage_error_unless_the_run_is_worse(
    summary: Json, verdict: str, code: int
) -> None:
    said = decide(summary, refusal="differ in host\nthese runs are not compared")
    assert (said["verdict"], said["exit_code"]) == (verdict, code)
    assert ("differ in host" in said["reasons"]) == (verdict == "REFUSED")
