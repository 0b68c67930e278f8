"""Two capacity answers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadgen.analysis import numerals
from loadgen.errors import RunError

Json = dict[str, Any]


def beside(base: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """The answer ``new`` beside ``base``.

    :raises RunError: they answer different questions: another model, or other targets.
    """
    for key, what in (("model", "models"), ("targets", "targets"),
                      ("failure_budget", "failure budgets")):  # fmt: skip
        if base[key] != new[key]:
            raise RunError(f"the two answers have different {what}: they are not to be compared")
    return {
        "run": base["run"],
        "headline": base["headline"],
        "verdict": base["verdict"],
        "sentence": _sentence(base, new),
        "rows": [
            {"name": name, "base": told(base), "new": told(new)} for name, told in _ROWS.items()
        ],
    }


def _sentence(base: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    was, now = base["answer"]["proven"], new["answer"]["proven"]
    unit = new["unit"]
    if not was or not now:
        return f"one of the two has no level that was shown to meet the targets, of {unit}"
    open_ended = new["answer"]["high"] is None or base["answer"]["high"] is None
    bound = ", and one of the two was not searched to its end" if open_ended else ""
    times = numerals.plain(round(now / was, 2))
    return f"{numerals.plain(was)} {unit} there, {numerals.plain(now)} here: {times} times{bound}"


def _proven(found: Mapping[str, Any]) -> str:
    answer = found["answer"]
    if answer["proven"] is None:
        return numerals.NONE
    text = numerals.plain(answer["proven"])
    return numerals.at_least(text) if answer["high"] is None else text


def _fails(found: Mapping[str, Any]) -> str:
    high = found["answer"]["high"]
    return numerals.NONE if high is None else numerals.plain(high)


def _breaks(found: Mapping[str, Any]) -> str:
    return str(found["breaks"]["target"]) if found["breaks"] else "nothing"


def _most(found: Mapping[str, Any]) -> str:
    rates = [one["per_s"]["value"] for one in found["levels"]]
    return f"{numerals.fixed(max(rates))} turns/s"


def _at_once(found: Mapping[str, Any]) -> str:
    limit = found["concurrency"]
    return "no queue seen" if limit is None else numerals.plain(round(limit["at_once"], 1))


def _peak(found: Mapping[str, Any]) -> str:
    law = found["usl"]
    if not law["fitted"]:
        return "no law"
    return "no peak in range" if law["peak"] is None else numerals.plain(law["peak"])


def _knee(found: Mapping[str, Any]) -> str:
    bend = found["knees"]["throughput"]
    return "no knee" if bend is None else numerals.plain(bend["level"])


_ROWS = {
    "meets the targets": _proven,
    "lowest level that fails": _fails,
    "first to break": _breaks,
    "highest throughput": _most,
    "turns at once": _at_once,
    "peak of the law": _peak,
    "knee of throughput": _knee,
}
