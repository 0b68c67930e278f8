"""What one run of a contender showed, beside what the server really did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.analysis.summary import summarise
from loadgen.analysis.truth import Spread, instant, spread
from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.journal import read_run
from tests.bench.meter import Order
from tests.bench.process import BenchFailure

_ENDING_NS = 20 * NS_PER_MS
"""Turns that the server ended so shortly before the window's end may be unknown to the client."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One turn as a client saw it, in monotonic ns."""

    id: str
    events: int
    first_answer_ns: int
    ended_ns: int
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """The window of one run.

    ``offered``: events a second that the server wrote; ``nominal``: what was to be expected.
    ``error``: arrival of the first answers as the client has it, against the server's write of
    them.  ``finished``: share of the turns ended by the server that the client had ended, too.
    ``wrong``: turns that failed or lacked events.  ``waited``: share of the window in which the
    client could have run but others had its processor, None where the system does not tell.
    ``lag``: how late the client's own timers were; ``late_p99_ms``: how late the server's writes
    were against its schedule.  ``cpu`` and ``server_cpu`` are shares of a processor.  ``unfit``:
    the checks that our own report would find failed.
    """

    us_per_event: float
    cpu: float
    offered: float
    nominal: float
    error: Spread
    finished: float
    wrong: int
    waited: float | None
    lag: Spread
    late_p99_ms: float
    server_cpu: float | None
    unfit: tuple[str, ...] = ()


def nominal(order: Order) -> float:
    """Events a second when nobody is ever late: on average half an interval passes before a turn's
    first event, and one between its last event and its end.
    """
    return order.streams * order.rate * order.events / (order.events + 0.5)


def judge(
    order: Order,
    taken: Mapping[str, Any],
    sent: Mapping[str, Any],
    turns: Sequence[Seen],
    truths: Mapping[str, Mapping[str, Any]],
) -> Reading:
    """The reading ``taken`` by the client's meter, beside ``sent`` and ``truths`` of the server.

    :raises BenchFailure: nothing was sent, or no first answer can be compared.
    """
    low, high = taken["from_ns"], taken["to_ns"]
    took, events = high - low, sent["events"]
    inside = [turn for turn in turns if low <= turn.first_answer_ns <= high and turn.id in truths]
    if not events or not inside:
        raise BenchFailure(f"no turn of {order.streams} streams can be measured")
    ended = [id_ for id_, row in truths.items() if low <= row["ended_ns"] <= high - _ENDING_NS]
    known = {turn.id for turn in turns if turn.ended_ns <= high}
    return Reading(
        us_per_event=taken["cpu_ns"] / events / 1000,
        cpu=taken["cpu_ns"] / took,
        offered=events / took * NS_PER_S,
        nominal=nominal(order),
        error=spread(
            [turn.first_answer_ns - truths[turn.id]["first_answer_ns"] for turn in inside]
        ),
        finished=sum(id_ in known for id_ in ended) / len(ended) if ended else 0.0,
        wrong=sum(not turn.ok or turn.events != order.events for turn in turns),
        waited=None if taken["waited_ns"] is None else taken["waited_ns"] / took,
        lag=spread(taken["lags_ns"]),
        late_p99_ms=sent["late_p99_ns"] / NS_PER_MS,
        server_cpu=sent["cpu"],
    )


def journalled(work: Path) -> list[Seen]:
    """The turns in the journal of the run that lies in ``work``."""
    return [_seen(row) for row in read_run(run_folder(work)).rows]


def unfit(work: Path) -> tuple[str, ...]:
    """The sentences of the checks that the run in ``work`` fails in our own judgement of it."""
    checks = summarise(read_run(run_folder(work)))["validity"]
    return tuple(check["detail"] for check in checks if not check["ok"])


def run_folder(work: Path) -> Path:
    """The one run folder in ``work``."""
    [folder] = [path for path in work.iterdir() if path.is_dir()]
    return folder


def _seen(row: Mapping[str, Any]) -> Seen:
    first, ended = instant(row, "first_answer"), instant(row, "ended")
    # The synthetic first step is the one event that is neither step nor chunk.
    events = 1 + row.get("steps", 0) + row.get("chunks", 0)
    return Seen(row["turn"], events, first, ended, row["outcome"] == "completed")
