"""Locustfile: our client as a user has it, with conversation, journal and statistics."""

from pathlib import Path
from typing import Any

import gevent
from locust import events, task

from loadgen.net import connection
from loadgen.swarm import AgentUser, install
from tests.bench.meter import Meter, order

_order = order()
connection._HAS_STAMPS = connection._HAS_STAMPS and _order.stamps
install(Path(_order.plan))


class Analyst(AgentUser):
    """Asks, reads, asks again."""

    @task
    def turn(self) -> None:
        self.ask(self.agent.question())


@events.spawning_complete.add_listener  # type: ignore[untyped-decorator]  # Locust has no types
def _measure(user_count: int, **_: Any) -> None:
    gevent.spawn(Meter(_order).measure, gevent.sleep)
