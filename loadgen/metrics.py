"""The formula book: a turn's row (`TurnRecord.to_row`) to named durations in ms.

All clocks of a turn are measured from STARTED with the human pauses before the mark taken out; the
``_intended`` twins from SCHEDULED.  What did not happen has no value: it is absent, never zero.
Formulas: Lazowska et al. 1984 ch. 3 (think time is a station of its own), Tene (intended start).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from loadgen.events import PromptKind
from loadgen.turn import Outcome

Row = Mapping[str, Any]


class Clock(StrEnum):
    """Every duration that has a name."""

    TTFV = "ttfv"
    TTFP = "ttfp"
    TTFA = "ttfa"
    TTC = "ttc"
    TTFV_INTENDED = "ttfv_intended"
    TTFP_INTENDED = "ttfp_intended"
    TTFA_INTENDED = "ttfa_intended"
    TTC_INTENDED = "ttc_intended"
    MAX_GAP = "max_gap"
    SETUP = "setup"
    LAG = "lag"
    WALL = "wall"
    HUMAN = "human"
    TOKEN = "token"
    SESSION = "session"
    CONNECT = "connect"
    AUTH = "auth"
    RESUME = "resume"
    CONSENT = "consent"
    RECOVERY = "recovery"


MARKS = (Clock.TTFV, Clock.TTFP, Clock.TTFA, Clock.TTC)
"""Clocks that run to a milestone which every completed turn is expected to reach."""

INTENDED = {
    Clock.TTFV: Clock.TTFV_INTENDED,
    Clock.TTFP: Clock.TTFP_INTENDED,
    Clock.TTFA: Clock.TTFA_INTENDED,
    Clock.TTC: Clock.TTC_INTENDED,
}

HAPPENINGS = {
    Clock.TOKEN: "tokens",
    Clock.SESSION: "sessions",
    Clock.CONNECT: "connections",
    Clock.AUTH: "logins",
    Clock.RESUME: "replies",
    Clock.CONSENT: "consents",
    Clock.RECOVERY: "lost connections",
}
"""Clocks of which a turn may have none or several, and what is counted under them."""

TURN_CLOCKS = tuple(clock for clock in Clock if clock not in HAPPENINGS)
"""Clocks of which a turn has at most one."""

TITLES = {
    Clock.TTFV: "visible progress",
    Clock.TTFP: "first progress",
    Clock.TTFA: "first answer",
    Clock.TTC: "completion",
    Clock.TTFV_INTENDED: "visible progress, from the intended start",
    Clock.TTFP_INTENDED: "first progress, from the intended start",
    Clock.TTFA_INTENDED: "first answer, from the intended start",
    Clock.TTC_INTENDED: "completion, from the intended start",
    Clock.MAX_GAP: "longest gap between answer chunks",
    Clock.SETUP: "setup",
    Clock.LAG: "start lag",
    Clock.WALL: "wall time",
    Clock.HUMAN: "human pause",
    Clock.TOKEN: "token",
    Clock.SESSION: "session",
    Clock.CONNECT: "connect",
    Clock.AUTH: "authentication",
    Clock.RESUME: "resume after a reply",
    Clock.CONSENT: "resume after a login elsewhere",
    Clock.RECOVERY: "recovery after a lost connection",
}


STAMP_SLACK_MS = 1.0
"""How far the kernel's stamp of an arrival may lie before our own stamp of the write it answers."""


class Happening(NamedTuple):
    """One connection, login, reply or loss inside a turn; ``value_ms`` is None when the other end
    never came.  ``at_ms`` counts from STARTED.  A tuple, since a run may have millions.
    """

    clock: Clock
    at_ms: float
    value_ms: float | None


def started(row: Row) -> bool:
    """Whether the turn was asked at all; an arrival that found no free analyst was not."""
    return bool(row["outcome"] != Outcome.DROPPED and row.get("started_mono_ns") != 0)


def pauses(row: Row) -> list[tuple[float, float]]:
    """Disjoint ascending ``(paused, resumed)`` in ms from STARTED while the turn waited for its
    analyst.  A pause that was never resumed runs to the end of the turn; a notification waits for
    nobody.
    """
    end = row.get("ended_ms", float("inf"))
    raw = sorted(
        (prompt["paused_ms"], min(prompt.get("resumed_ms", end), end))
        for prompt in row.get("prompts", ())
        if prompt["kind"] != PromptKind.NOTIFICATION
    )
    merged: list[tuple[float, float]] = []
    for begin, until in raw:
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], until))
        else:
            merged.append((begin, until))
    return merged


def served(row: Row, mark_ms: float) -> float:
    """``mark_ms`` without the human pauses before it."""
    if not row.get("prompts"):
        return float(mark_ms)
    return mark_ms - sum(max(0.0, min(until, mark_ms) - at) for at, until in pauses(row))


def elapsed(row: Row) -> float | None:
    """Server time until the turn ended, however it ended; for a turn that was cut off a lower
    bound of its ttc.
    """
    if not started(row) or "ended_ms" not in row:
        return None
    return served(row, row["ended_ms"])


def marks(row: Row) -> dict[Clock, float]:
    """Where each of `MARKS` was reached, in ms from STARTED with the pauses left in.

    Only a completed turn has a ttc: ENDED of any other is where it broke off (`elapsed`).
    """
    progress, answer = row.get("first_progress_ms"), row.get("first_answer_ms")
    prompts = [prompt["paused_ms"] for prompt in row.get("prompts", ())]
    visible = [at for at in (progress, answer, *prompts) if at is not None]
    reached = {
        Clock.TTFV: min(visible, default=None),
        Clock.TTFP: progress,
        Clock.TTFA: answer,
        Clock.TTC: row.get("ended_ms") if row["outcome"] == Outcome.COMPLETED else None,
    }
    return {clock: at for clock, at in reached.items() if at is not None}


def turn_clocks(row: Row) -> dict[Clock, float]:
    """The clocks of one turn; what it did not reach is absent."""
    if not started(row):
        return {}
    found = {clock: served(row, at) for clock, at in marks(row).items()}
    if "scheduled_ms" in row:
        lag = 0.0 - row["scheduled_ms"]
        found |= {INTENDED[clock]: value + lag for clock, value in found.items()}
        found[Clock.LAG] = lag
    if "sent_ms" in row:
        found[Clock.SETUP] = row["sent_ms"]
    if "max_gap_ms" in row:
        found[Clock.MAX_GAP] = row["max_gap_ms"]
    if "ended_ms" in row:
        found[Clock.WALL] = row["ended_ms"]
        found[Clock.HUMAN] = sum((until - at for at, until in pauses(row)), 0.0)
    return found


def happenings(row: Row) -> list[Happening]:
    """What happened any number of times in the turn: tokens, connections, logins, replies, losses.

    A connection lost between turns has no recovery time: nobody was waiting.
    """
    found = []
    for preparation in row.get("preparations", ()):
        clock = Clock.TOKEN if preparation["name"] == "token" else Clock.SESSION
        found.append(_happening(clock, preparation, "begun_ms", "done_ms"))
    for connection in row.get("connections", ()):
        found.append(_happening(Clock.CONNECT, connection, "begun_ms", "connected_ms"))
        if "login_ms" in connection:
            found.append(_happening(Clock.AUTH, connection, "login_ms", "authenticated_ms"))
    for prompt in row.get("prompts", ()):
        if prompt.get("replied") and "resumed_ms" in prompt and not prompt.get("expired"):
            consent = prompt["kind"] == PromptKind.OAUTH_CONSENT
            clock = Clock.CONSENT if consent else Clock.RESUME
            found.append(_happening(clock, prompt, "resumed_ms", "next_event_ms"))
    for loss in row.get("losses", ()):
        if loss["during"] != "idle":
            found.append(_happening(Clock.RECOVERY, loss, "lost_ms", "recovered_ms"))
    return found


def impossible(row: Row) -> str | None:
    """What lies before STARTED or after ENDED, or ended before it began; None is as it should be.

    Such a row is a bug of the generator, not data (method: intended <= start <= first <= ended).
    """
    if not started(row):
        return None
    if row.get("scheduled_ms", 0.0) > 0:
        return "scheduled"
    end = row.get("ended_ms", float("inf"))
    for name in _ORDERED:
        at = row.get(f"{name}_ms")
        if at is not None and not 0 <= at <= end:
            return name
    for item in happenings(row):
        if item.value_ms is not None and item.value_ms < -STAMP_SLACK_MS:
            return item.clock.value
    return None


_ORDERED = ("first_byte", "first_step", "first_progress", "first_answer", "last_answer", "ended")


def _happening(clock: Clock, facts: Row, begin: str, end: str) -> Happening:
    at, until = facts[begin], facts.get(end)
    return Happening(clock, at, None if until is None else until - at)
