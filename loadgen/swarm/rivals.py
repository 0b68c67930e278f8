"""Who is asked in an A/B run: the baseline and the candidate.

Where the command line names nobody, two bundled mock agents of ours are started.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadgen.errors import ConfigError
from loadgen.plan import Plan, target_host
from loadgen.side import Side
from loadgen.swarm.bundled import BundledMock
from loadgen.swarm.manifest import target_facts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rivals:
    """The two targets of an A/B run by side; ``mocks`` are those of ours among them, with the
    arguments they were given.
    """

    hosts: Mapping[Side, str]
    mocks: Mapping[Side, tuple[BundledMock, str]]

    def facts(self, side: Side) -> dict[str, Any]:
        """The target of ``side`` as a manifest has it."""
        mock = self.mocks.get(side)
        return target_facts(self.hosts[side], None if mock is None else mock[1])

    def stop(self) -> None:
        """End what was started."""
        for mock, _ in self.mocks.values():
            mock.stop()


def rivals_of(options: Any, plan: Plan) -> Rivals:
    """The targets that ``--baseline`` and ``--candidate`` name, or two mocks of ours.

    Raises ConfigError: the plan or the command line means one target.
    """
    _check(options, plan)
    named = {Side.BASE: options.baseline, Side.NEW: options.candidate}
    if all(named.values()):
        return Rivals({side: target_host(host) for side, host in named.items()}, {})
    given = options.mock_args or [""]
    arguments = dict(zip(Side, given * 2 if len(given) == 1 else given, strict=True))
    mocks = {side: (BundledMock(text), text) for side, text in arguments.items()}
    hosts = {side: mock.url for side, (mock, _) in mocks.items()}
    for side, host in hosts.items():
        _log.info("a bundled mock agent answers as %s on %s", side.role, host)
    return Rivals(hosts, mocks)


def _check(options: Any, plan: Plan) -> None:
    if options.host or plan.target.host:
        raise ConfigError("an A/B run has two targets: give --baseline and --candidate, no host")
    own = [group.name for group in plan.analysts if group.host]
    if own:
        raise ConfigError(f"an A/B run asks two targets: group {own[0]!r} must have no host")
    if any(item.what == "control" for item in plan.adversity):
        raise ConfigError("an A/B run has two targets: adversity of what = 'control' means one")
    if bool(options.baseline) != bool(options.candidate):
        raise ConfigError("--baseline and --candidate need each other")
    if options.baseline and options.mock_args:
        raise ConfigError("--mock-args is for bundled mock agents: leave --baseline away")
    if len(options.mock_args or ()) > len(Side):
        raise ConfigError(f"--mock-args twice at most, got {len(options.mock_args)}")
