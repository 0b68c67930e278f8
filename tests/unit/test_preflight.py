from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.errors import ConfigError, DiskFull
from loadgen.swarm import preflight
from loadgen.swarm.preflight import check_descriptors, check_disk, check_ports

MIB = 1 << 20


@pytest.mark.case("D-29")
@pytest.mark.parametrize(
    ("analysts", "limit", "refused", "warned"),
    [
        (200, 64, "at least 248 open files, the limit is 64: raise it with 'ulimit -n 448'", None),
        (200, 300, None, "need up to 448 open files, the limit is 300"),
        (200, 448, None, None),
        (200, None, None, None),
    ],
)
def test_descriptors_are_counted_before_the_first_analyst(
    monkeypatch: pytest.MonkeyPatch, analysts: int, limit: int, refused: str, warned: str
) -> None:
    monkeypatch.setattr(preflight, "raise_descriptor_limit", lambda wanted: limit)
    if refused:
        with pytest.raises(ConfigError, match=refused.replace("(", r"\(")):
            list(check_descriptors(analysts))
        return
    warnings = list(check_descriptors(analysts))
    assert [warned in warning for warning in warnings] == ([True] if warned else [])


@pytest.mark.parametrize(
    ("analysts", "ports", "said"),
    [(100, 200, None), (150, 200, "warned"), (201, 200, "refused")],
)
def test_a_crowd_needs_local_ports(analysts: int, ports: int, said: str | None) -> None:
    if said == "refused":
        with pytest.raises(ConfigError, match=r"net\.ipv4\.ip_local_port_range"):
            list(check_ports(analysts, ports))
    else:
        assert len(list(check_ports(analysts, ports))) == (said == "warned")


@pytest.mark.parametrize(
    ("free", "said"), [(10_000 * MIB, None), (150 * MIB, "warned"), (99 * MIB, "refused")]
)
def test_a_disk_is_looked_at_before_the_run(free: int, said: str | None) -> None:
    """1,000 analysts for 10 minutes may write 300 MB."""

    def check() -> list[str]:
        return list(check_disk(Path("results"), 100 * MIB, 1000, 600.0, free))

    if said == "refused":
        with pytest.raises(DiskFull, match="99 MiB of disk are free, 100 MiB are kept in reserve"):
            check()
    else:
        assert ["may write 286 MiB" in warning for warning in check()] == [True] * bool(said)
