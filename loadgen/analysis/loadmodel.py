"""Which workload model a run had, and what became of its arrivals.

Models must not be compared with each other: a closed crowd slows down with the target, arrivals do
not (Schroeder, Wierman and Harchol-Balter, NSDI 2006).  So every report names the model first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pandas as pd

from loadgen.analysis import frame, numerals

Json = dict[str, Any]

_UNITS = {"open": "turns", "partly-open": "conversations"}


def is_closed(manifest: Mapping[str, Any]) -> bool:
    """Whether an analyst's next question waited for the answer to the one before."""
    return bool((manifest.get("load") or {}).get("model", "closed") == "closed")


def title(manifest: Mapping[str, Any]) -> str:
    """The model and its size: ``open, Poisson 2 turns/s``, ``closed, 180 analysts``."""
    load = manifest.get("load") or {}
    plan = manifest.get("plan") or {}
    says = plan.get("load") or {}
    model = load.get("model")
    if not model:
        return ""
    if model == "replay":
        speed = numerals.plain(says.get("speed", 1.0))
        return f"replay of {PurePath(says.get('file') or '?').name} at {speed} times its speed"
    stages = says.get("stages") or ()
    if model == "closed":
        return _closed(load.get("users"), stages)
    process = "Poisson" if says.get("arrivals", "poisson") == "poisson" else "constant"
    levels = [says.get("rate") or 0.0, *(stage["to"] for stage in stages)]
    size = f"{numerals.plain(max(levels))} {_UNITS[model]}/s"
    text = f"{model}, {process} {'up to ' if stages else ''}{size}"
    if model == "partly-open":
        text += f" of {_length(plan, says)}"
    return text + (f" in {len(stages)} stages" if stages else "")


def _closed(users: Any, stages: Any) -> str:
    if stages:
        most = max(stage["to"] for stage in stages)
        return f"closed, up to {numerals.plain(most)} analysts in {len(stages)} stages"
    return f"closed, {numerals.of(users, 'analyst')}" if isinstance(users, int) else "closed"


def _length(plan: Mapping[str, Any], says: Mapping[str, Any]) -> str:
    mean = (plan.get("human") or {}).get("turns_per_conversation", 5)
    return f"{mean} turns" + (
        " on average" if says.get("conversation_length") == "geometric" else ""
    )


def arrivals(manifest: Mapping[str, Any], table: pd.DataFrame) -> Json | None:
    """What was offered and what became of it; None in the closed model, where nothing arrives.

    ``seconds`` is how long arrivals came; conversations are counted by their first turns.
    """
    if is_closed(manifest):
        return None
    load = manifest.get("load") or {}
    asked = frame.asked(table)
    whole = load.get("model") == "partly-open"
    taken = int((asked["number"] == 1).sum()) if whole else len(asked)
    lost = table[table["outcome"] == "dropped"]
    seconds = load.get("arrivals_s")
    offered = taken + len(lost)
    return {
        "unit": "conversations" if whole else "turns",
        "offered": offered,
        "taken": taken,
        "dropped": len(lost),
        "why": {str(why): int(number) for why, number in lost["detail"].value_counts().items()},
        "seconds": seconds,
        "offered_per_s": round(offered / seconds, 3) if seconds else None,
        "taken_per_s": round(taken / seconds, 3) if seconds else None,
        "taken_share": taken / offered if offered else None,
    }
