"""What a run is worth, from good to bad."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from loadgen.errors import ExitCode


class Verdict(StrEnum):
    """INVALID is above all: no statement about the target is possible."""

    PASS = "PASS"
    INCONCLUSIVE = "INCONCLUSIVE"
    FAIL = "FAIL"
    INVALID = "INVALID"


EXIT_CODES = {
    Verdict.PASS: ExitCode.PASS,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Verdict.FAIL: ExitCode.SLO_MISSED,
    Verdict.INVALID: ExitCode.INVALID,
}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several; of none INCONCLUSIVE, since nothing was judged."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.INCONCLUSIVE)
