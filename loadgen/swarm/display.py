"""Who is shown a run while it goes on: Locust's web UI, the terminal, or the log."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import gevent
from locust.runners import WorkerRunner
from rich.console import Console
from rich.live import Live

from loadgen.clock import NS_PER_S, now_ns
from loadgen.live import Figures
from loadgen.swarm.livejson import as_json
from loadgen.swarm.livetable import line, table
from loadgen.swarm.tab import add_tab
from loadgen.swarm.watch import Watch

_log = logging.getLogger(__name__)

REFRESH_S = 1.0


class Display:
    """What a Locust process shows of its runs.

    A worker shows nothing, and with ``--only-summary`` nothing is shown before the end.  Locust's
    own table is printed where ``--locust-table`` asks for it, never onto ours.
    """

    def __init__(self, environment: Any, runner: Any) -> None:
        options = environment.parsed_options
        shown = options.headless and not isinstance(runner, WorkerRunner)
        self._console = None if not shown or options.only_summary else Console(stderr=True)
        self._plain = options.locust_table
        self._every_s = options.live_every
        self._greenlet: Any = None
        options.only_summary = options.only_summary or not options.locust_table
        self._watch: Watch | None = None
        self._report: Path | None = None
        if environment.web_ui is not None:
            base = getattr(options, "web_base_path", "")
            add_tab(environment.web_ui, base, self._told, lambda: self._report)
        if options.metrics_port is not None and not isinstance(runner, WorkerRunner):
            from loadgen.swarm.exposition import serve

            serve(options.metrics_host, options.metrics_port, self._figures)

    def show(self, watch: Watch) -> None:
        """A run begins."""
        self._watch, self._report = watch, None
        console = self._console
        if console is None:
            return
        moving = console.is_terminal and not console.is_dumb_terminal and not self._plain
        if moving:
            self._greenlet = gevent.spawn(_move, console, watch)
        elif self._every_s > 0:
            self._greenlet = gevent.spawn(_tell, watch, self._every_s)

    def shut(self) -> None:
        """The run is over: the terminal belongs to its report."""
        if self._greenlet is not None:
            self._greenlet.kill()
            self._greenlet = None
        if self._watch is not None:
            self._watch.close()

    def reported(self, report: Path) -> None:
        """The report of the last run is written."""
        self._report = report

    def _figures(self) -> Figures | None:
        return None if self._watch is None else self._watch.figures()

    def _told(self) -> dict[str, Any] | None:
        figures = self._figures()
        return None if figures is None else as_json(figures)


def _tell(watch: Watch, every_s: float) -> None:
    """A line every ``every_s``, on an absolute grid."""
    begun_ns, lines = now_ns(), 0
    while True:
        lines += 1
        due_ns = begun_ns + round(lines * every_s * NS_PER_S)
        gevent.sleep(max(0, due_ns - now_ns()) / NS_PER_S)
        _log.info("%s", line(watch.figures()))


def _move(console: Console, watch: Watch) -> None:
    """A table that is drawn anew every `REFRESH_S`; log lines go above it."""
    with Live(table(watch.figures()), console=console, auto_refresh=False, transient=True) as live:
        redirected = _redirect()
        try:
            while True:
                gevent.sleep(REFRESH_S)
                live.update(table(watch.figures()), refresh=True)
        finally:
            for handler in redirected:
                handler.setStream(sys.__stderr__)


def _redirect() -> list[Any]:
    """Let log handlers write through what now stands for stderr: they kept the one before."""
    found = [
        handler
        for name in (None, "locust")
        for handler in logging.getLogger(name).handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.__stderr__
    ]
    for handler in found:
        handler.setStream(sys.stderr)
    return found
