"""Reconnect storms: many connections lost at once, and how the crowd came back.

A storm begins with what the plan did (`manifest["adversity"]`), or where so many connections are
lost within a second that no chance explains it: a server that was restarted, a proxy that was
reloaded.  It lasts until the last of its turns has recovered or ended.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from loadgen.analysis import axis, numerals
from loadgen.clock import NS_PER_S
from loadgen.journal import RunData
from loadgen.metrics import Row

Json = dict[str, Any]

WINDOW_S = 1.0
"""What is lost within this time of a storm's begin belongs to it."""

LEAST = 5
SHARE = 0.1
"""Of so many losses, and of this share of the analysts, in a second a storm is made."""

CURVE = 100
"""Points of a storm's recovery."""

_EARLY_S = 0.25
"""The analysts' own clocks and that of the process that noted an adversity agree this well."""

_SHARES = {"p50": 50, "p90": 90, "p99": 99}


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that was done to the run on purpose, ``at_s`` into it.

    ``dropped``: connections that the analysts lost by it.
    """

    at_s: float
    what: str
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """A connection lost at ``at_s``; ``idle``: between two turns.  ``until_s``: the turn's next
    event, or its end if it never came; ``again``: that event was a prompt, delivered once more.
    """

    turn: str
    at_s: float
    idle: bool
    recovered: bool
    until_s: float
    again: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """A connection that was begun at ``at_s``; ``failed``: it never stood."""

    turn: str
    at_s: float
    failed: bool
    logged_in: bool


@dataclass(frozen=True, slots=True)
class Storm:
    """One storm.

    ``dropped`` connections in mid-turn, of which so many turns ``recovered`` and the others were
    ``lost``; ``idle`` ones between turns, which come back with the next question.
    ``recovered_after_ms``: from the storm's begin until that share of the dropped had recovered,
    None if it never had.  ``curve``: how many of the dropped had recovered after so many seconds,
    at most `CURVE` points.  ``logins`` are those of its turns.  ``connects`` are all attempts until
    the storm's end or the next storm, ``peak_connects`` those of its busiest second.
    """

    at_s: float
    until_s: float
    what: str
    dropped: int
    recovered: int
    lost: int
    idle: int
    recovered_after_ms: dict[str, float | None]
    curve: list[tuple[float, int]]
    connects: int
    failed_connects: int
    peak_connects: int
    logins: int
    prompts_again: int


def moments(run: RunData) -> list[Moment]:
    """What was done to the run on purpose, in order; the workers' parts of one thing are one."""
    origin = axis.origin_ns(run)
    found: dict[Any, Moment] = {}
    for fact in run.manifest.get("adversity") or ():
        at_s = round((fact["wall_ns"] - origin) / NS_PER_S, 3)
        if math.isnan(at_s):
            continue
        command = fact.get("command") or {}
        said = ", ".join(f"{key} {value}" for key, value in command.items())
        part = Moment(at_s, f"{fact['what']} {said}".strip(), int(fact.get("dropped", 0)))
        other = found.get(fact["number"], part)
        dropped = part.dropped if other is part else part.dropped + other.dropped
        found[fact["number"]] = replace(part, at_s=min(at_s, other.at_s), dropped=dropped)
    return sorted(found.values(), key=lambda moment: moment.at_s)


def find(run: RunData, table: pd.DataFrame) -> list[Storm]:
    """The storms of a run, in order.  ``table`` is `frame.turns`."""
    known = table["asked"] & table["begin_s"].notna()
    placed = table.loc[known, ["row", "begin_s", "losses"]].sort_values("row")
    losses = sorted(
        (
            loss
            for row, begin_s in _with_begins(run, placed[placed["losses"] > 0])
            for loss in _losses(row, begin_s)
        ),
        key=lambda loss: loss.at_s,
    )
    least = max(LEAST, math.ceil(SHARE * table["user"].nunique()))
    found = list(_gathered(losses, moments(run), least))
    attempts = [
        attempt
        for row, begin_s in (_with_begins(run, placed) if found else ())
        for attempt in _attempts(row, begin_s)
    ]
    nexts = [at_s for at_s, _, _ in found[1:]] + [math.inf] * bool(found)
    return [
        _storm(at_s, what, chosen, attempts, until_s)
        for (at_s, what, chosen), until_s in zip(found, nexts, strict=True)
    ]


def peak(times_s: Sequence[float], from_s: float = 0.0) -> int:
    """How many of ``times_s`` fall into the busiest of the bins of one second that begin at
    ``from_s``.
    """
    bins = Counter(math.floor(at - from_s) for at in times_s)
    return max(bins.values(), default=0)


def as_json(item: Storm | Moment) -> Json:
    """As it stands in the summary."""
    return asdict(item)


def sentence(storm: Storm) -> str:
    """What a careful reader wants to know."""
    after = storm.recovered_after_ms["p90"]
    if not storm.dropped:
        back = "since all were idle"
    elif after is None:
        back = "fewer than 90 % of them"
    else:
        back = f"90 % of them within {numerals.duration(after)}"
    return (
        f"storm at {numerals.fixed(storm.at_s)} s ({storm.what}): "
        f"{numerals.of(storm.dropped + storm.idle, 'connection')} lost, "
        f"{numerals.of(storm.lost, 'turn')} lost and {numerals.count(storm.recovered)} recovered, "
        f"{back}; at most {numerals.count(storm.peak_connects)} connects a second"
    )


def _gathered(
    losses: Sequence[Loss], known: Sequence[Moment], least: int
) -> Iterator[tuple[float, str, list[Loss]]]:
    """Where storms begin, what they are called, and what was lost in them.  In order of time."""
    times = [loss.at_s for loss in losses]
    ahead = deque(known)
    here = 0
    while here < len(losses):
        first = times[here]
        while ahead and ahead[0].at_s < first - WINDOW_S:
            ahead.popleft()
        soon = ahead[0].at_s - first if ahead else math.inf
        if soon <= _EARLY_S:
            at_s, what = min(ahead[0].at_s, first), ahead.popleft().what
        elif soon < WINDOW_S:  # one of those that are lost any time
            here += 1
            continue
        elif bisect_left(times, first + WINDOW_S) - here >= least:
            at_s, what = first, "not planned"
        else:
            here += 1
            continue
        begin, here = here, bisect_left(times, at_s + WINDOW_S)
        yield at_s, what, list(losses[begin:here])


def _storm(
    at_s: float,
    what: str,
    losses: Sequence[Loss],
    attempts: Sequence[Attempt],
    next_s: float,
) -> Storm:
    dropped = [loss for loss in losses if not loss.idle]
    times = sorted(loss.until_s - at_s for loss in dropped if loss.recovered)
    until_s = max([at_s + WINDOW_S, *(loss.until_s for loss in dropped)])
    within = [item for item in attempts if at_s <= item.at_s <= min(until_s, next_s)]
    return Storm(
        at_s=round(at_s, 3),
        until_s=round(until_s, 3),
        what=what,
        dropped=len(dropped),
        recovered=len(times),
        lost=len(dropped) - len(times),
        idle=len(losses) - len(dropped),
        recovered_after_ms={
            name: _after(times, percent, len(dropped)) for name, percent in _SHARES.items()
        },
        curve=_curve(times),
        connects=len(within),
        failed_connects=sum(item.failed for item in within),
        peak_connects=peak([item.at_s for item in within], at_s),
        logins=_logins(losses, attempts),
        prompts_again=sum(loss.again for loss in losses),
    )


def _logins(losses: Sequence[Loss], attempts: Sequence[Attempt]) -> int:
    """Logins that the losses made necessary, until their turns were back."""
    until = {loss.turn: (loss.at_s, math.inf if loss.idle else loss.until_s) for loss in losses}
    logins = [item for item in attempts if item.logged_in and item.turn in until]
    return sum(until[item.turn][0] <= item.at_s <= until[item.turn][1] for item in logins)


def _after(times_s: Sequence[float], percent: int, dropped: int) -> float | None:
    """Nearest rank; a turn that never recovered took for ever."""
    rank = -(-dropped * percent // 100)
    return round(times_s[rank - 1] * 1000, 3) if 0 < rank <= len(times_s) else None


def _curve(times_s: Sequence[float]) -> list[tuple[float, int]]:
    """Of many evenly spread ones, the first and the last among them."""
    last = len(times_s) - 1
    points = min(len(times_s), CURVE)
    kept = sorted({round(last * number / max(1, points - 1)) for number in range(points)})
    return [(round(times_s[index], 3), index + 1) for index in kept]


def _with_begins(run: RunData, turns: pd.DataFrame) -> Iterator[tuple[Row, float]]:
    """The journal rows of ``turns``, each with its place on the run's time axis."""
    return zip(run.rows_at(turns["row"]), turns["begin_s"], strict=True)


def _losses(row: Row, begin_s: float) -> Iterator[Loss]:
    prompts = row.get("prompts", ())
    for loss in row.get("losses", ()):
        back = loss.get("recovered_ms")
        until = row.get("ended_ms", loss["lost_ms"]) if back is None else back
        yield Loss(
            row["turn"],
            begin_s + loss["lost_ms"] / 1000,
            loss["during"] == "idle",
            back is not None,
            begin_s + until / 1000,
            back is not None and _delivered_again(prompts, loss["lost_ms"], back),
        )


def _delivered_again(prompts: Sequence[Mapping[str, Any]], lost: float, back: float) -> bool:
    """Whether the turn came back with a prompt that had been shown before."""
    before = [prompt["kind"] for prompt in prompts if prompt["paused_ms"] <= lost]
    now = [prompt["kind"] for prompt in prompts if prompt["paused_ms"] == back]
    return bool(before and now) and before[-1] == now[0]


def _attempts(row: Row, begin_s: float) -> Iterator[Attempt]:
    for item in row.get("connections", ()):
        yield Attempt(
            row["turn"],
            begin_s + item["begun_ms"] / 1000,
            "connected_ms" not in item or "failure" in item,
            "authenticated_ms" in item,
        )
