"""Locustfile: what an idle analyst of ours costs in memory.

A few analysts ask once and stand idle; then all of them.  The difference of the process's
resident memory, after a collection, over the analysts that came in between is the cost of one:
code, plan and first-use caches are in both.
"""

import gc
from pathlib import Path
from typing import Any

import gevent
import psutil
from locust import events, task

from loadgen.swarm import AgentUser, install
from tests.bench.meter import order, write

_order = order()
_FIRST = _order.at_once
_idle = 0
install(Path(_order.plan))


class Analyst(AgentUser):
    """Asks once; the plan's think time outlasts the benchmark."""

    @task
    def turn(self) -> None:
        record = self.ask(self.agent.question())
        assert record.ok, record
        global _idle
        _idle += 1


@events.test_start.add_listener  # type: ignore[untyped-decorator]  # Locust has no types
def _start(environment: Any, **_: Any) -> None:
    if environment.runner.user_count == 0:
        gevent.spawn(_weigh, environment.runner)


def _weigh(runner: Any) -> None:
    before = _resident(_FIRST)
    gevent.spawn(runner.start, _FIRST + _order.streams, 200)
    after = _resident(_FIRST + _order.streams)
    write(Path(_order.out), {"analysts": _order.streams, "bytes": after - before, "rss": after})


def _resident(idle: int) -> int:
    """Resident bytes once ``idle`` analysts stand idle."""
    while _idle < idle:
        gevent.sleep(0.1)
    gevent.sleep(1)
    gc.collect()
    return int(psutil.Process().memory_info().rss)
