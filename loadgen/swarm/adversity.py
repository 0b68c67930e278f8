"""What goes wrong in a run, done when its time has come; and how a mock of ours takes it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any
from weakref import WeakValueDictionary

import gevent

from loadgen.adversity import Adversity, chosen
from loadgen.clock import NS_PER_S, now_ns, wall_ns
from loadgen.errors import ConfigError, GeneratorError
from loadgen.journal import Journal
from loadgen.net.control import command, condition, is_loopback
from loadgen.net.driver import Wiring
from loadgen.plan import Plan
from loadgen.swarm.agent import Agent

_log = logging.getLogger(__name__)

PULSE_S = 5.0
"""How often a mock of ours is asked how it is doing."""


def check_adversity(plan: Plan, host: str, *, bundled: bool) -> None:
    """Commands go to a mock agent on this machine and nowhere else.  Raises ConfigError."""
    for number, item in enumerate(plan.adversity):
        if item.what == "control" and not (bundled or is_loopback(host)):
            raise ConfigError(
                f"adversity.{number}: control is for a mock agent on this machine, the target is "
                f"{host}; use what = 'drop', or leave --host away"
            )


class Adversities:
    """The part that one process has in a plan's adversities.

    ``worker`` of ``workers`` drops its part of the connections, if it ``drops`` any; a process that
    is given the target's ``wiring`` gives the commands.
    """

    def __init__(
        self,
        plan: Plan,
        label: str,
        wiring: Wiring | None,
        *,
        worker: int = 0,
        workers: int = 1,
        drops: bool = True,
    ) -> None:
        self.happened: list[dict[str, Any]] = []
        """What was done, in order; ``wall_ns`` is when."""
        mine = {"drop": drops, "control": wiring is not None}
        self._items = sorted(
            (item for item in enumerate(plan.adversity) if mine[item[1].what]),
            key=lambda item: item[1].at_s,
        )
        self._seed = plan.seed
        self._label = label
        self._wiring = wiring
        self._worker, self._workers = worker, workers
        self._agents: WeakValueDictionary[int, Agent] = WeakValueDictionary()
        self._greenlet: Any = None

    def seat(self, number: int, agent: Agent) -> None:
        """An analyst sat down."""
        self._agents[number] = agent

    def start(self) -> None:
        """The run has begun: its time counts from here."""
        if self._items:
            self._greenlet = gevent.spawn(self._run, now_ns())

    def stop(self) -> None:
        """The run is over: nothing more goes wrong."""
        if self._greenlet is not None:
            self._greenlet.kill(block=False)
            self._greenlet = None

    def _run(self, begun_ns: int) -> None:
        for number, item in self._items:
            left_ns = begun_ns + round(item.at_s * NS_PER_S) - now_ns()
            gevent.sleep(max(0, left_ns) / NS_PER_S)
            fact = {
                "number": number,
                "what": item.what,
                "worker": self._label,
                "wall_ns": wall_ns(),
            }
            self.happened.append(fact)
            fact |= self._drop(number, item) if item.what == "drop" else self._control(item)
            _log.info("adversity: %s", fact)

    def _drop(self, number: int, item: Adversity) -> dict[str, Any]:
        agents = dict(self._agents)
        connected = [key for key, agent in agents.items() if agent.connected]
        rng = Random(f"{self._seed}/adversity/{number}/{self._label}")
        victims = chosen(item, connected, rng, self._worker, self._workers)
        return {"dropped": sum(agents[key].drop() for key in victims), "of": len(connected)}

    def _control(self, item: Adversity) -> dict[str, Any]:
        assert self._wiring is not None
        status, said = command(self._wiring, item.command)
        if status != 200:
            _log.warning("adversity: the target did not obey %s: %s", item.command, said)
        return {"command": item.command, "status": status, "said": said[:200]}


class Pulse:
    """How a mock of ours is doing, every `PULSE_S`: rows of ``target-pulse.jsonl``."""

    def __init__(self, folder: Path, wiring: Wiring, failed: Callable[[GeneratorError], None]):
        self._journal = Journal.open(folder, "pulse", "target")
        self._wiring = wiring
        self._failed = failed
        self._greenlet: Any = gevent.spawn(self._watch)

    def stop(self) -> None:
        """Watch no longer; a second call does nothing."""
        self._greenlet.kill(block=False)
        self._journal.close()

    def _watch(self) -> None:
        begun_ns, beats = now_ns(), 0
        while True:
            found = condition(self._wiring)
            if found is not None:
                kept = ("rss", "running", "connections")
                row: dict[str, Any] = {key: found[key] for key in kept if key in found}
                try:
                    self._journal.append(row | {"wall_ns": wall_ns()})
                except GeneratorError as error:
                    self._failed(error)
                    return
            beats += 1
            due_ns = begun_ns + round(beats * PULSE_S * NS_PER_S)
            gevent.sleep(max(0, due_ns - now_ns()) / NS_PER_S)


def gathered(
    own: Sequence[dict[str, Any]], workers: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """All that happened, in order of time: our own part and what the workers' anchors tell."""
    found = [*own, *(fact for worker in workers for fact in worker.pop("adversity", ()))]
    return sorted(found, key=lambda fact: int(fact["wall_ns"]))
