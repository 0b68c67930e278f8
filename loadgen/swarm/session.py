"""A Locust process's part in runs: from the command line to the verdict.

The local runner and the master own the run folder: they open it at Locust's ``test_start`` and
conclude it at ``test_stop``.  Every process that runs analysts keeps a journal of its own in it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import gevent
from gevent.event import Event
from locust import events
from locust.runners import STATE_INIT, MasterRunner, WorkerRunner

from loadgen import dialects
from loadgen.clock import NS_PER_S, now_ns, utc_text, wall_ns
from loadgen.dialects import DIALECTS
from loadgen.errors import ConfigError, DiskFull, GeneratorError, LoadgenError
from loadgen.identity import check_identity
from loadgen.journal import Journal, find_run, new_run_folder, write_manifest
from loadgen.levels import Capacity
from loadgen.net.discovery import complete
from loadgen.net.driver import wiring_of
from loadgen.plan import Plan, load_plan
from loadgen.swarm import conclusion, stats
from loadgen.swarm import manifest as manifests
from loadgen.swarm.adversity import Adversities, Pulse, check_adversity, gathered
from loadgen.swarm.agent import Agent, Seat
from loadgen.swarm.cluster import MasterSide, WorkerSide, worker_label
from loadgen.swarm.display import Display
from loadgen.swarm.health import Health
from loadgen.swarm.inquiry import add_search_options, searched
from loadgen.swarm.options import add_options
from loadgen.swarm.pool import Place
from loadgen.swarm.preflight import check_descriptors, check_disk, check_ports, check_results
from loadgen.swarm.run import Run, deal
from loadgen.swarm.search import Search
from loadgen.swarm.targets import Targets, wired
from loadgen.swarm.traces import check_endpoint, traces_to
from loadgen.swarm.watch import Crowd, Watch
from loadgen.swarm.workload import Workload
from loadgen.turn import Outcome, TurnRecord

_log = logging.getLogger(__name__)

_ATTRIBUTE = "loadgen_session"
_STARTING_POLLS, _STARTING_POLL_S = 100, 0.05
_FAULTS: dict[int, type[LoadgenError]] = {
    error.exit_code: error for error in (ConfigError, DiskFull, GeneratorError)
}
"""What a worker tells of, by exit code: an exception itself does not travel."""


def install(default_plan: Path, *, two_sides: bool = False, searches: bool = False) -> None:
    """Make the locustfile that calls this a loadgen scenario; ``default_plan`` is its plan.

    ``two_sides``: its runs are A/B runs, a baseline and a candidate under one load.
    ``searches``: they run level after level, to find the largest one that meets the targets.
    """

    @events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]  # Locust has no types
    def _options(parser: Any, **_: Any) -> None:
        add_options(parser, default_plan, two_sides=two_sides)
        if searches:
            add_search_options(parser)

    @events.init.add_listener  # type: ignore[untyped-decorator]  # Locust has no types
    def _init(environment: Any, runner: Any, **_: Any) -> None:
        try:
            session = Session(environment, runner, two_sides=two_sides, searches=searches)
            setattr(environment, _ATTRIBUTE, session)
        except LoadgenError as error:
            _refuse(error)


def session_of(environment: Any) -> Session:
    """The session of a Locust environment.  Raises ConfigError without `install`."""
    session = getattr(environment, _ATTRIBUTE, None)
    if not isinstance(session, Session):
        raise ConfigError("this locustfile never called loadgen.swarm.install(plan)")
    return session


class Session:
    """One Locust process.  Raises LoadgenError if the command line, plan or target is unusable."""

    def __init__(
        self, environment: Any, runner: Any, *, two_sides: bool = False, searches: bool = False
    ) -> None:
        self._environment = environment
        self._searches = searches
        self._search: Search | None = None
        self._runner = runner
        self._options = environment.parsed_options
        self._results = Path(self._options.results)
        self._targets: Targets | None = None
        self._two_sides = two_sides
        if two_sides:
            # It adds both sides up, and would come behind the verdict.
            logging.getLogger("locust.stats_logger").disabled = True
        self._run: Run | None = None
        self._concluded = Event()
        self._concluded.set()
        self._master: MasterSide | None = None
        self._worker: WorkerSide | None = None
        self.label = "local"
        self.stopping = False
        self._failed = ""
        self._workload = Workload(environment, runner, self._end_run, self._unwell)
        self._display = Display(environment, runner)
        on = environment.events
        if isinstance(runner, WorkerRunner):
            self._worker = WorkerSide(environment, runner, self._take_up, self._figures)
        else:
            self._prepare()
            if isinstance(runner, MasterRunner):
                self._master = MasterSide(
                    environment, runner, self._announcement, self._add_rows, self._add_health,
                    self._add_figures, self._worker_fault,
                )  # fmt: skip
            on.test_start.add_listener(self._start)
        on.test_stopping.add_listener(self._stopping)
        on.test_stop.add_listener(self._stop)
        on.quitting.add_listener(self._quitting)

    # analysts

    def seat_agent(self) -> Agent:
        """An agent for the next analyst of this process."""
        run = self._run
        if run is None:
            raise GeneratorError("an analyst was spawned while no run is under way")
        number = run.seats * run.workers + self._index()
        run.seats += 1
        group = run.plan.analysts[run.deal.next()]
        wiring = run.wirings[group.name]
        candidate = None if run.candidate is None else run.candidate[group.name]
        seat = Seat(
            number, self.label, wiring, self._record, self._interrupted_outcome,
            run.health.began, candidate, run.traces is not None,
        )  # fmt: skip
        agent = Agent(run.plan, group, run.questions, seat, f"{run.plan.seed}/{number}")
        run.watch.seat(agent)
        if run.adversities is not None:
            run.adversities.seat(number, agent)
        return agent

    def place(self, group: str) -> Place | None:
        """A place in the pool for a new analyst of ``group``; None where nothing arrives."""
        return self._workload.place(group)

    def no_seat(self, error: LoadgenError) -> None:
        """An analyst could not sit down: the load is not what the plan asked for."""
        self._break_off(error)

    def _break_off(self, error: LoadgenError) -> None:
        """What is under way cannot go on: the run stops, and no verdict can hide it."""
        if not self._failed:
            self._end_run()
        self._fail(error)

    def _end_run(self) -> None:
        """The run stops as at the end of its run time."""
        gevent.spawn(self._stop_runner)

    def _stop_runner(self) -> None:
        # Locust ignores a stop while it is still about to start.
        for _ in range(_STARTING_POLLS):
            if self._runner.state != STATE_INIT:
                break
            gevent.sleep(_STARTING_POLL_S)
        (self._runner.quit if self._options.headless else self._runner.stop)()

    def _unwell(self, error: LoadgenError) -> None:
        """Our health ends the run; a worker cannot, so it tells its master."""
        if self._worker is None:
            self._break_off(error)
        else:
            self._fail(error)
            self._worker.fault(f"{self.label}: {error}", int(error.exit_code))

    def _worker_fault(self, text: str, exit_code: int) -> None:
        self._break_off(_FAULTS.get(exit_code, GeneratorError)(text))

    def _index(self) -> int:
        """This worker's number, from 0."""
        return max(0, int(getattr(self._runner, "worker_index", 0)))

    def _interrupted_outcome(self) -> Outcome:
        """A killed analyst: the run is over, or the crowd was made smaller."""
        running = self._runner.state in ("spawning", "running")
        return Outcome.ABANDONED if running else Outcome.CUT_OFF

    def _record(self, record: TurnRecord) -> None:
        run = self._run
        if run is None:
            raise GeneratorError(f"turn {record.turn} ended after its run was concluded")
        row = record.to_row()
        run.health.ended(record)
        run.watch.note(row)
        if run.traces is not None:
            run.traces.add(record)
        self._append(run, row)
        if self._worker is not None:
            self._worker.add(row)
        stats.fire(self._environment, record, row)

    def _append(self, run: Run, row: dict[str, Any]) -> None:
        """Keep ``row``; a run that loses rows is no evidence and is stopped."""
        try:
            run.journal.append(row)
        except GeneratorError as error:
            if not self._failed:
                gevent.spawn(self._runner.quit)
            self._fail(error)

    def _fail(self, error: LoadgenError) -> None:
        """We are at fault: said once, and no verdict can hide it."""
        if not self._failed:
            _log.error("%s", error)
        self._failed = self._failed or str(error)
        self._environment.process_exit_code = int(error.exit_code)

    # the run

    def _prepare(self) -> None:
        """Check what can be checked before the first analyst is spawned."""
        plan = self._load_plan()
        environment, options = self._environment, self._options
        if not environment.stop_timeout:
            environment.stop_timeout = plan.load.drain_s
        targets = Targets(options, plan, environment.host, two_sides=self._two_sides)
        self._targets, environment.host = targets, targets.host
        if options.traces:
            check_endpoint(options.traces)
        if self._searches:
            self._search = self._new_search(plan)
        self._workload.prepare(plan, Path(options.plan), self._search)
        for group in plan.analysts:
            try:
                dialect = dialects.create(group.dialect, group.route, options=group.options)
                check_identity(group.identity, dialect.wire, options.num_users)
            except ConfigError as error:
                where = f"{Path(options.plan).name}: group {group.name!r}: "
                lines = (where + line for line in str(error).splitlines())
                raise ConfigError("\n".join(lines)) from None
        self._questions(plan)
        check_adversity(plan, targets.host, bundled=targets.bundled)
        starts = bool(options.headless or options.autostart)
        if starts:
            self._check_machine(options.num_users or 1)
        targets.check(plan, reach=starts)

    @property
    def _owned(self) -> Targets:
        """The targets of a process that owns runs."""
        if self._targets is None:
            raise GeneratorError("a worker has no targets of its own")
        return self._targets

    def _new_search(self, plan: Plan) -> Search:
        """What runs one level after another, as ``plan.capacity`` says."""
        given = self._options.resume
        resume = find_run(self._results, given) if given else None
        return Search(
            lambda: self._load_plan().capacity or Capacity(), plan.load.is_closed, resume,
            self._workload.level, self._search_over, self._unwell,
        )  # fmt: skip

    def _search_over(self) -> None:
        """A closed search ends with its load shape, one of arrivals by itself."""
        if self._run is not None and not self._run.plan.load.is_closed:
            self._end_run()

    def _sizing(self) -> list[str]:
        """What the answer of a search is to be held against."""
        given = {"--need": self._options.need, "--cost-per-replica": self._options.cost_per_replica}
        return [f"{name}={value}" for name, value in given.items() if value is not None]

    def _complete(self, order: Mapping[str, Any]) -> bool:
        """Whether the load is what the level wants: all analysts are there, arrivals come."""
        run = self._run
        if run is None or not run.plan.load.is_closed:
            return self._workload.arriving
        return bool(self._runner.user_count == round(order["level"]))

    def _check_machine(self, analysts: int) -> None:
        """Can this machine hold the crowd?  Workers elsewhere look after themselves."""
        check_results(self._results)
        checks = [check_disk(self._results, self._reserve, analysts, self._options.run_time)]
        # Of our own children a negative number is Locust's word for one per core.
        children = max(self._options.processes or 0, 0)
        if children or not isinstance(self._runner, MasterRunner):
            checks += [check_descriptors(-(-analysts // (children or 1))), check_ports(analysts)]
        for warning in chain.from_iterable(checks):
            _log.warning("%s", warning)

    @property
    def _reserve(self) -> int:
        """Bytes of disk that a run leaves free."""
        return int(self._options.disk_reserve) << 20

    def _load_plan(self) -> Plan:
        plan = load_plan(Path(self._options.plan), DIALECTS)
        if self._options.insecure:
            target = plan.target.model_copy(update={"verify_tls": False})
            plan = plan.model_copy(update={"target": target})
        if self._searches:
            capacity = searched(plan.capacity or Capacity(), self._options)
            plan = plan.model_copy(update={"capacity": capacity})
        return plan

    def _questions(self, plan: Plan) -> tuple[str, ...]:
        return plan.question_texts(Path(self._options.plan).parent)

    def _start(self, environment: Any, **_: Any) -> None:
        """Locust starts a test: open a run folder and tell the workers."""
        self.stopping, self._failed = False, ""
        try:
            self._run = self._open_run(environment.host)
        except LoadgenError as error:
            if self._options.headless:
                _refuse(error)
            _log.error("the run cannot start: %s", error)
            gevent.spawn(self._runner.stop)
            return
        self._concluded.clear()
        self._workload.open(self._run.folder.name, self._run.plan, self.label, self._record)
        if self._master is not None:
            self._master.announce()
        self._beset(self._run)
        if self._search is not None:
            self._search.open(self._run.folder, self._complete)
        _log.info("run folder: %s", self._run.folder)
        self._display.show(self._run.watch)

    def _open_run(self, host: str) -> Run:
        plan, options = self._load_plan(), self._options
        hosts, questions = self._owned.hosts(host), self._questions(plan)
        wirings, candidate = wired(plan, hosts)
        plan = complete(plan, wirings)
        self._workload.check(plan, Path(options.plan))
        if not self._options.headless:
            self._check_machine(self._runner.target_user_count or 1)
        name = options.run_name or plan.name
        folder = new_run_folder(self._results, name, utc_text(wall_ns()))
        manifest = manifests.opening(plan, folder, name, self._owned.facts(host))
        manifest["load"] |= {"run_time_s": options.run_time, "spawn_rate": options.spawn_rate}
        manifest["disk_reserve"] = self._reserve
        manifest["traces"] = bool(options.traces)
        write_manifest(folder, manifest)
        if self._search is not None:
            plan = self._search.at_first_level(plan)
        label = "master" if self._master else self.label
        journal = Journal.open(folder, label)
        watch = self._watch(folder, plan, rivals=candidate is not None)
        health = self._health(folder, label, watch)
        return Run(
            folder, plan, questions, hosts, wirings, journal, health, watch, manifest, deal(plan),
            candidate, traces=None if self._master else traces_to(options.traces, folder.name),
        )  # fmt: skip

    def _watch(self, folder: Path, plan: Plan, *, rivals: bool) -> Watch:
        """What is shown of the run while it goes on."""
        runner, begun_ns = self._runner, now_ns()

        def crowd() -> Crowd:
            left_s = self._workload.left_s((now_ns() - begun_ns) / NS_PER_S)
            return Crowd(runner.user_count, runner.target_user_count, left_s)

        reports = self._worker is not None
        return Watch(folder.name, plan, crowd, reports=reports, rivals=rivals)

    def _figures(self) -> dict[str, Any] | None:
        return self._run.watch.pack() if self._run is not None else None

    def _health(self, folder: Path, label: str, watch: Watch) -> Health:
        """The pulse of this process, beating."""
        master, worker = self._master, self._worker
        health = Health(
            label,
            folder,
            self._reserve,
            self._unwell,
            told=worker.add_health if worker else watch.add_health,
            missed_heartbeats=master.missed_heartbeats if master else None,
        )
        health.start()
        return health

    def _beset(self, run: Run) -> None:
        """The run has begun: what the plan says goes wrong takes its course."""
        bundled = self._targets is not None and self._targets.bundled
        if not run.plan.adversity and not bundled:
            return
        target = None if self._worker is not None else wiring_of(run.plan.target, run.hosts[0])
        run.adversities = Adversities(
            run.plan, "master" if self._master else self.label, target,
            worker=self._index(), workers=run.workers, drops=self._master is None,
        )  # fmt: skip
        run.adversities.start()
        if bundled and target is not None:
            run.pulse = Pulse(run.folder, target, self._unwell)

    def _announcement(self) -> dict[str, Any] | None:
        run = self._run
        if run is None:
            return None
        return {
            "folder": run.folder.name,
            "plan": run.plan.model_dump(mode="json"),
            "questions": list(run.questions),
            "hosts": run.hosts,
            "users": max(self._runner.target_user_count or 0, self._options.num_users or 1),
            "workers": max(1, len(self._runner.clients)) if self._master else 1,
            "traces": self._options.traces,
        }

    def _take_up(self, announced: dict[str, Any]) -> None:
        """A worker hears of a run; hearing of it again changes nothing."""
        folder = self._results / announced["folder"]
        if self._run is not None and self._run.folder == folder:
            return
        plan, hosts = Plan.model_validate(announced["plan"]), announced["hosts"]
        self.label = worker_label(self._index())
        self.stopping = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            wirings, candidate = wired(plan, hosts)
            traces = traces_to(announced["traces"], folder.name)
            journal = Journal.open(folder, self.label)
            watch = self._watch(folder, plan, rivals=candidate is not None)
            health = self._health(folder, self.label, watch)
        except (LoadgenError, OSError) as error:
            _log.error("this worker cannot take part in the run: %s", error)
            return
        questions = tuple(announced["questions"])
        workers = announced["workers"]
        self._run = Run(
            folder, plan, questions, hosts, wirings, journal, health, watch, {}, deal(plan),
            candidate, workers, traces=traces,
        )  # fmt: skip
        self._workload.open(folder.name, plan, self.label, self._record)
        self._beset(self._run)
        try:
            mine = -(-announced["users"] // workers)
            for warning in chain(check_descriptors(mine), check_ports(announced["users"])):
                _log.warning("%s: %s", self.label, warning)
        except LoadgenError as error:
            self._unwell(error)

    def _add_rows(self, rows: list[dict[str, Any]]) -> None:
        if self._run is not None:
            for row in rows:
                self._append(self._run, row)

    def _add_health(self, rows: list[dict[str, Any]]) -> None:
        """Copies of what workers elsewhere keep of themselves."""
        if self._run is not None:
            self._run.health.copy(rows)
            for row in rows:
                self._run.watch.add_health(row)

    def _add_figures(self, worker: str, packed: dict[str, Any]) -> None:
        if self._run is not None:
            self._run.watch.take(worker, packed)

    def _stopping(self, environment: Any, **_: Any) -> None:
        """From here on running turns drain and no new one starts."""
        self.stopping = True
        self._workload.close()
        if self._run is not None:
            if self._run.manifest:
                self._run.manifest.setdefault("stopping_at", utc_text(wall_ns()))
            self._run.health.draining()
            self._run.watch.draining = True

    def _stop(self, environment: Any, **_: Any) -> None:
        """Locust has stopped the analysts (on a master: is about to tell the workers)."""
        run = self._run
        if run is None:
            return
        if self._worker is not None:
            self._run = None
            run.close()
            happened = run.adversities.happened if run.adversities else []
            facts = {"adversity": happened, "health_rows": run.health.rows}
            anchor = manifests.anchor(self.label) | facts
            self._worker.done(anchor, run.watch.pack())
            return
        if run.concluding:
            return  # the last worker's leaving stops a run once more
        run.concluding = True
        # Where a load shape has ended the run we are in Locust's own greenlets, which are killed
        # when the last worker leaves.
        gevent.spawn(self._end, run).join()

    def _end(self, run: Run) -> None:
        try:
            self._conclude(run)
        except LoadgenError as error:
            self._fail(error)
        finally:
            self._concluded.set()

    def _conclude(self, run: Run) -> None:
        manifest = run.manifest
        if self._master is not None:
            workers, lost = self._master.finish(self._environment.stop_timeout or 0.0)
        else:
            workers, lost = [manifests.anchor(self.label)], []
        self._run = None
        self._display.shut()
        if self._search is not None:
            self._search.close()
        run.close()
        if self._master is None:
            workers[0]["health_rows"] = run.health.rows
        own = run.adversities.happened if run.adversities else []
        manifest["adversity"] = gathered(own, workers)
        manifest |= {"workers": workers, "lost_workers": lost, "ended_at": utc_text(wall_ns())}
        manifest["load"]["users"] = self._runner.target_user_count or run.seats
        manifest["load"] |= self._workload.facts()
        if self._failed:
            manifest["fault"] = self._failed
        write_manifest(run.folder, manifest)
        code = conclusion.report(run.folder, self._sizing() if self._searches else None)
        self._display.reported(run.folder / ("capacity.html" if self._searches else "report.html"))
        if self._owned.compared:
            code = conclusion.gate(run.folder, self._options.gate_args)
        if not self._failed:
            self._environment.process_exit_code = code

    def _quitting(self, environment: Any, **_: Any) -> None:
        """The process ends: a run still under way was interrupted."""
        run = self._run
        if run is not None and self._runner.state in ("spawning", "running"):
            run.manifest["interrupted"] = True
            environment.stop_timeout = 0.0
            self._runner.stop()
        self._concluded.wait()
        if self._targets is not None:
            self._targets.stop()


def _refuse(error: LoadgenError) -> NoReturn:
    """One line an error on stderr and out, with its exit code."""
    for line in str(error).splitlines():
        sys.stderr.write(f"loadgen: {line}\n")
    sys.exit(int(error.exit_code))
