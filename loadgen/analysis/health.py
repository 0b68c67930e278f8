"""How well the generator was: the figures of each process, from its rows of health."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from loadgen.analysis import axis
from loadgen.analysis.quantiles import SHARES, ascending, nearest_rank
from loadgen.clock import NS_PER_MS, NS_PER_S, Anchor, step_ns
from loadgen.fitness import HOT
from loadgen.journal import RunData

Json = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

WARM_S = 2.0
"""What a process needs to get going (modules are loaded, all users spawn at once) says nothing of
the run.
"""

POINTS = 600
"""The most points that a line of the chart has."""

_SIZES = ("rss_first", "rss_max", "swap_grown", "disk_free")
_SHORT_MS = 500.0
"""A row of a shorter time says nothing about shares of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """The wall clock was set by ``by_ms`` (negative: back), ``at_s`` seconds into the run."""

    at_s: float
    by_ms: float


@dataclass(frozen=True, slots=True)
class Pulse:
    """One process over the run; None is what was not measured.

    Lags are of the ticks after `WARM_S`, ``cpu`` of one core, ``machine_cpu`` of all cores (means
    over time); sizes are bytes.  ``hot_s``: seconds with more than `HOT` of a core.  ``stamped``
    (by the kernel), ``unstamped`` and ``merged`` are shares of the reads.
    """

    process: str
    from_s: float
    to_s: float
    ticks: int
    lag_p50_ms: float | None
    lag_p90_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None
    cpu: float | None
    cpu_max: float | None
    hot_s: float
    machine_cpu: float | None
    rss_first: int | None
    rss_max: int | None
    swap_grown: int | None
    sockets: int | None
    descriptors: int | None
    descriptor_limit: int | None
    disk_free: int | None
    in_flight: int
    dispatch_max_ms: float | None
    reads: int
    unstamped: float | None
    stamped: float | None
    merged: float | None
    gc_pauses: int
    gc_ms: float
    gc_max_ms: float
    heartbeats_missed: int | None
    steps: tuple[Step, ...]

    @property
    def asks(self) -> bool:
        """Whether analysts ran here; a master has none."""
        return self.process != axis.MASTER

    @property
    def length_s(self) -> float:
        """How long it was watched."""
        return self.to_s - self.from_s


def find(run: RunData) -> list[Pulse]:
    """The processes of a run that kept rows, by name."""
    return [_pulse(run, name, rows) for name, rows in run.health.items()]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How often the hub was later than a limit, in ticks and in seconds (rows)."""

    ticks: int
    late_ticks: int
    seconds: int
    late_seconds: int


def lateness(rows: Rows, limit_ms: float) -> Lateness:
    """How often the hub was late by more than ``limit_ms``, once it had got going."""
    per_row = [row["lags_ms"] for row in settled(rows) if row.get("lags_ms")]
    return Lateness(
        ticks=sum(map(len, per_row)),
        late_ticks=sum(lag > limit_ms for lags in per_row for lag in lags),
        seconds=len(per_row),
        late_seconds=sum(max(lags) > limit_ms for lags in per_row),
    )


def settled(rows: Rows) -> Rows:
    """The rows between the warm-up and the stop; all of them if there are no others.  To stop a
    crowd is work of its own, and no turn begins after it.
    """
    begun = rows[0]["mono_ns"] + WARM_S * NS_PER_S
    return [r for r in rows if r["mono_ns"] > begun and not r.get("draining")] or rows


def as_json(pulse: Pulse) -> Json:
    """For the summary; sizes in MiB, as they are shown."""
    found = asdict(pulse)
    for key in _SIZES:
        size = found.pop(key)
        found[f"{key}_mib"] = None if size is None else round(size / 2**20, 1)
    return found


def timeline(run: RunData) -> list[Json]:
    """Hub lag (worst) and CPU (mean) over the run, for each process that asks."""
    return [
        {"process": name, **_line(run, name, rows)}
        for name, rows in run.health.items()
        if name != axis.MASTER
    ]


def _pulse(run: RunData, name: str, rows: Rows) -> Pulse:
    at = list(_places(run, name, rows))
    lags = ascending([lag for row in settled(rows) for lag in row.get("lags_ms", ())])
    timed = [row for row in rows if row.get("span_ms", 0.0) >= _SHORT_MS]
    reads = sum(row.get("reads", 0) for row in rows)
    swap = _values(rows, "swap")
    return Pulse(
        process=name,
        from_s=round(at[0], 3),
        to_s=round(at[-1], 3),
        ticks=int(lags.size),
        lag_p50_ms=nearest_rank(lags, SHARES["p50"]),
        lag_p90_ms=nearest_rank(lags, SHARES["p90"]),
        lag_p99_ms=nearest_rank(lags, SHARES["p99"]),
        lag_max_ms=float(lags[-1]) if lags.size else None,
        cpu=_mean(timed, "cpu"),
        cpu_max=_most(timed, "cpu"),
        hot_s=round(sum(row["span_ms"] for row in timed if row.get("cpu", 0.0) > HOT) / 1000, 3),
        machine_cpu=_mean(timed, "machine_cpu"),
        rss_first=next(iter(_values(rows, "rss")), None),
        rss_max=_most(rows, "rss"),
        swap_grown=max(swap) - swap[0] if swap else None,
        sockets=_most(rows, "sockets"),
        descriptors=_most(rows, "descriptors"),
        descriptor_limit=min(_values(rows, "descriptor_limit"), default=None),
        disk_free=min(_values(rows, "disk_free"), default=None),
        in_flight=_most(rows, "in_flight") or 0,
        dispatch_max_ms=_most(rows, "dispatch_max_ms"),
        reads=reads,
        unstamped=sum(row.get("user_reads", 0) for row in rows) / reads if reads else None,
        stamped=1 - sum(row.get("user_reads", 0) for row in rows) / reads if reads else None,
        merged=sum(row.get("merged_reads", 0) for row in rows) / reads if reads else None,
        gc_pauses=sum(row.get("gc_pauses", 0) for row in rows),
        gc_ms=round(sum(row.get("gc_ms", 0.0) for row in rows), 3),
        gc_max_ms=max((row.get("gc_max_ms", 0.0) for row in rows), default=0.0),
        heartbeats_missed=_most(rows, "heartbeats_missed"),
        steps=tuple(_steps(rows, at)),
    )


def _steps(rows: Rows, at: Sequence[float]) -> Iterator[Step]:
    anchors = [Anchor(row["wall_ns"], row["mono_ns"]) for row in rows]
    for earlier, later, place in zip(anchors, anchors[1:], at[1:], strict=False):
        by_ns = step_ns(earlier, later)
        if by_ns:
            yield Step(round(place, 3), round(by_ns / NS_PER_MS, 3))


def _places(run: RunData, name: str, rows: Rows) -> Iterator[float]:
    """Seconds into the run at which each row was written."""
    offset, origin = axis.offsets(run)[name], axis.origin_ns(run)
    if math.isnan(origin):
        origin = float(rows[0]["mono_ns"] + offset)
    for row in rows:
        yield (row["mono_ns"] + offset - origin) / NS_PER_S


def _line(run: RunData, name: str, rows: Rows) -> Json:
    at = np.array(list(_places(run, name, rows)))
    lags = np.array([max(row.get("lags_ms") or (0.0,)) for row in rows])
    cpu = np.array([_share(row) for row in rows])
    parts = np.array_split(np.arange(len(rows)), min(len(rows), POINTS))
    return {
        "at_s": [round(float(at[part[-1]]), 2) for part in parts],
        "lag_max_ms": [round(float(lags[part].max()), 2) for part in parts],
        "cpu": [_known_mean(cpu[part]) for part in parts],
    }


def _share(row: Mapping[str, Any]) -> float:
    return float(row.get("cpu", "nan")) if row.get("span_ms", 0.0) >= _SHORT_MS else math.nan


def _known_mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 4) if known.size else None


def _values(rows: Rows, key: str) -> list[Any]:
    return [row[key] for row in rows if key in row]


def _most(rows: Rows, key: str) -> Any:
    return max(_values(rows, key), default=None)


def _mean(rows: Rows, key: str) -> float | None:
    """Weighed by how long each row's time was."""
    weighed = [(row[key], row["span_ms"]) for row in rows if key in row]
    total = sum(span for _, span in weighed)
    return round(sum(value * span for value, span in weighed) / total, 4) if total else None
