"""Report, comparison, and runs side by side, in a real browser: what people would see."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from loadgen.advisor import Advisor
from loadgen.analysis.hold import Terms
from loadgen.analysis.search import Scheme
from loadgen.cli import main
from tests.contract.raw_server import LAST_CHUNK, SSE, chunk, delta, event, raw_server, read_request
from tests.pages import NUMBER, numbers, own_words
from tests.swarm.conftest import PLAN, Swarm
from tests.unit.closed_crowd import Crowd, end, play, run_folder
from tests.unit.synthetic import BEGIN_MONO, BEGIN_WALL, crowd, folder, manifest

from .conftest import Opened, opening

Open = Callable[..., Opened]

MARKUP = (
    "<img src=x onerror=\"window.obeyed=1\"><script>window.obeyed=1</script><a href='//e'>x</a>"
)
NAMES = ("report", "comparison", "side-by-side", "capacity")
CHARTS = 12
A4_PX = 700
"""What A4 leaves between the margins of the page, at 96 pixels an inch."""


@dataclass(frozen=True, slots=True)
class Made:
    """The pages of one run, made once for all tests."""

    pages: dict[str, str]
    folder: Path

    def json(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.folder / name).read_bytes()))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A run with prompts, failures, reconnects, a storm and the generator's health, and one to
    hold it against.
    """
    results = tmp_path_factory.mktemp("results")
    runs = []
    for number, slow in enumerate((1.0, 1.3)):
        rows = crowd(45, 45.0, seed=number, slow=slow)
        struck = [row for row in rows if row["dialect"] == "nat-ws" and "prompts" not in row][:12]
        for row in struck:
            row["started_mono_ns"] = BEGIN_MONO + 20_000_000_000
            row["losses"] = [{"lost_ms": 500.0, "during": "working", "recovered_ms": 900.0,
                              "code": 1012}]  # fmt: skip
            row["recovered"] = row["outcome"] == "completed"
        for row in rows:
            row["analyst_group"] = "desk" if row["dialect"] == "nat-ws" else "browser"
        adversity = [{"number": 0, "what": "drop", "wall_ns": BEGIN_WALL + 20_500_000_000}]
        facts = manifest(run=f"run{number}", name=f"run{number}", adversity=adversity)
        runs.append(folder(results, rows, facts))
        health = (runs[-1] / "health-w1.jsonl").open("w")
        with health:
            for second in range(65):
                health.write(json.dumps(_second(second)) + "\n")
    base, run = map(str, runs)
    assert main(["report", base]) == main(["report", run]) == 0
    beside = results / "side-by-side.html"
    assert main(["report", base, run, "--out", str(beside)]) == 0
    main(["compare", base, run])
    pages = (
        runs[1] / "report.html", runs[1] / "comparison.html", beside, _capacity(results),
    )  # fmt: skip
    return Made(dict(zip(NAMES, (page.as_uri() for page in pages), strict=True)), runs[1])


def _capacity(results: Path) -> Path:
    """The answer of a simulated sweep over the capacity of a service."""
    made = run_folder(results)
    scheme, terms = Scheme(levels=(6, 12, 18, 24, 30, 60)), Terms(5, 40, 16)
    play(Advisor(scheme, terms), Crowd(made, places=8))
    end(made)
    main(["capacity", str(made), "--need", "60", "--cost-per-replica", "400"])
    return made / "capacity.html"


def _second(second: int) -> dict[str, Any]:
    at = second * 1_000_000_000
    return {
        "process": "w1", "wall_ns": BEGIN_WALL + at, "mono_ns": BEGIN_MONO + at, "late_ns": 0,
        "ticks": 20, "lag_ms": [0.4] * 20, "lag_max_ms": 0.4 + second % 7, "cpu": 0.2,
    }  # fmt: skip


def ready(opened: Opened) -> Page:
    """The page once all its charts are drawn."""
    opened.page.wait_for_function(
        "() => !document.querySelector('[data-figure]') || document.body.dataset.drawn"
    )
    return opened.page


@dataclass(frozen=True, slots=True)
class Look:
    """One of the pages as somebody sees it."""

    name: str
    width: int
    dark: bool
    opened: Opened
    page: Page


LOOKS = [
    *(("report", width, dark) for width in (1440, 390) for dark in (False, True)),
    *((name, width, width == 390) for name in NAMES[1:] for width in (1440, 390)),
]


@pytest.fixture(
    scope="module", params=LOOKS, ids=[f"{n}-{w}-{'dark' if d else 'light'}" for n, w, d in LOOKS]
)
def look(request: pytest.FixtureRequest, made: Made, browser: Browser) -> Iterator[Look]:
    name, width, dark = request.param
    with opening(browser) as open_one:
        opened = open_one(made.pages[name], width=width, dark=dark)
        yield Look(name, width, dark, opened, ready(opened))


@pytest.fixture(scope="module")
def page(made: Made, browser: Browser) -> Iterator[Page]:
    """The report at 1440 pixels, for tests that only read."""
    with opening(browser) as open_one:
        yield ready(open_one(made.pages["report"]))


def test_a_page_draws_all_asks_nobody_and_fits(look: Look) -> None:
    drawn = look.page.evaluate(
        """() => [...document.querySelectorAll("[data-figure]")].map((holder) => [
             holder.dataset.figure, holder.data.length,
             JSON.parse(document.getElementById(holder.dataset.figure).textContent).data.length,
             holder.querySelector(".main-svg").getBoundingClientRect().width])"""
    )
    assert all(traces == given > 0 for _, traces, given, _ in drawn)
    assert all(0 < wide <= look.width for *_, wide in drawn)
    charts = {"report": CHARTS, "comparison": 0, "side-by-side": 3, "capacity": 5}
    assert len(drawn) == charts[look.name], [figure for figure, *_ in drawn]
    assert look.opened.complaints == []
    assert look.opened.hosts() == set()
    assert look.opened.widest() <= look.width


def test_a_page_is_dark_for_those_who_want_it_and_so_is_the_text_of_charts(look: Look) -> None:
    paper, *inks = look.page.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor,
             getComputedStyle(document.body).color,
             ...[...document.querySelectorAll(".xtick text, .legendtext, .g-ytitle text")]
                .map((text) => getComputedStyle(text).fill)]"""
    )
    for ink in inks:
        assert (_light(ink) - _light(paper) > 300) if look.dark else (_light(ink) < 300)


def _light(colour: str) -> int:
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def test_axe_has_no_serious_finding(look: Look) -> None:
    # A chart is one image with a name; what Plotly draws inside is nothing to read out.
    found = (
        Axe()
        .run(
            look.page, context={"exclude": [[".main-svg"]]}, options={"resultTypes": ["violations"]}
        )
        .response["violations"]
    )
    serious = [
        (one["id"], [node["target"] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert not serious


def test_every_number_of_every_table_is_one_of_the_summary(made: Made, page: Page) -> None:
    summary = made.json("summary.json")
    known = {*numbers(summary), *NUMBER.findall(own_words())}
    tables = page.evaluate(
        """() => [...document.querySelectorAll("table")].map((table) => [
             table.closest(".scroll").ariaLabel,
             [...table.querySelectorAll("td, tbody th")]
             .map((cell) => [...cell.childNodes].map((node) => node.textContent).join(" "))])"""
    )
    assert len(tables) > 9
    for label, cells in tables:
        shown = {found for cell in cells for found in NUMBER.findall(cell)}
        assert shown <= known, (label, sorted(shown - known))


def test_the_table_of_the_milestones_says_what_the_summary_says(made: Made, page: Page) -> None:
    metrics = made.json("summary.json")["metrics"]
    rows = page.evaluate(
        """() => [...document.querySelectorAll("#milestones table.clocks tbody tr")].map((row) =>
             [...row.children].map((cell) => cell.firstChild.textContent.trim()
                                             || cell.childNodes[1].textContent.trim()))"""
    )
    assert len(rows) == 4
    for title, n, missing, *values, unit in rows:
        (metric,) = [one for one in metrics.values() if one["title"] == title]
        assert (int(n), int(missing)) == (metric["n"], metric["missing"])
        found = [metric[name] for name in ("p50", "p90", "p95", "p99")]
        told = [one and one["value_ms"] for one in found]
        for shown, value in zip(values, [*told, metric["max_ms"]], strict=True):
            if value is None:
                assert shown in ("\u2013", "never")
                continue
            scaled = value / 1000 if unit == "s" else value
            number = float(shown.replace(",", "").lstrip("\u2265 "))
            assert number == pytest.approx(scaled, rel=6e-3)


def test_the_contents_stay_in_sight_and_lead_to_their_sections(look: Look) -> None:
    assert look.page.evaluate(
        """() => [...document.querySelectorAll("nav a")].every((link) =>
             document.querySelector(link.hash)?.matches("section"))"""
    )
    last = look.page.evaluate(
        """() => {
             const link = [...document.querySelectorAll("nav a")].at(-1);
             document.querySelector(link.hash).scrollIntoView();
             return link.hash;
           }"""
    )
    place = look.page.locator("nav").bounding_box()
    assert last
    assert place is not None
    assert 0 <= place["y"] < 60


def test_without_javascript_all_but_the_charts_is_there(made: Made, open_page: Open) -> None:
    page = open_page(made.pages["report"], java_script_enabled=False).page
    text = page.inner_text("body")
    summary = made.json("summary.json")
    assert summary["verdict"] in text
    assert "How long analysts waited" in text
    assert "This chart needs JavaScript" in text
    assert page.locator("table").count() > 9
    for row in page.locator("#milestones .clocks tbody tr").all():
        assert row.is_visible()


def test_on_paper_no_chart_is_cut(made: Made, open_page: Open, tmp_path: Path) -> None:
    page = ready(open_page(made.pages["report"]))
    page.evaluate(
        """() => window.addEventListener("beforeprint", () => {
             window.printed = [...document.querySelectorAll("[data-figure]")].map((holder) => {
               const box = holder.querySelector(".main-svg").getBoundingClientRect();
               return [box.width, box.height, holder.getBoundingClientRect().height];
             });
           })"""
    )
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    printed = page.evaluate("window.printed")
    assert len(printed) == CHARTS
    for width, height, room in printed:
        assert width < A4_PX
        assert height <= room + 1 < 1000
    after = page.evaluate("() => document.querySelector('.main-svg').getBoundingClientRect().width")
    assert after > A4_PX, "back on the screen it has its width again"


def test_the_single_turns_show_their_events_on_hover(page: Page) -> None:
    chart = page.locator("[data-figure='figure-waterfall']")
    chart.scroll_into_view_if_needed()
    box = chart.locator(".nsewdrag").bounding_box()
    assert box is not None
    for share in (0.2, 0.21, 0.22):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + 22)
    hover = chart.locator(".hoverlayer .hovertext")
    hover.first.wait_for()
    assert "first answer" in (hover.first.text_content() or "")


# markup in all that a server says, through a real run


def hostile(stream: socket.socket, server: Any) -> None:
    """Answers with markup in steps, answers, errors and headers, by turns."""
    while True:
        read_request(stream, server)
        kind = len(server.requests) % 3
        if kind == 0:
            body = f'{{"error": {{"code": 500, "message": {json.dumps(MARKUP)}}}}}'.encode()
            stream.sendall(
                b"HTTP/1.1 500 %s\r\nx-trace: %s\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%s" % (b"<b>No</b>", MARKUP.encode(), len(body), body)
            )
            continue
        step = {"id": MARKUP, "parent_id": "root", "type": "markdown", "name": f"Tool: {MARKUP}",
                "payload": MARKUP}  # fmt: skip
        stream.sendall(SSE.replace(b"\r\n\r\n", b"\r\nx-trace: %s\r\n\r\n" % MARKUP.encode()))
        stream.sendall(chunk(f"intermediate_data: {json.dumps(step)}\n\n".encode()))
        stream.sendall(delta(MARKUP))
        if kind == 1:
            stream.sendall(event({"error": {"code": MARKUP, "message": MARKUP}}, "error"))
        else:
            stream.sendall(chunk(b"data: [DONE]\n\n"))
        stream.sendall(LAST_CHUNK)


@pytest.fixture(scope="module")
def injected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run against such a server."""
    folder = tmp_path_factory.mktemp("injected")
    plan = folder / "swift.toml"
    only_sse = re.sub(r'\[\[analysts\]\]\nname = "desk".*', "", PLAN, flags=re.S)
    plan.write_text(re.sub(r"\[script\].*?\n\n", "", only_sse, flags=re.S))
    swarm = Swarm(folder, plan)
    with raw_server(hostile) as server:
        command = swarm.command(
            "--headless", "-u", "6", "-r", "6", "-t", "4s", "--host", server.url
        )
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    (report,) = swarm.results.glob("*/report.html")
    assert "Traceback" not in done.stderr, done.stderr
    return report


def test_markup_that_a_server_sends_is_shown_and_runs_nothing(
    injected: Path, open_page: Open
) -> None:
    summary = json.loads((injected.parent / "summary.json").read_bytes())
    assert summary["turns"]["failed"] + summary["turns"]["refused"] > 3
    opened = open_page(injected.as_uri())
    page = ready(opened)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert "<script>window.obeyed=1</script>" in page.inner_text("#outcomes")
    assert page.evaluate("window.obeyed") is None
    assert page.locator("img, iframe, form, main a").count() == 0
    assert opened.complaints == []
    assert opened.hosts() == set()
