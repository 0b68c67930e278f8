"""Contenders: clients that read the same streams, each in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from tests.bench.machine import Pins
from tests.bench.meter import Order
from tests.bench.process import fetch, measured, truth
from tests.bench.reading import Reading, Seen, journalled, judge, unfit

_PLAN = """\
name = "bench"
seed = 1
[human]
think_s = {think}
turns_per_conversation = 1
[questions]
texts = ["{question}"]
"""


@dataclass(frozen=True, slots=True)
class Contender:
    """A client.  ``wire`` is sse or ws; ``command`` follows ``python``; ``ours``: it runs a plan
    and keeps a journal.
    """

    name: str
    title: str
    wire: str
    command: tuple[str, ...]
    ours: bool = False
    stamps: bool = True


def _locust(file: str, *users: str) -> tuple[str, ...]:
    return ("-m", "locust", "-f", f"tests/bench/{file}", *users)


def _floor(loop: str, wire: str) -> tuple[str, ...]:
    return ("-m", "tests.bench.floors", loop, wire)


_STREET = _locust("street.py")

CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("ours-sse", "**loadgen**, nat-sse", "sse", _STREET, ours=True),
        Contender("ours-ws", "**loadgen**, nat-ws", "ws", _STREET, ours=True),
        Contender("ours-sse-user", "loadgen, nat-sse, without kernel stamps", "sse", _STREET,
                  ours=True, stamps=False),
        Contender("httpx", "Locust + httpx stream, iter_lines", "sse",
                  _locust("rivals.py", "HttpxAnalyst")),
        Contender("fast", "Locust FastHttpUser.iter_lines", "sse",
                  _locust("rivals.py", "FastAnalyst")),
        Contender("websockets", "Locust + websockets.sync (gevent)", "ws",
                  _locust("rivals.py", "SocketAnalyst")),
        Contender("hub-sse", "floor: gevent hub callback", "sse", _floor("hub", "sse")),
        Contender("hub-ws", "floor: gevent hub callback", "ws", _floor("hub", "ws")),
        Contender("into-sse", "floor: recvmsg_into a kept buffer", "sse", _floor("into", "sse")),
        Contender("small-sse", "floor: reads of 4 KiB", "sse", _floor("small", "sse")),
        Contender("plain-sse", "floor: recv, no kernel stamps", "sse", _floor("plain", "sse")),
        Contender("batch-sse", "floor: one epoll, one watcher", "sse", _floor("batch", "sse")),
        Contender("uvloop-sse", "floor: uvloop protocol", "sse", _floor("uvloop", "sse")),
        Contender("uvloop-ws", "floor: uvloop protocol", "ws", _floor("uvloop", "ws")),
    )
}  # fmt: skip


def run(contender: Contender, order: Order, pins: Pins, folder: Path) -> Reading:
    """Let ``contender`` read the streams of the load server at ``order.url``."""
    fetch(f"{order.url}/_forget")
    if contender.ours:
        plan = plan_file(folder, (f"nat-{contender.wire}",), order.question)
        order = replace(order, plan=str(plan), stamps=contender.stamps)
    taken, work = measured(contender.command, order, pins, folder)
    window = f"from={taken['from_ns']}&to={taken['to_ns']}"
    sent = orjson.loads(fetch(f"{order.url}/_sent?{window}"))
    turns = journalled(work) if contender.ours else [Seen(*turn) for turn in taken["turns"]]
    reading = judge(order, taken, sent, turns, truth(order.url))
    return replace(reading, unfit=unfit(work)) if contender.ours else reading


def plan_file(folder: Path, dialects: tuple[str, ...], question: str, think: str = "0") -> Path:
    """A plan of ours in ``folder``; ``think`` is the plan's think time, in TOML."""
    path = folder / "plan.toml"
    groups = "".join(f'[[analysts]]\nname = "{name}"\ndialect = "{name}"\n' for name in dialects)
    path.write_text(_PLAN.format(think=think, question=question) + groups, encoding="utf-8")
    return path
