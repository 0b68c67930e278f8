"""What ``loadgen calibrate`` found on this host, kept beside the runs for those that follow."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from pathlib import Path
from typing import Any

import orjson

import loadgen
from loadgen.journal import write_whole

_CPUINFO = Path("/proc/cpuinfo")


def host_facts() -> dict[str, Any]:
    """What a calibration holds for: another machine, Python or loadgen has another overhead."""
    return {
        "hostname": socket.gethostname(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "loadgen": loadgen.__version__,
    }


def fingerprint() -> str:
    """A short name of `host_facts`."""
    return hashlib.sha256(orjson.dumps(host_facts(), option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def keep(results: Path, found: dict[str, Any]) -> Path:
    """Write ``found`` for later runs on this host.

    :raises GeneratorError: the file cannot be written.
    """
    results.mkdir(parents=True, exist_ok=True)
    path = _path(results)
    write_whole(path, orjson.dumps(found, option=orjson.OPT_INDENT_2))
    return path


def recall(results: Path) -> dict[str, Any] | None:
    """What was kept for this host, or None; a file that cannot be read was not kept."""
    try:
        found = orjson.loads(_path(results).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _path(results: Path) -> Path:
    return results / f"calibration-{fingerprint()}.json"


def _processor() -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
