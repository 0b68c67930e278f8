"""One pass over the rows of a run: what stands in them as columns, and what happened inside turns.

The clocks are those of the formula book (`metrics`), computed over whole columns: its functions
would take a minute for a million rows.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.journal import RunData
from loadgen.metrics import (
    INTENDED,
    MARKS,
    STAMP_SLACK_MS,
    TURN_CLOCKS,
    Clock,
    Row,
    happenings,
    pauses,
)
from loadgen.turn import Outcome

FloatArray = NDArray[np.float64]
Columns = dict[str, Any]
Gaps = dict[tuple[str, str], Counter[int]]

TEXTS = (
    "turn", "user", "conversation", "scenario", "dialect", "route", "outcome", "cause",
    "started_at", "worker", "stamp", "detail", "side", "content_encoding", "analyst_group",
)  # fmt: skip
"""What stands in a row as text; empty where it does not."""

TIMES = (
    "scheduled_ms", "sent_ms", "first_byte_ms", "first_step_ms", "first_progress_ms",
    "first_answer_ms", "twentieth_ms", "last_answer_ms", "ended_ms", "max_gap_ms", "stalled_ms",
    "output_tokens", "status",
)  # fmt: skip
"""What stands in a row as a number; NaN where it does not."""

UNKNOWN = -1
"""Of a stamp of the monotonic clock: not in the row."""

INTEGERS = (
    "chunks", "reads", "merged_reads", "max_burst", "stalls", "number", "started_mono_ns",
    "scheduled_mono_ns",
)  # fmt: skip

_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(TEXTS, ""),
    **dict.fromkeys(TIMES, float("nan")),
    **{name: UNKNOWN if name.endswith("_ns") else 0 for name in INTEGERS},
}

_FLAGS = ("recovered", "looked_away", "worked")
_COUNTS = ("prompts", "losses")

_ORDERED = ("first_byte", "first_step", "first_progress", "first_answer", "last_answer", "ended")
_DONE = Outcome.COMPLETED.value
_BATCH = 250
_PAGE = 50_000


@dataclass(frozen=True, slots=True)
class Ledger:
    """``turns`` has one row for each row of the run, in its order: `TEXTS`, `TIMES`
    (``twentieth_ms`` with pauses taken out), `INTEGERS`, the `TURN_CLOCKS` and ``elapsed`` in ms,
    the `MARKS` with pauses left in (``at_ttfv`` and so on), ``asked recovered prompts losses``;
    ``impossible``: see `metrics.impossible`; ``looked_away``: read late on purpose; ``worked``: it
    tells its work.

    ``happenings`` has one row for each thing that happened inside a turn that was started: ``row``
    (its place in ``turns``), ``clock at_ms value_ms``; NaN where the other end never came.

    ``gaps`` counts those between answer chunks by bucket (`loadgen.flow`), for each dialect and
    route, of turns that completed and kept their connection.
    """

    turns: pd.DataFrame
    happenings: pd.DataFrame
    gaps: Gaps


class Keeper:
    """Takes the rows of a run one by one."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._page = _Page()
        self._tables: list[tuple[pd.DataFrame, pd.DataFrame]] = []
        self._gaps: Gaps = {}

    def add(self, row: Row) -> None:
        """The next row."""
        self._rows.append(row)
        # Few enough to stay in a processor's cache until all of their columns are read.
        if len(self._rows) == _BATCH:
            self._page.add(self._rows)
            self._rows = []
            if self._page.size >= _PAGE:
                self._tables.append(self._page.tables())
                self._page.count_gaps(self._gaps)
                self._page = _Page(self._page.first + self._page.size)

    def ledger(self) -> Ledger:
        """All of them; no row may follow."""
        self._page.add(self._rows)
        self._page.count_gaps(self._gaps)
        turns, inside = zip(*self._tables, self._page.tables(), strict=True)
        return Ledger(
            pd.concat(turns, ignore_index=True), pd.concat(inside, ignore_index=True), self._gaps
        )


def keep(run: RunData) -> Ledger:
    """Go through the rows of ``run`` once."""
    keeper = Keeper()
    with uncollected():
        for row in run.rows:
            keeper.add(row)
        return keeper.ledger()


@contextmanager
def uncollected() -> Iterator[None]:
    """Rows die by themselves; the collector would look for rings in all that is kept again and
    again, which takes a third of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Pauses:
    """The pauses of turns that asked their analyst something, by the place of the turn."""

    def __init__(self, rows: Sequence[tuple[int, Row]]) -> None:
        found = [(place, *pause) for place, row in rows for pause in pauses(row)]
        self._places = np.array([place for place, _, _ in found], dtype=np.int64)
        self._begins, self._ends = np.array(
            [(begin, until) for _, begin, until in found], dtype=np.float64
        ).reshape(-1, 2).T  # fmt: skip
        self._prompts = [
            (place, min(prompt["paused_ms"] for prompt in row["prompts"])) for place, row in rows
        ]

    def first_prompt(self, turns: int) -> FloatArray:
        """When each of ``turns`` showed its first prompt."""
        shown = np.full(turns, np.nan)
        for place, at in self._prompts:
            shown[place] = at
        return shown

    def served(self, marks: FloatArray) -> FloatArray:
        """See `metrics.served`."""
        before = np.minimum(self._ends, marks[self._places]) - self._begins
        return marks - self._summed(np.maximum(0.0, before), marks.size)

    def human(self, ended: FloatArray) -> FloatArray:
        """All of them, of turns that ended."""
        lasted = self._summed(self._ends - self._begins, ended.size)
        return np.where(np.isnan(ended), np.nan, lasted)

    def _summed(self, values: FloatArray, turns: int) -> FloatArray:
        return np.bincount(self._places, values, turns).astype(np.float64)


class _Page:
    """Some rows on their way to columns; ``first`` is the place of the first of them."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._lists: dict[str, list[Any]] = {name: [] for name in (*_DEFAULTS, *_FLAGS, *_COUNTS)}
        self._happened: list[tuple[int, Clock, float, float | None]] = []
        self._paused: list[tuple[int, Row]] = []
        self._gaps: dict[tuple[str, str], list[int]] = {}

    @property
    def size(self) -> int:
        return len(self._lists["turn"])

    def add(self, rows: Sequence[Row]) -> None:
        begin, lists = self.size, self._lists
        for name, default in _DEFAULTS.items():
            lists[name] += [row.get(name, default) for row in rows]
        for name in _COUNTS:
            lists[name] += [len(row[name]) if name in row else 0 for row in rows]
        lists["recovered"] += ["recovered" in row and bool(row["recovered"]) for row in rows]
        lists["looked_away"] += ["looked_away" in row.get("notices", ()) for row in rows]
        lists["worked"] += ["work" in row or "citations" in row for row in rows]
        for place, row in enumerate(rows, begin):
            self._happened += [(place, *item) for item in happenings(row)]
            if row.get("prompts"):
                self._paused.append((place, row))
            if "gaps" in row and row["outcome"] == _DONE and not row.get("recovered"):
                where = row.get("dialect", ""), row.get("route", "")
                self._gaps.setdefault(where, []).extend(row["gaps"])

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The two tables of `Ledger`, of these rows."""
        lists = self._lists
        columns: Columns = {name: pd.Series(lists[name], dtype=str) for name in TEXTS}
        for names, kind in ((TIMES, np.float64), ((*INTEGERS, *_COUNTS), np.int64), (_FLAGS, bool)):
            columns |= {name: np.array(lists[name], dtype=kind) for name in names}
        # As `metrics.started` has it.
        dropped = (columns["outcome"] == Outcome.DROPPED.value).to_numpy()
        asked = columns["asked"] = ~dropped & (columns["started_mono_ns"] != 0)
        inside = self._inside()
        columns |= _clocks(columns, _Pauses(self._paused))
        columns["impossible"] = _impossible(columns, inside)
        inside = inside[asked[inside["row"]]]
        return pd.DataFrame(columns), inside.assign(row=inside["row"] + self.first)

    def count_gaps(self, found: Gaps) -> None:
        """Add the gaps of these rows to ``found``."""
        for where, flat in self._gaps.items():
            pairs = np.array(flat, dtype=np.int64).reshape(-1, 2)
            numbers = np.bincount(pairs[:, 0], weights=pairs[:, 1])
            counted = found.setdefault(where, Counter())
            for bucket in np.flatnonzero(numbers).tolist():
                counted[bucket] += int(numbers[bucket])

    def _inside(self) -> pd.DataFrame:
        places, clocks, at, values = (
            zip(*self._happened, strict=True) if self._happened else [()] * 4
        )
        return pd.DataFrame(
            {
                "row": np.array(places, dtype=np.int64),
                "clock": pd.Series([clock.value for clock in clocks], dtype=str),
                "at_ms": np.array(at, dtype=np.float64),
                "value_ms": np.array(values, dtype=np.float64),
            }
        )


def _clocks(facts: Columns, pauses: _Pauses) -> Columns:
    """The formula book over columns."""
    completed = (facts["outcome"] == Outcome.COMPLETED.value).to_numpy()
    progress, answer, ended = (
        facts[name] for name in ("first_progress_ms", "first_answer_ms", "ended_ms")
    )
    at = {
        Clock.TTFV: np.fmin(np.fmin(progress, answer), pauses.first_prompt(len(ended))),
        Clock.TTFP: progress,
        Clock.TTFA: answer,
        Clock.TTC: np.where(completed, ended, np.nan),
    }
    lag, served = 0.0 - facts["scheduled_ms"], pauses.served
    found = {
        **{mark: served(at[mark]) for mark in MARKS},
        **{INTENDED[mark]: served(at[mark]) + lag for mark in MARKS},
        Clock.LAG: lag,
        Clock.SETUP: facts["sent_ms"].copy(),
        Clock.MAX_GAP: facts["max_gap_ms"].copy(),
        Clock.WALL: ended.copy(),
        Clock.HUMAN: pauses.human(ended),
    }
    facts["twentieth_ms"] = served(facts["twentieth_ms"])
    spent = served(ended)
    for column in (*found.values(), spent):
        column[~facts["asked"]] = np.nan
    return {
        **{f"{clock}_ms": found[clock] for clock in TURN_CLOCKS},
        **{f"at_{mark}": column for mark, column in at.items()},
        "elapsed_ms": spent,
    }


def _impossible(facts: Columns, inside: pd.DataFrame) -> NDArray[np.bool_]:
    """See `metrics.impossible`; ``inside`` is what happened, also in turns that were dropped."""
    end = np.where(np.isnan(facts["ended_ms"]), np.inf, facts["ended_ms"])
    bad = facts["scheduled_ms"] > 0
    for name in _ORDERED:
        at = facts[f"{name}_ms"]
        bad |= (at < 0) | (at > end)
    bad[inside.loc[inside["value_ms"] < -STAMP_SLACK_MS, "row"]] = True
    return np.asarray(bad & facts["asked"])
