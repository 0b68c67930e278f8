"""What is being done, for somebody who waits for it: a bar on a terminal, now and then a line in a
log.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from loadgen.analysis import numerals
from loadgen.clock import NS_PER_S, now_ns

EVERY_S = 10.0
"""How often a log gets a line; what is done sooner leaves none."""


class Work(Protocol):
    """Long work as its doer tells of it."""

    def step(self, what: str) -> None:
        """Another part of it begins, of an unknown length until `share` is called."""

    def share(self, done: float) -> None:
        """How much of this part is done, from 0 to 1."""


@contextmanager
def waiting(name: str, every_s: float = EVERY_S, console: Console | None = None) -> Iterator[Work]:
    """Show the work called ``name`` on stderr while it is done; nothing stays on a terminal."""
    screen = console or Console(stderr=True, highlight=False)
    if screen.is_terminal:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=screen, transient=True) as bar:
            yield _Bar(bar, bar.add_task(name, total=None))
        return
    lines = _Lines(name, every_s, screen)
    try:
        yield lines
    finally:
        lines.stop()


class _Bar:
    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def step(self, what: str) -> None:
        self._bar.update(self._task, description=what, completed=0, total=None)

    def share(self, done: float) -> None:
        self._bar.update(self._task, completed=min(1.0, done), total=1.0)


class _Lines:
    """From a thread of its own: who works does not look at the clock."""

    def __init__(self, name: str, every_s: float, console: Console) -> None:
        self._name = name
        self._console = console
        self._what, self._done = "", -1.0
        self._begun_ns = now_ns()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(every_s,), daemon=True)
        self._thread.start()

    def step(self, what: str) -> None:
        self._what, self._done = what, -1.0

    def share(self, done: float) -> None:
        self._done = done

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self, every_s: float) -> None:
        while not self._stopped.wait(every_s):
            took_s = (now_ns() - self._begun_ns) // NS_PER_S
            part = f" {min(1.0, self._done):.0%}" if self._done >= 0 else ""
            text = f"{self._name}: {self._what}{part} ({numerals.count(took_s)} s so far)"
            self._console.print(text, markup=False, soft_wrap=True)
