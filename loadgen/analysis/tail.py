"""The journals of a run that is still going: what was written since one looked last.

`journal.read_run` reads a run that is over; this keeps the rows of the current level only, so that
hours of search cost no more to look at than minutes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson

from loadgen.analysis import axis
from loadgen.clock import NS_PER_S
from loadgen.journal import HEALTH, JOURNALS, RunData

Row = dict[str, Any]


class Tail:
    """The rows of the run in ``folder``; ``manifest`` is what it was at the begin."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self._folder = folder
        self._manifest = manifest
        self._origin_s = axis.parse_ns(manifest.get("started_at", "")) / NS_PER_S
        self._read: dict[Path, int] = {}
        self._turns: dict[str, tuple[float, Row]] = {}
        self._health: dict[str, dict[int, tuple[float, Row]]] = {}

    def at_s(self, wall_ns: int) -> float:
        """A moment of the wall clock, in s on the run's axis."""
        return wall_ns / NS_PER_S - self._origin_s

    def poll(self) -> None:
        """Take in what whole lines were written meanwhile; a torn one is waited for."""
        for path in sorted(self._folder.glob(JOURNALS)):
            for row in self._new(path):
                ended_s = axis.parse_ns(row.get("started_at", "")) / NS_PER_S - self._origin_s
                ended_s += row.get("ended_ms", 0.0) / 1000
                self._turns.setdefault(row["turn"], (ended_s, row))
        for path in sorted(self._folder.glob(HEALTH)):
            for row in self._new(path):
                at_s = row["wall_ns"] / NS_PER_S - self._origin_s
                rows = self._health.setdefault(str(row["process"]), {})
                rows.setdefault(int(row["n"]), (at_s, row))

    def forget(self, before_s: float) -> None:
        """What ended before is needed no more."""
        self._turns = {k: kept for k, kept in self._turns.items() if kept[0] >= before_s}
        self._health = {
            name: {n: kept for n, kept in rows.items() if kept[0] >= before_s}
            for name, rows in self._health.items()
        }

    def run(self) -> RunData:
        """What is kept, as a run."""
        return RunData(
            folder=self._folder,
            manifest=self._manifest,
            rows=[row for _, row in self._turns.values()],
            files=tuple(sorted(path.name for path in self._read)),
            health={
                name: [rows[n][1] for n in sorted(rows)]
                for name, rows in sorted(self._health.items())
                if rows
            },
        )

    def users_ended(self, since_s: float, turns: int = 1) -> int:
        """How many analysts have had so many turns end since."""
        ended = Counter(row.get("user") for at_s, row in self._turns.values() if at_s >= since_s)
        return sum(number >= turns for number in ended.values())

    def conversation_s(self, turns: int, think_s: float) -> float | None:
        """How long a conversation of so many turns takes, from the turns that ended of late."""
        walls = [row["ended_ms"] / 1000 for _, row in self._turns.values() if "ended_ms" in row]
        return turns * (sum(walls) / len(walls) + think_s) if walls else None

    def _new(self, path: Path) -> list[Row]:
        try:
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                content = file.read()
        except OSError:
            return []
        whole = content.rfind(b"\n") + 1
        self._read[path] = self._read.get(path, 0) + whole
        rows = []
        for line in content[:whole].split(b"\n"):
            try:
                row = orjson.loads(line) if line else None
            except orjson.JSONDecodeError:
                continue
            if isinstance(row, dict):
                rows.append(row)
        return rows
