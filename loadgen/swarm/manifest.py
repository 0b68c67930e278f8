"""What a run's manifest says: everything needed to repeat the run and to judge it."""

from __future__ import annotations

import os
import platform
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import loadgen
from loadgen import clock
from loadgen.calibration import recall
from loadgen.clock import utc_text, wall_ns
from loadgen.plan import Plan

_PACKAGES = ("locust", "gevent", "httptools", "websockets", "orjson", "pydantic")


def target_facts(host: str, bundled: str | None) -> dict[str, Any]:
    """Who is asked; ``bundled`` are the arguments of a mock of ours."""
    target: dict[str, Any] = {"host": host, "bundled_mock": bundled is not None}
    return target | ({"mock_args": bundled} if bundled else {})


def opening(plan: Plan, folder: Path, name: str, targets: dict[str, Any]) -> dict[str, Any]:
    """The manifest at the start of the run in ``folder``, with what it says of ``targets``.  What a
    calibration found on this host is part of it.
    """
    return {
        "schema": 1,
        "run": folder.name,
        "name": name,
        "scenario": plan.name,
        "started_at": utc_text(wall_ns()),
        "plan": plan.model_dump(mode="json", exclude_none=True),
        "plan_hash": plan.hash,
        "seed": plan.seed,
        **targets,
        "load": {"model": plan.load.model},
        "versions": _versions(),
        "host": {
            "hostname": socket.gethostname(),
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
            "machine": platform.machine(),
        },
        "calibration": recall(folder.parent),
        "workers": [],
        "interrupted": False,
        "lost_workers": [],
    }


def anchor(worker: str) -> dict[str, Any]:
    """Wall and monotonic clock of this process, read together."""
    clocks = clock.anchor()
    return {
        "worker": worker,
        "pid": os.getpid(),
        "hostname": socket.gethostname(),
        "anchor_wall_ns": clocks.wall_ns,
        "anchor_mono_ns": clocks.mono_ns,
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "loadgen": loadgen.__version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
