"""Workers on addresses of their own: each in a network namespace, as on another machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from .conftest import Swarm
from .test_runs import check_union

Start = Callable[..., "subprocess.Popen[str]"]

BENCHMARKING = "198.18"
"""Addresses that RFC 2544 sets aside for tests: nobody's network has them."""


@dataclass(frozen=True)
class Island:
    """A namespace, the address of its end of the wire and that of ours."""

    name: str
    inside: str
    outside: str


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def found(stack: ExitStack, number: int) -> Island:
    mark = f"lg{os.getpid() % 100_000}{number}"
    subnet = f"{BENCHMARKING}.{os.getpid() % 64 * 4 + number}"
    island = Island(mark, f"{subnet}.2", f"{subnet}.1")
    ip("netns", "add", mark)
    stack.callback(ip, "netns", "del", mark)  # its end of the wire, and so ours, goes with it
    ip("link", "add", f"{mark}o", "type", "veth", "peer", "name", f"{mark}i", "netns", mark)
    ip("addr", "add", f"{island.outside}/24", "dev", f"{mark}o")
    ip("link", "set", f"{mark}o", "up")
    ip("-n", mark, "addr", "add", f"{island.inside}/24", "dev", f"{mark}i")
    ip("-n", mark, "link", "set", f"{mark}i", "up")
    ip("-n", mark, "link", "set", "lo", "up")
    ip("-n", mark, "route", "add", "default", "via", island.outside)
    return island


@pytest.fixture
def islands() -> Iterator[list[Island]]:
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the command ip")
    with ExitStack() as stack:
        try:
            made = [found(stack, number) for number in range(2)]
        except OSError as refused:
            pytest.skip(f"this machine allows no network namespaces: {refused}")
        yield made


def test_workers_on_other_addresses_lose_and_double_nothing(
    swarm: Swarm, start: Start, mock_agent: Any, free_port: int, islands: list[Island]
) -> None:
    """The mock and the master are at our end of the first wire; the second reaches it by a hop."""
    here = islands[0].outside
    agent = mock_agent("--host", here, "--allow-non-loopback")
    port = str(free_port)
    master = start(
        "--master", "--master-bind-host", here, "--master-bind-port", port,
        "--expect-workers", "2", "--headless", "-u", "20", "-r", "20", "-t", "5s",
        "--host", agent.url,
    )  # fmt: skip
    workers = [
        start("--worker", "--master-host", here, "--master-port", port, inside=island.name)
        for island in islands
    ]
    said, _ = master.communicate(timeout=60)
    assert master.returncode == 0, said
    for worker in workers:
        worker.communicate(timeout=20)
    truth = agent.truth()
    rows = check_union(swarm, truth)
    assert len(rows) > 20, "too few turns to tell anything"
    manifest = json.loads((swarm.run_folder() / "manifest.json").read_text())
    assert len(manifest["workers"]) == 2
    journals = [path for path in swarm.run_folder().glob("turns-*.jsonl") if path.read_text()]
    assert len([path for path in journals if "master" not in path.name]) == 2
    assert swarm.summary()["turns"]["started"] == len(rows)
