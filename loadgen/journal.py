"""The run folder: append-only journals of turn rows, the manifest, and reading them back.

One journal per process, one row per line, each written with a single ``write`` to an ``O_APPEND``
descriptor: what `Journal.append` returned from survives ``kill -9``.  Readers take the union of all
journals and drop duplicates by turn id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from loadgen.errors import GeneratorError, RunError

MANIFEST = "manifest.json"
SUMMARY = "summary.json"
JOURNALS = "turns-*.jsonl"


@dataclass(frozen=True, slots=True)
class RunData:
    """A run as it lies on disk.

    ``torn_lines`` could not be decoded (a crash leaves at most one a file); ``duplicates`` were
    dropped because their turn was already there; ``conflicts`` are duplicates that said something
    else.  ``manifest_error`` tells why ``manifest`` is empty.
    """

    folder: Path
    manifest: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    torn_lines: int = 0
    duplicates: int = 0
    conflicts: int = 0
    files: tuple[str, ...] = ()
    manifest_error: str = ""


class Journal:
    """The journal of one process.  After a failed write nothing more is written: a torn line stays
    the last one.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.failure: str | None = None
        self._descriptor = descriptor

    @classmethod
    def open(cls, folder: Path, process: str) -> Self:
        """Open or take up again ``turns-<process>.jsonl``.

        :raises GeneratorError: the file cannot be opened.
        """
        path = folder / f"turns-{process}.jsonl"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                os.write(descriptor, b"\n")
        except OSError as error:
            raise GeneratorError(f"{path}: cannot open the journal: {error.strerror}") from error
        return cls(path, descriptor)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row.

        :raises GeneratorError: the row could not be written (a full disk, most often), now or
            earlier.
        """
        if self.failure is not None:
            raise GeneratorError(self.failure)
        rest = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self.failure = (
                f"{self.path}: cannot write turn {row.get('turn')}: {error.strerror}; "
                "free some space and run again, later turns of this process are not recorded"
            )
            raise GeneratorError(self.failure) from error

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def new_run_folder(results: Path, name: str, now_text: str) -> Path:
    """Create ``results/<UTC time>-<name>/``; ``now_text`` is `loadgen.clock.utc_text`.

    Characters that do not belong into a file name become ``-``; a taken name gets a number.

    :raises GeneratorError: the folder cannot be made.
    """
    stamp = re.sub(r"[-:]|\.\d+", "", now_text)
    base = f"{stamp}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'run'}"
    number = 1
    while True:
        folder = results / (base if number == 1 else f"{base}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise GeneratorError(f"{folder}: cannot make the folder: {error.strerror}") from error
        else:
            return folder


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Replace ``manifest.json`` as a whole: a reader sees the old one or the new one.

    :raises GeneratorError: the file cannot be written.
    """
    write_whole(folder / MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that no reader ever sees half of it.

    :raises GeneratorError: the file cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise GeneratorError(f"{path}: cannot write: {error.strerror}") from error


def find_run(results: Path, run: str) -> Path:
    """The folder that ``run`` names: a path, a folder inside ``results``, or ``latest``.

    :raises RunError: there is no such run.
    """
    if run == "latest":
        runs = sorted(path for path in results.glob("[0-9]*") if _is_run(path))
        if not runs:
            raise RunError(
                f"{results}: no run in this folder; start one, or name it with --results"
            )
        return runs[-1]
    for folder in (Path(run), results / run):
        if _is_run(folder):
            return folder
    raise RunError(f"{run}: not a run folder (no {MANIFEST} and no {JOURNALS} in it)")


def read_run(folder: Path) -> RunData:
    """Read everything that a run left behind.

    A manifest that cannot be read is reported in the result, since the turns may still be worth a
    look.

    :raises RunError: ``folder`` is not a run folder, or a journal in it cannot be read.
    """
    if not _is_run(folder):
        raise RunError(f"{folder}: not a run folder (no {MANIFEST} and no {JOURNALS} in it)")
    manifest, manifest_error = _read_manifest(folder / MANIFEST)
    turns: dict[str, dict[str, Any]] = {}
    torn = duplicates = conflicts = 0
    files = sorted(folder.glob(JOURNALS))
    for path in files:
        for line in _lines(path):
            row = _decode(line)
            if row is None:
                torn += 1
            elif row["turn"] in turns:
                duplicates += 1
                conflicts += turns[row["turn"]] != row
            else:
                turns[row["turn"]] = row
    return RunData(
        folder=folder,
        manifest=manifest,
        rows=list(turns.values()),
        torn_lines=torn,
        duplicates=duplicates,
        conflicts=conflicts,
        files=tuple(path.name for path in files),
        manifest_error=manifest_error,
    )


def _is_run(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MANIFEST).exists() or any(folder.glob(JOURNALS)))


def _read_manifest(path: Path) -> tuple[dict[str, Any], str]:
    try:
        manifest = orjson.loads(path.read_bytes())
    except OSError as error:
        return {}, f"{path.name}: {error.strerror}"
    except orjson.JSONDecodeError as error:
        return {}, f"{path.name}: {error}"
    if not isinstance(manifest, dict):
        return {}, f"{path.name}: not a JSON object"
    return manifest, ""


def _lines(path: Path) -> list[bytes]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot read the journal: {error.strerror}") from error
    return [line for line in content.split(b"\n") if line]


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and "turn" in row and "outcome" in row else None


def read_exit_code(folder: Path) -> int:
    """The exit code of the verdict in ``summary.json``.

    :raises RunError: there is no readable summary.
    """
    path = folder / SUMMARY
    try:
        return int(orjson.loads(path.read_bytes())["exit_code"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: no readable summary: {error}") from error
