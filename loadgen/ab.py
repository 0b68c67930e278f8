"""What the verb ``ab`` does: a Locust run of the scenario with two sides, judged by its gate."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import loadgen
from loadgen.errors import ConfigError

SCENARIO = Path("scenarios") / "regression.py"


@dataclass(frozen=True, slots=True)
class Contest:
    """The run: ``targets`` are the baseline and the candidate, none means mocks of ours, which
    ``mock_args`` are for.  ``gate`` are options of ``loadgen gate``.
    """

    targets: tuple[str, str] | None
    mock_args: tuple[str, ...]
    users: int
    rate: float
    run_time: str
    results: Path
    scenario: Path | None = None
    plan: Path | None = None
    name: str | None = None
    processes: int = 1
    gate: tuple[str, ...] = ()


def run(contest: Contest) -> int:
    """Carry it out; gives the exit code of its gate.

    Ctrl-C reaches locust as well, which then ends the run and judges what there is: it is waited
    for.  Whoever ends this process alone ends locust the same way.

    :raises ConfigError: there is no scenario to run.
    """
    locust = subprocess.Popen(command(contest, found(contest.scenario)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: locust.terminate())
    return locust.wait()


def command(contest: Contest, scenario: Path) -> list[str]:
    """The command line of locust."""
    options: list[str] = []
    if contest.targets is not None:
        options += ["--baseline", contest.targets[0], "--candidate", contest.targets[1]]
    options += [f"--mock-args={arguments}" for arguments in contest.mock_args]
    for option, value in (("--plan", contest.plan), ("--run-name", contest.name)):
        options += [] if value is None else [option, str(value)]
    if contest.processes > 1:
        options += ["--processes", str(contest.processes)]
    return [
        sys.executable, "-m", "locust", "-f", str(scenario), "--headless", "--only-summary",
        "-u", str(contest.users), "-r", f"{contest.rate:g}", "-t", contest.run_time,
        "--results", str(contest.results), *options, f"--gate-args={shlex.join(contest.gate)}",
    ]  # fmt: skip


def found(scenario: Path | None, usual: Path = SCENARIO) -> Path:
    """The scenario: the one named, the ``usual`` one of the working folder or of the checkout.

    :raises ConfigError: there is none.
    """
    checkout = Path(loadgen.__file__).parents[1]
    places: Sequence[Path] = [scenario] if scenario else [usual, checkout / usual]
    for path in places:
        if path.is_file():
            return path
    raise ConfigError(f"{places[0]}: no such scenario; name one with --scenario")
