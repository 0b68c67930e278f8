"""May two runs be compared at all?  What differs beside the target would pass for its doing.

Between machines and load models more lies than between versions of a target, so a difference
refuses the comparison unless it is allowed by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from loadgen.analysis import numerals, rates
from loadgen.analysis.evidence import Evidence
from loadgen.analysis.verdict import Verdict
from loadgen.errors import ConfigError

MIX = 0.05
"""How far the share of a dialect may certainly lie apart."""

SHOWN = 5
"""Differences of one kind that are shown."""

_ABSENT = object()
_WIDEST = 60


class Guard(StrEnum):
    """What must be the same on both sides; the names that ``--allow`` takes."""

    HOST = "host"
    PLAN = "plan"
    LOAD = "load"
    DIALECTS = "dialects"
    TRANSPORT = "transport"
    INVALID = "invalid"


def check(
    base: Sequence[Evidence], new: Sequence[Evidence], allowed: Collection[Guard]
) -> list[str]:
    """Sentences on differences that were allowed.

    :raises ConfigError: one that was not, a line each.
    """
    found = dict.fromkeys(differences(base, new))
    refused = [pair for pair in found if pair[0] not in allowed]
    if refused:
        names = " ".join(f"--allow {guard}" for guard in dict.fromkeys(g for g, _ in refused))
        lines = [sentence for _, sentence in refused]
        raise ConfigError("\n".join([*lines, f"these runs are not compared; {names} does it"]))
    return [f"{sentence} (allowed)" for _, sentence in found]


def differences(base: Sequence[Evidence], new: Sequence[Evidence]) -> Iterator[tuple[Guard, str]]:
    """Everything that speaks against a comparison; all runs are held against the first."""
    first = base[0]
    for side in (*base, *new):
        if side.verdict == Verdict.INVALID:
            why = f": {side.reasons[0]}" if side.reasons else ""
            yield Guard.INVALID, f"{side.run} is INVALID{why}"
    for side in (*base[1:], *new):
        pair = f"{first.run} and {side.run}"
        for guard in (Guard.HOST, Guard.PLAN, Guard.LOAD, Guard.TRANSPORT):
            lines = list(_leaves(first.facts.get(guard, {}), side.facts.get(guard, {})))
            if lines:
                more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
                shown = ", ".join(lines[:SHOWN])
                yield guard, f"{pair} differ in {guard}: {shown}{more}"
        mix = list(_mix(first.facts.get("dialects", {}), side.facts.get("dialects", {})))
        if mix:
            yield Guard.DIALECTS, f"{pair} differ in dialects: {', '.join(mix)}"


def _mix(base: Mapping[str, int], new: Mapping[str, int]) -> Iterator[str]:
    totals = sum(base.values()), sum(new.values())
    if not all(totals):
        return
    for name in sorted({*base, *new}):
        before, after = base.get(name, 0), new.get(name, 0)
        found = rates.difference((before, totals[0]), (after, totals[1]))
        if not (before and after) or found.low > MIX or found.high < -MIX:
            yield (
                f"{name} {numerals.share(before / totals[0])} / {numerals.share(after / totals[1])}"
            )


def _leaves(base: object, new: object, path: str = "") -> Iterator[str]:
    """``path base / new`` for every leaf that differs."""
    if base == new:
        return
    if isinstance(base, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*base, *new)):
            yield from _leaves(base.get(key, _ABSENT), new.get(key, _ABSENT), _joined(path, key))
    elif isinstance(base, list) and isinstance(new, list) and len(base) == len(new):
        for number, (one, other) in enumerate(zip(base, new, strict=True)):
            yield from _leaves(one, other, _joined(path, number))
    else:
        yield f"{path} {_shown(base)} / {_shown(new)}"


def _joined(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _shown(value: Any) -> str:
    text = "nothing" if value is _ABSENT else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "\u2026"
