"""Before the first analyst: can the target be reached at all, and can this machine hold the crowd?

What cannot work is refused; what may not work is a warning.  Both say what to do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from gevent import socket

from loadgen.errors import ConfigError, DiskFull, TargetError
from loadgen.net.endpoint import Endpoint, describe_failure
from loadgen.swarm.vitals import disk_free, raise_descriptor_limit

_OWN_DESCRIPTORS = 48
"""What a process needs beside its analysts: libraries, pipes, journals, Locust's own sockets."""

_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ROW_BYTES = 2_500
_TURN_S = 5.0
"""A row of a turn with all its happenings, and the shortest turn with its think time, by guess."""


def check_targets(endpoints: Iterable[tuple[str, Endpoint]], timeout_s: float) -> None:
    """Connect to each once; a name before an endpoint says whose it is.

    Raises TargetError with a line for each that cannot be reached.
    """
    dead: dict[str, None] = {}
    for name, endpoint in endpoints:
        try:
            check_target(endpoint, timeout_s)
        except TargetError as error:
            dead[f"{name}: {error}" if name else str(error)] = None
    if dead:
        raise TargetError("\n".join(dead))


def check_target(endpoint: Endpoint, timeout_s: float) -> None:
    """Connect once, with TLS where the target has it.  Raises TargetError with what to do."""
    last: OSError | None = None
    for family, address in endpoint.addresses:
        probe = socket.socket(family, socket.SOCK_STREAM)
        try:
            probe.settimeout(timeout_s)
            probe.connect(address)
            if endpoint.tls is not None:
                endpoint.tls.wrap_socket(probe, server_hostname=endpoint.host)
        except OSError as error:
            last = error
        else:
            return
        finally:
            probe.close()
    if last is not None:
        if isinstance(last, TimeoutError) and last.strerror is None:
            last = TimeoutError(0, f"no answer within {timeout_s:g} s; is the address right?")
        raise TargetError(describe_failure(endpoint, last)[1])


def check_descriptors(analysts: int) -> Iterator[str]:
    """An analyst has one connection for its stream, and a second one while it replies by request.

    The soft limit is raised as far as we may.  Raises ConfigError when not even the first ones
    fit; gives a warning when not all of the second ones do.
    """
    least, ample = _OWN_DESCRIPTORS + analysts, _OWN_DESCRIPTORS + 2 * analysts
    limit = raise_descriptor_limit(ample)
    if limit is None or limit >= ample:
        return
    sentence = (
        f"{analysts} analysts in one process need {{}} open files, the limit is {limit}: "
        f"raise it with 'ulimit -n {ample}', or share them out with --processes"
    )
    if limit < least:
        raise ConfigError(sentence.format(f"at least {least}"))
    yield sentence.format(f"up to {ample}")


def check_ports(analysts: int, ports: int | None = None) -> Iterator[str]:
    """Each connection to one address takes a local port of its own; ``ports`` is how many there
    are, by default what the kernel says.
    """
    there = _local_ports() if ports is None else ports
    if there is None or 2 * analysts <= there:
        return
    sentence = (
        f"{analysts} analysts need up to {2 * analysts} local ports, there are {there}: "
        "widen net.ipv4.ip_local_port_range, or start workers on other machines"
    )
    if analysts > there:
        raise ConfigError(sentence)
    yield sentence


def check_results(folder: Path) -> None:
    """Raises ConfigError when no run folder can be made in ``folder``."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except OSError as error:
        raise ConfigError(
            f"--results {folder}: no folder can be made there: {error.strerror}; name another one"
        ) from None


def check_disk(
    folder: Path, reserve: int, analysts: int, run_time_s: float | None, free: int | None = None
) -> Iterator[str]:
    """``free`` is by default what the system says of ``folder``; all in bytes.

    Raises DiskFull when the run would be stopped at once.
    """
    there = disk_free(folder) if free is None else free
    if there is None:
        return
    if there < reserve:
        raise DiskFull(
            f"{folder}: {there / 2**20:.0f} MiB of disk are free, {reserve / 2**20:.0f} MiB are "
            "kept in reserve: free some space, name another folder with --results, or lower "
            "--disk-reserve"
        )
    wanted = round(analysts * (run_time_s or 0.0) / _TURN_S * _ROW_BYTES)
    if there - reserve < wanted:
        yield (
            f"{folder}: {there / 2**20:.0f} MiB of disk are free; {analysts} analysts may write "
            f"{wanted / 2**20:.0f} MiB: the run is stopped when less than "
            f"{reserve / 2**20:.0f} MiB are left"
        )


def _local_ports() -> int | None:
    try:
        low, high = map(int, _PORTS.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return high - low + 1
