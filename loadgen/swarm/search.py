"""The generator's part in a search for the capacity: it asks its adviser which level to run.

The adviser is a process of its own that judges levels from the run folder (`loadgen.advisor`).
Once a second it is told the time and whether the crowd is complete, and answers with an order.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gevent
from gevent import Timeout
from gevent.subprocess import PIPE, Popen
from locust import LoadTestShape

from loadgen.clock import wall_ns
from loadgen.errors import GeneratorError, LoadgenError
from loadgen.levels import Capacity
from loadgen.plan import Plan

_log = logging.getLogger(__name__)

MINUTE_S = 60
"""Levels of arrivals are conversations a minute."""

_START_S = 60
_PATIENCE_S = 120
"""How long the adviser may think: it reads journals on a machine that is busy."""

Order = Mapping[str, Any]


class Search:
    """One search after another.

    ``capacity`` says where to look; it is asked at the begin of each search, which may be told
    something else than the one before.  ``on_level`` is told of each new level, ``on_end`` when
    there is none any more, ``on_fault`` when the adviser has failed.
    """

    def __init__(
        self,
        capacity: Callable[[], Capacity],
        closed: bool,
        resume: Path | None,
        on_level: Callable[[float, int], None],
        on_end: Callable[[], None],
        on_fault: Callable[[LoadgenError], None],
    ) -> None:
        self.capacity = capacity()
        self.closed = closed
        self.resume = resume
        self.order: Order = {}
        self._newest = capacity
        self._on_level = on_level
        self._on_end = on_end
        self._on_fault = on_fault
        self._process: Any = None
        self._greenlet: Any = None

    def begin(self) -> Order:
        """Start the adviser and get its first order.  Raises LoadgenError."""
        if self._process is None:
            self.capacity = self._newest()
            command = [sys.executable, "-m", "loadgen.advisor"]
            self._process = Popen(command, stdin=PIPE, stdout=PIPE, start_new_session=True)
            self.order = self._ask(self._terms(), _START_S)
        return self.order

    def open(self, folder: Path, everybody: Callable[[Order], bool]) -> None:
        """A run has begun: let the search go on until its end.

        ``everybody`` tells whether the crowd is as large as an order wants it.
        """
        self.begin()
        self._greenlet = gevent.spawn(self._go_on, folder, everybody)

    def at_first_level(self, plan: Plan) -> Plan:
        """``plan`` as a run begins with it: arrivals come at the rate of the first level."""
        order = self.begin()
        if self.closed or "level" not in order:
            return plan
        load = plan.load.model_copy(update={"rate": order["level"] / MINUTE_S})
        return plan.model_copy(update={"load": load})

    def failed(self, error: LoadgenError) -> None:
        """The search cannot begin or go on."""
        self._on_fault(error)

    def close(self) -> None:
        """The run is over; the next one searches anew."""
        if self._greenlet is not None:
            self._greenlet.kill(block=False)
            self._greenlet = None
        if self._process is not None:
            self._process.stdin.close()
            with Timeout(_START_S, False):
                self._process.wait()
            if self._process.poll() is None:
                self._process.kill()
            self._process.stdout.close()
            self._process = None
        self.order = {}

    def _go_on(self, folder: Path, everybody: Callable[[Order], bool]) -> None:
        number = 0
        try:
            while "over" not in self.order:
                if self.order["number"] != number:
                    number = self.order["number"]
                    _log.info("level %d: %g", number, self.order["level"])
                    self._on_level(self.order["level"], number)
                gevent.sleep(1.0)
                self.order = self._ask(
                    {
                        "wall_ns": wall_ns(),
                        "folder": str(folder),
                        "everybody": everybody(self.order),
                    },
                    _PATIENCE_S,
                )
        except LoadgenError as error:
            self.failed(error)
            return
        _log.info("the search is over: %s", self.order["over"])
        self._on_end()

    def _ask(self, told: dict[str, Any], patience_s: float) -> Order:
        answer = b""
        try:
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
            self._process.stdin.flush()
            with Timeout(patience_s, False):
                answer = self._process.stdout.readline()
        except OSError:
            answer = b""
        if not answer:
            raise GeneratorError("the search broke off: its adviser has ended or does not answer")
        order: Order = json.loads(answer)
        return order

    def _terms(self) -> dict[str, Any]:
        told = self.capacity.model_dump(mode="json")
        terms = {key: told.pop(key) for key in ("ramp_s", "settle_s", "hold_s")}
        resume = None if self.resume is None else str(self.resume)
        return {"scheme": told, "terms": terms, "closed": self.closed, "resume": resume}


class LevelShape(LoadTestShape):
    """As many users as the current level has."""

    def __init__(self, search: Search) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Locust
        self.search = search
        self._at: tuple[int, float] | None = None

    def tick(self) -> tuple[int, float] | None:
        """Users wanted, and how many a second to add or to stop; None at the end."""
        try:
            order = self.search.order or self.search.begin()
        except LoadgenError as error:
            self.search.failed(error)
            return None
        if "over" in order:
            self._at = None
            return None
        users = round(order["level"])
        if self._at is None or self._at[0] != users:
            change = abs(users - (self._at[0] if self._at else 0))
            self._at = users, max(1.0, change / max(self.search.capacity.ramp_s, 1.0))
        return self._at
