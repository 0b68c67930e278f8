"""Long work says what it is at: a bar on a terminal, lines in a log, nothing for what is quick."""

from __future__ import annotations

import io
import threading
from pathlib import Path

from rich.console import Console
from synthetic import crowd, folder

from loadgen.journal import read_run
from loadgen.report.waiting import waiting


class Said(io.StringIO):
    """Text that tells when a line has come."""

    def __init__(self) -> None:
        super().__init__()
        self.line = threading.Event()

    def write(self, text: str) -> int:
        done = super().write(text)
        if "\n" in text:
            self.line.set()
        return done


def test_a_log_gets_a_line_now_and_then() -> None:
    said = Said()
    with waiting("report", 0.02, Console(file=said)) as work:
        work.step("reading turns")
        work.share(0.4)
        assert said.line.wait(10)
        work.step("judging [bold]3[/bold] turns")
        for _ in range(200):
            said.line.clear()
            assert said.line.wait(10)
            if "judging" in said.getvalue():
                break
    lines = said.getvalue().splitlines()
    assert lines[0] == "report: reading turns 40% (0 s so far)"
    assert lines[-1].startswith("report: judging [bold]3[/bold] turns (")


def test_what_is_quick_leaves_no_line() -> None:
    said = Said()
    with waiting("report", console=Console(file=said)) as work:
        work.step("reading turns")
    assert said.getvalue() == ""


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end() -> None:
    said = Said()
    console = Console(file=said, force_terminal=True, width=80, legacy_windows=False)
    with waiting("report", console=console) as work:
        work.step("reading turns")
        work.share(0.5)
    text = said.getvalue()
    assert "reading turns" in text
    assert text.endswith("\x1b[2K")


def test_reading_a_run_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[float] = []
    one = crowd(1)[0]
    where = folder(tmp_path, [one | {"turn": f"{number:032x}"} for number in range(12_000)])
    assert len(read_run(where, told.append).rows) == 12_000
    assert len(told) == 3
    assert told == sorted(told)
    assert 0 < told[0] < 0.01
    assert 0.8 < told[-1] < 0.9
