"""The run folder: append-only journals of turn rows, the manifest, and reading them back.

One journal per process, one row per line, each written with a single ``write`` to an ``O_APPEND``
descriptor: what `Journal.append` returned from survives ``kill -9``.  Readers take the union of all
journals and drop duplicates by turn id.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Self, overload

import orjson

from loadgen.errors import GeneratorError, RunError

MANIFEST = "manifest.json"
SUMMARY = "summary.json"

_TOLD_ROWS = 5_000
"""How many rows are read between two words about it."""
JOURNALS = "turns-*.jsonl"
HEALTH = "health-*.jsonl"
TARGET = "target-*.jsonl"

_BUFFER = 1 << 20
_TURN_KEYS = frozenset({"turn", "outcome"})
_TARGET_KEYS = frozenset({"wall_ns"})
_HEALTH_KEYS = frozenset({"process", "n", "wall_ns", "mono_ns"})


class Rows(Sequence[dict[str, Any]]):
    """Rows of journals, each decoded anew whenever it is asked for: a million rows as dicts would
    take more memory than a CI machine has.  Go through them once, and in their order.
    """

    def __init__(self, paths: Sequence[Path] = ()) -> None:
        self._paths = paths
        self._files, self._begins, self._lengths = array("H"), array("Q"), array("L")

    def __len__(self) -> int:
        return len(self._begins)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        with self._paths[self._files[index]].open("rb") as journal:
            return self._read(journal, index)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.pick(range(len(self)))

    def pick(self, places: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The rows at ``places``, quickest where those ascend."""
        for number, here in groupby(places, key=self._files.__getitem__):
            with self._paths[number].open("rb", buffering=_BUFFER) as journal:
                for place in here:
                    yield self._read(journal, place)

    def add(self, file: int, begin: int, length: int) -> None:
        """Take up the row that lies at ``begin`` in the journal of that number."""
        self._files.append(file)
        self._begins.append(begin)
        self._lengths.append(length)

    def _read(self, journal: BinaryIO, index: int) -> dict[str, Any]:
        journal.seek(self._begins[index])
        row: dict[str, Any] = orjson.loads(journal.read(self._lengths[index]))
        return row


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RunData:
    """A run as it lies on disk.

    ``torn_lines`` could not be decoded (a crash leaves at most one a file); ``duplicates`` were
    dropped because their turn was already there; ``conflicts`` are duplicates that said something
    else.  ``manifest_error`` tells why ``manifest`` is empty.  ``health`` has the rows of each
    process in their order, nothing of runs that kept none; its torn lines are not counted.
    ``target`` has what a mock of ours said of itself.
    """

    folder: Path
    manifest: dict[str, Any]
    rows: Sequence[dict[str, Any]] = ()
    torn_lines: int = 0
    duplicates: int = 0
    conflicts: int = 0
    files: tuple[str, ...] = ()
    manifest_error: str = ""
    health: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    target: list[dict[str, Any]] = field(default_factory=list)

    def rows_at(self, places: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The rows at ``places`` of ``rows``, quickest where those ascend."""
        if isinstance(self.rows, Rows):
            return self.rows.pick(places)
        return map(self.rows.__getitem__, places)


class Journal:
    """The journal of one process.  After a failed write nothing more is written: a torn line stays
    the last one.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.failure: str | None = None
        self._descriptor = descriptor

    @classmethod
    def open(cls, folder: Path, process: str, kind: str = "turns") -> Self:
        """Open or take up again ``<kind>-<process>.jsonl``.

        :raises GeneratorError: the file cannot be opened.
        """
        path = folder / f"{kind}-{process}.jsonl"
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
                f"{self.path}: cannot write {_name(row)}: {error.strerror}; "
                "free some space and run again, later rows of this process are not recorded"
            )
            raise GeneratorError(self.failure) from error

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _name(row: Mapping[str, Any]) -> str:
    return f"turn {row['turn']}" if "turn" in row else "a row"


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


def read_run(
    folder: Path,
    told: Callable[[float], None] = lambda share: None,
    taken: Callable[[dict[str, Any]], None] = lambda row: None,
) -> RunData:
    """Read everything that a run left behind; ``told`` is called with the share that is read,
    ``taken`` with each row, in the order of `RunData.rows`.

    A manifest that cannot be read is reported in the result, since the turns may still be worth a
    look.

    :raises RunError: ``folder`` is not a run folder, or a journal in it cannot be read.
    """
    if not _is_run(folder):
        raise RunError(f"{folder}: not a run folder (no {MANIFEST} and no {JOURNALS} in it)")
    manifest, manifest_error = _read_manifest(folder / MANIFEST)
    places: dict[str, int] = {}
    seen = array("q")
    torn = duplicates = conflicts = 0
    files = sorted(folder.glob(JOURNALS))
    size, read = sum(path.stat().st_size for path in files), 0
    rows = Rows(files)
    for number, path in enumerate(files):
        end = 0
        for count, line in enumerate(_lines(path)):
            begin, end = end, end + len(line)
            read += len(line)
            if count % _TOLD_ROWS == 0:
                told(read / size)
            row = _decode(line)
            if row is None:
                torn += line != b"\n"
            elif (place := places.setdefault(row["turn"], len(rows))) == len(rows):
                rows.add(number, begin, len(line))
                seen.append(hash(line))
                taken(row)
            else:
                # A master keeps a copy of every row of its workers, mostly to the letter.
                duplicates += 1
                conflicts += hash(line) != seen[place] and rows[place] != row
    return RunData(
        folder=folder,
        manifest=manifest,
        rows=rows,
        torn_lines=torn,
        duplicates=duplicates,
        conflicts=conflicts,
        files=tuple(path.name for path in files),
        manifest_error=manifest_error,
        health=_read_health(folder),
        target=[
            row
            for path in sorted(folder.glob(TARGET))
            for line in _lines(path)
            if (row := _decode(line, _TARGET_KEYS)) is not None
        ],
    )


def _read_health(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The union of all health journals: a master keeps copies of its workers' rows."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for path in sorted(folder.glob(HEALTH)):
        for line in _lines(path):
            row = _decode(line, _HEALTH_KEYS)
            if row is not None:
                found.setdefault(str(row["process"]), {}).setdefault(int(row["n"]), row)
    return {name: [rows[n] for n in sorted(rows)] for name, rows in sorted(found.items())}


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


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=_BUFFER) as journal:
            yield from journal
    except OSError as error:
        raise RunError(f"{path}: cannot read the journal: {error.strerror}") from error


def _decode(line: bytes, keys: frozenset[str] = _TURN_KEYS) -> dict[str, Any] | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and keys <= row.keys() else None


def read_exit_code(folder: Path) -> int:
    """The exit code of the verdict in ``summary.json``.

    :raises RunError: there is no readable summary.
    """
    return int(read_verdict(folder)["exit_code"])


def read_verdict(folder: Path) -> dict[str, Any]:
    """``verdict``, ``headline`` and ``exit_code`` of ``summary.json``.

    :raises RunError: there is no readable summary.
    """
    path = folder / SUMMARY
    try:
        found = orjson.loads(path.read_bytes())
        return {key: found[key] for key in ("verdict", "headline", "exit_code")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: no readable summary: {error}") from error
