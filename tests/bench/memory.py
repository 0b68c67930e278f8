"""What an idle WebSocket analyst costs in the generator, Locust user and all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.bench.contender import plan_file
from tests.bench.machine import Pins
from tests.bench.meter import Order
from tests.bench.process import measured, serving

WANTED_KIB = 100.0
_BASE = 50
"""Analysts that stand idle before the first weighing."""


@dataclass(frozen=True, slots=True)
class Memory:
    """``kib`` of resident memory for each of ``analysts``; ``total_mib`` of the whole process."""

    analysts: int
    kib: float
    total_mib: float


def measure(analysts: int, pins: Pins, folder: Path) -> Memory:
    """Weigh the generator before and after ``analysts`` have asked once and stand idle."""
    command = ("-m", "locust", "-f", "tests/bench/crowd.py")
    with serving("tests.bench.server", pins) as url:
        order = Order(url, "", analysts, 5, 20, 0, 0, at_once=_BASE)
        plan = plan_file(folder, ("nat-ws",), order.question, think="3600")
        order = Order(url, "", analysts, 5, 20, 0, 0, plan=str(plan), at_once=_BASE)
        taken, _ = measured(command, order, pins, folder)
    return Memory(analysts, taken["bytes"] / 1024 / analysts, taken["rss"] / 2**20)
