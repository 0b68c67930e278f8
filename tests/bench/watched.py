"""Locustfile: our client with all that shows a run while it goes on, and what that costs.

Locust's web UI runs beside the streams, and the CPU time of each call into the live figures is
added up: a turn's count, an answer of the web server, a scrape.  None of them switches greenlets,
so that what a call takes is its own.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from locust import events

from loadgen.clock import cpu_ns
from loadgen.swarm import exposition, watch
from tests.bench.meter import Meter, order

SPENT: dict[str, int] = {}
CALLS: dict[str, int] = {}


def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, its CPU time under ``name``."""

    def done(*given: Any, **named: Any) -> Any:
        before = cpu_ns()
        try:
            return call(*given, **named)
        finally:
            SPENT[name] = SPENT.get(name, 0) + cpu_ns() - before
            CALLS[name] = CALLS.get(name, 0) + 1

    return done


_make_app = exposition.make_wsgi_app
exposition.make_wsgi_app = lambda registry: timed("scrapes", _make_app(registry))
watch.Watch.note = timed("turns", watch.Watch.note)


@events.init.add_listener
def _web(environment: Any, **_: Any) -> None:
    """Before our own listener, which adds the tab to a web UI that is there."""
    port = int(os.environ["LOADGEN_BENCH_WEB"])
    web = environment.create_web_ui("127.0.0.1", port, delayed_start=True)
    web.app.wsgi_app = timed("tab", web.app.wsgi_app)


from tests.bench.street import Analyst  # noqa: E402, F401 - behind the listener above


@events.init.add_listener
def _serve(environment: Any, **_: Any) -> None:
    environment.web_ui.start()


_begin, _finish = Meter.begin, Meter.finish


def _begun(self: Meter) -> None:
    SPENT.clear()
    CALLS.clear()
    _begin(self)


def _finished(self: Meter) -> None:
    told = {"spent_ns": SPENT, "calls": CALLS}
    Path(order().out).with_name("live.json").write_bytes(orjson.dumps(told))
    _finish(self)


Meter.begin, Meter.finish = _begun, _finished
