"""What a comparison needs to know of a run: facts that must agree, and samples of its clocks.

Clocks are those of completed turns that kept their connection (`frame.plain`): of failures there is
a share of their own.  Values keep their conversation, since turns of one conversation are not
independent.  Beyond `MOST_TURNS` only some conversations are kept, drawn with a fixed seed, and
``thinned_from`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import frame, loadmodel
from loadgen.analysis.shift import design_effect
from loadgen.journal import RunData
from loadgen.metrics import HAPPENINGS, INTENDED, MARKS, Clock
from loadgen.turn import Outcome

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Json = dict[str, Any]

MOST_TURNS = 100_000
"""Turns of one run that are compared; a million would take a minute and show nothing more."""

RESOLUTION_MS = 0.001
"""Shorter times are taken for this: a logarithm needs one, and no stamp is finer."""

WATCHED = (Clock.MAX_GAP, *HAPPENINGS)
"""Clocks beside the marks that are the target's doing."""


@dataclass(frozen=True, slots=True)
class Vector:
    """Values of one clock in ms, above 0, with the number of the conversation of each.

    ``missing`` of the population have no value.
    """

    values: FloatArray
    conversations: IntArray
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """One run.  ``judged`` turns were started and not cut off, ``failed`` of them did not complete,
    and ``cut_off`` ones might have; ``inflation`` is the design effect of failures.  ``one_run``:
    it is a side of an A/B run.  ``facts``: see `facts`.
    """

    run: str
    started_at: str
    verdict: str
    reasons: tuple[str, ...]
    unfinished: bool
    closed: bool
    facts: Json
    clocks: Mapping[str, Vector]
    judged: int
    failed: int
    cut_off: int = 0
    inflation: float = 1.0
    one_run: bool = False
    thinned_from: int | None = None


def gather(run: RunData, summary: Mapping[str, Any], most: int = MOST_TURNS) -> Evidence:
    """The evidence of ``run``, of which ``summary`` is the judgement."""
    table, items = frame.turns(run), frame.happened(run)
    asked = frame.asked(table)
    judged = asked[asked["outcome"] != Outcome.CUT_OFF.value]
    bad = ~frame.completed(judged).to_numpy()
    conversations = _numbers(table)
    kept = _kept(conversations, most)
    return Evidence(
        run=str(summary["run"]),
        started_at=str(summary["started_at"] or ""),
        verdict=str(summary["verdict"]),
        reasons=tuple(summary["reasons"]),
        unfinished=not run.manifest.get("ended_at") or bool(run.manifest.get("interrupted")),
        closed=loadmodel.is_closed(run.manifest),
        facts=facts(run, table),
        clocks=_clocks(table, items, conversations, kept, loadmodel.is_closed(run.manifest)),
        judged=len(judged),
        failed=int(bad.sum()),
        cut_off=len(asked) - len(judged),
        inflation=_inflation(bad, conversations[judged.index]),
        thinned_from=None if kept.all() else len(table),
    )


def facts(run: RunData, table: pd.DataFrame) -> Json:
    """What two runs must have in common to be compared, and what a reader should know if they have
    not (``versions``).
    """
    manifest = run.manifest
    plan, load = manifest.get("plan") or {}, manifest.get("load") or {}
    crowd = ("users", "spawn_rate") if loadmodel.is_closed(manifest) else ()
    asked = frame.asked(table)
    return {
        "host": {
            **(manifest.get("host") or {}),
            "processes": len(manifest.get("workers") or ()),
            "hosts": sorted({w.get("hostname", "") for w in manifest.get("workers") or ()}),
        },
        "plan": {"hash": manifest.get("plan_hash"), **_without_hosts(plan)},
        "load": {key: load.get(key) for key in ("model", "run_time_s", *crowd)},
        "dialects": {
            str(k): int(v) for k, v in asked["dialect"].astype(str).value_counts().items()
        },
        "transport": {
            "schemes": sorted(_schemes(manifest)),
            "routes": sorted(set(asked["route"])),
            "encodings": sorted(table["content_encoding"].replace("", "identity").unique()),
            "stamps": "user" if (asked["stamp"] == "user").mean() > 0.5 else "kernel",
        },
        "versions": manifest.get("versions") or {},
    }


def pooled(vectors: Iterable[Vector]) -> Vector:
    """Several samples as one; conversations of different runs stay different."""
    parts = list(vectors)
    offset, conversations = 0, []
    for part in parts:
        conversations.append(part.conversations + offset)
        offset += int(part.conversations.max(initial=-1)) + 1
    return Vector(
        np.concatenate([part.values for part in parts]),
        np.concatenate(conversations),
        sum(part.missing for part in parts),
    )


def thinned(vector: Vector, most: int, seed: int) -> Vector:
    """About ``most`` values, in whole conversations drawn with ``seed``; or all, if fewer."""
    if vector.values.size <= most:
        return vector
    names, codes = np.unique(vector.conversations, return_inverse=True)
    chosen = np.random.default_rng(seed).random(names.size) < most / vector.values.size
    kept = chosen[codes]
    return Vector(vector.values[kept], vector.conversations[kept], vector.missing)


EMPTY = Vector(np.empty(0), np.empty(0, dtype=np.int64))


def _clocks(
    table: pd.DataFrame,
    items: pd.DataFrame,
    conversations: IntArray,
    kept: NDArray[np.bool_],
    closed: bool,
) -> dict[str, Vector]:
    plain = frame.plain(table[kept])
    found = {
        clock: _vector(plain[f"{clock}_ms"].to_numpy(), conversations[plain.index])
        for clock in (*(MARKS if closed else [INTENDED[mark] for mark in MARKS]), Clock.MAX_GAP)
    }
    place = dict(zip(table["turn"][kept], conversations[kept], strict=True))
    items = items[items["turn"].isin(place.keys())]
    for clock in HAPPENINGS:
        chosen = items[items["clock"] == clock.value]
        where = np.array([place[turn] for turn in chosen["turn"]], dtype=np.int64)
        found[clock] = _vector(chosen["value_ms"].to_numpy(), where)
    return {str(clock): vector for clock, vector in found.items() if vector.values.size}


def _vector(values: FloatArray, conversations: IntArray) -> Vector:
    known = ~np.isnan(values)
    return Vector(
        np.maximum(values[known], RESOLUTION_MS), conversations[known], int((~known).sum())
    )


def _numbers(table: pd.DataFrame) -> IntArray:
    """A number for each turn's conversation; a turn without one is a conversation of its own."""
    names = table["conversation"].where(table["conversation"] != "", table["turn"])
    return np.asarray(pd.factorize(names)[0], dtype=np.int64)


def _kept(conversations: IntArray, most: int) -> NDArray[np.bool_]:
    if conversations.size <= most:
        return np.ones(conversations.size, dtype=bool)
    number = int(conversations.max()) + 1
    chosen = np.random.default_rng(1).random(number) < most / conversations.size
    return np.asarray(chosen[conversations], dtype=bool)


def _inflation(bad: NDArray[np.bool_], conversations: IntArray) -> float:
    return design_effect(bad.astype(np.float64), conversations) if bad.any() else 1.0


def _schemes(manifest: Mapping[str, Any]) -> set[str]:
    groups: Sequence[Mapping[str, Any]] = (manifest.get("plan") or {}).get("analysts") or ()
    hosts = [(manifest.get("target") or {}).get("host"), *(group.get("host") for group in groups)]
    return {urlsplit(host).scheme for host in hosts if host}


def _without_hosts(plan: Mapping[str, Any]) -> Json:
    """The plan as `Plan.hash` sees it: base and candidate may stand anywhere."""
    shape = dict(plan)
    if "target" in shape:
        shape["target"] = {k: v for k, v in shape["target"].items() if k != "host"}
    if "analysts" in shape:
        shape["analysts"] = [
            {k: v for k, v in group.items() if k != "host"} for group in shape["analysts"]
        ]
    return shape
