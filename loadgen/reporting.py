"""What the verb ``report`` does: read, judge, write, and show."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadgen.analysis import frame, numerals
from loadgen.analysis.summary import summarise, write_summary
from loadgen.errors import ConfigError
from loadgen.journal import RunData, find_run, write_whole
from loadgen.report import beside, junit, page, pictures
from loadgen.report.charts import Chart
from loadgen.report.terminal import print_summary, print_written
from loadgen.report.waiting import Work, waiting


def reported(results: Path, name: str, png: Path | None, open_it: bool) -> None:
    """Make a run's files again; its charts also as PNG files into ``png``."""
    with waiting("report") as work:
        run, summary = _judged(results, name, work)
        write_summary(run.folder, summary)
        write_whole(run.folder / junit.FILE, junit.render(summary))
        work.step("drawing")
        path = page.write_report(run, summary, run.folder)
        pictures_of = page.drawn(run, summary) if png else []
    print_summary(summary, path)
    _leave(path, pictures_of, png, open_it)


def beside_each_other(
    results: Path, names: Sequence[str], out: Path | None, png: Path | None, open_it: bool
) -> None:
    """One page of several runs: ``out``, or a file in the results folder."""
    if len(names) > beside.MOST:
        raise ConfigError(f"{len(names)} runs do not fit beside each other, at most {beside.MOST}")
    path = out or results / beside.FILE
    with waiting("report") as work:
        shown = beside.columns([_judged(results, name, work) for name in names])
        write_whole(path, beside.render(shown).encode())
    print_written("report", [path])
    _leave(path, beside.drawn(shown) if png else [], png, open_it)


def _judged(results: Path, name: str, work: Work) -> tuple[RunData, dict[str, Any]]:
    work.step("reading turns")
    run = frame.read(find_run(results, name), work.share)
    work.step(f"judging {numerals.of(len(run.rows), 'turn')}")
    return run, summarise(run)


def _leave(path: Path, charts: Sequence[Chart], png: Path | None, open_it: bool) -> None:
    if png:
        print_written("chart", pictures.write(charts, png))
    if open_it and not webbrowser.open(path.resolve().as_uri()):
        raise ConfigError(f"--open: no browser here; the report is {path}")
