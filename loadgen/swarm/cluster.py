"""Runs of several processes: the master announces a run, workers send their rows and say when done.

Rows ride the stats report that Locust sends every three seconds, so that a run on other machines is
whole on the master too; each worker's own journal stays the primary copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner

from loadgen.clock import NS_PER_S, now_ns

_RUN, _DONE, _ROWS = "loadgen-run", "loadgen-done", "loadgen_rows"
_GRACE_S = 10.0


def worker_label(index: int) -> str:
    """What worker number ``index`` is called in records, journals and reports."""
    return f"worker-{max(0, index)}"


class MasterSide:
    """What the master does: announce, collect rows, wait for the workers' ends.

    ``on_rows`` gets every batch of rows; ``announcement`` gives the run under way, or None.
    """

    def __init__(
        self,
        environment: Any,
        runner: MasterRunner,
        announcement: Callable[[], dict[str, Any] | None],
        on_rows: Callable[[list[dict[str, Any]]], None],
    ) -> None:
        self._runner = runner
        self._announcement = announcement
        self._on_rows = on_rows
        self._known: dict[str, dict[str, Any]] = {}  # by Locust's client id
        self._done: set[str] = set()
        environment.events.worker_report.add_listener(self._report)
        environment.events.worker_connect.add_listener(self._connect)
        runner.register_message(_DONE, self._worker_done)

    def announce(self) -> None:
        """Tell all workers of the run; they get this before they are told to spawn."""
        self._known.clear()
        self._done.clear()
        for client in self._runner.clients.all:
            self._expect(client.id)
        self._runner.send_message(_RUN, self._announcement())

    def finish(self, drain_s: float) -> tuple[list[dict[str, Any]], list[str]]:
        """Wait until every worker has stopped its analysts and sent its last rows.

        Gives the workers' anchors and the names of those that were lost.  Locust's own ``quit``
        tells the workers only after it has called us, and leaves them half a second: too little for
        turns to drain, so a worker that still has analysts is told here.
        """
        for client in self._runner.clients.all:
            if client.user_count:
                self._runner.send_message("quit", None, client.id)
        deadline = now_ns() + round((drain_s + _GRACE_S) * NS_PER_S)
        while self._running() and now_ns() < deadline:
            gevent.sleep(0.05)
        lost = [self._known[client]["worker"] for client in sorted(set(self._known) - self._done)]
        return sorted(self._known.values(), key=lambda anchor: str(anchor["worker"])), sorted(lost)

    def _expect(self, client_id: str) -> None:
        index = self._runner.get_worker_index(client_id)  # type: ignore[no-untyped-call]  # Locust
        label = worker_label(index)
        self._known.setdefault(client_id, {"worker": label})

    def _running(self) -> set[str]:
        missing = {
            client.id for client in self._runner.clients.all if client.state == STATE_MISSING
        }
        present = {client.id for client in self._runner.clients.all}
        # A worker that left Locust's list without a word of its own is gone for good.
        return (set(self._known) - self._done - missing) & present

    def _connect(self, client_id: str, **_: Any) -> None:
        running = self._announcement()
        if running is not None:
            self._expect(client_id)
            self._runner.send_message(_RUN, running, client_id)

    def _report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        rows = data.get(_ROWS)
        if rows:
            self._on_rows(rows)

    def _worker_done(self, environment: Any, msg: Any, **_: Any) -> None:
        self._on_rows(msg.data["rows"])
        self._known[msg.node_id] = msg.data["anchor"]
        self._done.add(msg.node_id)


class WorkerSide:
    """What a worker does: take up an announced run, send rows, say that it is done."""

    def __init__(
        self, environment: Any, runner: WorkerRunner, take_up: Callable[[dict[str, Any]], None]
    ) -> None:
        self._runner = runner
        self._take_up = take_up
        self._rows: list[dict[str, Any]] = []
        environment.events.report_to_master.add_listener(self._report)
        runner.register_message(_RUN, self._announced)

    def add(self, row: dict[str, Any]) -> None:
        """Let ``row`` ride the next report."""
        self._rows.append(row)

    def done(self, anchor: dict[str, Any]) -> None:
        """The analysts of this worker have stopped."""
        rows, self._rows = self._rows, []
        self._runner.send_message(_DONE, {"rows": rows, "anchor": anchor})

    def _report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        data[_ROWS], self._rows = self._rows, []

    def _announced(self, environment: Any, msg: Any, **_: Any) -> None:
        if msg.data is not None:
            self._take_up(msg.data)
