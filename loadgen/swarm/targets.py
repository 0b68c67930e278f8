"""Who is asked: a host, the bundled mock agent, or the two sides of an A/B run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadgen.errors import ConfigError
from loadgen.net.driver import Wiring, wirings_of
from loadgen.net.endpoint import Endpoint
from loadgen.plan import Plan
from loadgen.side import Side
from loadgen.swarm import manifest as manifests
from loadgen.swarm.bundled import BundledMock
from loadgen.swarm.preflight import check_targets
from loadgen.swarm.rivals import Rivals, rivals_of

_log = logging.getLogger(__name__)


class Targets:
    """The targets of a process that owns runs.

    ``host`` is what Locust was told, or None.  In an A/B run the candidate is *the* target.
    Raises ConfigError.
    """

    def __init__(self, options: Any, plan: Plan, host: str | None, *, two_sides: bool) -> None:
        self._mock_args = options.mock_args
        self._mock: BundledMock | None = None
        self._rivals: Rivals | None = rivals_of(options, plan) if two_sides else None
        if self._rivals is not None:
            self.host = self._rivals.hosts[Side.NEW]
            return
        known = host or plan.target.host or _only_host(plan)
        if known is None:
            self._mock = BundledMock(self._mock_args)
            known = self._mock.url
            _log.info("no --host: the bundled mock agent answers on %s", known)
        elif self._mock_args:
            raise ConfigError("--mock-args is for the bundled mock agent: leave --host away")
        self.host = known

    @property
    def bundled(self) -> bool:
        """Whether the one target is our own mock agent."""
        return self._mock is not None

    @property
    def compared(self) -> bool:
        """Whether there are two."""
        return self._rivals is not None

    def hosts(self, host: str) -> list[str]:
        """``host``, or the baseline and the candidate."""
        return [host] if self._rivals is None else [*self._rivals.hosts.values()]

    def facts(self, host: str) -> dict[str, Any]:
        """What the manifest says of them."""
        if self._rivals is None:
            args = self._mock_args if self._mock else None
            return {"target": manifests.target_facts(host, args)}
        sides = {side.value: self._rivals.facts(side) for side in Side}
        return {"target": sides[Side.NEW.value], "sides": sides}

    def check(self, plan: Plan, *, reach: bool) -> None:
        """Can they be spoken to as ``plan`` says; ``reach``: do they answer, too.

        Raises ConfigError, TargetError.
        """
        made = [wirings_of(plan, host) for host in self.hosts(self.host)]
        if reach:
            names = [""] if self._rivals is None else [side.role for side in Side]
            check_targets(_endpoints(names, made), plan.deadlines.connect_s)

    def stop(self) -> None:
        """End the mock agents that were started."""
        for mocks in (self._mock, self._rivals):
            if mocks is not None:
                mocks.stop()


def wired(plan: Plan, hosts: Sequence[str]) -> tuple[dict[str, Wiring], dict[str, Wiring] | None]:
    """How each group reaches the only host, or the baseline and the candidate."""
    base, *new = (wirings_of(plan, host) for host in hosts)
    return base, new[0] if new else None


def _only_host(plan: Plan) -> str | None:
    """A host to show where every group has its own."""
    hosts = [group.host for group in plan.analysts]
    return hosts[0] if all(hosts) else None


def _endpoints(
    names: Sequence[str], made: Sequence[Mapping[str, Wiring]]
) -> Iterator[tuple[str, Endpoint]]:
    """Each endpoint once, with the name of the target it belongs to."""
    for name, by_group in zip(names, made, strict=True):
        for wiring in {id(w): w for w in by_group.values()}.values():
            yield name, wiring.endpoint
