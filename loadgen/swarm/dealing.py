"""Arrivals of several processes: the master deals them out, each worker gets its share.

The number of shares is fixed when the arrivals begin: a worker that is lost takes its share with
it, one that joins later gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner

from loadgen.pacing import Part
from loadgen.replay import Entry
from loadgen.timetable import split

_BEGIN, _END, _RATE = "loadgen-begin", "loadgen-end", "loadgen-rate"


class Dealer:
    """The master: tells each worker to begin, and hears when all of them have come to an end."""

    def __init__(self, runner: MasterRunner, on_end: Callable[[], None]) -> None:
        self._runner = runner
        self._on_end = on_end
        self._at_work: set[str] = set()
        runner.register_message(_END, self._ended)

    def begin(self, run: str, entries: Sequence[Entry]) -> None:
        """Deal out the arrivals of the run in folder ``run``."""
        present = self._present()
        self._at_work = set(present)
        shares = split(entries, max(1, len(present)))
        for number, client in enumerate(present):
            told = {
                "run": run,
                "part": [number, len(present)],
                "entries": [astuple(entry) for entry in shares[number]],
            }
            self._runner.send_message(_BEGIN, told, client)

    def change(self, run: str, per_s: float, number: int) -> None:
        """From now on ``per_s`` arrive, of all workers together; it is the ``number``-th rate."""
        told = {"run": run, "per_s": per_s, "number": number}
        for client in self._present():
            self._runner.send_message(_RATE, told, client)

    def _present(self) -> list[str]:
        return sorted(c.id for c in self._runner.clients.all if c.state != STATE_MISSING)

    def _ended(self, environment: Any, msg: Any, **_: Any) -> None:
        self._at_work.discard(msg.node_id)
        if not self._at_work & set(self._present()):
            self._on_end()


class Player:
    """The worker: ``on_begin`` gets the run's folder, this worker's part and its entries,
    ``on_rate`` the run's folder, arrivals a second of all workers, and the number of that rate.
    """

    def __init__(
        self,
        runner: WorkerRunner,
        on_begin: Callable[[str, Part, list[Entry]], None],
        on_rate: Callable[[str, float, int], None],
    ) -> None:
        self._runner = runner
        self._on_begin = on_begin
        self._on_rate = on_rate
        runner.register_message(_BEGIN, self._begin)
        runner.register_message(_RATE, self._rate)

    def end(self) -> None:
        """All that this worker had to do is done."""
        self._runner.send_message(_END, None)

    def _begin(self, environment: Any, msg: Any, **_: Any) -> None:
        told = msg.data
        entries = [Entry(*fields) for fields in told["entries"]]
        self._on_begin(told["run"], Part(*told["part"]), entries)

    def _rate(self, environment: Any, msg: Any, **_: Any) -> None:
        told = msg.data
        self._on_rate(told["run"], told["per_s"], told["number"])
