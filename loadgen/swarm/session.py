"""A Locust process's part in runs: from the command line to the verdict.

The local runner and the master own the run folder: they open it at Locust's ``test_start`` and
conclude it at ``test_stop``.  Every process that runs analysts keeps a journal of its own in it.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import gevent
from gevent import subprocess
from gevent.event import Event
from locust import events
from locust.runners import MasterRunner, WorkerRunner

from loadgen import dialects
from loadgen.clock import utc_text, wall_ns
from loadgen.dialects import DIALECTS
from loadgen.errors import ConfigError, GeneratorError, LoadgenError
from loadgen.identity import check_identity
from loadgen.journal import Journal, new_run_folder, read_exit_code, write_manifest
from loadgen.net.discovery import complete
from loadgen.net.driver import Wiring, wiring_of
from loadgen.persona import Apportionment
from loadgen.plan import Plan, load_plan
from loadgen.swarm import manifest as manifests
from loadgen.swarm import stats
from loadgen.swarm.agent import Agent, Seat
from loadgen.swarm.bundled import BundledMock
from loadgen.swarm.cluster import MasterSide, WorkerSide, worker_label
from loadgen.swarm.options import add_options
from loadgen.swarm.preflight import check_target
from loadgen.turn import Outcome, TurnRecord

_log = logging.getLogger(__name__)

_ATTRIBUTE = "loadgen_session"


@dataclass(slots=True)
class Run:
    """The run under way, as one process sees it; ``manifest`` is empty on a worker.

    ``workers`` is how many deal out analysts' numbers, so that no two analysts share one.
    """

    folder: Path
    plan: Plan
    questions: tuple[str, ...]
    host: str
    wiring: Wiring
    journal: Journal
    manifest: dict[str, Any]
    deal: Apportionment
    workers: int = 1
    seats: int = 0


def install(default_plan: Path) -> None:
    """Make the locustfile that calls this a loadgen scenario; ``default_plan`` is its plan."""

    @events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]  # Locust has no types
    def _options(parser: Any, **_: Any) -> None:
        add_options(parser, default_plan)

    @events.init.add_listener  # type: ignore[untyped-decorator]  # Locust has no types
    def _init(environment: Any, runner: Any, **_: Any) -> None:
        try:
            setattr(environment, _ATTRIBUTE, Session(environment, runner))
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

    def __init__(self, environment: Any, runner: Any) -> None:
        self._environment = environment
        self._runner = runner
        self._options = environment.parsed_options
        self._results = Path(self._options.results)
        self._mock: BundledMock | None = None
        self._run: Run | None = None
        self._concluded = Event()
        self._concluded.set()
        self._master: MasterSide | None = None
        self._worker: WorkerSide | None = None
        self.label = "local"
        self.stopping = False
        self._failed = ""
        on = environment.events
        if isinstance(runner, WorkerRunner):
            self._worker = WorkerSide(environment, runner, self._take_up)
        else:
            self._prepare()
            if isinstance(runner, MasterRunner):
                self._master = MasterSide(environment, runner, self._announcement, self._add_rows)
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
        seat = Seat(number, self.label, run.wiring, self._record, self._interrupted_outcome)
        return Agent(run.plan, group, run.questions, seat, f"{run.plan.seed}/{number}")

    def no_seat(self, error: LoadgenError) -> None:
        """An analyst could not sit down: the load is not what the plan asked for, so the run stops
        and no verdict can hide it.
        """
        if not self._failed:
            gevent.spawn(self._runner.quit if self._options.headless else self._runner.stop)
        self._fail(error)

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
        environment.host = environment.host or plan.target.host
        if environment.host is None:
            self._mock = BundledMock(options.mock_args)
            environment.host = self._mock.url
            _log.info("no --host: the bundled mock agent answers on %s", self._mock.url)
        elif options.mock_args:
            raise ConfigError("--mock-args is for the bundled mock agent: leave --host away")
        for group in plan.analysts:
            try:
                dialect = dialects.create(group.dialect, group.route, options=group.options)
                check_identity(group.identity, dialect.wire, options.num_users)
            except ConfigError as error:
                where = f"{Path(options.plan).name}: group {group.name!r}: "
                lines = (where + line for line in str(error).splitlines())
                raise ConfigError("\n".join(lines)) from None
        self._questions(plan)
        wiring = wiring_of(plan.target, environment.host)
        if options.headless or options.autostart:
            check_target(wiring.endpoint, plan.deadlines.connect_s)

    def _load_plan(self) -> Plan:
        plan = load_plan(Path(self._options.plan), DIALECTS)
        if self._options.insecure:
            target = plan.target.model_copy(update={"verify_tls": False})
            plan = plan.model_copy(update={"target": target})
        return plan

    def _questions(self, plan: Plan) -> tuple[str, ...]:
        return plan.question_texts(Path(self._options.plan).parent)

    def _start(self, environment: Any, **_: Any) -> None:
        """Locust starts a test: open a run folder and tell the workers."""
        try:
            self._run = self._open_run(environment.host)
        except LoadgenError as error:
            if self._options.headless:
                _refuse(error)
            _log.error("the run cannot start: %s", error)
            gevent.spawn(self._runner.stop)
            return
        self._concluded.clear()
        self.stopping, self._failed = False, ""
        if self._master is not None:
            self._master.announce()
        _log.info("run folder: %s", self._run.folder)

    def _open_run(self, host: str) -> Run:
        plan, options = self._load_plan(), self._options
        wiring, questions = wiring_of(plan.target, host), self._questions(plan)
        plan = complete(plan, wiring)
        name = options.run_name or plan.name
        folder = new_run_folder(self._results, name, utc_text(wall_ns()))
        mock_args = options.mock_args if self._mock else None
        manifest = manifests.opening(plan, folder.name, name, host, mock_args)
        manifest["load"] |= {"run_time_s": options.run_time, "spawn_rate": options.spawn_rate}
        write_manifest(folder, manifest)
        journal = Journal.open(folder, "master" if self._master else "local")
        return Run(folder, plan, questions, host, wiring, journal, manifest, _deal(plan))

    def _announcement(self) -> dict[str, Any] | None:
        run = self._run
        if run is None:
            return None
        return {
            "folder": run.folder.name,
            "plan": run.plan.model_dump(mode="json"),
            "questions": list(run.questions),
            "host": run.host,
            "workers": max(1, len(self._runner.clients)) if self._master else 1,
        }

    def _take_up(self, announced: dict[str, Any]) -> None:
        """A worker hears of a run; hearing of it again changes nothing."""
        folder = self._results / announced["folder"]
        if self._run is not None and self._run.folder == folder:
            return
        plan, host = Plan.model_validate(announced["plan"]), announced["host"]
        self.label = worker_label(self._index())
        self.stopping = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            wiring = wiring_of(plan.target, host)
            journal = Journal.open(folder, self.label)
        except (LoadgenError, OSError) as error:
            _log.error("this worker cannot take part in the run: %s", error)
            return
        questions = tuple(announced["questions"])
        workers = announced["workers"]
        self._run = Run(folder, plan, questions, host, wiring, journal, {}, _deal(plan), workers)

    def _add_rows(self, rows: list[dict[str, Any]]) -> None:
        if self._run is not None:
            for row in rows:
                self._append(self._run, row)

    def _stopping(self, environment: Any, **_: Any) -> None:
        """From here on running turns drain and no new one starts."""
        self.stopping = True

    def _stop(self, environment: Any, **_: Any) -> None:
        """Locust has stopped the analysts (on a master: is about to tell the workers)."""
        run = self._run
        if run is None:
            return
        if self._worker is not None:
            self._run = None
            run.journal.close()
            self._worker.done(manifests.anchor(self.label))
            return
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
        run.journal.close()
        manifest |= {"workers": workers, "lost_workers": lost, "ended_at": utc_text(wall_ns())}
        manifest["load"]["users"] = self._runner.target_user_count or run.seats
        if self._failed:
            manifest["fault"] = self._failed
        write_manifest(run.folder, manifest)
        code = _report(run.folder)
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
        if self._mock is not None:
            self._mock.stop()


def _deal(plan: Plan) -> Apportionment:
    return Apportionment([group.weight for group in plan.analysts])


def _report(folder: Path) -> int:
    """Judge the run and write its reports; gives the exit code of the verdict.

    In a process of its own: generation and analysis share nothing but the run folder.
    """
    command = [sys.executable, "-m", "loadgen", "report", str(folder)]
    sys.stdout.flush()
    if subprocess.run(command, check=False).returncode != 0:
        raise GeneratorError(f"no report could be made; try: loadgen report {folder}")
    return read_exit_code(folder)


def _refuse(error: LoadgenError) -> NoReturn:
    """One line an error on stderr and out, with its exit code."""
    for line in str(error).splitlines():
        sys.stderr.write(f"loadgen: {line}\n")
    sys.exit(int(error.exit_code))
