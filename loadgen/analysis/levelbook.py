"""The levels that a search has measured, a line each in its run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from loadgen.analysis.search import End, Seen
from loadgen.analysis.verdict import Verdict
from loadgen.errors import RunError
from loadgen.journal import Journal

Json = dict[str, Any]

FILE = "levels-capacity.jsonl"
NOW = "capacity-now.json"
"""What the search is doing, for a progress display."""


class LevelBook:
    """Writes the levels of the search in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal.open(folder, "capacity", "levels")

    def add(self, found: Mapping[str, Any]) -> None:
        """A level was measured."""
        self._journal.append(found)

    def end(self, end: End) -> None:
        """The search is over."""
        self._journal.append({"end": end.value})


def read_book(folder: Path) -> tuple[list[Json], End | None]:
    """The levels of the search in ``folder`` in their order, and how it ended; None: it did not.

    Raises RunError where no search was.
    """
    path = folder / FILE
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(
            f"{folder}: no search for the capacity in this folder (no {FILE})"
        ) from error
    levels: list[Json] = []
    end = None
    for line in lines:
        try:
            row = orjson.loads(line) if line else {}
        except orjson.JSONDecodeError:
            continue
        if "end" in row:
            end = End(row["end"])
        elif "level" in row:
            levels.append(row)
    return levels, end


def read_levels(folder: Path) -> list[Json]:
    """The levels that a search may go on from: not those that say nothing of the target.

    A target that had died may be up again.
    """
    levels, _ = read_book(folder)
    return [one for one in levels if one["verdict"] != Verdict.INVALID.value and not one["dead"]]


def is_search(folder: Path) -> bool:
    """Whether ``folder`` holds a search."""
    return (folder / FILE).exists()


def seen_of(levels: Iterable[Mapping[str, Any]]) -> list[Seen]:
    """What the search needs to know of its levels."""
    return [
        Seen(one["level"], Verdict(one["verdict"]), bool(one["leans"]), bool(one["dead"]))
        for one in levels
    ]
