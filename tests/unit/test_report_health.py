from __future__ import annotations

from pathlib import Path

from synthetic import crowd, manifest
from test_report_page import Page, _Spaced
from test_validity_health import BURNT, seconds

from loadgen.analysis import frame, health
from loadgen.analysis.summary import summarise
from loadgen.journal import RunData
from loadgen.report import course
from loadgen.report import health as shown
from loadgen.report.page import render
from tests.pages import NUMBER, numbers, own_words


def burnt_run(number: int = 60) -> RunData:
    rows = {
        "master": seconds(number, process="master", heartbeats_missed=1),
        "w1": seconds(number, lags_ms=BURNT, rss=lambda n: (80 << 20) + n * 12_345),
    }
    return RunData(Path(), manifest(), crowd(40, 30.0), health=rows)


def test_the_reason_is_at_the_top_and_the_advice_at_its_check() -> None:
    run = burnt_run()
    text = Page(render(run, summarise(run))).text.replace("\u00a0", " ")
    assert text.index("Hub lag: w1 was late by") < text.index("How long analysts waited")
    assert text.count("give each process a core of its own") == 2


def test_every_number_of_the_generators_health_is_one_of_the_summary() -> None:
    run = burnt_run()
    summary = summarise(run)
    shown_numbers = set(NUMBER.findall(_Spaced(render(run, summary)).text))
    known = {*numbers(summary), *numbers(run.manifest), *numbers(list(run.files))}
    known |= set(NUMBER.findall(own_words()))
    assert shown_numbers <= known, sorted(shown_numbers - known)


def test_the_lines_lie_on_the_time_axis_of_the_waits() -> None:
    run = burnt_run()
    figure = course.course(run, frame.turns(run), summarise(run)).figure
    named = {trace.name: trace for trace in figure.data}
    assert {"in flight", "w1"} <= set(named)
    axes = list(figure.select_xaxes())
    assert len(axes) == 6
    assert len({axis.range for axis in axes}) == 1
    assert len({axis.matches or "x6" for axis in axes}) == 1, "zooming one zooms all"


def test_a_soak_of_hours_makes_no_long_lines_and_keeps_its_worst_moment() -> None:
    rows = {"w1": seconds(9000, lags_ms=lambda n: [0.5, 777.0 if n == 4321 else 0.5])}
    summary = summarise(RunData(Path(), manifest(), crowd(5, 10.0), health=rows))
    (lag,), (cpu,) = shown.traces(summary)
    assert len(lag.x) == len(cpu.x) == health.POINTS
    assert max(lag.y) == 777.0
