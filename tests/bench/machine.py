"""The machine of a benchmark: its facts, its processors, and who runs on which."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

_PACKAGES = (
    "locust", "gevent", "greenlet", "httptools", "websockets", "orjson", "httpx", "uvloop",
    "geventhttpclient",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pins:
    """The processor of the server and that of the client; None where processes cannot be pinned
    to processors of their own.
    """

    server: int | None
    client: int | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a figure depends on.  ``load_average`` (1 min) before the first benchmark: above about
    0.3 somebody else was at work, and the figures are disturbed.
    """

    processor: str
    cpus: int
    platform: str
    python: str
    versions: dict[str, str]
    load_average: float | None
    pins: Pins

    def as_json(self) -> dict[str, object]:
        """JSON values."""
        return asdict(self)


def pins() -> Pins:
    """The first two processors that we may use."""
    if not hasattr(os, "sched_getaffinity"):
        return Pins(None, None)
    usable = sorted(os.sched_getaffinity(0))
    return Pins(usable[0], usable[1]) if len(usable) > 1 else Pins(None, None)


def pin(pid: int, processor: int | None) -> None:
    """Keep process ``pid`` on ``processor``."""
    if processor is not None:
        os.sched_setaffinity(pid, {processor})


def facts() -> Facts:
    """The facts of this machine, now."""
    average = round(psutil.getloadavg()[0], 2) if hasattr(psutil, "getloadavg") else None
    return Facts(
        processor=_processor(),
        cpus=os.cpu_count() or 0,
        platform=platform.platform(),
        python=platform.python_version(),
        versions={package: version(package) for package in _PACKAGES},
        load_average=average,
        pins=pins(),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
