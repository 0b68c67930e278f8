from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from synthetic import crowd, folder, manifest, row

from loadgen.analysis import frame
from loadgen.analysis.summary import summarise
from loadgen.journal import RunData, read_run
from loadgen.report import charts, distribution, waterfall
from loadgen.report import page as report
from loadgen.report.page import render, write_report
from tests.pages import NUMBER, numbers, own_words

CHARTS = sorted(
    f"figure-{name}"
    for name in (
        "course",
        "dialects-1",
        "dialects-2",
        "ecdf",
        "gaps",
        "heat",
        "pauses",
        "streams",
        "waterfall",
    )
)
MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)><a href='//evil'>x</a>"


class Page(HTMLParser):
    """What a browser would make of the page, as far as the tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.cells: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            facts, text = self.scripts[-1]
            self.scripts[-1] = (facts, text + data)
        elif "style" not in self._open:
            self.text += data
            if "td" in self._open and "small" not in self._open:
                self.cells[-1][-1] += data


def run_of(rows: list[dict[str, Any]], **facts: Any) -> RunData:
    return RunData(Path(), manifest(**facts), rows)


def page_of(run: RunData) -> Page:
    return Page(render(run, summarise(run)))


@pytest.fixture(scope="module")
def ordinary() -> RunData:
    return run_of(crowd(60, 30.0))


def test_the_page_is_one_file_that_fetches_nothing(ordinary: RunData, tmp_path: Path) -> None:
    path = write_report(ordinary, summarise(ordinary), tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]
    page = Page(path.read_text(encoding="utf-8"))
    fetched = {name: value for name, value in page.attributes if name in ("src", "href", "action")}
    assert all(value.startswith(("#", "data:")) for value in fetched.values())
    assert not {"img", "iframe", "object", "form"} & set(page.tags)
    assert path.stat().st_size < 6_000_000


def test_only_the_scripts_that_the_policy_names_can_run(ordinary: RunData) -> None:
    page = page_of(ordinary)
    (policy,) = [value for _, value in page.attributes if value.startswith("default-src")]
    running = [text for facts, text in page.scripts if facts.get("type") != "application/json"]
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in running
    ]
    assert re.findall(r"'sha256-[^']+'", policy) == hashes
    assert len(hashes) == 2
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]


def test_each_chart_has_its_data_and_each_data_its_chart(ordinary: RunData) -> None:
    page = page_of(ordinary)
    wanted = [value for name, value in page.attributes if name == "data-figure"]
    given = {
        facts["id"]: json.loads(text)
        for facts, text in page.scripts
        if facts.get("type") == "application/json"
    }
    assert sorted(wanted) == sorted(given) == CHARTS
    assert all(figure["data"] for figure in given.values())


def test_every_section_that_is_there_is_in_the_page() -> None:
    sections = Path(report.__file__).parent / "templates"
    pages = "".join(path.read_text() for path in sections.rglob("*.j2"))
    forgotten = [
        path.name for path in (sections / "run").iterdir() if f'"run/{path.name}"' not in pages
    ]
    assert forgotten == []


def test_the_verdict_comes_first_and_every_reason_is_there() -> None:
    run = run_of(crowd(60, 30.0, slow=30), lost_workers=["w2"])
    text = page_of(run).text.replace("\u00a0", " ")
    summary = summarise(run)
    assert summary["verdict"] == "INVALID"
    assert (
        text.index("INVALID")
        < text.index("180 analysts: this run says nothing")
        < text.index("How long")
    )
    for reason in summary["reasons"]:
        assert reason.partition(": ")[2] in text


def test_an_invalid_run_grants_no_target_a_pass() -> None:
    assert "PASS" in page_of(run_of(crowd(40, 30.0))).text
    assert "PASS" not in page_of(run_of(crowd(40, 30.0), lost_workers=["w2"])).text


def test_markup_in_any_text_of_a_server_is_shown_and_not_obeyed() -> None:
    rows = crowd(20, 10.0)
    for number, turn in enumerate(rows[:8]):
        turn.update(
            user=MARKUP, conversation=MARKUP, scenario=MARKUP, dialect=MARKUP, route=MARKUP,
            outcome="failed", cause=MARKUP, detail=f"{MARKUP} {number}", turn=f"{MARKUP}{number}",
            ended_ms=90_000.0 + number, first_progress_kind=MARKUP,
            work={MARKUP: {"steps": 1, "seconds": 0.5}},
            prompts=[{"kind": MARKUP, "paused_ms": 800.0}],
        )  # fmt: skip
    named = {"scenario": MARKUP, "run": MARKUP, "name": MARKUP, "target": {"host": MARKUP}}
    hostile = run_of(rows, **named, versions={MARKUP: MARKUP}, lost_workers=[MARKUP])
    tame = json.loads(json.dumps(rows).replace(json.dumps(MARKUP)[1:-1], "tame"))
    plain, marked = page_of(run_of(tame)), page_of(hostile)
    assert set(marked.tags) - {"br"} == set(plain.tags) - {"br"}
    for tag in ("script", "a"):
        assert marked.tags.count(tag) == plain.tags.count(tag)
    assert not [name for name, _ in marked.attributes if name.startswith("on")]
    assert MARKUP in marked.text
    for facts, text in marked.scripts:
        if facts.get("type") == "application/json":
            assert "<" not in text
            assert not re.search(r"<(?!br>|extra>|/extra>)", json.dumps(json.loads(text)))


class _Spaced(Page):
    """A page on which the texts of two elements are two words."""

    def handle_data(self, data: str) -> None:
        super().handle_data(f" {data} ")


def test_every_number_that_the_page_shows_is_one_of_the_summary(ordinary: RunData) -> None:
    """Or of the manifest, or stands in the page's own words."""
    summary = summarise(ordinary)
    shown = set(NUMBER.findall(_Spaced(render(ordinary, summary)).text))
    known = {*numbers(summary), *numbers(ordinary.manifest), *numbers(list(ordinary.files))}
    known |= set(NUMBER.findall(own_words()))
    assert len(shown) > 100
    assert shown <= known, sorted(shown - known)


def test_the_milestone_table_shows_the_values_of_the_summary() -> None:
    rows = [
        row(str(n), first_progress_ms=700.0 + n, ended_ms=9000.0 + 10 * n, last_answer_ms=None)
        for n in range(100)
    ]
    cells = [[text.strip() for text in line] for line in page_of(run_of(rows)).cells]
    assert ["", "100", "0", "749.0", "789.0", "794.0", "\u2013", "799.0", "ms"] in cells
    assert ["", "100", "0", "9.49", "9.89", "9.94", "\u2013", "9.99", "s"] in cells


@pytest.mark.parametrize(
    "rows",
    [[], [row(outcome="dropped", started_mono_ns=0)], [row(outcome="cut_off", ended_ms=0.0)],
     [row(first_progress_ms=None, first_answer_ms=None, outcome="failed")],
     [row(worker="unknown", started_at="")]],
    ids=["no turn", "dropped only", "cut off at once", "failed only", "no time axis"],
)  # fmt: skip
def test_a_run_with_next_to_nothing_in_it_still_has_a_page(rows: list[dict[str, Any]]) -> None:
    run = run_of(rows, plan={}, workers=None, started_at=None, load=None, target=None)
    assert "Why IN" in page_of(run).text


def test_a_run_without_a_manifest_still_has_a_page(tmp_path: Path) -> None:
    made = folder(tmp_path, crowd(5, 10.0))
    (made / "manifest.json").unlink()
    assert "the manifest cannot be read" in page_of(read_run(made)).text


def test_a_value_that_no_interval_backs_says_how_many_turns_one_takes() -> None:
    text = page_of(run_of([row(str(n)) for n in range(50)])).text
    assert "needs n 299" in text


@pytest.mark.parametrize("size", [1, 2, 999, 1000, 1001, 1_000_000])
def test_thinning_keeps_the_extremes_and_bounds_the_points(size: int) -> None:
    kept = charts.thinned(size)
    assert (kept[0], kept[-1]) == (0, size - 1)
    assert len(kept) == min(size, charts.POINTS)


@pytest.mark.case("D-68")
def test_many_turns_make_no_large_charts() -> None:
    second = 1_000_000_000
    rows = [
        row(str(n), started_mono_ns=5_000 * second + n * second // 50, ended_ms=9000.0 + n % 977)
        for n in range(6000)
    ]
    run = run_of(rows)
    summary = summarise(run)
    made = {chart.name: chart.figure for chart in report.drawn(run, summary)}
    assert len(render(run, summary)) < 6_000_000
    for figure in made.values():
        assert max(len(trace.x) for trace in figure.data) <= 2 * charts.POINTS
    (in_flight,) = [trace for trace in made["course"].data if trace.name == "in flight"]
    assert max(in_flight.y) == summary["peak_in_flight"]


def test_the_distribution_has_a_line_for_each_clock_and_a_mark_for_each_target(
    ordinary: RunData,
) -> None:
    figure = distribution.ecdf(frame.turns(ordinary), summarise(ordinary)).figure
    named = [trace.name for trace in figure.data if trace.name]
    assert named == ["visible progress", "first progress", "first answer", "completion"]
    assert [trace.x[0] for trace in figure.data if trace.mode == "markers"] == [2.0, 20.0]
    assert all(trace.y[-1] == 100 for trace in figure.data if trace.name)


def test_the_waterfall_shows_the_ten_slowest_and_what_they_waited_for() -> None:
    pause = [{"kind": "text", "paused_ms": 1000.0, "resumed_ms": 3000.0, "replied": True}]
    rows = [row(str(n), ended_ms=9000.0 + n, prompts=pause) for n in range(15)]
    figure = waterfall.waterfall(summarise(run_of(rows))).figure
    phases = {trace.name: trace for trace in figure.data}
    waits = {"setup", "queueing", "working", "answering", "human pause"}
    assert set(phases) - {None} == waits
    slowest = {str(place) for place in range(1, 11)}
    assert set(phases["human pause"].y) == slowest | {"median 1", "median 2", "median 3"}
    assert set(phases["human pause"].x) == {2.0}


def test_a_target_of_one_dialect_is_drawn_where_that_dialect_is() -> None:
    """And not over the turns of all."""
    own = {"clock": "ttfa", "within_s": 6.0, "share": 0.5, "dialect": "nat-ws"}
    run = run_of(crowd(60, 30.0), plan={"name": "x", "slo": [own]})
    summary = summarise(run)
    made = {chart.name: chart for chart in report.drawn(run, summary)}
    limits = {
        name: [trace.x[0] for trace in made[name].figure.data if trace.mode == "markers"]
        for name in ("ecdf", "dialects-1", "dialects-2")
    }
    assert list(summary["dialects"]) == ["nat-sse", "nat-ws"]
    assert limits == {"ecdf": [], "dialects-1": [], "dialects-2": [6.0]}
    assert "(target 6 s)" in made["dialects-2"].title
    assert "target" not in made["ecdf"].title + made["dialects-1"].title
