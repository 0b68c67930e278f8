"""Which turns a target of the plan is about: all of them, or those of one part of the crowd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from loadgen.metrics import INTENDED, Clock

Json = dict[str, Any]

PARTS = {"dialect": "dialect", "scenario": "scenario", "group": "analyst_group"}
"""What a crowd can be divided by, and the columns of both tables of `frame` that tell."""


def spread(targets: Sequence[Mapping[str, Any]], closed: bool, table: pd.DataFrame) -> list[Json]:
    """The targets as they are judged.

    ``each = "dialect"`` stands for one target for each dialect that was asked.  Where turns arrive
    clocks count from SCHEDULED.
    """
    found: list[Json] = []
    for target in targets:
        plain = target if closed else from_schedule(target)
        bare = {key: value for key, value in plain.items() if key != "each"}
        by = plain.get("each")
        if by is None:
            found.append(bare)
        else:
            found += [bare | {by: name} for name in names(table, by)]
    return found


def names(table: pd.DataFrame, by: str) -> list[str]:
    """The parts of a crowd that were asked, in order."""
    return sorted(map(str, table.loc[table["asked"], PARTS[by]].unique()))


def from_schedule(target: Mapping[str, Any]) -> Json:
    """The target as it is judged where turns arrive: its clock counts from SCHEDULED."""
    twin = INTENDED.get(Clock(target["clock"]))
    return {**target, "clock": twin.value} if twin else dict(target)


def chosen(target: Mapping[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``table`` that the target is about."""
    for by, name in _restrictions(target):
        table = table[table[PARTS[by]] == name]
    return table


def whose(target: Mapping[str, Any]) -> str:
    """``nat-ws``; nothing for a target that is about all turns."""
    return ", ".join(name for _, name in _restrictions(target))


def _restrictions(target: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((by, target[by]) for by in PARTS if target.get(by) is not None)
