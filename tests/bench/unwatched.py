"""Locustfile: our client without the live figures; they cannot be turned off otherwise."""

from loadgen.swarm import watch
from tests.bench.street import Analyst  # noqa: F401 - Locust looks for it here

watch.Watch.note = lambda self, row: None
