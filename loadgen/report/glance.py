"""The three questions of somebody in a hurry, each with a short answer and where there is more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadgen.analysis import numerals
from loadgen.analysis.strain import NOT_MEASURED

Item = tuple[str, str, str, str]
"""Question, the verdict whose colour the answer has, the answer, the section that tells more."""


def glance(summary: Mapping[str, Any]) -> list[Item]:
    """Is it good enough, what broke, and may the run be believed?"""
    return [
        (_question(summary), *_enough(summary), "verdict"),
        ("What broke?", *_broken(summary), "outcomes"),
        ("Can it be trusted?", *_trusted(summary), "trust"),
    ]


def _question(summary: Mapping[str, Any]) -> str:
    users, model = summary["load"].get("users"), summary["load"].get("model")
    if model == "closed" and isinstance(users, int):
        return f"{'Is' if users == 1 else 'Are'} {numerals.of(users, 'analyst')} fine?"
    return "Is it fast enough?"


def _enough(summary: Mapping[str, Any]) -> tuple[str, str]:
    verdict = summary["verdict"]
    if verdict == "INVALID":
        return verdict, "not known: this run is no evidence"
    if verdict == "PASS":
        return verdict, "yes: every target was met"
    budget = summary["failure_budget"]
    missed = [f"{slo['title']} came too late" for slo in summary["slo"] if slo["verdict"] == "FAIL"]
    budgets = [*([budget] if budget else []), *summary["cause_budgets"]]
    if any(one["verdict"] == "FAIL" for one in budgets):
        missed.append("too many turns failed")
    if verdict == "FAIL":
        return verdict, f"no: {', '.join(missed) or 'answers went to others'}"
    return verdict, "not settled: see why"


def _broken(summary: Mapping[str, Any]) -> tuple[str, str]:
    turns, groups = summary["turns"], summary["failures"]
    bad = [group for group in groups if group["outcome"] != "cut_off"]
    cut = f"; {numerals.count(turns['cut_off'])} cut off by the end" if turns["cut_off"] else ""
    started = numerals.count(turns["started"])
    if not bad:
        return "PASS", f"no turn of {started} failed{cut}"
    said = [
        f"{numerals.count(group['n'])} {group['outcome'].replace('_', ' ')}"
        + (f" ({group['cause'].replace('_', ' ')})" if group["cause"] else "")
        for group in bad[:2]
    ]
    more = ", and more" if len(bad) > len(said) else ""
    return "FAIL", f"{', '.join(said)}{more}, of {started} turns{cut}"


def _trusted(summary: Mapping[str, Any]) -> tuple[str, str]:
    doubts = [check["check"] for check in summary["validity"] if not check["ok"]]
    if doubts:
        return "INVALID", f"no: {', '.join(doubts)}"
    unknown = sum(check["detail"] == NOT_MEASURED for check in summary["validity"])
    if unknown:
        return "PASS", f"as far as is known: {unknown} checks of the generator were not measured"
    return "PASS", "yes: every check of the generator held"
