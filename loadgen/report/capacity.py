"""``capacity.html``: a capacity report as one page that opens without a network.

Every number in it is a value of ``capacity.json``; the page computes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadgen.analysis import answer, numerals
from loadgen.journal import write_whole
from loadgen.report import calibration, document, scaling

FILE = "capacity.html"

Json = Mapping[str, Any]


def write_report(found: Json, folder: Path) -> Path:
    """Write ``capacity.html`` into ``folder`` and return its path."""
    path = folder / FILE
    write_whole(path, render(found).encode())
    return path


def render(found: Json) -> str:
    """The page as text."""
    return document.render(
        "capacity.html.j2",
        scaling.charts(found),
        found=found,
        meta=_meta(found),
        at_a_glance=_glance(found),
        rows=rows(found),
        prices=prices(found),
        law=law(found),
        facts=_facts(found),
        checks=_checks(found),
        calibrated=_calibrated(found["calibration"]),
    )


def rows(found: Json) -> list[dict[str, Any]]:
    """A level a row, as text, in the order in which they were measured."""
    made = []
    names = list(answer.targets(found["levels"]))
    for one in found["levels"]:
        rate = one["per_s"]
        law = (one["window"] or {}).get("little")
        here = answer.targets([one])
        made.append(
            {
                "level": amount(one["level"]),
                "verdict": one["verdict"],
                "carried": bool(one.get("carried")),
                "turns": numerals.count(one["turns"]),
                "held": numerals.seconds(one["held_s"]),
                "extended": one["extensions"],
                "rate": numerals.fixed(rate["value"]),
                "rate_span": f"{numerals.fixed(rate['low'])} to {numerals.fixed(rate['high'])}",
                "targets": [_target(name, here.get(name)) for name in names],
                "running": _running(one),
                "little": numerals.NONE if law is None else numerals.share(law["off"]),
                "why": one["reasons"][0] if one["reasons"] else "",
            }
        )
    return made


def amount(level: float) -> str:
    """A level as people write it."""
    return numerals.count(round(level)) if level == round(level) else numerals.plain(level)


def prices(found: Json) -> list[dict[str, str]]:
    """The sizing table as text."""
    sizing = found["sizing"]
    return [
        {
            "replicas": numerals.count(row["replicas"]),
            "each": numerals.plain(row["each"]),
            "per_s": numerals.NONE if row["per_s"] is None else numerals.fixed(row["per_s"]),
            "headroom": f"{numerals.plain(row['headroom_percent'])} %",
            "cost": numerals.NONE if row["cost"] is None else numerals.plain(row["cost"]),
            "tone": "PASS" if row["headroom"] >= 0 else "FAIL",
        }
        for row in (sizing["table"] if sizing else ())
    ]


def law(found: Json) -> list[tuple[str, str, str]]:
    """What was fitted: name, value, and what it means."""
    fit, walls, knees = found["usl"], found["bounds"], found["knees"]
    told: list[tuple[str, str, str]] = []
    if fit["fitted"]:
        for name, meaning in (
            ("gamma", "turns a second of the first unit of load"),
            ("alpha", "share of the work that waits in line"),
            ("beta", "cost of keeping everybody in step"),
        ):
            span = f"{numerals.plain(fit[f'{name}_low'])} to {numerals.plain(fit[f'{name}_high'])}"
            told.append((name, numerals.plain(fit[name]), f"{meaning}; 95 % {span}"))
    told.append(("law", "fitted" if fit["fitted"] else "none", fit["note"]))
    for name, key in (("knee of throughput", "throughput"), (f"knee of {knees['clock']}, p95",
                                                             "latency")):  # fmt: skip
        bend = knees[key]
        if bend is None:
            told.append((name, "no knee", "the curve does not bend enough (Kneedle, 0.2)"))
        else:
            told.append((name, amount(bend["level"]), f"distance {bend['distance']} of the chord"))
    if walls is not None:
        sure = "" if walls["saturated"] else "at least "
        told.append(
            ("N*", f"{sure}{numerals.plain(walls['crossing'])}",
             f"from there on somebody has to wait: D {numerals.seconds(walls['demand_s'])}, "
             f"Z {numerals.seconds(walls['think_s'])}, at most {numerals.fixed(walls['most'])} "
             "turns/s")
        )  # fmt: skip
    limit = found["concurrency"]
    if limit is not None:
        told.append(
            ("turns at once", numerals.plain(round(limit["at_once"], 1)),
             f"Little's law on busy time, {numerals.plain(limit['low'])} to "
             f"{numerals.plain(limit['high'])} over levels that queued")
        )  # fmt: skip
    return told


def _target(name: str, target: Json | None) -> dict[str, str]:
    if target is None:
        return {"name": name, "value": numerals.NONE, "span": "", "verdict": ""}
    budget = "budget" in target
    value = target["rate"] if budget else target["attained"]
    limit = target["budget"] if budget else target["share"]
    span = ""
    if target["low"] is not None:
        span = f"{numerals.share(target['low'])} to {numerals.share(target['high'])}"
    return {
        "name": name,
        "value": numerals.NONE if value is None else numerals.share(value, limit),
        "span": span,
        "verdict": target["verdict"],
    }


def _running(one: Json) -> str:
    return numerals.NONE if one["queue"] is None else numerals.fixed(one["queue"]["running"])


def _meta(found: Json) -> list[tuple[str, str]]:
    target = found["target"]
    mock = " (the bundled mock agent)" if target.get("bundled_mock") else ""
    started = str(found["started_at"] or "")[:19].replace("T", " ")
    return [
        ("run", ", ".join(found["runs"])),
        ("started", f"{started} UTC" if started else ""),
        ("target", f"{target['host']}{mock}" if target.get("host") else ""),
        ("load", f"{found['model']}, {found['unit']}"),
        ("levels", numerals.count(len(found["levels"]))),
    ]


def _glance(found: Json) -> list[tuple[str, str, str, str]]:
    """The planner's questions: question, tone, answer, where there is more."""
    breaks, twice = found["breaks"], found["twice"]
    return [
        (
            "What breaks first?",
            "FAIL" if breaks else "PASS",
            f"{breaks['target']}, at {amount(breaks['level'])}" if breaks else "nothing did",
            "levels",
        ),
        (
            "What at twice the load?",
            twice["verdict"] if twice else "INCONCLUSIVE",
            f"at {amount(twice['level'])}: {twice['sentence'].partition(';')[0]}"
            if twice
            else "not measured",
            "levels",
        ),
        ("What must be bought?", *_bought(found), "sizing"),
    ]


def _bought(found: Json) -> tuple[str, str]:
    sizing = found["sizing"]
    if sizing is None:
        return "INCONCLUSIVE", "not asked: give --need"
    replicas = sizing["replicas"]
    text = f"{numerals.count(replicas)} replica{'s' if replicas > 1 else ''} for " + amount(
        sizing["need"]
    )
    cost = next((row["cost"] for row in sizing["table"] if row["replicas"] == replicas), None)
    return "PASS", text + ("" if cost is None else f", cost {numerals.plain(cost)}")


def _checks(found: Json) -> list[dict[str, Any]]:
    """Each check of the generator once: at which levels it failed, or what its last one said."""
    made: dict[str, dict[str, Any]] = {}
    for one in found["levels"]:
        for check in one["validity"]:
            kept = made.get(check["check"])
            if kept is None or (kept["ok"] and not check["ok"]):
                made[check["check"]] = {**check, "level": amount(one["level"])}
    return list(made.values())


def _calibrated(known: Json | None) -> str:
    """What was found out about this host before, in one sentence; nothing where nothing was."""
    if known is None:
        return ""
    said = ", ".join(calibration.sentences(known))
    return f"as calibrated on this host on {str(known['made_at'])[:10]}: {said}"


def _facts(found: Json) -> list[tuple[str, str]]:
    searched = found["search"] or {}
    return [
        ("runs", ", ".join(found["runs"])),
        ("scenario", str(found["scenario"])),
        ("seed", str(found["seed"])),
        ("plan", str(found["plan_hash"])),
        ("search", ", ".join(f"{name} {value}" for name, value in searched.items() if value != [])),
        ("versions", ", ".join(f"{name} {value}" for name, value in found["versions"].items())),
        ("generator's host", ", ".join(f"{name} {value}" for name, value in found["host"].items())),
    ]
