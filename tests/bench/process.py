"""Processes of a benchmark: servers on one processor, a measured client on the other."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson

from loadgen.clock import NS_PER_S, now_ns
from tests.bench.machine import Pins, pin
from tests.bench.meter import Order

ROOT = Path(__file__).parents[2]
_START_S = 20
_POLL_S = 0.1
_SLACK_S = 45
"""Beyond its own times, how long a client may take to start and to report."""


class BenchFailure(Exception):
    """A benchmark could not be carried out: what, and what the process said last."""


@contextlib.contextmanager
def serving(module: str, pins: Pins, *arguments: str) -> Iterator[str]:
    """``python -m module`` on the server's processor, until the block is left; gives its URL."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            pin(process.pid, pins.server)
            assert process.stdout is not None
            _, found, url = process.stdout.readline().strip().partition(" on ")
            if not found:
                raise BenchFailure(f"{module} did not start")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(_START_S)
            except subprocess.TimeoutExpired:
                process.kill()


def measured(
    command: Sequence[str], order: Order, pins: Pins, folder: Path
) -> tuple[dict[str, Any], Path]:
    """Run ``python command`` on the client's processor; gives its reading and its working folder.

    The client is killed once its reading is there: its streams are still under way, and what it
    would do at its end (reports, goodbyes) is nothing that is measured here.
    """
    work = Path(tempfile.mkdtemp(dir=folder))
    order = replace(order, out=str(work / "reading.json"))
    log = work / "client.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, *command, *_locust_arguments(command, order, work)],
            cwd=ROOT, env=order.environment(), stdout=said, stderr=said,
        )  # fmt: skip
    try:
        pin(process.pid, pins.client)
        reading = _await_reading(process, order)
    finally:
        process.kill()
        process.wait()
    if reading is None:
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-12:]
        raise BenchFailure(f"{' '.join(command)} gave no reading; it said:\n" + "\n".join(tail))
    return reading, work


def fetch(url: str) -> bytes:
    """The body of a GET of one of our servers."""
    with urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
    return body


def truth(url: str) -> dict[str, dict[str, Any]]:
    """The turns of a server's truth log by their ids."""
    rows = (orjson.loads(line) for line in fetch(f"{url}/_truth").splitlines())
    return {row["id"]: row for row in rows}


def _locust_arguments(command: Sequence[str], order: Order, work: Path) -> list[str]:
    if "locust" not in command:
        return []
    users = str(order.at_once or order.streams)
    ours = ["--results", str(work)] if order.plan else []
    return ["--headless", "--only-summary", "--host", order.url, "-u", users, "-r", users, *ours]


def _await_reading(process: subprocess.Popen[bytes], order: Order) -> dict[str, Any] | None:
    out = Path(order.out)
    patience_s = order.warm_s + order.window_s + _SLACK_S + order.streams / 100
    deadline = now_ns() + patience_s * NS_PER_S
    while now_ns() < deadline and not out.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
            break
    if not out.exists():
        return None
    reading: dict[str, Any] = orjson.loads(out.read_bytes())
    return reading
