"""Locustfile: analysts whose generator has something else to do.

``BURN_MS=30`` keeps the hub busy for 30 ms in every 100 while a test is under way.
"""

import os
from pathlib import Path
from typing import Any

import gevent
from locust import events, task

from loadgen.clock import NS_PER_MS, now_ns
from loadgen.swarm import AgentUser, install

_BURN_NS = int(os.environ.get("BURN_MS", "0")) * NS_PER_MS
_PERIOD_NS = 100 * NS_PER_MS
install(Path("swift.toml"))


class Analyst(AgentUser):
    """Asks, thinks, asks again."""

    @task
    def turn(self) -> None:
        self.ask(self.agent.question())


@events.test_start.add_listener  # type: ignore[untyped-decorator]  # Locust has no types
def _start(**_: Any) -> None:
    if _BURN_NS:
        gevent.spawn(_burn)


def _burn() -> None:
    due_ns = now_ns()
    while True:
        until_ns = now_ns() + _BURN_NS
        while now_ns() < until_ns:
            pass
        due_ns = max(due_ns + _PERIOD_NS, now_ns())
        gevent.sleep((due_ns - now_ns()) / 1e9)
