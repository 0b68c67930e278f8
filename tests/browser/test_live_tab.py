"""The tab "Milestones" in Locust's web UI, during a real run with two workers."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Frame

from loadgen.clock import NS_PER_S, now_ns
from tests.conftest import running_mock
from tests.swarm.conftest import PLAN, Swarm

from .conftest import Opened

NOTHING = {"figures": None, "report": None}
FAILING = """
[[analysts]]
name = "unlucky"
dialect = "nat-sse"
weight = 20

[analysts.script]
words = "first_ms=50 steps=1 step_ms=100 fail=mid"
"""


def wait_for(what: Callable[[], Any], seconds: float = 40) -> Any:
    limit_ns = now_ns() + round(seconds * NS_PER_S)
    while now_ns() < limit_ns:
        try:
            if found := what():
                return found
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


@dataclass(frozen=True)
class WebUi:
    """Locust with its web UI, a master with two workers."""

    root: str
    swarm: Swarm
    host: str
    metrics: str

    def begin(self, name: str) -> None:
        wait_for(lambda: httpx.get(f"{self.root}/worker-count").json()["worker_count"] == 2)
        form = {"user_count": "12", "spawn_rate": "12", "host": self.host, "run_name": name}
        form["plan"] = str(self.swarm.plan)
        assert httpx.post(f"{self.root}/swarm", data=form).json()["success"]

    def runs(self) -> bool:
        """Whether a run is under way."""
        figures = self.told()["figures"]
        return figures is not None and not figures["over"]

    def stop(self) -> None:
        httpx.post(f"{self.root}/stop", timeout=60).raise_for_status()

    def told(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.root}/milestones/figures").raise_for_status().json())


@pytest.fixture(scope="module")
def web_ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebUi]:
    folder = tmp_path_factory.mktemp("web")
    plan = folder / "swift.toml"
    plan.write_text(PLAN + FAILING)
    swarm, (web, master, metrics) = Swarm(folder, plan), free_ports(3)
    with running_mock() as agent, (folder / "locust.log").open("w") as log:
        process = subprocess.Popen(
            swarm.command(
                "--host", agent.url, "--web-host", "127.0.0.1", "--web-port", str(web),
                "--processes", "2", "--master-bind-port", str(master), "--master-port", str(master),
                "--metrics-port", str(metrics),
            ),
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
        exposed = f"http://127.0.0.1:{metrics}/metrics"
        found = WebUi(f"http://127.0.0.1:{web}", swarm, agent.url, exposed)
        try:
            wait_for(lambda: httpx.get(found.root))
            yield found
        finally:
            process.terminate()
            process.wait(60)


def free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def frame_of(opened: Opened) -> Frame:
    """Our page inside Locust's, once it has asked for figures."""
    frame = wait_for(lambda: opened.page.query_selector("iframe") and opened.page.frames[-1])
    frame.wait_for_selector("#clocks tbody tr")
    return frame


def cells(frame: Any, table: str) -> dict[str, list[str]]:
    """The rows of a table by their first cells."""
    rows = frame.eval_on_selector_all(
        f"#{table} tbody tr", "rows => rows.map(r => [...r.children].map(c => c.textContent))"
    )
    return {row[0]: row[1:] for row in rows}


@pytest.fixture
def live(web_ui: WebUi) -> WebUi:
    """A run is under way, and some of its turns have ended."""
    if not web_ui.runs():
        web_ui.begin("live")
        wait_for(lambda: (web_ui.told()["figures"] or {"turns": 0})["turns"] > 10)
    return web_ui


@pytest.fixture
def ended(web_ui: WebUi, request: pytest.FixtureRequest) -> WebUi:
    """A run is over, and its report is there."""
    if web_ui.told()["report"] is None:
        request.getfixturevalue("live").stop()
        wait_for(lambda: web_ui.told()["report"])
    return web_ui


def test_before_the_first_run_the_page_says_so(
    live: WebUi, open_page: Callable[..., Opened]
) -> None:
    opened = open_page("about:blank")
    opened.page.route("**/figures", lambda route: route.fulfill(json=NOTHING))
    opened.page.goto(f"{live.root}/milestones")
    opened.page.wait_for_selector("html[data-followed]")
    assert opened.page.inner_text("#head") == "No run yet"
    assert not opened.page.is_visible("#run")
    assert not opened.page.is_visible("#over")
    assert opened.complaints == []


def test_the_tab_follows_a_run_of_two_workers(
    live: WebUi, open_page: Callable[..., Opened]
) -> None:
    opened = open_page(live.root)
    opened.page.get_by_role("tab", name="Milestones").click()
    frame = frame_of(opened)
    before = turns_ended(frame)
    wait_for(lambda: turns_ended(frame) > before + 10)
    names = list(cells(frame, "clocks"))
    assert names == ["visible progress", "first progress", "first answer", "completion"]
    for row in cells(frame, "clocks").values():
        assert re.fullmatch(r"[\d.]+ m?s", row[1]), row
        assert int(row[3]) > 0
    assert frame.query_selector_all("#clocks svg polyline")
    assert "unlucky" not in frame.content()
    assert {"completed", "failed"} <= set(cells(frame, "outcomes"))
    assert cells(frame, "outcomes")["failed"][0] == "agent_error"
    script = "all => all.map(one => [one.dataset.standing, +one.children[1].textContent])"
    standing = frame.eval_on_selector_all("#standing li", script)
    assert [name for name, _ in standing] == [
        "connecting", "waiting", "working", "answering", "human",
    ]  # fmt: skip
    assert 0 < sum(count for _, count in standing) <= 12
    assert frame.query_selector("#fitness.fit, #fitness.unfit")
    workers = {path.name for path in running(live).glob("turns-worker-*.jsonl")}
    assert len(workers) == 2
    # Another tab, and back again.
    opened.page.get_by_role("tab", name="Statistics").click()
    wait_for(lambda: not opened.page.query_selector("iframe"))
    opened.page.get_by_role("tab", name="Milestones").click()
    assert turns_ended(frame_of(opened)) >= before
    assert opened.complaints == []
    assert opened.hosts() == {live.root.removeprefix("http://")}


def turns_ended(frame: Frame) -> int:
    found = re.search(r"([\d,]+) turns ended", frame.inner_text("#lead"))
    return int(found[1].replace(",", "")) if found else 0


def running(web_ui: WebUi) -> Path:
    return max(web_ui.swarm.results.iterdir())


def test_a_phone_in_the_dark_scrolls_in_one_direction_only(
    live: WebUi, open_page: Callable[..., Opened]
) -> None:
    opened = open_page(f"{live.root}/milestones", width=390, dark=True)
    opened.page.wait_for_selector("#clocks tbody tr")
    assert opened.widest() == 390
    red = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", red)[:3])) < 120
    assert opened.complaints == []


MARKUP = '<img src="x" onerror="window.hit = true"><script>window.hit = true</script>'


def spoiled(told: Any) -> Any:
    """``told`` with markup in the place of every text."""
    if isinstance(told, dict):
        return {key: spoiled(value) for key, value in told.items()}
    if isinstance(told, list):
        return [spoiled(value) for value in told]
    return MARKUP if isinstance(told, str) else told


def test_markup_in_any_text_is_shown_and_runs_nothing(
    live: WebUi, open_page: Callable[..., Opened]
) -> None:
    opened = open_page(f"{live.root}/milestones")
    page = opened.page
    page.wait_for_selector("#clocks tbody tr")
    told = live.told() | {"report": {"verdict": "PASS", "headline": "fine"}}
    page.route("**/figures", lambda route: route.fulfill(json=spoiled(told)))
    wait_for(lambda: page.evaluate("document.body.innerText").count(MARKUP) > 20)
    assert page.inner_text("#headline") == MARKUP
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("window.hit") is None
    assert opened.complaints == []


@pytest.mark.parametrize("dark", [False, True])
def test_axe_has_no_serious_finding(
    live: WebUi, open_page: Callable[..., Opened], dark: bool
) -> None:
    page = open_page(f"{live.root}/milestones", dark=dark).page
    page.wait_for_selector("#clocks tbody tr")
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


def test_after_the_run_its_figures_are_those_of_the_report_which_is_a_click_away(
    live: WebUi, open_page: Callable[..., Opened]
) -> None:
    opened = open_page(f"{live.root}/milestones", accept_downloads=True)
    live.stop()
    opened.page.wait_for_selector("#open:visible", timeout=60_000)
    summary = json.loads((running(live) / "summary.json").read_text())
    assert opened.page.inner_text("#verdict") == summary["verdict"]
    figures = live.told()["figures"]
    assert figures["over"]
    assert figures["in_flight"] == 0
    outcomes = {}
    for row in figures["outcomes"]:
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + row["whole"]
    assert outcomes == {name: n for name, n in summary["turns"].items() if n and name in outcomes}
    assert sum(outcomes.values()) == summary["turns"]["started"]
    for clock in figures["clocks"]:
        truth = summary["metrics"][clock["clock"]]
        assert clock["whole"]["n"] == truth["n"], clock["clock"]
        for share in ("p50", "p95"):
            exact = truth[share]["value_ms"]
            # 1 % of the buckets, and three digits.
            assert clock["whole"][share]["ms"] == pytest.approx(exact, rel=0.016), clock["clock"]
    (target,) = figures["targets"]
    (slo,) = summary["slo"]
    assert (target["whole"]["met"], target["whole"]["judged"]) == (slo["met"], slo["judged"])
    with opened.page.context.expect_page() as popped:
        opened.page.click("#open")
    popped.value.wait_for_load_state()
    assert summary["verdict"] in popped.value.inner_text("body")
    assert popped.value.query_selector_all(".js-plotly-plot .main-svg"), "its charts are drawn"
    with opened.page.expect_download() as saved:
        opened.page.click("#save")
    assert saved.value.suggested_filename == f"{running(live).name}.html"
    assert saved.value.path().read_bytes() == (running(live) / "report.html").read_bytes()
    assert opened.complaints == []


def test_the_report_is_kept_away_from_the_controls_of_the_run(ended: WebUi) -> None:
    answer = httpx.get(f"{ended.root}/milestones/report")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox ")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


def test_prometheus_is_told_what_the_report_says(ended: WebUi) -> None:
    summary = json.loads((running(ended) / "summary.json").read_text())
    told = httpx.get(ended.metrics).text.splitlines()
    value = dict(line.rsplit(" ", 1) for line in told if line and line[0] != "#")
    counts = [float(v) for name, v in value.items() if name.startswith("loadgen_turns_total")]
    assert sum(counts) == summary["turns"]["started"]
    ttc = float(value['loadgen_turn_clock_seconds_count{clock="ttc"}'])
    assert ttc == summary["metrics"]["ttc"]["n"]
    within = float(value['loadgen_turn_clock_seconds_bucket{clock="ttfv",le="2.0"}'])
    assert within == summary["slo"][0]["met"]
