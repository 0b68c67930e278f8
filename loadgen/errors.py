"""The exception tree.

::

    LoadgenError
    +-- ConfigError      the plan, the command line or the environment is wrong      exit 2
    +-- TargetError      the target cannot be used at all                            exit 2
    +-- GeneratorError   we are at fault                                             exit 1
    |   +-- DiskFull     no room for the rows of a run: it ends, and proves nothing  exit 5
    +-- RunError         a run folder cannot be read or holds no evidence            exit 2

A bad *turn* is data (an outcome and a cause), never an exception.  A message says what, where and
what to do.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command and of a headless locust run."""

    PASS = 0
    INTERNAL = 1
    USAGE = 2
    SLO_MISSED = 3
    REGRESSION = 4
    INVALID = 5
    INCONCLUSIVE = 6
    INTERRUPTED = 130


class LoadgenError(Exception):
    """Base of all errors that we raise on purpose; the text is for the user."""

    exit_code = ExitCode.INTERNAL


class ConfigError(LoadgenError):
    """A plan, an option or a credential is wrong; nothing was sent."""

    exit_code = ExitCode.USAGE


class TargetError(LoadgenError):
    """The target cannot be reached or is not what the plan says."""

    exit_code = ExitCode.USAGE


class GeneratorError(LoadgenError):
    """The generator itself is at fault."""


class DiskFull(GeneratorError):
    """The disk has less room than we keep in reserve for what is under way."""

    exit_code = ExitCode.INVALID


class RunError(LoadgenError):
    """A run folder is missing, unreadable, or holds nothing to report."""

    exit_code = ExitCode.USAGE
