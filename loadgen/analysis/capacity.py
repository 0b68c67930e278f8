"""``capacity.json``: every number of a capacity report, made once from levels.

Levels come from the book of a search, or from whole runs, one level each, that were made elsewhere
or earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from loadgen.analysis import answer, explanation, level, loadmodel, numerals, sizing, window
from loadgen.analysis.answer import UNITS, Question
from loadgen.analysis.attainment import CONFIDENCE
from loadgen.analysis.bounds import Point
from loadgen.analysis.frame import turns
from loadgen.analysis.level import Stay, resettle
from loadgen.analysis.levelbook import is_search, read_book, seen_of
from loadgen.analysis.search import Bracket, End, bracket
from loadgen.analysis.sizing import Limit
from loadgen.analysis.usl import Fit
from loadgen.analysis.verdict import EXIT_CODES
from loadgen.errors import ExitCode, RunError
from loadgen.journal import RunData, read_run, write_whole

Json = dict[str, Any]

FILE = "capacity.json"
SCHEMA = 1
_NO_LEVEL = "no level was measured: there is nothing to report"


class NoLevel(RunError):
    """A search ended before one level was measured."""

    exit_code = ExitCode.INCONCLUSIVE


def assess(folders: Sequence[Path], need: float | None = None, cost: float | None = None) -> Json:
    """The capacity that the levels in ``folders`` show.

    :raises RunError: they cannot be put together, or hold no level.
    """
    manifests, levels, end = _gather(folders)
    if not levels:
        raise NoLevel(f"{folders[0]}: {_NO_LEVEL}")
    first = manifests[0]
    lost = [worker for manifest in manifests for worker in manifest.get("lost_workers") or ()]
    faults = [manifest["fault"] for manifest in manifests if manifest.get("fault")]
    model = levels[0]["model"]
    interrupted = any(manifest.get("interrupted") for manifest in manifests)
    asked = Question(UNITS.get(model, "analysts"), need, end, interrupted)
    found = bracket(seen_of(levels))
    breaks = answer.first_break(levels)
    judged = answer.verdict(asked, found, invalid=bool(lost or faults))
    fit = explanation.law(levels)
    walls, broken = explanation.bound(levels) if model == "closed" else (None, [])
    limit = explanation.concurrency(levels)
    code = ExitCode.INTERRUPTED if interrupted else EXIT_CODES[judged]
    return {
        "schema": SCHEMA,
        "kind": "capacity",
        **_identity(first, folders, model, asked),
        "verdict": judged.value,
        "exit_code": int(code),
        "headline": answer.headline(asked, found, breaks, min(one["level"] for one in levels)),
        "findings": [
            *(f"a worker was lost: {worker}" for worker in lost),
            *faults,
            *answer.findings(asked, found, levels, limit),
            *_differences(manifests),
            *_above_bound(broken),
        ],
        "searched_s": round(sum(one["closed_s"] - one["began_s"] for one in levels), 1),
        "answer": {
            "end": None if end is None else end.value,
            "proven": found.proven,
            "low": found.low,
            "high": found.high,
            "odd": list(found.odd),
            "need": need,
            "confidence": CONFIDENCE,
            "headroom": found.proven / need - 1 if need and found.proven else None,
        },
        "breaks": breaks,
        "twice": _twice(levels, found),
        "concurrency": limit,
        "usl": explanation.law_as_json(fit, levels),
        "knees": explanation.knees(levels, _main_clock(levels)),
        "bounds": explanation.bound_as_json(walls, broken),
        "sizing": _sizing(need, cost, found, fit),
        "what_if": _what_if(found, levels, model),
        "against": None,
        "levels": levels,
    }


def write(folder: Path, found: Mapping[str, Any]) -> Path:
    """Write ``capacity.json``."""
    path = folder / FILE
    write_whole(path, orjson.dumps(found, option=orjson.OPT_INDENT_2))
    return path


def _gather(folders: Sequence[Path]) -> tuple[list[Json], list[Json], End | None]:
    manifests: list[Json] = []
    levels: list[Json] = []
    end: End | None = None
    for folder in folders:
        run = read_run(folder)
        manifests.append(run.manifest)
        if is_search(folder):
            measured, end = read_book(folder)
            table = turns(run)
            measured = [one if one.get("carried") else resettle(one, table) for one in measured]
        else:
            measured = [_whole(run)]
        levels += [
            {"run": folder.name, "held_s": round(one["closed_s"] - one["opened_s"], 1), **one}
            for one in measured
        ]
    if len(folders) > 1:
        # What was put together by hand is what there is.
        end = End.SWEPT
    elif not is_search(folders[0]):
        end = End.SWEPT
    models = {one["model"] for one in levels}
    if len(models) > 1:
        raise RunError(
            f"these runs have different models ({', '.join(sorted(models))}): their levels are "
            "never put together, arrivals queue where a closed crowd slows down"
        )
    return manifests, levels, end


def _whole(run: RunData) -> Json:
    """A run of one level, in its steady window."""
    table = turns(run)
    steady = window.find(run.manifest, table)
    load = run.manifest.get("load") or {}
    size = load.get("users")
    if not loadmodel.is_closed(run.manifest):
        plan = (run.manifest.get("plan") or {}).get("load") or {}
        size = 60 * (plan.get("rate") or 0.0)
    if steady is None or not size:
        raise RunError(f"{run.folder}: no level can be made of this run: it has no steady window")
    return level.measure(run, Stay(float(size), 0.0, steady.from_s, steady.to_s))


def _identity(manifest: Json, folders: Sequence[Path], model: str, asked: Question) -> Json:
    plan = manifest.get("plan") or {}
    return {
        "runs": [folder.name for folder in folders],
        "run": manifest.get("run", folders[0].name),
        "name": manifest.get("name", ""),
        "scenario": manifest.get("scenario", ""),
        "started_at": manifest.get("started_at"),
        "ended_at": manifest.get("ended_at"),
        "target": manifest.get("target") or {},
        "seed": manifest.get("seed"),
        "plan_hash": manifest.get("plan_hash"),
        "versions": manifest.get("versions") or {},
        "host": manifest.get("host") or {},
        "calibration": manifest.get("calibration"),
        "model": model,
        "unit": asked.unit,
        "targets": plan.get("slo") or [],
        "failure_budget": plan.get("failure_budget"),
        "search": plan.get("capacity"),
    }


def _differences(manifests: Sequence[Json]) -> list[str]:
    """What speaks against putting runs together."""
    said = []
    for name, values in (
        ("plans", {manifest.get("plan_hash") for manifest in manifests}),
        ("targets", {(m.get("target") or {}).get("host") for m in manifests}),
        ("hosts of the generator", {(m.get("host") or {}).get("hostname") for m in manifests}),
    ):
        if len(values) > 1:
            said.append(f"these runs have different {name}: {', '.join(map(str, values))}")
    return said


def _above_bound(broken: Sequence[Point]) -> list[str]:
    return [
        f"at {numerals.plain(point.analysts)} analysts throughput ({numerals.fixed(point.per_s)} "
        "turns/s) lies above what is possible (N / (D + Z)): the think times differ between "
        "levels, or turns were miscounted"
        for point in broken
    ]


def _main_clock(levels: Sequence[Json]) -> str:
    """The clock whose target comes first in the plan; else that of the end."""
    clocks = [target["clock"] for target in levels[0]["slo"] if "clock" in target]
    return str(clocks[0]) if clocks else "ttc"


def _twice(levels: Sequence[Json], found: Bracket) -> Json | None:
    """What happens at twice the load: the level nearest to it."""
    if found.proven is None:
        return None
    above = [one for one in explanation.latest(levels) if one["level"] > 1.5 * found.proven]
    if not above:
        return None
    wanted = 2 * found.proven
    near = min(above, key=lambda one: abs(one["level"] - wanted))
    said = "; ".join(near["reasons"])
    return {"level": near["level"], "verdict": near["verdict"], "sentence": said,
            "per_s": near["per_s"]["value"]}  # fmt: skip


def _sizing(need: float | None, cost: float | None, found: Bracket, fit: Fit | None) -> Json | None:
    if need is None or found.proven is None:
        return None
    made = sizing.size(
        need, found.proven, found.high, fit.law if fit else None, fit.tested if fit else 0.0, cost
    )
    rows = [
        asdict(row) | {"each": round(row.each, 1), "headroom_percent": round(100 * row.headroom, 1)}
        for row in made.table
    ]
    return asdict(made) | {
        "table": rows,
        "cost_per_replica": cost,
        "assumptions": [
            "replicas are independent behind a balancer: what they share (a model endpoint, a "
            "database, a licence) was not tried with more than one of them",
            "routing is sticky: a socket, the reply to a prompt and a resume must reach the "
            "replica that runs the turn, since its state is in that process's memory",
            "each replica gets its share of the load: a balancer that counts connections and not "
            "turns may give one more than the others",
        ],
    }


def _what_if(found: Bracket, levels: Sequence[Json], model: str) -> Json | None:
    """Other think times and prompt shares by the interactive law, other limits as measured."""
    at = next((one for one in explanation.latest(levels) if one["level"] == found.proven), None)
    if at is None:
        return None
    made: Json = {"level": found.proven, "slo": _other_limits(levels)}
    if model == "closed" and at["think_s"] is not None and at["response_s"] is not None:
        queued = explanation.concurrency(levels)
        busy = max((one["queue"]["busy_s"] for one in levels if one["queue"]), default=None)
        limit = Limit(
            at["per_s"]["value"], at["response_s"], at["human_s"] or 0.0, at["think_s"],
            at["prompt_share"] or 0.0, at["pause_s"] or 0.0, busy if queued else None,
        )  # fmt: skip
        rows = [*sizing.other_think(limit)]
        if at["pause_s"]:
            rows += sizing.other_prompts(limit)
        made["rows"] = [
            {"what": row.what, "value": round(row.value, 4), "analysts": round(row.analysts, 1)}
            for row in rows
        ]
        made["now"] = {
            "think_s": at["think_s"], "prompt_share": at["prompt_share"],
            "analysts": round(limit.analysts(), 1),
        }  # fmt: skip
    return made


def _other_limits(levels: Sequence[Json]) -> list[Json]:
    """For each target and other limits of it: the largest level whose turns would meet it."""
    used = explanation.latest(levels)
    rows = []
    for named, target in answer.targets(used).items():
        if "budget" in target:
            continue
        for index, other in enumerate(target["if_within"]):
            met = None
            for one in used:
                here = answer.targets([one]).get(named)
                attained = None if here is None else here["if_within"][index]["attained"]
                if attained is None or attained < target["share"]:
                    break
                met = one["level"]
            rows.append(
                {"title": target["title"], "within_s": other["within_s"], "level": met,
                 "planned": other["within_s"] == round(target["within_s"], 6)}
            )  # fmt: skip
    return rows
