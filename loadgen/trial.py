"""One measured run of our whole stack against a mock agent of our own, beside the mock's truth.

The run is a locust of its own with the plan and the scenario written for it; afterwards its
journals and rows of health are read as any report reads them.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from loadgen.analysis import frame, health, strain
from loadgen.analysis.truth import Spread, errors, spread
from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.errors import GeneratorError
from loadgen.journal import RunData, read_run
from loadgen.turn import Outcome

DIALECTS = ("nat-sse", "nat-ws")
TURN_S = 3.0
WARM_S = 2.0
WINDOW_S = 6.0
_SPAWN_PER_S = 100
_AROUND_S = 9.0
"""What a trial takes beside its own times: two processes start, the last turns drain, a report."""

_PATIENCE_S = 60.0

_SCENARIO = """\
from pathlib import Path
from locust import task
from loadgen.swarm import AgentUser, install

install(Path(__file__).with_name("plan.toml"))

class Analyst(AgentUser):
    @task
    def turn(self):
        self.ask(self.agent.question())
"""

_PLAN = """\
name = "calibration"
seed = 1
load = {{ drain_s = 10 }}
questions = {{ texts = ["calibration {words}"] }}
human = {{ think_s = {{ median = 0.3, sigma = 0.6, max = 1.0 }}, turns_per_conversation = 1 }}
"""
"""Short pauses of different lengths: nearly all streams run, each at a phase of its own."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """``analysts`` that each read ``rate`` events a second, in ``processes``."""

    analysts: int
    rate: float
    processes: int

    @property
    def spawn_s(self) -> float:
        """How long it takes until all of them are there."""
        return max(1.0, self.analysts / _SPAWN_PER_S)

    @property
    def run_s(self) -> int:
        """How long the run is."""
        return math.ceil(self.spawn_s + WARM_S + WINDOW_S)

    @property
    def trial_s(self) -> float:
        """How long the whole trial takes, about."""
        return self.run_s + TURN_S + _AROUND_S + self.analysts / 200

    @property
    def words(self) -> str:
        """The script of each turn, for the mock."""
        tokens = max(1, round(self.rate * (TURN_S - 0.5)))
        return f"first_ms=200 steps=2 step_ms=100 tokens={tokens} token_ms={1000 / self.rate:g}"


@dataclass(frozen=True, slots=True)
class Trial:
    """What one crowd showed in the window.

    ``errors`` by dialect and clock.  ``events_per_s`` came in; ``us_per_event`` of CPU each of them
    cost, all processes together.  ``late_p99_ms``: how late the mock was against its own schedule.
    ``unfit``: the sentences of checks of the generator that failed.
    """

    crowd: Crowd
    turns: int
    bad: int
    errors: dict[str, dict[str, Spread]]
    events_per_s: float
    us_per_event: float | None
    hub_lag_p99_ms: float | None
    late_p99_ms: float
    unfit: tuple[str, ...]

    @property
    def error_p99_ms(self) -> float:
        """The worst of all clocks; infinite without a turn."""
        found = [s.p99 for clocks in self.errors.values() for s in clocks.values()]
        known = [value for value in found if value is not None]
        return max(known) if known and len(known) == len(found) else math.inf


def run(crowd: Crowd, tick: Callable[[], None] = lambda: None) -> Trial:
    """Start a mock and a locust, wait (calling ``tick`` now and then), and compare.

    :raises GeneratorError: the trial could not be carried out.
    """
    with tempfile.TemporaryDirectory(prefix="loadgen-calibrate-") as name:
        folder = Path(name)
        with _mock_agent() as url:
            _locust(crowd, url, folder, tick)
            with urlopen(f"{url}/_truth", timeout=60) as answer:
                lines = answer.read().splitlines()
        truths = {row["id"]: row for row in map(json.loads, lines)}
        folders = [path for path in (folder / "results").iterdir() if path.is_dir()]
        return compare(crowd, read_run(folders[0]), truths)


def compare(crowd: Crowd, run: RunData, truths: Mapping[str, Mapping[str, Any]]) -> Trial:
    """The run of ``crowd`` beside the truth: the turns that began in the window."""
    begun = min(rows[0]["mono_ns"] for rows in run.health.values())
    from_ns = begun + round((crowd.spawn_s + WARM_S) * NS_PER_S)
    to_ns = begun + crowd.run_s * NS_PER_S
    inside = [
        row
        for row in run.rows
        if row["turn"] in truths and from_ns <= row["started_mono_ns"] <= to_ns
    ]
    window_s = (to_ns - from_ns) / NS_PER_S
    events = sum(_events_within(truth, from_ns, to_ns) for truth in truths.values())
    cpu_s = sum(_cpu_s(rows, from_ns, to_ns) for rows in run.health.values())
    pulses = [pulse for pulse in health.find(run) if pulse.asks]
    checks = strain.inspect(run, frame.turns(run), pulses)
    late = [truths[row["turn"]]["max_late_ns"] for row in inside]
    return Trial(
        crowd=crowd,
        turns=len(inside),
        bad=sum(row["outcome"] != Outcome.COMPLETED for row in inside),
        errors={
            dialect: errors([row for row in inside if row["dialect"] == dialect], truths)
            for dialect in DIALECTS
        },
        events_per_s=events / window_s,
        us_per_event=cpu_s * 1e6 / events if events else None,
        hub_lag_p99_ms=max(
            (p.lag_p99_ms for p in pulses if p.lag_p99_ms is not None), default=None
        ),
        late_p99_ms=spread(late).p99 or 0.0,
        unfit=tuple(check.detail for check in checks if not check.ok),
    )


@contextlib.contextmanager
def _mock_agent() -> Iterator[str]:
    command = [sys.executable, "-m", "mockagent", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            _, found, url = process.stdout.readline().strip().partition(" on ")
            if not found:
                raise GeneratorError("the bundled mock agent did not start")
            yield url
        finally:
            process.terminate()


def _locust(crowd: Crowd, url: str, folder: Path, tick: Callable[[], None]) -> None:
    groups = "".join(f'[[analysts]]\nname = "{name}"\ndialect = "{name}"\n' for name in DIALECTS)
    (folder / "plan.toml").write_text(_PLAN.format(words=crowd.words) + groups, encoding="utf-8")
    (folder / "scenario.py").write_text(_SCENARIO, encoding="utf-8")
    command = [
        sys.executable, "-m", "locust", "-f", "scenario.py", "--headless", "--only-summary",
        "--host", url, "-u", str(crowd.analysts),
        "-r", str(math.ceil(crowd.analysts / crowd.spawn_s)), "-t", f"{crowd.run_s}s",
        "--results", "results",
    ]  # fmt: skip
    if crowd.processes > 1:
        command += ["--processes", str(crowd.processes)]
    log = folder / "locust.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
    patience = round((crowd.trial_s + _PATIENCE_S) / 0.2)
    try:
        for _ in range(patience):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
                break
            tick()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if not (folder / "results").is_dir():
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise GeneratorError("the trial run did not start: " + " / ".join(tail))


def _events_within(truth: Mapping[str, Any], from_ns: int, to_ns: int) -> float:
    """Events of a turn in the window; they are evenly spaced from the first to the last one."""
    first, last = truth["first_progress_ns"], truth["ended_ns"]
    if not first or not last or last <= first:
        return 0.0
    overlap = min(last, to_ns) - max(first, from_ns)
    share: float = max(0, overlap) / (last - first)
    return share * int(truth["chunks"] + truth["steps"])


def _cpu_s(rows: list[dict[str, Any]], from_ns: int, to_ns: int) -> float:
    """CPU seconds of one process in the window, a row counting as far as it lies inside."""
    spent = 0.0
    for row in rows:
        span_ns = row["span_ms"] * NS_PER_MS
        overlap = min(row["mono_ns"], to_ns) - max(row["mono_ns"] - span_ns, from_ns)
        spent += row.get("cpu", 0.0) * max(0.0, overlap) / NS_PER_S
    return spent
