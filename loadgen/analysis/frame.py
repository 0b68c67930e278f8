"""Tables of a run: one row a turn, and one row a happening inside a turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import axis, ledger, schedule
from loadgen.clock import NS_PER_S
from loadgen.errors import RunError
from loadgen.journal import RunData, read_run
from loadgen.metrics import MARKS, TURN_CLOCKS, Row, turn_clocks
from loadgen.turn import Outcome

FloatArray = NDArray[np.float64]
Made = tuple[pd.DataFrame, pd.DataFrame, ledger.Gaps]

LABELS = (
    "turn", "user", "conversation", "scenario", "dialect", "route", "outcome", "cause",
    "started_at", "worker",
)  # fmt: skip
"""Columns that say which turn it was; text."""

_FEW = (
    "outcome", "cause", "stamp", "side", "dialect", "scenario", "analyst_group", "group", "worker",
)  # fmt: skip
"""Columns of a few different texts, which are compared again and again: as categories those of a
million turns take a millisecond and not a twentieth of a second.
"""

_INSIDE = (
    "scheduled_ms", "first_progress_ms", "first_answer_ms", "ended_ms",
    "started_mono_ns", "scheduled_mono_ns", *(f"at_{mark}" for mark in MARKS),
)  # fmt: skip
"""What is in other columns of the table already."""

CLOCK_COLUMNS = tuple(f"{clock}_ms" for clock in TURN_CLOCKS)
"""Columns of durations in ms; NaN is missing."""


def read(folder: Path, told: Callable[[float], None] = lambda share: None) -> RunData:
    """`journal.read_run`, with both tables made on the way: the rows of a long run are decoded
    once.

    :raises RunError: it cannot be read, or a row is not what a row of this version is.
    """
    keeper = ledger.Keeper()
    with ledger.uncollected():
        try:
            run = read_run(folder, told, keeper.add)
            _MADE[run] = _made(run, keeper.ledger())
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(
                f"{folder}: a row of its journals is not one of this version's: {error!r}"
            ) from error
    return run


def turns(run: RunData) -> pd.DataFrame:
    """One row a turn, in the order of their start.

    Beside `LABELS` and `CLOCK_COLUMNS`: ``row`` (its place in ``run.rows``), ``elapsed_ms`` (server
    time to the end, whatever the outcome), ``asked`` (false for an arrival that was dropped),
    ``recovered prompts losses looked_away worked impossible`` (see `ledger.Ledger`), ``chunks stamp
    detail side content_encoding analyst_group`` and the facts ``sent_ms first_byte_ms first_step_ms
    status number twentieth_ms last_answer_ms reads merged_reads max_burst stalls stalled_ms
    output_tokens`` as they stand in the row, ``group`` (scenario and kind of analyst),
    ``conversation_number``, the places of ``begin_s visible_s answer_s end_s scheduled_s`` on the
    run's time axis, in seconds after the manifest's ``started_at`` (or the first turn), and what
    `schedule.placed` adds.
    """
    return _tables(run)[0]


def gaps(run: RunData) -> ledger.Gaps:
    """Gaps between answer chunks by dialect and route; see `ledger.Ledger`."""
    return _tables(run)[2]


def happened(run: RunData) -> pd.DataFrame:
    """One row a connection, login, reply or loss: the turn's ``turn conversation scenario dialect
    analyst_group outcome``, and ``clock at_ms value_ms``; ``value_ms`` is NaN when the other end
    never came.
    """
    return _tables(run)[1]


_WHOSE = ("turn", "conversation", "scenario", "dialect", "analyst_group", "outcome")


def plain(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The population of latency figures: completed turns that kept their connection.

    Just ``columns``, where some are named: to copy all of a million turns takes a second.
    """
    kept = completed(table) & ~table["recovered"]
    return table.loc[kept, [*columns]] if columns else table[kept]


def asked(table: pd.DataFrame) -> pd.DataFrame:
    """The turns that were started; the table itself where all were."""
    return table if table["asked"].all() else table[table["asked"]]


def completed(table: pd.DataFrame) -> pd.Series[bool]:
    """Which turns completed."""
    return table["outcome"] == Outcome.COMPLETED.value


def in_flight(table: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Times in s at which a turn began or ended, and how many turns were open from then on."""
    spans = table.loc[table["asked"], ["begin_s", "end_s"]].dropna()
    at = np.concatenate([spans["begin_s"].to_numpy(), spans["end_s"].to_numpy()])
    step = np.repeat([1.0, -1.0], len(spans))
    order = np.lexsort((step, at))
    return at[order], np.cumsum(step[order])


def derived(row: Row) -> dict[str, float]:
    """The columns that ``export`` adds to a journal row; a missing duration is absent."""
    return {f"{clock}_ms": round(value, 6) for clock, value in turn_clocks(row).items()}


def _tables(run: RunData) -> Made:
    """Both tables, made once for each run: going through its rows is what takes the time."""
    made = _MADE.get(run)
    if made is None:
        made = _MADE[run] = _made(run, ledger.keep(run))
    return made


def _made(run: RunData, kept: ledger.Ledger) -> Made:
    return _placed(run, kept.turns), _labelled(kept), kept.gaps


_MADE: WeakKeyDictionary[RunData, Made] = WeakKeyDictionary()


def _placed(run: RunData, facts: pd.DataFrame) -> pd.DataFrame:
    begin_s = _begin_s(run, facts)
    table = facts.drop(columns=[*_INSIDE]).assign(
        row=np.arange(len(facts)),
        group=_groups(facts),
        conversation_number=_numbers(facts["conversation"]),
        begin_s=begin_s,
        scheduled_s=schedule.due_s(run, facts, begin_s),
        visible_s=begin_s + facts["at_ttfv"].to_numpy() / 1000,
        answer_s=begin_s + facts["at_ttfa"].to_numpy() / 1000,
        end_s=begin_s + facts["wall_ms"].to_numpy() / 1000,
    )
    table = table.astype(dict.fromkeys(_FEW, "category"))
    return schedule.placed(table.sort_values("begin_s", kind="stable", ignore_index=True))


def _groups(facts: pd.DataFrame) -> pd.Series[str]:
    """Scenario and group of analysts, as far as a row tells them."""
    scenario, group = facts["scenario"], facts["analyst_group"]
    between = np.where((scenario != "") & (group != ""), " / ", "")
    return scenario + pd.Series(between, index=facts.index, dtype=str) + group


def _labelled(kept: ledger.Ledger) -> pd.DataFrame:
    places = kept.happenings["row"].to_numpy()
    labels = kept.turns[[*_WHOSE]].assign(conversation_number=_numbers(kept.turns["conversation"]))
    found = labels.take(places).reset_index(drop=True)
    return pd.concat([found, kept.happenings[["clock", "at_ms", "value_ms"]]], axis=1)


def _numbers(conversations: pd.Series[str]) -> NDArray[np.int64]:
    return pd.factorize(conversations)[0].astype(np.int64)


def _begin_s(run: RunData, facts: pd.DataFrame) -> FloatArray:
    """Each worker's monotonic stamps are placed by its own (wall, monotonic) anchor, so that
    workers on different hosts share one axis; without an anchor the turn's wall label serves.
    """
    offsets, mono = axis.offsets(run), facts["started_mono_ns"].to_numpy()
    asked, workers = facts["asked"].to_numpy(), facts["worker"]
    wall = np.full(len(facts), np.nan)
    unplaced = asked.copy()
    for worker, offset in offsets.items():
        here = asked & (workers == worker).to_numpy() & (mono != ledger.UNKNOWN)
        wall[here] = mono[here] + offset
        unplaced &= ~here
    for place in np.flatnonzero(unplaced):
        wall[place] = axis.parse_ns(facts["started_at"].iloc[place])
    origin = axis.origin_ns(run)
    if np.isnan(origin) and wall.size and not np.isnan(wall).all():
        origin = float(np.nanmin(wall))
    return np.asarray((wall - origin) / NS_PER_S)
