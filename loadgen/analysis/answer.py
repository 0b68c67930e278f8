"""The answer to a capacity question, as a verdict and as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.analysis import numerals
from loadgen.analysis.search import Bracket, End
from loadgen.analysis.verdict import Verdict

Json = dict[str, Any]
Level = Mapping[str, Any]

UNITS = {"closed": "analysts", "partly-open": "conversations a minute", "open": "turns a minute"}
"""What a level is, by the model; answers of different models are never compared."""

_COMPLETE = (End.FOUND, End.AT_MOST, End.SWEPT)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: ``need`` of ``unit``, or None; how the search ended, None if it did not."""

    unit: str
    need: float | None
    end: End | None
    interrupted: bool = False


def verdict(asked: Question, found: Bracket, *, invalid: bool = False) -> Verdict:
    """PASS: the need is met, or there is an answer where nothing is needed."""
    if invalid or asked.end is End.INVALID:
        return Verdict.INVALID
    if asked.need is not None:
        return _needed(asked.need, found)
    if asked.end is End.BELOW:
        return Verdict.FAIL
    if found.proven is not None and asked.end in _COMPLETE:
        return Verdict.PASS
    if found.low is None and found.high is not None and asked.end is End.SWEPT:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE


def headline(asked: Question, found: Bracket, breaks: Json | None, lowest: float) -> str:
    """The answer in one sentence."""
    unit = asked.unit
    if found.proven is not None:
        text = f"{_holds(asked, found)} {_amount(found.proven)} {unit} at these targets"
    elif found.high is not None and found.low is None:
        text = f"It holds < {_amount(lowest)} {unit}: the lowest level that was tried fails"
    else:
        text = "No level was shown to meet the targets"
    if breaks is not None:
        text += f"; at {_amount(breaks['level'])} {breaks['sentence']}"
    elif found.proven is not None and found.high is None:
        text += ": the highest level that was tried meets them"
    return text + "."


def _holds(asked: Question, found: Bracket) -> str:
    bound = found.high is None or asked.end in (End.TIME, End.STOPPED, End.INVALID, End.DIED, None)
    return "It holds >=" if bound else "It holds"


def first_break(levels: Sequence[Level]) -> Json | None:
    """The target that is the first to be missed as the load grows, and by how much."""
    found: list[tuple[float, float, Level, Level]] = []
    for one in {one["level"]: one for one in levels}.values():
        if one["verdict"] == Verdict.INVALID.value:
            continue
        for target in one["slo"]:
            if target["verdict"] != Verdict.PASS.value and not target["leans"]:
                found.append((one["level"], -_shortfall(target), one, target))
    if not found:
        return None
    level, short, _, target = min(found, key=lambda item: item[:2])
    missed = sorted(name(t) for n, _, _, t in found if n == level and t is not target)
    return {
        "level": level,
        "target": name(target),
        "clock": target.get("clock", "failures"),
        "attained": _attained(target),
        "low": target["low"],
        "high": target["high"],
        "needs": _share(target),
        "measured_ms": target.get("measured_ms"),
        "times": -short,
        "also": missed,
        "sentence": _break_sentence(target),
    }


def findings(
    asked: Question, found: Bracket, levels: Sequence[Level], limit: Json | None
) -> list[str]:
    """What a planner wants to know beside the answer, most important first."""
    said = []
    unit = asked.unit
    if asked.need is not None:
        said.append(_headroom(asked, found))
    if found.odd:
        odd = ", ".join(_amount(level) for level in found.odd)
        said.append(
            f"not monotone: {odd} {unit} met the targets although {_amount(found.high or 0)} "
            "did not; the answer stays below the lowest level that failed"
        )
    if found.low is not None and found.low != found.proven:
        said.append(
            f"up to {_amount(found.low)} {unit} nothing speaks against the targets, but the turns "
            "were too few to be sure"
        )
    for level in _recovered(levels):
        said.append(
            f"{_amount(level)} {unit} missed the targets once and met them when they were measured "
            "again: something else was in the way for a moment, and the second time counts"
        )
    if limit is not None:
        said.append(
            f"turns queue inside the service: about {numerals.plain(round(limit['at_once'], 1))} "
            "run at once (Little's law on busy time), the others wait for their first step"
        )
    off = [one for one in levels if ((one["window"] or {}).get("little") or {}).get("ok") is False]
    for one in off:
        law = one["window"]["little"]
        said.append(
            f"at {_amount(one['level'])} {unit} Little's law is off by "
            f"{numerals.share(law['off'])}: that level was not at rest, or turns were miscounted"
        )
    ended = _ended(asked)
    return said + ([ended] if ended else [])


def _recovered(levels: Sequence[Level]) -> list[float]:
    """Levels that failed first and passed at last."""
    failed = {one["level"] for one in levels if one["verdict"] == Verdict.FAIL.value}
    last = {one["level"]: one["verdict"] for one in levels}
    return sorted(level for level in failed if last[level] == Verdict.PASS.value)


def _ended(asked: Question) -> str | None:
    texts = {
        End.DIED: "the target no longer answered: the search stopped, its earlier levels stand",
        End.INVALID: "a level says nothing about the target: the search stopped there",
        End.TIME: "the time was used up before the search had come to its end",
        End.STOPPED: "the search was stopped before its end; --resume goes on with it",
    }
    if asked.end is None or asked.interrupted:
        return texts[End.STOPPED]
    return texts.get(asked.end)


def _needed(need: float, found: Bracket) -> Verdict:
    if found.proven is not None and found.proven >= need:
        return Verdict.PASS
    if found.high is not None and found.high <= need:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE


def _headroom(asked: Question, found: Bracket) -> str:
    need = asked.need or 0.0
    wanted = f"{_amount(need)} {asked.unit} are wanted"
    if found.proven is None:
        return f"{wanted}: no level was shown to meet the targets"
    part = found.proven / need - 1
    if part >= 0:
        return f"{wanted}: there are {numerals.share(part)} of headroom"
    if found.high is not None and found.high <= need:
        return f"{wanted}: {_amount(need - found.proven)} too many for one deployment like this"
    return f"{wanted}: not settled, {_amount(found.proven)} were shown to meet the targets" + (
        "" if found.high is None else f" and {_amount(found.high)} to miss them"
    )


def targets(levels: Sequence[Level]) -> dict[str, Level]:
    """The targets and budgets of all levels by their name; a level may have had no turn of a part
    of the crowd that has a target of its own.
    """
    return {name(one): one for level in levels for one in level["slo"]}


def name(target: Level) -> str:
    """A target or budget in words, the same at every level."""
    if "budget" in target:
        return f"{target['title']} at most {numerals.share(target['budget'])}"
    return f"{target['title']} within {numerals.seconds(target['within_s'])}"


def _attained(target: Level) -> float | None:
    """The share that met it; of a failure budget the share that did not fail."""
    if "budget" in target:
        return None if target["rate"] is None else 1 - float(target["rate"])
    value: float | None = target["attained"]
    return value


def _share(target: Level) -> float:
    return 1 - float(target["budget"]) if "budget" in target else float(target["share"])


def _shortfall(target: Level) -> float:
    """How many times as many turns miss it as may."""
    attained, share = _attained(target), _share(target)
    return (1 - (attained or 0.0)) / max(1 - share, 1e-6)


def _break_sentence(target: Level) -> str:
    if "budget" in target:
        return (
            f"{target['title']} break first: "
            f"{numerals.share(target['rate'], target['budget'])} of the turns, "
            f"{numerals.share(target['budget'])} are allowed"
        )
    text = (
        f"{target['title']} breaks first: {numerals.share(target['attained'], target['share'])} "
        f"of the turns within {numerals.seconds(target['within_s'])}, "
        f"{numerals.share(target['share'])} are wanted"
    )
    if target["measured_ms"] is not None:
        percentile = f"p{numerals.plain(target['share'] * 100)}"
        text += f" ({percentile} {numerals.duration(target['measured_ms'])})"
    return text


def _amount(level: float) -> str:
    return numerals.count(round(level)) if level == round(level) else f"{level:,.4g}"
