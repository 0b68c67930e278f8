"""``loadgen report``: several runs, pictures, and opening the page."""

from __future__ import annotations

import shutil
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from synthetic import crowd, folder, manifest, row

from loadgen.analysis.summary import summarise
from loadgen.cli import main
from loadgen.journal import RunData
from loadgen.report import beside, pictures
from loadgen.report import page as report
from loadgen.report.charts import Chart
from tests.pages import NUMBER, numbers, own_words


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for number in range(3):
        rows = crowd(12, 12.0, seed=number)
        folder(tmp_path, rows, manifest(run=f"run-{number}", name=f"run-{number}"))
    return tmp_path


def names(results: Path) -> list[str]:
    return sorted(path.name for path in results.iterdir() if path.is_dir())


def test_several_runs_get_a_page_with_a_column_each(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = names(results)
    assert main(["report", *runs, "--results", str(results)]) == 0
    path = results / "side-by-side.html"
    assert capsys.readouterr().out == f"report: {path}\n"
    text = path.read_text(encoding="utf-8")
    for letter, number in zip("ABC", range(3), strict=True):
        assert f"<li>{letter} <b>run-{number}</b></li>" in text
    assert not (results / runs[0] / "summary.json").exists(), "their own files are left alone"


def test_every_number_side_by_side_is_one_of_a_summary() -> None:
    runs = [RunData(Path(), manifest(), crowd(12, 12.0, seed=seed)) for seed in range(2)]
    judged = [(run, summarise(run)) for run in runs]
    page = beside.render(beside.columns(judged))
    body = page[page.index("<header>") : page.index("<script")]
    known = {*numbers([summary for _, summary in judged]), *NUMBER.findall(own_words())}
    titles = [chart.title for chart in beside.drawn(beside.columns(judged))]
    assert len(titles) == 3
    shown = {found for text in (*titles, *_texts(body)) for found in NUMBER.findall(text)}
    assert len(shown) > 20
    assert shown <= known, sorted(shown - known)


def _texts(markup: str) -> list[str]:
    return [part.partition(">")[2] for part in markup.split("<")]


def test_an_invalid_run_grants_no_pass_side_by_side_either() -> None:
    run = RunData(Path(), manifest(lost_workers=["w2"]), crowd(12, 12.0))
    page = beside.render(beside.columns([(run, summarise(run))] * 2))
    assert ">PASS<" not in page
    assert ">FAIL<" not in page


def test_a_run_with_nothing_in_it_stands_beside_others() -> None:
    runs = [RunData(Path(), manifest(), rows) for rows in ([], [row()])]
    page = beside.render(beside.columns([(run, summarise(run)) for run in runs]))
    assert "None of 2 runs met every target" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["latest"] * 9, "9 runs do not fit beside each other, at most 8"),
        (["latest", "--out", "x.html"], "--out is for several runs"),
    ],
)
def test_what_cannot_be_is_refused(
    results: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *arguments, "--results", str(results)]) == 2
    assert says in capsys.readouterr().err


def test_open_opens_the_page_and_says_so_when_it_cannot(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) is None)
    assert main(["report", "latest", "--open", "--results", str(results)]) == 0
    assert [url.rpartition("/")[2] for url in opened] == ["report.html"]
    assert opened[0].startswith("file:///")
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert main(["report", "latest", "--open", "--results", str(results)]) == 2
    assert "no browser here; the report is" in capsys.readouterr().err


def test_without_kaleido_the_error_says_what_to_install(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "kaleido", None)
    assert main(["report", "latest", "--png", "shots", "--results", str(results)]) == 2
    assert "pip install 'loadgen[png]'" in capsys.readouterr().err


def test_without_a_browser_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kaleido: Any = pytest.importorskip("kaleido")
    from choreographer.errors import ChromeNotFoundError

    def none_here(*_: Any, **__: Any) -> None:
        raise ChromeNotFoundError

    monkeypatch.setattr(kaleido, "write_fig_from_object_sync", none_here)
    with pytest.raises(pictures.ConfigError, match="apt-get install chromium"):
        pictures.write([], tmp_path)


@pytest.mark.skipif(not shutil.which("chromium"), reason="no Chromium here to draw with")
def test_charts_become_pictures_with_their_points(tmp_path: Path) -> None:
    run = RunData(Path(), manifest(), crowd(12, 12.0))
    charts = [one for one in report.drawn(run, summarise(run)) if one.name in ("ecdf", "course")]
    paths = pictures.write(charts, tmp_path / "shots")
    assert [path.name for path in paths] == ["ecdf.png", "course.png"]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert 5_000 < path.stat().st_size < 300_000


def test_markup_in_a_point_is_text_in_the_picture() -> None:
    run = RunData(Path(), manifest(), crowd(5, 5.0))
    figure = report.drawn(run, summarise(run))[0].figure
    title = pictures.titled(Chart("x", "<img src=x> & " + "long " * 40, figure)).layout.title.text
    assert "&lt;img src=x&gt; &amp;" in title
    assert title.count("<br>") == 2
