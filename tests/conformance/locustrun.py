"""A scenario run by Locust, headless, in a process of its own, as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterparts import Server

from loadgen.journal import SUMMARY, RunData, find_run, read_run
from loadgen.plan import load_plan

ROOT = Path(__file__).parents[2]
_GRACE_S = 120


@dataclass(frozen=True, slots=True)
class LocustRun:
    """What a run left: its exit code, what it printed, its journal and its summary."""

    exit_code: int
    output: str
    data: RunData
    summary: dict[str, Any]


class Locust:
    """``scenarios/analysts.py`` under way with ``plan`` against ``server``."""

    def __init__(
        self, plan: Path, server: Server, results: Path, *, users: int, rate: int, seconds: int
    ) -> None:
        self._plan, self._results, self._seconds = plan, results, seconds
        command = [sys.executable, "-m", "locust", "-f", "scenarios/analysts.py", "--headless"]
        command += ["--plan", str(plan), "--host", server.origin, "--results", str(results)]
        command += ["-u", str(users), "-r", str(rate), "-t", f"{seconds}s", "--only-summary"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def result(self) -> LocustRun:
        """Wait for its end."""
        try:
            output = self._process.communicate(timeout=self._seconds + _GRACE_S)[0]
        finally:
            self._process.kill()
        (folder,) = self._results.glob(f"*Z-{load_plan(self._plan).name}")
        data = read_run(find_run(self._results, folder.name))
        summary = json.loads((folder / SUMMARY).read_text())
        return LocustRun(self._process.returncode, output, data, summary)
