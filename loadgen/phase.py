"""The phases of a conversation, the moves between them, and where a turn stands to a watcher."""

from __future__ import annotations

from enum import Enum, StrEnum


class Phase(Enum):
    """Where a conversation stands."""

    IDLE = "idle"
    PREPARING = "asking for what the connection needs"
    CONNECTING = "connecting"
    LOGGING_IN = "logging in"
    WAITING = "waiting for the first event"
    WORKING = "working"
    HUMAN = "waiting for the analyst"
    AWAY = "where a login led, with no connection"
    POLLING = "asking how the turn stands"
    BACKING_OFF = "backing off"
    RESUMING = "resuming"
    SETTLING = "ended, with a last request under way"


_IDLE, _PREPARING, _CONNECTING, _LOGGING_IN, _WAITING, _WORKING, _HUMAN = list(Phase)[:7]
_AWAY, _POLLING, _BACKING_OFF, _RESUMING, _SETTLING = list(Phase)[7:]
_OPENING = frozenset({_PREPARING, _CONNECTING})

MOVES: dict[Phase, frozenset[Phase]] = {
    _IDLE: frozenset({*_OPENING, _WAITING}),
    _PREPARING: frozenset({_CONNECTING, _BACKING_OFF, _IDLE}),
    _CONNECTING: frozenset({_PREPARING, _LOGGING_IN, _WAITING, _RESUMING, _BACKING_OFF, _IDLE}),
    _LOGGING_IN: frozenset({*_OPENING, _WAITING, _RESUMING, _BACKING_OFF, _IDLE}),
    _WAITING: frozenset({*_OPENING, _WORKING, _BACKING_OFF, _SETTLING, _IDLE}),
    _WORKING: frozenset({*_OPENING, _HUMAN, _POLLING, _BACKING_OFF, _SETTLING, _IDLE}),
    _HUMAN: frozenset({*_OPENING, _WORKING, _AWAY, _POLLING, _BACKING_OFF, _SETTLING, _IDLE}),
    _AWAY: frozenset({*_OPENING, _IDLE}),
    _POLLING: frozenset({_HUMAN, _SETTLING, _IDLE}),
    _BACKING_OFF: frozenset({*_OPENING, _IDLE}),
    _RESUMING: frozenset({*_OPENING, _WORKING, _BACKING_OFF, _SETTLING, _IDLE}),
    _SETTLING: frozenset({_IDLE}),
}
"""Legal transitions; every phase may also stay where it is."""

LISTENING = frozenset({_WAITING, _WORKING, _HUMAN, _POLLING, _RESUMING})
"""The question is out and the connection usable: what is said now is said to this turn."""

UNHURRIED = frozenset({_HUMAN, _SETTLING})
"""The turn's own deadline stands still, or does not matter any more."""


class Standing(StrEnum):
    """Where a turn under way stands, as somebody who watches the run wants to know it."""

    CONNECTING = "connecting"
    WAITING = "waiting for first progress"
    WORKING = "working"
    ANSWERING = "answering"
    HUMAN = "waiting for the analyst"


_PLAIN = {
    _PREPARING: Standing.CONNECTING,
    _CONNECTING: Standing.CONNECTING,
    _LOGGING_IN: Standing.CONNECTING,
    _BACKING_OFF: Standing.CONNECTING,
    _RESUMING: Standing.CONNECTING,
    _HUMAN: Standing.HUMAN,
    _AWAY: Standing.HUMAN,
    _SETTLING: Standing.ANSWERING,
}


def standing(phase: Phase, *, progress: bool, answer: bool) -> Standing | None:
    """Where a turn stands whose conversation is in ``phase``; None: no turn is under way.

    ``progress`` and ``answer``: whether it has shown any.
    """
    if phase is _IDLE:
        return None
    plain = _PLAIN.get(phase)
    if plain is not None:
        return plain
    if answer:
        return Standing.ANSWERING
    return Standing.WORKING if progress else Standing.WAITING
