"""The timetable of one process: every arrival, when it is due, and who has to be free for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from loadgen import pacing
from loadgen.pacing import Part
from loadgen.plan import Plan
from loadgen.replay import Entry


@dataclass(frozen=True, slots=True)
class Arrival:
    """One arrival, due ``at_ns`` after the start, for an analyst of ``group``.

    Its analyst has ``turns`` turns at its own pace.  A replayed ``conversation`` has one turn an
    arrival instead, and keeps its analyst until the one that is the ``last``.  ``question`` is
    None where the analyst chooses.
    """

    at_ns: int
    group: str
    turns: int = 1
    conversation: str | None = None
    question: str | None = None
    last: bool = True


def timetable(plan: Plan, entries: Sequence[Entry], part: Part) -> Iterator[Arrival]:
    """The arrivals of ``part`` in the order in which they are due.

    ``entries`` are those of a replay that this part has (`split`); the groups of the others, and
    of entries that name no dialect, are drawn by weight.
    """
    load = plan.load
    rng = Random(f"{plan.seed}/{part.number}/{part.of}/groups")
    if load.model == "replay":
        yield from _replayed(plan, entries, rng)
        return
    names = [group.name for group in plan.analysts]
    weights = [group.weight for group in plan.analysts]
    offsets = pacing.arrivals(pacing.profile_of(load), load.arrivals, part, plan.seed)
    mean = plan.human.turns_per_conversation if load.model == "partly-open" else 1
    lengths = pacing.lengths(load.conversation_length, mean, part, plan.seed)
    for at_ns, turns in zip(offsets, lengths, strict=False):
        yield Arrival(at_ns, rng.choices(names, weights)[0], turns)


def split(entries: Sequence[Entry], parts: int) -> list[list[Entry]]:
    """The entries dealt out to ``parts`` processes, conversation by conversation."""
    owners: dict[str, int] = {}
    dealt: list[list[Entry]] = [[] for _ in range(parts)]
    for entry in entries:
        owner = owners.setdefault(entry.conversation, len(owners) % parts)
        dealt[owner].append(entry)
    return dealt


def _replayed(plan: Plan, entries: Sequence[Entry], rng: Random) -> Iterator[Arrival]:
    last = {entry.conversation: index for index, entry in enumerate(entries)}
    groups: dict[str, str] = {}
    for index, entry in enumerate(entries):
        if entry.conversation not in groups:
            able = [g for g in plan.analysts if entry.dialect in ("", g.dialect)]
            weights = [g.weight for g in able]
            chosen = rng.choices(able, weights if any(weights) else None)[0]
            groups[entry.conversation] = chosen.name
        yield Arrival(
            entry.at_ns,
            groups[entry.conversation],
            conversation=entry.conversation,
            question=entry.question,
            last=last[entry.conversation] == index,
        )
