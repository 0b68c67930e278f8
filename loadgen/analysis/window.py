"""The steady window of a run: after the crowd has grown, before it was asked to stop.

By design it opens when the ramp is over and the last analyst has finished its first turn, and
closes when the stop was asked for (the drain is outside).  Of a load in stages it lies in the
longest one that holds its level.  Where turns arrive there is no last analyst: it opens when 95 %
of the conversations that came first may have gone again, as the number present in M/G/infinity is
then within 5 % of its end (Takacs 1962; it grows with the distribution of stays).

By data MSER-5 cuts what is left of a warm-up, in server times in the order in which turns ended and
in how many were under way then, if it is worth a word (`drift.WORTH`).  The whole run's figures
stay what they are: this window is what a capacity question is answered from, and one that is not
steady answers none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from loadgen.analysis import axis, drift, frame, loadmodel, numerals
from loadgen.analysis.drift import WORTH
from loadgen.analysis.mser import Warmup, mser5
from loadgen.analysis.quantiles import SHARES, ascending, nearest_rank
from loadgen.clock import NS_PER_S
from loadgen.metrics import Clock
from loadgen.turn import Outcome

LITTLE_WITHIN = 0.05
"""How far L may lie from X W (method: capacity)."""

_LOOKED_AT = ("user", "conversation", "outcome", "begin_s", "end_s", "elapsed_ms")
"""To copy all columns of a million turns takes a second."""

_SIGMAS = 3.0
"""So much may chance move L - X W before it counts as off."""


@dataclass(frozen=True, slots=True)
class Window:
    """Seconds on the run's axis; ``turns`` ended in it, ``trimmed`` started turns did not.

    ``designed_s`` is when it would have opened by design alone: MSER-5 looks from there on.
    """

    from_s: float
    to_s: float
    turns: int
    trimmed: int
    times: Warmup | None
    open_turns: Warmup | None
    drifting: tuple[str, ...]
    designed_s: float | None = None

    @property
    def steady(self) -> bool | None:
        """False: it can neither pass nor fail a capacity question; None: too short to tell."""
        found = [made for made in (self.times, self.open_turns) if made is not None]
        if self.drifting or not all(made.steady for made in found):
            return False
        return True if self.times is not None else None


@dataclass(frozen=True, slots=True)
class Little:
    """L = X W in the window: mean turns in flight, turns ended a second, mean wall time in s
    (human pauses are in both).  ``ok`` is None where the window is too short to tell.
    """

    in_flight: float
    per_s: float
    wall_s: float
    off: float
    ok: bool | None


def find(manifest: Mapping[str, Any], table: pd.DataFrame) -> Window | None:
    """The steady window; None of a run without one.  ``table`` is `frame.turns`."""
    asked = table.loc[table["asked"], [*_LOOKED_AT]].dropna(subset=["begin_s", "end_s"])
    if asked.empty:
        return None
    first = float(asked["begin_s"].min())
    level_from, level_to = _level(manifest)
    end = min(_stop_s(manifest, asked), first + level_to)
    early = asked[asked["begin_s"] <= end]
    designed = max(first + level_from, _filled_s(manifest, early))
    if early.empty or end <= designed:
        return None
    (times, ends), (open_turns, all_ends) = _series(asked, designed, end)
    begin = max(designed, _cut_s(times, ends), _cut_s(open_turns, all_ends))
    inside = _inside(asked, begin, end)
    ttfa = drift.clocks(table, begin, end).get(Clock.TTFA)
    drifting = (Clock.TTFA.value,) if ttfa is not None and ttfa.trend else ()
    return Window(
        begin, end, len(inside), len(asked) - len(inside), times, open_turns, drifting, designed
    )


def little(table: pd.DataFrame, begin_s: float, end_s: float) -> Little | None:
    """Little's law between two moments; None where no turn ended."""
    spans = table.loc[table["asked"], ["begin_s", "end_s"]].dropna()
    begins, ends = spans["begin_s"].to_numpy(np.float64), spans["end_s"].to_numpy(np.float64)
    ended = (ends >= begin_s) & (ends <= end_s)
    length = end_s - begin_s
    if length <= 0 or not ended.any():
        return None
    overlap = np.clip(np.minimum(ends, end_s) - np.maximum(begins, begin_s), 0.0, None)
    in_flight, per_s = float(overlap.sum()) / length, float(ended.sum()) / length
    wall = float((ends - begins)[ended].mean())
    off = abs(in_flight - per_s * wall) / in_flight if in_flight else 0.0
    known = _SIGMAS * _edge((ends - begins)[ended], length, in_flight) <= LITTLE_WITHIN
    return Little(in_flight, per_s, wall, off, off <= LITTLE_WITHIN if known else None)


def sentence(window: Window | None) -> str | None:
    """What a reader should know of a run that did not settle."""
    if window is None or window.steady is not False:
        return None
    why = [f"{clock} drifts" for clock in window.drifting]
    if window.times is not None and not window.times.steady:
        why.append("server times never settle")
    if window.open_turns is not None and not window.open_turns.steady:
        why.append("turns in flight never settle")
    return (
        f"not steady between {numerals.seconds(round(window.from_s, 1))} and "
        f"{numerals.seconds(round(window.to_s, 1))}: {', '.join(why)} (MSER-5, drift); "
        "it cannot answer a capacity question"
    )


def sentences(window: Window | None, law: Little | None) -> Iterator[str]:
    """What a reader should know of the window."""
    said = sentence(window)
    if said is not None:
        yield said
    if window is not None and law is not None and law.ok is False:
        yield (
            f"Little's law is {numerals.share(law.off)} off in the steady window: turns came and "
            "went at different rates, so it was none"
        )


def as_json(window: Window | None, law: Little | None) -> dict[str, Any] | None:
    """As it stands in the summary."""
    if window is None:
        return None
    return {
        "designed_s": None if window.designed_s is None else round(window.designed_s, 3),
        "from_s": round(window.from_s, 3),
        "to_s": round(window.to_s, 3),
        "turns": window.turns,
        "trimmed": window.trimmed,
        "steady": window.steady,
        "server_time": window.times and asdict(window.times),
        "in_flight": window.open_turns and asdict(window.open_turns),
        "drifting": list(window.drifting),
        "little": law
        and {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(law).items()},
    }


def _edge(walls_s: frame.FloatArray, length_s: float, in_flight: float) -> float:
    """How far chance moves L - X W, as a share of L: the turns that cross either end of the window
    are about Poisson of mean L, and of each a residual life lies outside, of which the mean square
    is E[S^3] / 3 E[S] (renewal theory).
    """
    if not in_flight:
        return np.inf
    residual = float((walls_s**3).mean() / (3 * max(walls_s.mean(), 1e-9)))
    return float(np.sqrt(2 * residual / in_flight) / length_s)


def _level(manifest: Mapping[str, Any]) -> tuple[float, float]:
    """From when to when the load is meant to be the same, in s after its first turn."""
    load = manifest.get("load") or {}
    says = (manifest.get("plan") or {}).get("load") or {}
    users, rate = load.get("users"), load.get("spawn_rate")
    if says.get("stages"):
        return _longest_hold(says["stages"], float(says.get("rate") or 0.0))
    if not loadmodel.is_closed(manifest) or not users or not rate:
        return 0.0, np.inf
    return float(users) / float(rate), np.inf


def _longest_hold(stages: Any, level: float) -> tuple[float, float]:
    """The longest time at one level; an empty one where no stage holds its level."""
    at, begun, best = 0.0, 0.0, (0.0, 0.0)
    for stage in stages:
        over, to = float(stage["over_s"]), float(stage["to"])
        if to != level:
            at, level = at + over, to
            begun = at
            continue
        at += over
        if to and at - begun > best[1] - best[0]:
            best = (begun, at)
    return best


def _stop_s(manifest: Mapping[str, Any], asked: pd.DataFrame) -> float:
    """When the stop was asked for: after it no turn began, so the last one's begin is an earlier
    bound, for a run that does not say.
    """
    stop, start = (axis.parse_ns(manifest.get(key) or "") for key in ("stopping_at", "started_at"))
    last = float(asked["begin_s"].max())
    said = (stop - start) / NS_PER_S
    return last if np.isnan(said) else max(last, said)


def _filled_s(manifest: Mapping[str, Any], asked: pd.DataFrame) -> float:
    """When as many analysts are there as will be."""
    if loadmodel.is_closed(manifest):
        return float(asked.groupby("user")["end_s"].min().max())
    alone = (manifest.get("load") or {}).get("model") == "open"
    by = asked.index if alone else asked["conversation"]
    stays = asked.groupby(by).agg(begin=("begin_s", "min"), end=("end_s", "max"))
    longest = nearest_rank(ascending(stays["end"] - stays["begin"]), SHARES["p95"])
    return float(asked["begin_s"].min()) + (longest or 0.0)


def _inside(asked: pd.DataFrame, begin: float, end: float) -> pd.DataFrame:
    return asked[(asked["end_s"] >= begin) & (asked["end_s"] <= end)].sort_values("end_s")


def _series(
    asked: pd.DataFrame, begin: float, end: float
) -> tuple[tuple[Warmup | None, frame.FloatArray], tuple[Warmup | None, frame.FloatArray]]:
    """MSER-5 of server times and of the turns under way, both where turns ended, with the ends."""
    inside = _inside(asked, begin, end)
    ended = inside[inside["outcome"] != Outcome.CUT_OFF.value].dropna(subset=["elapsed_ms"])
    ends = inside["end_s"].to_numpy(np.float64)
    begins = np.sort(asked["begin_s"].to_numpy(np.float64))
    gone = np.sort(asked["end_s"].to_numpy(np.float64))
    under_way = np.searchsorted(begins, ends, "right") - np.searchsorted(gone, ends, "right")
    return (
        (
            mser5(ended["elapsed_ms"].to_numpy(np.float64), WORTH),
            ended["end_s"].to_numpy(np.float64),
        ),
        (mser5(under_way.astype(np.float64), WORTH), ends),
    )


def _cut_s(found: Warmup | None, ends: frame.FloatArray) -> float:
    """When the warm-up that MSER-5 found is over; a series that never settles has none."""
    return float(ends[found.cut]) if found is not None and found.steady and found.cut else -np.inf
