"""What a headless run shows while it goes on, on a terminal and in a log."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import running_mock

from .conftest import PLAN, Swarm

LINE = re.compile(
    r"0:0\d elapsed, (?:0:0\d left|ending) \| \d+(?: of 8)? analysts \| \d+ in flight: [^|]+"
    r" \| p95 of the last 30 s: ttfp \S+(?: m?s)?, ttfa \S+(?: m?s)?, ttc \S+(?: m?s)?"
    r" \| (\d+) turns? ended \| \d+ failed[^|]* \| generator"
)
FIGURES = r"p95 of the last 30 s: ttfp [\d.]+ m?s, ttfa [\d.]+ m?s, ttc [\d.]+ m?s"
TABLE_OF_LOCUST = "Type     Name  "


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What runs that went on side by side said on stderr, by their kind."""
    common = ("--headless", "-u", "8", "-r", "8", "-t", "4s")
    kinds = {
        # First the one whose output nobody keeps for us: it would wait for its reader.
        "terminal": (),
        "log": ("--live-every", "1", "--processes", "2"),
        "locust": ("--live-every", "1", "--locust-table"),
        "quiet": ("--live-every", "1", "--only-summary"),
    }
    with running_mock() as agent:
        running: dict[str, tuple[subprocess.Popen[str], Any]] = {}
        for kind, own in kinds.items():
            folder = tmp_path_factory.mktemp(kind)
            running[kind] = start(folder, kind, "--host", agent.url, *common, *own)
        try:
            yield {kind: end(*started) for kind, started in running.items()}
        finally:
            for process, _ in running.values():
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


def start(folder: Path, kind: str, *arguments: str) -> tuple[subprocess.Popen[str], Any]:
    plan = folder / "swift.toml"
    plan.write_text(PLAN)
    command = [part for part in Swarm(folder, plan).command() if part != "--only-summary"]
    leader, follower = pty.openpty() if kind == "terminal" else (None, None)
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "140"},
        stdout=subprocess.DEVNULL if leader else subprocess.PIPE,
        stderr=follower if leader else subprocess.STDOUT,
        text=True,
    )
    if follower is not None:
        os.close(follower)
    return process, leader


def end(process: subprocess.Popen[str], leader: int | None) -> str:
    if leader is None:
        return process.communicate(timeout=100)[0]
    parts = []
    # At its end a terminal gives an error, not an empty read.
    while True:
        try:
            part = os.read(leader, 65_536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(leader)
    process.wait(60)
    return b"".join(parts).decode()


def test_a_log_gets_plain_lines_with_the_figures_of_all_workers(said: dict[str, str]) -> None:
    found = [LINE.search(text) for text in said["log"].splitlines() if " elapsed, " in text]
    assert len(found) >= 3, said["log"]
    assert all(found), said["log"]
    ended = [int(match[1]) for match in found if match]
    assert ended == sorted(ended)
    assert ended[-1] > 0
    assert re.search(FIGURES, said["log"])
    assert re.search(r"\d+ answering|\d+ working", said["log"])
    assert "\x1b" not in said["log"]


def test_nobody_gets_locusts_own_table_unless_it_is_asked_for(said: dict[str, str]) -> None:
    at_the_end = {kind: text.count(TABLE_OF_LOCUST) for kind, text in said.items()}
    assert at_the_end["log"] == at_the_end["quiet"] == 2, "Locust's summary at the end stays"
    assert at_the_end["locust"] > 2
    assert LINE.search(said["locust"])


def test_only_summary_is_quiet_as_in_any_locust_file(said: dict[str, str]) -> None:
    assert " elapsed, " not in said["quiet"]


def test_a_terminal_gets_a_table_that_is_drawn_anew(said: dict[str, str]) -> None:
    text = said["terminal"]
    assert text.count("in flight: ") >= 3
    assert "\x1b[1A" in text, "the table before is wiped"
    assert re.search(r"within 2 s, wanted \d+ %", text)
    assert not LINE.search(text)
    # Log lines go above it, each on a line of its own.
    assert re.search(r"(?:\r|\n|\x1b\[2K)\[[^\]]+\] \S+/INFO/locust", text)
