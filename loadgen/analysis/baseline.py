"""A blessed run: what later runs are held against, small enough for git.

``results/baselines/<name>/`` has ``baseline.json`` (facts and the main figures, without the text of
a server and without hosts), ``samples.npz`` (the clocks of at most `MOST_TURNS` turns, no pickle)
and ``history.jsonl``, a line a blessing.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from loadgen.analysis import frame
from loadgen.analysis.evidence import Evidence, Vector, gather
from loadgen.analysis.sides import refuse_two
from loadgen.analysis.summary import summarise
from loadgen.analysis.verdict import Verdict
from loadgen.errors import ConfigError, GeneratorError, RunError
from loadgen.journal import RunData, find_run, write_whole

SCHEMA = 1
FOLDER = "baselines"
FILE = "baseline.json"
SAMPLES = "samples.npz"
HISTORY = "history.jsonl"

MOST_TURNS = 20_000
"""Turns whose clocks a baseline keeps."""

FIGURES = (
    "run", "name", "scenario", "started_at", "ended_at", "load", "plan_hash", "verdict", "headline",
    "turns", "quantiles", "metrics",
)  # fmt: skip
"""What is kept of the summary."""

Json = dict[str, Any]


def bless(results: Path, run: RunData, name: str | None, blessed_at: str) -> Path:
    """Make ``run`` the baseline ``name`` (of its scenario, without one) and return its folder.

    :raises RunError: the run is INVALID: nothing can be held against it.
    :raises ConfigError: a name that is no file name.
    """
    refuse_two(run)
    summary = summarise(run)
    if summary["verdict"] == Verdict.INVALID:
        raise RunError(f"{summary['run']} is INVALID, no baseline: {summary['reasons'][0]}")
    name = _checked(name or summary["scenario"] or "baseline")
    folder = results / FOLDER / name
    evidence = gather(run, summary, MOST_TURNS)
    figures = {key: summary[key] for key in FIGURES}
    content = {
        "schema": SCHEMA,
        "name": name,
        "blessed_at": blessed_at,
        "evidence": _labels(evidence),
        "summary": figures,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / HISTORY).open("ab") as history:
            host = evidence.facts["host"].get("hostname")
            entry = {"blessed_at": blessed_at, "hostname": host, **figures}
            history.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
    except OSError as error:
        raise GeneratorError(f"{folder}: cannot write: {error.strerror}") from error
    write_whole(folder / SAMPLES, _packed(evidence.clocks))
    write_whole(folder / FILE, orjson.dumps(content, option=orjson.OPT_INDENT_2))
    return folder


def load(results: Path, name: str) -> Evidence:
    """The evidence of the baseline ``name``.

    :raises RunError: there is none, or it cannot be read.
    """
    folder = results / FOLDER / name
    path = folder / FILE
    try:
        content = orjson.loads(path.read_bytes())
        labels = content["evidence"]
        clocks = _unpacked((folder / SAMPLES).read_bytes(), labels.pop("missing"))
        return Evidence(**labels | {"reasons": tuple(labels["reasons"])}, clocks=clocks)
    except FileNotFoundError as error:
        if path.exists():
            raise RunError(
                f"{folder / SAMPLES}: is not there, though {FILE} is: both belong into git; take "
                "it from where the baseline was blessed, or bless a run again"
            ) from error
        names = ", ".join(known(results)) or "none"
        raise RunError(
            f"{name}: no such baseline in {results / FOLDER} (there: {names}); "
            "make one with: loadgen bless RUN"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"{path}: not a baseline this version can read: {error}") from error


def find(results: Path, name: str) -> Evidence:
    """The evidence of a run (see `journal.find_run`) or, where there is none, of a baseline.

    :raises RunError: there is neither.
    """
    if name in known(results):
        return load(results, name)
    run = frame.read(find_run(results, name))
    refuse_two(run)
    return gather(run, summarise(run))


def known(results: Path) -> list[str]:
    """The names of all baselines."""
    return sorted(path.parent.name for path in (results / FOLDER).glob(f"*/{FILE}"))


def blessings(results: Path, name: str) -> Iterator[Json]:
    """The figures of each blessing of ``name``, oldest first; torn lines are skipped."""
    path = results / FOLDER / name / HISTORY
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entry, dict) and "metrics" in entry:
            yield entry


def _labels(evidence: Evidence) -> Json:
    """All of the evidence but its samples."""
    labels = asdict(replace(evidence, clocks={}))
    del labels["clocks"]
    return labels | {"missing": {clock: v.missing for clock, v in evidence.clocks.items()}}


def _packed(clocks: Mapping[str, Vector]) -> bytes:
    """Seven digits of each value are kept: a microsecond of ten seconds."""
    arrays: dict[str, Any] = {}
    for clock, vector in clocks.items():
        arrays[f"{clock}.values"] = vector.values.astype(np.float32)
        arrays[f"{clock}.conversations"] = vector.conversations.astype(np.int32)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def _unpacked(content: bytes, missing: Mapping[str, int]) -> dict[str, Vector]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {
            clock: Vector(
                arrays[f"{clock}.values"].astype(np.float64),
                arrays[f"{clock}.conversations"].astype(np.int64),
                missed,
            )
            for clock, missed in missing.items()
        }


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", name):
        raise ConfigError(f"--name takes letters, digits, dot, dash and underscore, got {name!r}")
    return name
