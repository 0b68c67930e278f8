"""What the verbs ``compare``, ``gate``, ``bless`` and ``history`` do: read, judge, print, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from loadgen.analysis import baseline, compare, evidence, frame, gate, history, sides
from loadgen.analysis.guards import Guard
from loadgen.analysis.measure import Terms
from loadgen.analysis.summary import summarise
from loadgen.analysis.verdict import Verdict
from loadgen.errors import ConfigError, ExitCode, GeneratorError
from loadgen.journal import RunData, find_run, write_whole
from loadgen.report import comparison as tables
from loadgen.report import contrast, junit, markdown, openmetrics
from loadgen.report import history as trend
from loadgen.report.terminal import print_verdict
from loadgen.side import Side

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a gate leaves its files: ``folder`` gets all of them, ``step_summary`` is what
    ``GITHUB_STEP_SUMMARY`` names; None writes nothing.
    """

    folder: Path | None = None
    step_summary: Path | None = None


def compared(
    results: Path,
    base: Sequence[str],
    new: Sequence[str],
    terms: Terms,
    allowed: Sequence[str],
    out: Path | None,
) -> int:
    """Hold runs against others; ``comparison.json`` goes to ``out`` or beside the first new run."""
    both = [[baseline.find(results, name) for name in many] for many in (base, new)]
    found = compare.as_json(compare.compare(both[0], both[1], terms, [*map(Guard, allowed)]))
    tables.show_verdict(found)
    if out is None and new[0] not in baseline.known(results):
        out = find_run(results, new[0])
    if out is not None:
        _write(out, _pages(found, found))
    return int(found["exit_code"])


def gated(
    results: Path,
    name: str,
    against: str | None,
    terms: Terms,
    allowed: Sequence[str],
    pass_inconclusive: bool,
    outputs: Outputs,
) -> int:
    """Validity, targets, and a comparison: with the baseline ``against`` if there is one, of an
    A/B run that of its sides.
    """
    run = frame.read(find_run(results, name))
    summary = summarise(run)
    found, refusal = _against(results, run, summary, against, terms, allowed)
    decision = gate.decide(summary, found, refusal, pass_inconclusive)
    print_verdict(decision)
    tables.show_warnings(decision["warnings"])
    if found is not None:
        tables.show_numbers(found)
    _leave(outputs, summary, found, decision, pass_inconclusive)
    return int(decision["exit_code"])


def blessed(results: Path, name: str, as_name: str | None, now: str) -> Path:
    """Make a run a baseline and return the baseline's folder."""
    return baseline.bless(results, frame.read(find_run(results, name)), as_name, now)


def recalled(results: Path, name: str | None, out: Path | None) -> int:
    """Show the history of ``name`` and write its charts."""
    found = history.read(results, name)
    page = out or results / trend.FILE
    _make(page.parent)
    trend.show_history(found, trend.write_page(found, page))
    return ExitCode.PASS


def _against(
    results: Path,
    run: RunData,
    summary: Json,
    name: str | None,
    terms: Terms,
    allowed: Sequence[str],
) -> tuple[Json | None, str | None]:
    """The comparison, or why it was refused; neither where there is no baseline to hold against,
    or where an INVALID run has said all there is to say.
    """
    if sides.has_two(run.manifest):
        if name is not None:
            sides.refuse_two(run)
        return _within(run, summary, terms, allowed)
    if name is None:
        return None, None
    base = baseline.load(results, name)
    if summary["verdict"] == Verdict.INVALID and Guard.INVALID not in allowed:
        return None, f"{summary['run']} is INVALID"
    return _held(base, evidence.gather(run, summary), terms, allowed)


def _within(
    run: RunData, summary: Json, terms: Terms, allowed: Sequence[str]
) -> tuple[Json | None, str | None]:
    """The sides of an A/B run.  An INVALID one has nothing to say of either."""
    if summary["verdict"] == Verdict.INVALID and Guard.INVALID not in allowed:
        return None, f"{summary['run']} is INVALID"
    base, new = (sides.evidence(run, summary, side) for side in Side)
    return _held(base, new, terms, allowed)


def _held(
    base: evidence.Evidence, new: evidence.Evidence, terms: Terms, allowed: Sequence[str]
) -> tuple[Json | None, str | None]:
    try:
        return compare.as_json(compare.compare([base], [new], terms, [*map(Guard, allowed)])), None
    except ConfigError as error:
        return None, str(error)


def _leave(
    outputs: Outputs, summary: Json, found: Json | None, decision: Json, pass_inconclusive: bool
) -> None:
    told = markdown.render(summary, found, decision)
    if outputs.step_summary is not None:
        markdown.append(outputs.step_summary, told)
    if outputs.folder is None:
        return
    files = {
        junit.FILE: junit.render(summary, found, decision, pass_inconclusive),
        markdown.FILE: told.encode(),
        openmetrics.FILE: openmetrics.render(summary, found, decision).encode(),
    }
    if found is not None:
        files |= _pages(found, decision)
    _write(outputs.folder, files)


def _pages(found: Json, decision: Json) -> dict[str, bytes]:
    return {
        compare.FILE: orjson.dumps(found, option=orjson.OPT_INDENT_2),
        contrast.FILE: contrast.render(found, decision).encode(),
    }


def _write(folder: Path, files: dict[str, bytes]) -> None:
    _make(folder)
    for name, content in files.items():
        write_whole(folder / name, content)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GeneratorError(f"{folder}: cannot make the folder: {error.strerror}") from error
