"""``loadgen capacity``: search for the capacity, or answer from levels that were measured."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from rich.live import Live

from loadgen.ab import found as scenario_of
from loadgen.analysis import capacity, contrast
from loadgen.analysis.levelbook import NOW, read_book
from loadgen.clock import NS_PER_S, now_ns
from loadgen.errors import ExitCode, GeneratorError, LoadgenError, RunError
from loadgen.journal import find_run, write_whole
from loadgen.report import ladder, ticket
from loadgen.report.capacity import FILE as PAGE
from loadgen.report.capacity import write_report

SCENARIO = Path("scenarios") / "capacity.py"

_LOOK_S = 0.5
_SAID = "run folder: "
_TAIL = 12


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A search to be made; ``options`` are passed on to locust as they are."""

    results: Path
    scenario: Path | None
    processes: int
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What the levels are held against: a wanted number, a price, the answer of another run."""

    need: float | None = None
    cost: float | None = None
    against: str | None = None


def assessed(results: Path, names: Sequence[str], asked: Question, out: Path | None) -> int:
    """Answer from the levels in the named runs, and write the report into ``out`` or the last."""
    folders = [find_run(results, name) for name in names]
    found = capacity.assess(folders, asked.need, asked.cost)
    if asked.against is not None:
        base = capacity.assess([find_run(results, asked.against)], asked.need, asked.cost)
        found = found | {"against": contrast.beside(base, found)}
    folder = out or folders[-1]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GeneratorError(f"{folder}: cannot make the folder: {error.strerror}") from error
    capacity.write(folder, found)
    write_whole(folder / ticket.FILE, ticket.render(found).encode())
    ladder.show(found, write_report(found, folder))
    return int(found["exit_code"])


def search(inquiry: Inquiry) -> int:
    """Make the search and show how it goes; gives the exit code of its answer.

    Ctrl-C reaches locust as well, which then ends the run and answers from what there is.

    :raises GeneratorError: no search was made.
    """
    processes = ["--processes", str(inquiry.processes)] if inquiry.processes > 1 else []
    command = [
        sys.executable, "-m", "locust", "-f", str(scenario_of(inquiry.scenario, SCENARIO)),
        "--headless", "--only-summary", "--results", str(inquiry.results), *inquiry.options,
        *processes,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="loadgen-capacity-") as name:
        log = Path(name) / "locust.log"
        with log.open("wb") as said:
            locust = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
            )
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: locust.terminate())
        _watch(locust, log)
        folder = _folder(log)
        code = locust.returncode
        if folder is not None and not (folder / capacity.FILE).exists():
            raise capacity.NoLevel(f"{folder}: the search ended before a level was measured")
        if folder is None:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            sys.stderr.write("\n".join(lines[-_TAIL:]) + "\n")
            raise _NotMade(code)
    ladder.show(orjson.loads((folder / capacity.FILE).read_bytes()), folder / PAGE)
    return int(code)


class _NotMade(LoadgenError):
    """Locust has said why."""

    def __init__(self, code: int) -> None:
        super().__init__("no search was made: see above")
        known = {int(one) for one in ExitCode}
        self.exit_code = ExitCode(code) if code in known and code else ExitCode.INTERNAL


def _watch(locust: subprocess.Popen[bytes], log: Path) -> None:
    """Show the level, its phase, the time left and the verdicts so far until locust ends."""
    begun_ns = now_ns()
    out = ladder.console()
    told = 0
    with Live(console=out, auto_refresh=False, transient=True) as live:
        while locust.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                locust.wait(_LOOK_S)
            folder = _folder(log)
            if folder is None:
                continue
            with contextlib.suppress(RunError, OSError, orjson.JSONDecodeError):
                levels, _ = read_book(folder)
                if out.is_terminal:
                    now = orjson.loads((folder / NOW).read_bytes())
                    elapsed_s = (now_ns() - begun_ns) / NS_PER_S
                    live.update(ladder.progress(now, levels, elapsed_s), refresh=True)
                else:
                    for one in levels[told:]:
                        out.print(ladder.line(one), soft_wrap=True)
                told = len(levels)


def _folder(log: Path) -> Path | None:
    """The run folder, as soon as locust has named it."""
    with contextlib.suppress(OSError):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if _SAID in line:
                return Path(line.partition(_SAID)[2].strip())
    return None
