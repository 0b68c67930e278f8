"""One thing that must hold for a run to be evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One check, a sentence with its numbers; ``ok`` false makes the run INVALID.  ``advice`` says
    what to do then.
    """

    check: str
    ok: bool
    detail: str
    advice: str = ""


def failures(checks: Iterable[Check]) -> list[str]:
    """The sentences of the checks that failed."""
    return [
        check.detail + (f"; {check.advice}" if check.advice else "")
        for check in checks
        if not check.ok
    ]
