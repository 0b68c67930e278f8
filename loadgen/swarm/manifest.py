"""What a run's manifest says: everything needed to repeat the run and to judge it."""

from __future__ import annotations

import os
import platform
import socket
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import loadgen
from loadgen.clock import now_ns, utc_text, wall_ns
from loadgen.plan import Plan

_PACKAGES = ("locust", "gevent", "httptools", "websockets", "orjson", "pydantic")


def opening(plan: Plan, run: str, name: str, host: str, bundled: str | None) -> dict[str, Any]:
    """The manifest at the start of run ``run``; ``bundled`` are the arguments of a mock of ours."""
    target: dict[str, Any] = {"host": host, "bundled_mock": bundled is not None}
    if bundled:
        target["mock_args"] = bundled
    return {
        "schema": 1,
        "run": run,
        "name": name,
        "scenario": plan.name,
        "started_at": utc_text(wall_ns()),
        "plan": plan.model_dump(mode="json", exclude_none=True),
        "plan_hash": plan.hash,
        "seed": plan.seed,
        "target": target,
        "load": {"model": plan.load.model},
        "versions": _versions(),
        "host": {
            "hostname": socket.gethostname(),
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
            "machine": platform.machine(),
        },
        "workers": [],
        "interrupted": False,
        "lost_workers": [],
    }


def anchor(worker: str) -> dict[str, Any]:
    """Wall and monotonic clock of this process, read together."""
    return {
        "worker": worker,
        "pid": os.getpid(),
        "hostname": socket.gethostname(),
        "anchor_wall_ns": wall_ns(),
        "anchor_mono_ns": now_ns(),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "loadgen": loadgen.__version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
