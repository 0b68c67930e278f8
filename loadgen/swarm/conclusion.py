"""The end of a run: its reports are made and its sides compared, each in a process of its own.

Generation and analysis share nothing but the run folder.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from gevent import subprocess

from loadgen.errors import ExitCode, GeneratorError
from loadgen.journal import read_exit_code

_ANSWERS = {
    ExitCode.PASS, ExitCode.SLO_MISSED, ExitCode.INVALID, ExitCode.INCONCLUSIVE,
    ExitCode.INTERRUPTED,
}  # fmt: skip
"""What the report of a search exits with when it could be made."""


def report(folder: Path, sizing: list[str] | None) -> int:
    """Judge the run and write its reports; gives the exit code of the verdict.

    ``sizing``: it was a search, whose answer is held against that.  Raises GeneratorError.
    """
    command = [sys.executable, "-m", "loadgen"]
    if sizing is None:
        command += ["report", str(folder)]
    else:
        command += ["capacity", str(folder), "--results", str(folder.parent), *sizing]
    sys.stdout.flush()
    code: int = subprocess.run(command, check=False).returncode
    if sizing is None and code == 0:
        return read_exit_code(folder)
    if sizing is not None and code in _ANSWERS:
        return code
    raise GeneratorError(f"no report could be made; try: loadgen {command[3]} {folder}")


def gate(folder: Path, arguments: str) -> int:
    """Compare the sides of an A/B run; gives the exit code of what `loadgen gate` says."""
    command = [sys.executable, "-m", "loadgen", "gate", str(folder), "--out", str(folder)]
    sys.stdout.flush()
    return int(subprocess.run([*command, *shlex.split(arguments)], check=False).returncode)
