"""The bundled mock agent as a process of our own, for a run without ``--host``."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import sys

from gevent import Timeout
from gevent.subprocess import PIPE, Popen

from loadgen.errors import ConfigError

_READY = "mock agent on "
_START_S = 20
_STOP_S = 5


class BundledMock:
    """A running mock agent; ``url`` is where it listens."""

    def __init__(self, arguments: str = "") -> None:
        """Start it and wait until it is ready.  Raises ConfigError when it does not come up."""
        command = [sys.executable, "-m", "mockagent", "--port", "0", *shlex.split(arguments)]
        self._process = Popen(command, stdout=PIPE, stderr=PIPE, start_new_session=True)
        self._owner = os.getpid()
        atexit.register(self.stop)
        line = ""
        with Timeout(_START_S, False):
            line = self._process.stdout.readline().decode(errors="replace").strip()
        if not line.startswith(_READY):
            self.stop()
            said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
            why = said[-1] if said else line or f"nothing was said within {_START_S} s"
            raise ConfigError(f"the bundled mock agent did not start: {why}; see --mock-args")
        self.url = line.removeprefix(_READY)

    def stop(self) -> None:
        """End it; only the process that started it does."""
        if os.getpid() != self._owner or self._process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
            with Timeout(_STOP_S, False):
                self._process.wait()
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
