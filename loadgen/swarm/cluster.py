"""Runs of several processes: the master announces a run, workers send their rows and say when done.

Rows ride the stats report that Locust sends every three seconds, so that a run on other machines is
whole on the master too, and so do rows of health; each worker's own journals stay the primary copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent
from locust.runners import HEARTBEAT_LIVENESS, STATE_MISSING, MasterRunner, WorkerRunner

from loadgen.clock import NS_PER_S, now_ns

_RUN, _DONE, _FAULT = "loadgen-run", "loadgen-done", "loadgen-fault"
_ASK_CLOCK, _TELL_CLOCK = "loadgen-ask-clock", "loadgen-tell-clock"
_ROWS, _HEALTH, _FIGURES = "loadgen_rows", "loadgen_health", "loadgen_figures"
_GRACE_S = 10.0
_CLOCK_ASKS = 8
_CLOCK_PAUSE_S = 0.1


def worker_label(index: int) -> str:
    """What worker number ``index`` is called in records, journals and reports."""
    return f"worker-{max(0, index)}"


class MasterSide:
    """What the master does: announce, collect rows, wait for the workers' ends.

    ``on_rows`` and ``on_health`` get every batch of rows, ``on_figures`` a worker and what it
    counted since the time before (`Watch.pack`), ``on_fault`` what a worker cannot do;
    ``announcement`` gives the run under way, or None.
    """

    def __init__(
        self,
        environment: Any,
        runner: MasterRunner,
        announcement: Callable[[], dict[str, Any] | None],
        on_rows: Callable[[list[dict[str, Any]]], None],
        on_health: Callable[[list[dict[str, Any]]], None],
        on_figures: Callable[[str, dict[str, Any]], None],
        on_fault: Callable[[str, int], None],
    ) -> None:
        self._runner = runner
        self._announcement = announcement
        self._on_rows = on_rows
        self._on_health = on_health
        self._on_figures = on_figures
        self._on_fault = on_fault
        self._known: dict[str, dict[str, Any]] = {}  # by Locust's client id
        self._done: set[str] = set()
        environment.events.worker_report.add_listener(self._report)
        environment.events.worker_connect.add_listener(self._connect)
        runner.register_message(_DONE, self._worker_done)
        runner.register_message(_FAULT, self._worker_failed)
        runner.register_message(_TELL_CLOCK, self._clock_told)

    def announce(self) -> None:
        """Tell all workers of the run; they get this before they are told to spawn."""
        self._known.clear()
        self._done.clear()
        for client in self._runner.clients.all:
            self._expect(client.id)
        self._runner.send_message(_RUN, self._announcement())
        gevent.spawn(self._compare_clocks)

    def finish(self, drain_s: float) -> tuple[list[dict[str, Any]], list[str]]:
        """Wait until every worker has stopped its analysts and sent its last rows.

        Gives the workers' anchors and the names of those that were lost.  Locust's own ``quit``
        tells the workers only after it has called us, and leaves them half a second: too little for
        turns to drain, so a worker that still has analysts is told here.
        """
        told: set[str] = set()
        deadline = now_ns() + round((drain_s + _GRACE_S) * NS_PER_S)
        while self._running() and now_ns() < deadline:
            # Not all at once: one may only now report the analysts that it was just told to spawn.
            for client in self._runner.clients.all:
                if client.user_count and client.id not in told:
                    told.add(client.id)
                    self._runner.send_message("quit", None, client.id)
            gevent.sleep(0.05)
        lost = [self._known[client]["worker"] for client in sorted(set(self._known) - self._done)]
        return sorted(self._known.values(), key=lambda anchor: str(anchor["worker"])), sorted(lost)

    def _compare_clocks(self) -> None:
        """How far is each worker's monotonic clock from ours?  Of some round trips the shortest
        tells it best (RFC 5905, section 8): to half of its length.
        """
        for _ in range(_CLOCK_ASKS):
            for client in self._known:
                self._runner.send_message(_ASK_CLOCK, {"asked_ns": now_ns()}, client)
            gevent.sleep(_CLOCK_PAUSE_S)

    def _clock_told(self, environment: Any, msg: Any, **_: Any) -> None:
        at_ns, asked_ns, told_ns = now_ns(), msg.data["asked_ns"], msg.data["told_ns"]
        worker, error_ns = self._known.get(msg.node_id), (at_ns - asked_ns) // 2
        if worker is not None and error_ns < worker.get("offset_error_ns", error_ns + 1):
            worker["offset_ns"] = told_ns - (asked_ns + at_ns) // 2
            worker["offset_error_ns"] = error_ns

    def missed_heartbeats(self) -> int:
        """How many heartbeats the most silent worker is behind."""
        behind = (int(HEARTBEAT_LIVENESS - client.heartbeat) for client in self._runner.clients.all)
        return max([0, *behind])

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
        self._on_health(data.get(_HEALTH) or [])
        if data.get(_FIGURES):
            self._on_figures(client_id, data[_FIGURES])

    def _worker_failed(self, environment: Any, msg: Any, **_: Any) -> None:
        self._on_fault(msg.data["fault"], msg.data["exit_code"])

    def _worker_done(self, environment: Any, msg: Any, **_: Any) -> None:
        self._on_rows(msg.data["rows"])
        self._on_health(msg.data["health"])
        self._on_figures(msg.node_id, msg.data["figures"])
        self._known.setdefault(msg.node_id, {}).update(msg.data["anchor"])
        self._done.add(msg.node_id)


class WorkerSide:
    """What a worker does: take up an announced run, send rows, say that it is done.

    ``figures`` gives what it counted since it was asked before (`Watch.pack`), None without a run.
    """

    def __init__(
        self,
        environment: Any,
        runner: WorkerRunner,
        take_up: Callable[[dict[str, Any]], None],
        figures: Callable[[], dict[str, Any] | None],
    ) -> None:
        self._runner = runner
        self._take_up = take_up
        self._figures = figures
        self._rows: list[dict[str, Any]] = []
        self._health: list[dict[str, Any]] = []
        environment.events.report_to_master.add_listener(self._report)
        runner.register_message(_RUN, self._announced)
        runner.register_message(_ASK_CLOCK, self._clock_asked)

    def add(self, row: dict[str, Any]) -> None:
        """Let ``row`` ride the next report."""
        self._rows.append(row)

    def add_health(self, row: dict[str, Any]) -> None:
        """Let a row of health ride the next report."""
        self._health.append(row)

    def fault(self, text: str, exit_code: int) -> None:
        """This worker cannot do what the run asks of it: the master ends the run."""
        self._runner.send_message(_FAULT, {"fault": text, "exit_code": exit_code})

    def done(self, anchor: dict[str, Any], figures: dict[str, Any]) -> None:
        """The analysts of this worker have stopped; ``figures`` are the last."""
        rows, self._rows = self._rows, []
        health, self._health = self._health, []
        told = {"rows": rows, "health": health, "figures": figures, "anchor": anchor}
        self._runner.send_message(_DONE, told)

    def _report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        data[_ROWS], self._rows = self._rows, []
        data[_HEALTH], self._health = self._health, []
        data[_FIGURES] = self._figures()

    def _announced(self, environment: Any, msg: Any, **_: Any) -> None:
        if msg.data is not None:
            self._take_up(msg.data)

    def _clock_asked(self, environment: Any, msg: Any, **_: Any) -> None:
        self._runner.send_message(_TELL_CLOCK, msg.data | {"told_ns": now_ns()})
