"""Milestones as Locust entries: type = dialect, and few names, so that its tables stay small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loadgen.events import PromptKind
from loadgen.metrics import Clock, happenings, marks, served, started
from loadgen.turn import TurnRecord

_HAPPENING_NAMES = {
    Clock.TOKEN: "token",
    Clock.SESSION: "session",
    Clock.CONNECT: "connect",
    Clock.AUTH: "auth",
    Clock.RESUME: "resume",
    Clock.CONSENT: "consent",
}
_CLOCK_NAMES = {Clock.TTFP: "first progress", Clock.TTFA: "first answer"}


class TurnFailed(Exception):
    """How a bad turn shows in Locust's failure table: outcome and cause, no server text."""


def fire(environment: Any, record: TurnRecord, row: dict[str, Any]) -> None:
    """Report one turn: exactly one ``completion``, and an entry for each milestone reached."""
    reached = marks(row) if started(row) else {}
    for name, value in _entries(row, reached):
        _request(environment, record.dialect, name, value)
    problem = None
    if not record.ok:
        problem = TurnFailed(
            f"{record.outcome.value}: {record.cause.value if record.cause else '-'}"
        )
    ended = row.get("ended_ms")
    took = served(row, ended) if Clock.TTC in reached and ended is not None else ended
    _request(environment, record.dialect, "completion", took, record.bytes, problem)


def _entries(row: dict[str, Any], reached: dict[Clock, float]) -> Iterator[tuple[str, float]]:
    for happening in happenings(row):
        name = _HAPPENING_NAMES.get(happening.clock)
        if name is not None and happening.value_ms is not None:
            yield name, happening.value_ms
    for prompt in row.get("prompts", ()):
        # Only a reply by request is acknowledged; on a socket its effect is the ``resume`` entry.
        # A consent is no reply: it has an entry of its own.
        is_reply = prompt["kind"] != PromptKind.OAUTH_CONSENT
        if is_reply and "reply_done_ms" in prompt and "resumed_ms" in prompt:
            yield "hitl reply", prompt["reply_done_ms"] - prompt["resumed_ms"]
    if row.get("scheduled_ms", 0.0) < 0:
        yield "dispatch lag", -row["scheduled_ms"]
    for clock, name in _CLOCK_NAMES.items():
        if clock in reached:
            yield name, served(row, reached[clock])


def _request(
    environment: Any,
    dialect: str,
    name: str,
    milliseconds: float | None,
    length: int = 0,
    problem: Exception | None = None,
) -> None:
    environment.events.request.fire(
        request_type=dialect,
        name=name,
        response_time=milliseconds,
        response_length=length,
        exception=problem,
        context={},
    )
