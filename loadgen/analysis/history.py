"""Runs in the order of their start, and where their level changed.

Only runs of the same plan under the same load stand in one history: those that lie in the results
folder and every blessing of a baseline.  INVALID runs are left out and counted.  A history never
gates anything by itself; it tells which run to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from loadgen.analysis import numerals
from loadgen.analysis.baseline import blessings, known
from loadgen.analysis.changepoints import FEWEST, ChangePoint, change_points
from loadgen.analysis.verdict import Verdict
from loadgen.errors import RunError
from loadgen.journal import MANIFEST, SUMMARY
from loadgen.metrics import INTENDED, TITLES, Clock

CLOCKS = (Clock.TTFV, Clock.TTFA, Clock.TTC)
PERCENTILES = ("p50", "p95")

Json = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One run; ``values`` in ms, the share of failures as it is."""

    run: str
    started_at: str
    blessed_as: str | None
    hostname: str | None
    verdict: str
    turns: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Series:
    """One figure over the runs that have it; the changes' indices count ``points``."""

    name: str
    title: str
    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]

    @property
    def values(self) -> list[float]:
        return [point.values[self.name] for point in self.points]


@dataclass(frozen=True, slots=True)
class History:
    """``points`` in order; ``invalid`` more runs were left out."""

    title: str
    points: tuple[Point, ...]
    series: tuple[Series, ...]
    invalid: int


def read(results: Path, name: str | None = None) -> History:
    """The history that ``name`` belongs to: a baseline, or the name of runs; without one that of
    the latest run.

    :raises RunError: there is no run of that name.
    """
    entries = sorted(_entries(results), key=lambda entry: str(entry.get("started_at")))
    chosen = [e for e in entries if name is None or name in _names(e)]
    if not chosen:
        what = f"of the name {name}" if name else "with a summary"
        raise RunError(f"{results}: no run {what}; see: loadgen history --help")
    key = _key(chosen[-1])
    same = [entry for entry in entries if _key(entry) == key]
    valid = {entry["run"]: entry for entry in same if entry["verdict"] != Verdict.INVALID}
    points = tuple(map(_point, valid.values()))
    return History(
        title=name or str(chosen[-1].get("name") or chosen[-1]["run"]),
        points=points,
        series=tuple(_series(points)),
        invalid=len({entry["run"] for entry in same} - valid.keys()),
    )


def sentences(history: History) -> Iterator[str]:
    """What the history says, one change a line."""
    for series in history.series:
        for change in series.changes:
            yield sentence(series, change)
    if len(history.points) < FEWEST:
        yield (
            f"{numerals.count(len(history.points))} runs are too few to tell a change of level, "
            f"which takes {FEWEST}"
        )
    elif not any(series.changes for series in history.series):
        yield f"no change of level in {numerals.count(len(history.points))} runs"
    if history.invalid:
        many = "runs are" if history.invalid > 1 else "run is"
        yield f"{numerals.count(history.invalid)} INVALID {many} left out"


def sentence(series: Series, change: ChangePoint) -> str:
    """One change: what, from which run on, by how much, and what else changed there."""
    point, last = series.points[change.index], series.points[change.index - 1]
    moved = (
        f" ({change.after / change.before - 1:+.0%})".replace("%", " %") if change.before else ""
    )
    host = "" if point.hostname == last.hostname else f"; the host changed too: {point.hostname}"
    return (
        f"{series.title}: {show(series.name, change.before)} to "
        f"{show(series.name, change.after)}{moved} from {point.run} on{host}"
    )


def show(name: str, value: float) -> str:
    """A value of the series ``name`` with its unit."""
    return numerals.share(value) if name == "failures" else numerals.duration(value)


def _entries(results: Path) -> Iterator[Json]:
    """Summaries of stored runs, then blessings, which have fewer figures of the same names: what
    was blessed is marked, whichever of the two is kept.
    """
    found: dict[str, Json] = {}
    for path in sorted(results.glob(f"[0-9]*/{SUMMARY}")):
        summary = _json(path)
        two = summary.get("sides")  # an A/B run has no level of its own
        if {"run", "verdict", "metrics", "turns"} <= summary.keys() and not two:
            host = (_json(path.with_name(MANIFEST)).get("host") or {}).get("hostname")
            found[summary["run"]] = {**summary, "hostname": host}
    for name in known(results):
        for entry in blessings(results, name):
            found[entry["run"]] = {**entry, "blessed_as": name}
    yield from found.values()


def _json(path: Path) -> Json:
    try:
        content = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def _names(entry: Mapping[str, Any]) -> set[Any]:
    return {entry.get("name"), entry.get("scenario"), entry.get("blessed_as")}


def _key(entry: Mapping[str, Any]) -> Key:
    """What runs of one history have in common."""
    load = entry.get("load") or {}
    closed = load.get("model", "closed") == "closed"
    size = (load.get("users"), load.get("spawn_rate")) if closed else ()
    return (entry.get("plan_hash"), load.get("model"), load.get("run_time_s"), *size)


def _point(entry: Mapping[str, Any]) -> Point:
    closed = (entry.get("load") or {}).get("model", "closed") == "closed"
    values: dict[str, float] = {}
    for clock in CLOCKS if closed else [INTENDED[clock] for clock in CLOCKS]:
        metric = entry["metrics"].get(clock) or {}
        for percentile in PERCENTILES:
            value = (metric.get(percentile) or {}).get("value_ms")
            if value is not None:
                values[f"{clock} {percentile}"] = value
    turns = entry["turns"]
    judged = turns["started"] - turns["cut_off"]
    if judged:
        values["failures"] = (judged - turns["completed"]) / judged
    return Point(
        run=entry["run"], started_at=str(entry.get("started_at") or ""),
        blessed_as=entry.get("blessed_as"), hostname=entry.get("hostname"),
        verdict=entry["verdict"], turns=turns["started"], values=values,
    )  # fmt: skip


def _series(points: Sequence[Point]) -> Iterator[Series]:
    for name in dict.fromkeys(name for point in points for name in point.values):
        having = tuple(point for point in points if name in point.values)
        changes = change_points([point.values[name] for point in having])
        yield Series(name, _title(name), having, tuple(changes))


def _title(name: str) -> str:
    if name == "failures":
        return "share of failed turns"
    clock, _, percentile = name.partition(" ")
    return f"{TITLES[Clock(clock)]}, {percentile}"
