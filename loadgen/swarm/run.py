"""The run under way, as one process sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.journal import Journal
from loadgen.net.driver import Wiring
from loadgen.persona import Apportionment
from loadgen.plan import Plan
from loadgen.swarm.adversity import Adversities, Pulse
from loadgen.swarm.health import Health
from loadgen.swarm.traces import Traces
from loadgen.swarm.watch import Watch


@dataclass(slots=True)
class Run:
    """What belongs to a run, from its first analyst to its last row; ``manifest`` is empty on a
    worker.

    ``workers`` is how many deal out analysts' numbers, so that no two analysts share one.
    ``candidate``: in an A/B run, how it is reached; ``wirings`` lead to the baseline then.
    """

    folder: Path
    plan: Plan
    questions: tuple[str, ...]
    hosts: list[str]
    wirings: Mapping[str, Wiring]
    journal: Journal
    health: Health
    watch: Watch
    manifest: dict[str, Any]
    deal: Apportionment
    candidate: Mapping[str, Wiring] | None = None
    workers: int = 1
    seats: int = 0
    concluding: bool = False
    adversities: Adversities | None = None
    pulse: Pulse | None = None
    traces: Traces | None = None

    def close(self) -> None:
        """The last row of health, and no more rows; nothing goes wrong on purpose any more."""
        if self.adversities is not None:
            self.adversities.stop()
        if self.pulse is not None:
            self.pulse.stop()
        if self.traces is not None:
            self.traces.close()
        self.health.stop()
        self.journal.close()


def deal(plan: Plan) -> Apportionment:
    """How the analysts of a process are dealt out to the plan's groups."""
    return Apportionment([group.weight for group in plan.analysts])
