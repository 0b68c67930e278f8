"""What the plan's load means to one Locust process: how many users, when arrivals come, when to
end.

The closed model is Locust's own: so many users, or a load shape where the plan has stages.  In the
others the users are a pool of analysts, and the arrivals are dealt out to them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from locust.runners import MasterRunner, WorkerRunner

from loadgen.clock import NS_PER_S, now_ns, utc_text, wall_ns
from loadgen.errors import ConfigError, GeneratorError, LoadgenError
from loadgen.pacing import Part, profile_of
from loadgen.plan import Plan
from loadgen.replay import Entry, read_replay
from loadgen.swarm.arrivals import Arrivals, Reports
from loadgen.swarm.dealing import Dealer, Player
from loadgen.swarm.pool import Place
from loadgen.swarm.search import MINUTE_S, LevelShape, Search
from loadgen.swarm.shape import StagedShape
from loadgen.turn import TurnRecord

_log = logging.getLogger(__name__)

_SPAWN_RATE = 100
"""How many of the pool are spawned a second when nobody says; Locust warns above."""


class Workload:
    """The load of the runs of one Locust process, one run after another.

    ``end_run`` is called when the plan's time or its file is over, ``fault`` when the load cannot
    be what the plan says.
    """

    def __init__(
        self,
        environment: Any,
        runner: Any,
        end_run: Callable[[], None],
        fault: Callable[[LoadgenError], None],
    ) -> None:
        self._environment = environment
        self._runner = runner
        self._end_run = end_run
        self._fault = fault
        self._run = ""
        self._plan: Plan | None = None
        self._entries: tuple[Entry, ...] = ()
        self._arrivals: Arrivals | None = None
        self._begun_ns = self._closed_ns = 0
        self._begun_at = ""
        self._timer: Any = None
        self._dealer: Dealer | None = None
        self._player: Player | None = None
        if isinstance(runner, WorkerRunner):
            self._player = Player(runner, self._dealt, self._rated)
            return
        if isinstance(runner, MasterRunner):
            self._dealer = Dealer(runner, end_run)
        environment.events.spawning_complete.add_listener(self._spawned)

    def prepare(self, plan: Plan, path: Path, search: Search | None = None) -> None:
        """Before the first run: the users that the command line does not name, the load shape, and
        all that can be checked.  ``path`` is where the plan lies; ``search`` says how many there
        are in place of it.  Raises ConfigError.
        """
        options = self._environment.parsed_options
        load = plan.load
        if search is not None:
            _check_search(plan, path)
        if search is not None and load.is_closed:
            self._searched(search, options)
            return
        if load.is_closed:
            if load.stages:
                self._shape(plan, options)
            return
        _entries(plan, path)
        if options.num_users is None:
            options.num_users = load.max_in_flight
        if options.spawn_rate is None and options.num_users:
            options.spawn_rate = min(options.num_users, _SPAWN_RATE)
        if options.headless or options.autostart:
            _check_pool(plan, path, options.num_users, 1)

    def check(self, plan: Plan, path: Path) -> None:
        """At the start of a run, which may have another plan.  Raises ConfigError."""
        shape = self._environment.shape_class
        staged = plan.load.is_closed and bool(plan.load.stages)
        if isinstance(shape, LevelShape):
            _check_search(plan, path)
            return
        if staged != isinstance(shape, StagedShape):
            raise ConfigError(
                f"{path.name}: Locust has to know of a closed plan's stages from its start on: "
                f"start locust with --plan {path}"
            )
        if isinstance(shape, StagedShape):
            shape.profile = profile_of(plan.load)
        self._entries = _entries(plan, path)
        if not plan.load.is_closed:
            workers = len(self._runner.clients) if self._dealer is not None else 1
            _check_pool(plan, path, self._runner.target_user_count, workers)

    def open(self, run: str, plan: Plan, worker: str, sink: Callable[[TurnRecord], None]) -> None:
        """A run begins in this process; its folder is called ``run``."""
        self._run, self._plan = run, plan
        self._begun_ns = self._closed_ns = 0
        self._begun_at, self._arrivals = "", None
        if not plan.load.is_closed and self._dealer is None:
            reports = Reports(sink, self._ended, self._broken)
            self._arrivals = Arrivals(plan, worker, reports)

    def place(self, group: str) -> Place | None:
        """The place of a new user in the pool; None in the closed model."""
        return None if self._arrivals is None else self._arrivals.place(group)

    def close(self) -> None:
        """The end of the run has come: nothing arrives any more."""
        self._closed_ns = self._closed_ns or now_ns()
        if self._timer is not None:
            self._timer.kill(block=False)
            self._timer = None
        if self._arrivals is not None:
            self._arrivals.close()

    def left_s(self, elapsed_s: float) -> float | None:
        """How long the run still goes on when it has gone on for ``elapsed_s``, in s; None where
        nothing says so.
        """
        plan = self._plan
        ends = [self._environment.parsed_options.run_time]
        if plan is not None and plan.load.stages and (plan.load.is_closed or self._begun_ns):
            since_s = 0.0 if plan.load.is_closed else elapsed_s - self._arriving_s
            ends.append((profile_of(plan.load).ends_s or 0.0) + since_s)
        known = [end for end in ends if end]
        return max(0.0, min(known) - elapsed_s) if known else None

    @property
    def _arriving_s(self) -> float:
        return (now_ns() - self._begun_ns) / NS_PER_S

    def facts(self) -> dict[str, Any]:
        """For the manifest: when arrivals began, and for how many seconds they came."""
        if not self._begun_ns:
            return {}
        seconds = (self._closed_ns - self._begun_ns) / NS_PER_S
        return {"arrivals_began_at": self._begun_at, "arrivals_s": round(seconds, 3)}

    def level(self, level: float, number: int) -> None:
        """A search has come to its ``number``-th level; so many analysts are the load shape's
        business, so many conversations a minute are ours.  The first one is the plan's rate.
        """
        if self._plan is None or self._plan.load.is_closed or number == 1:
            return
        if self._dealer is not None:
            self._dealer.change(self._run, level / MINUTE_S, number)
        else:
            self._rated(self._run, level / MINUTE_S, number)

    @property
    def arriving(self) -> bool:
        """Whether arrivals have begun."""
        return bool(self._begun_ns)

    def _rated(self, run: str, per_s: float, number: int) -> None:
        if run == self._run and self._arrivals is not None:
            self._arrivals.change(per_s, number)

    def _searched(self, search: Search, options: Any) -> None:
        shape = LevelShape(search)
        shape.runner = self._runner
        self._environment.shape_class = shape
        if options.num_users or options.spawn_rate:
            _log.warning("-u and -r have no effect: the search says how many analysts")
        capacity = search.capacity
        options.num_users = math.ceil(max(capacity.levels, default=capacity.most))

    def _shape(self, plan: Plan, options: Any) -> None:
        shape = StagedShape(profile_of(plan.load), options.run_time)
        shape.runner = self._runner
        self._environment.shape_class = shape
        if options.num_users or options.spawn_rate:
            _log.warning("-u and -r have no effect: the plan's stages say how many analysts")
        options.num_users = math.ceil(shape.profile.peak)

    def _spawned(self, user_count: int, **_: Any) -> None:
        """All users are there (on a master: those of all workers)."""
        plan = self._plan
        if plan is None or plan.load.is_closed or self._begun_ns or self._closed_ns:
            return
        if self._dealer is not None:
            self._dealer.begin(self._run, self._entries)
            self._begun()
        else:
            gevent.spawn(self._begin, self._entries, Part())

    def _dealt(self, run: str, part: Part, entries: list[Entry]) -> None:
        """A worker has got its share."""
        if run == self._run:
            gevent.spawn(self._begin, entries, part)

    def _begin(self, entries: tuple[Entry, ...] | list[Entry], part: Part) -> None:
        if self._arrivals is not None and not self._begun_ns:
            self._arrivals.begin(entries, part, self._runner.user_count)
            if self._arrivals.begun:
                self._begun()

    def _begun(self) -> None:
        self._begun_ns, self._begun_at = now_ns(), utc_text(wall_ns())
        plan = self._plan
        if plan is None or self._player is not None:
            return
        _log.info("arrivals begin (%s); the pool is %d analysts", plan.load.model,
                  self._runner.target_user_count)  # fmt: skip
        if plan.load.stages:
            self._timer = gevent.spawn_later(profile_of(plan.load).ends_s, self._end_run)

    def _ended(self) -> None:
        """A replay has come to its end in this process."""
        if self._player is not None:
            self._player.end()
        else:
            self._end_run()

    def _broken(self, error: Exception) -> None:
        known = isinstance(error, LoadgenError)
        self._fault(error if known else GeneratorError(f"the arrivals broke off: {error!r}"))  # type: ignore[arg-type]


def _entries(plan: Plan, path: Path) -> tuple[Entry, ...]:
    """What is replayed, from the file beside the plan.  Raises ConfigError."""
    load = plan.load
    if load.file is None:
        return ()
    dialects = {group.dialect for group in plan.analysts}
    return read_replay(path.parent / load.file, load.speed, dialects)


def _check_search(plan: Plan, path: Path) -> None:
    """What a search cannot do.  Raises ConfigError."""
    load = plan.load
    if load.model not in ("closed", "partly-open") or load.stages:
        what = "stages" if load.stages else f"model {load.model}"
        raise ConfigError(
            f"{path.name}: load: {what} cannot be searched: a level is so many analysts (closed) "
            "or so many conversations a minute (partly-open)"
        )
    if not plan.slo and plan.failure_budget is None:
        raise ConfigError(
            f"{path.name}: a search needs something to hold its levels against: set [[slo]] or "
            "failure_budget"
        )


def _check_pool(plan: Plan, path: Path, users: int | None, workers: int) -> None:
    """The users are the pool: are there enough of them for what the plan allows?"""
    limit, model = plan.load.max_in_flight, plan.load.model
    where = f"{path.name}: load: the model is {model}, so -u (users) is the pool of analysts"
    if not users:
        raise ConfigError(f"{where}: give it, or set load.max_in_flight")
    if limit is not None and users < limit:
        raise ConfigError(
            f"{where}: {users} of them can never be max_in_flight = {limit}; give -u {limit} or "
            "leave it away, or lower max_in_flight"
        )
    if min(users, limit or users) < workers:
        raise ConfigError(f"{where}: fewer than there are workers ({workers})")
