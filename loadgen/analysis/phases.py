"""What a turn was doing when: its row as a gapless sequence of phases, for waterfalls."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from loadgen.metrics import Row, pauses, started


class Phase(StrEnum):
    """What the analyst is waiting for.  A later member wins where two overlap."""

    SETUP = "setup"
    QUEUEING = "queueing"
    WORKING = "working"
    ANSWERING = "answering"
    LOST = "connection lost"
    PREPARING = "token or session"
    CONNECTING = "connecting"
    AUTHENTICATING = "authenticating"
    HUMAN = "human pause"


@dataclass(frozen=True, slots=True)
class Span:
    """One phase from ``begin_ms`` to ``end_ms``, in ms from STARTED."""

    phase: Phase
    begin_ms: float
    end_ms: float


def phases(row: Row) -> list[Span]:
    """The phases of a turn from STARTED to its end, adjacent equal ones joined."""
    end = row.get("ended_ms")
    if end is None or not started(row):
        return []
    layers = [*_milestone_spans(row, end), *_overlays(row, end)]
    cuts = sorted({0.0, end, *(at for span in layers for at in (span.begin_ms, span.end_ms))})
    order = list(Phase)
    joined: list[Span] = []
    for begin, until in pairwise(cuts):
        active = [s.phase for s in layers if s.begin_ms <= begin and until <= s.end_ms]
        phase = max(active, key=order.index)
        if joined and joined[-1].phase is phase:
            begin = joined.pop().begin_ms
        joined.append(Span(phase, begin, until))
    return joined


def _milestone_spans(row: Row, end: float) -> list[Span]:
    visible = [row[key] for key in ("first_progress_ms", "first_answer_ms") if key in row]
    visible += [prompt["paused_ms"] for prompt in row.get("prompts", ())]
    sent = _clip(row.get("sent_ms", end), 0.0, end)
    working = _clip(row.get("first_step_ms", min(visible, default=end)), sent, end)
    answering = _clip(row.get("first_answer_ms", end), working, end)
    return [
        Span(Phase.SETUP, 0.0, sent),
        Span(Phase.QUEUEING, sent, working),
        Span(Phase.WORKING, working, answering),
        Span(Phase.ANSWERING, answering, end),
    ]


def _overlays(row: Row, end: float) -> list[Span]:
    found = [(Phase.HUMAN, begin, until) for begin, until in pauses(row)]
    for item in row.get("preparations", ()):
        found.append((Phase.PREPARING, item["begun_ms"], item.get("done_ms", end)))
    for item in row.get("connections", ()):
        begin = item["begun_ms"]
        if "connected_ms" in item:
            found.append((Phase.CONNECTING, begin, item["connected_ms"]))
        if "login_ms" in item:
            found.append(
                (Phase.AUTHENTICATING, item["login_ms"], item.get("authenticated_ms", end))
            )
    for loss in row.get("losses", ()):
        if loss["during"] != "idle":
            found.append((Phase.LOST, loss["lost_ms"], loss.get("recovered_ms", end)))
    return [
        Span(phase, _clip(begin, 0.0, end), _clip(until, 0.0, end)) for phase, begin, until in found
    ]


def _clip(value: float, low: float, high: float) -> float:
    return max(low, min(value, high))
