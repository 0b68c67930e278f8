"""What the operating system says of this process and its machine, cheaply enough for every second.

What a platform does not tell is absent.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import psutil

from loadgen.clock import cpu_ns, now_ns

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_DESCRIPTORS = Path("/proc/self/fd")
_STATUS = Path("/proc/self/status")


class Vitals:
    """Readings of this process; ``folder`` is where its rows go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = psutil.Process()
        self._at_ns, self._cpu_ns = now_ns(), cpu_ns()
        self._machine = psutil.cpu_times()
        self._files = _count_files()

    def read(self) -> dict[str, Any]:
        """``cpu`` is the share of one core since the last reading, ``machine_cpu`` that of all
        cores; ``rss``, ``swap`` and ``disk_free`` are bytes.  ``sockets`` are the descriptors but
        for what was open before the run and was none: to look at each would stop the hub.
        """
        descriptors = _descriptors()
        found = {
            "cpu": self._cpu(),
            "machine_cpu": self._machine_cpu(),
            "rss": self._process.memory_info().rss,
            "swap": _swap(),
            "descriptors": descriptors,
            "descriptor_limit": descriptor_limit(),
            "sockets": None if descriptors is None else max(0, descriptors - self._files),
            "disk_free": disk_free(self._folder),
        }
        return {key: value for key, value in found.items() if value is not None}

    def _cpu(self) -> float | None:
        at_ns, cpu = now_ns(), cpu_ns()
        took, used = at_ns - self._at_ns, cpu - self._cpu_ns
        self._at_ns, self._cpu_ns = at_ns, cpu
        return round(used / took, 4) if took > 0 else None

    def _machine_cpu(self) -> float | None:
        before, self._machine = self._machine, psutil.cpu_times()
        passed = sum(self._machine) - sum(before)
        idle = _idle(self._machine) - _idle(before)
        return round(1 - idle / passed, 4) if passed > 0 else None


def descriptor_limit() -> int | None:
    """How many descriptors this process may have; None where there is no such limit."""
    if resource is None:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit(wanted: int) -> int | None:
    """Raise the limit to ``wanted``, or as far as we may; gives the limit that holds then."""
    limit = descriptor_limit()
    if limit is None or limit >= wanted:
        return limit
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return descriptor_limit()


def disk_free(folder: Path) -> int | None:
    """Bytes that we may still write in ``folder`` or, while it is not there, its parents."""
    for place in (folder, *folder.absolute().parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(place).free
    return None


def _idle(times: Any) -> float:
    return float(times.idle + getattr(times, "iowait", 0.0))


def _swap() -> int | None:
    try:
        text = _STATUS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("VmSwap:"):
            return int(line.split()[1]) * 1024
    return None


def _descriptors() -> int | None:
    try:
        return len(os.listdir(_DESCRIPTORS)) - 1
    except OSError:
        return None


def _count_files() -> int:
    """How many open descriptors are no sockets; 0 where that cannot be told."""
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return 0
    found = 0
    for name in names:
        # The listing's own descriptor is gone by now.
        with contextlib.suppress(OSError):
            found += not os.readlink(_DESCRIPTORS / name).startswith("socket:")
    return found
