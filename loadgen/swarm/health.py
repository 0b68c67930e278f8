"""The pulse of one process: is the generator itself well enough to measure others?

Twenty times a second a greenlet asks the hub to be woken, and notes how late it was: that is what
everything we send waits for.  The instants lie on an absolute grid, each at a random place within
its cell of 50 ms, so that work in step with the grid cannot hide; a stall that covers many cells is
noted for each of them.  Once a second a row is written.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import gevent
import psutil

from loadgen.clock import NS_PER_MS, NS_PER_S, anchor, now_ns
from loadgen.errors import DiskFull, GeneratorError, LoadgenError
from loadgen.journal import Journal
from loadgen.swarm.vitals import Vitals
from loadgen.turn import Milestone, Outcome, TurnRecord

_log = logging.getLogger(__name__)

GRID_NS = 50 * NS_PER_MS
_ROW_NS = NS_PER_S


class Health:
    """Rows of ``process`` in ``health-<process>.jsonl`` while a run is under way.

    ``failed`` gets what must end the run: a row that cannot be written, or less than ``reserve``
    bytes of disk.  ``told`` gets each row, too.  ``missed_heartbeats`` is what a master knows.
    """

    def __init__(
        self,
        process: str,
        folder: Path,
        reserve: int,
        failed: Callable[[LoadgenError], None],
        told: Callable[[dict[str, Any]], None] | None = None,
        missed_heartbeats: Callable[[], int] | None = None,
    ) -> None:
        self._process = process
        self._folder = folder
        self._reserve = reserve
        self._failed = failed
        self._told = told
        self._missed_heartbeats = missed_heartbeats
        self._journal = Journal.open(folder, process, "health")
        self._vitals = Vitals(folder)
        self._rows = 0
        self._from_ns = now_ns()
        self._lags: list[int] = []
        self._in_flight = 0
        self._turns = _Turns()
        self._pauses = _Pauses()
        self._low = self._draining = False
        self._jitter = Random()
        self._cell_ns = self._due_ns = self._from_ns
        self._greenlet: Any = None

    def start(self) -> None:
        """Write the first row and begin to watch.

        What stands now stands to the end: a full collection that looked at all of it again and
        again would stop the hub for a tenth of a second each time.
        """
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._pauses.collected)
        self._write(now_ns())
        self._cell_ns = now_ns()
        self._next_cell()
        self._greenlet = gevent.spawn(self._watch)

    def stop(self) -> None:
        """Write the last row and watch no longer; a second call does nothing."""
        if self._greenlet is None:
            return
        self._greenlet.kill(block=False)
        self._greenlet = None
        self._write(now_ns())
        self._journal.close()
        gc.callbacks.remove(self._pauses.collected)
        gc.unfreeze()

    @property
    def rows(self) -> int:
        """So many it has written."""
        return self._rows

    def draining(self) -> None:
        """The run is over but for the turns under way: rows say so from here on."""
        at_ns = now_ns()
        self._note(at_ns)
        self._write(at_ns)
        self._draining = True

    def copy(self, rows: list[dict[str, Any]]) -> None:
        """Keep rows of other processes, whose own journals may lie elsewhere."""
        try:
            for row in rows:
                self._journal.append(row)
        except GeneratorError as error:
            self._failed(error)

    def began(self) -> None:
        """A turn was asked."""
        self._in_flight += 1

    def ended(self, record: TurnRecord) -> None:
        """A turn is over; an arrival that was dropped never began."""
        if record.outcome is not Outcome.DROPPED:
            self._in_flight = max(0, self._in_flight - 1)
        self._turns.add(record)

    def _watch(self) -> None:
        while True:
            left_ns = self._due_ns - now_ns()
            if left_ns > 0:
                gevent.sleep(left_ns / NS_PER_S)
            at_ns = now_ns()
            self._note(at_ns)
            if at_ns - self._from_ns >= _ROW_NS:
                self._write(at_ns)

    def _note(self, at_ns: int) -> None:
        """How late each of the ticks is that have been due by now."""
        while self._due_ns <= at_ns:
            self._lags.append(at_ns - self._due_ns)
            self._next_cell()

    def _next_cell(self) -> None:
        self._due_ns = self._cell_ns + round(self._jitter.random() * GRID_NS)
        self._cell_ns += GRID_NS

    def _write(self, at_ns: int) -> None:
        """One row.  Only what needs the system may fail, and never silently."""
        row = self._count(at_ns)
        if self._missed_heartbeats is not None:
            row["heartbeats_missed"] = self._missed_heartbeats()
        try:
            row |= self._vitals.read()
        except (OSError, psutil.Error):
            _log.exception("the vitals of this process could not be read")
        self.copy([row])
        if self._told is not None:
            self._told(row)
        self._look_at_disk(row.get("disk_free"))

    def _count(self, at_ns: int) -> dict[str, Any]:
        """What happened since the last row."""
        clocks = anchor()
        row: dict[str, Any] = {
            "process": self._process,
            "n": self._rows,
            "wall_ns": clocks.wall_ns,
            "mono_ns": clocks.mono_ns,
            "span_ms": round((at_ns - self._from_ns) / NS_PER_MS, 3),
            "lags_ms": [round(lag / NS_PER_MS, 2) for lag in self._lags],
            "in_flight": self._in_flight,
        }
        if self._draining:
            row["draining"] = True
        self._rows += 1
        self._from_ns = at_ns
        self._lags.clear()
        return row | self._turns.take() | self._pauses.take()

    def _look_at_disk(self, free: int | None) -> None:
        if free is None or free >= self._reserve or self._low:
            return
        self._low = True
        self._failed(
            DiskFull(
                f"{self._folder}: only {free / 2**20:.0f} MiB of disk are free, "
                f"{self._reserve / 2**20:.0f} MiB are kept in reserve (--disk-reserve): the run is "
                "stopped before rows are lost; free some space and run again"
            )
        )


class _Turns:
    """What the turns that ended since the last row say of their reader."""

    __slots__ = ("lag_ns", "merged", "reads", "turns", "unstamped")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.turns = self.reads = self.unstamped = self.merged = 0
        self.lag_ns = -1

    def add(self, record: TurnRecord) -> None:
        at = record.timeline.at
        self.turns += 1
        self.reads += record.reads
        self.unstamped += record.user_reads or 0
        self.merged += record.merged_reads
        scheduled, started = at[Milestone.SCHEDULED], at[Milestone.STARTED]
        if scheduled and started:
            self.lag_ns = max(self.lag_ns, started - scheduled)

    def take(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "turns": self.turns,
            "reads": self.reads,
            "user_reads": self.unstamped,
            "merged_reads": self.merged,
        }
        if self.lag_ns >= 0:
            found["dispatch_max_ms"] = round(self.lag_ns / NS_PER_MS, 3)
        self._clear()
        return found


class _Pauses:
    """Collections of the garbage collector, during which nothing else happens."""

    __slots__ = ("begun_ns", "longest_ns", "number", "total_ns")

    def __init__(self) -> None:
        self.begun_ns = self.number = self.total_ns = self.longest_ns = 0

    def collected(self, phase: str, _: dict[str, int]) -> None:
        """Called by the collector."""
        if phase == "start":
            self.begun_ns = now_ns()
        elif self.begun_ns:
            took = now_ns() - self.begun_ns
            self.number += 1
            self.total_ns += took
            self.longest_ns = max(self.longest_ns, took)

    def take(self) -> dict[str, Any]:
        found = {
            "gc_pauses": self.number,
            "gc_ms": round(self.total_ns / NS_PER_MS, 3),
            "gc_max_ms": round(self.longest_ns / NS_PER_MS, 3),
        }
        self.number = self.total_ns = self.longest_ns = 0
        return found
