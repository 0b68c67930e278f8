"""What a conversation wants done: the alphabet between the brain and the body."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from loadgen.turn import TurnRecord
from loadgen.wire.frame import Request


@dataclass(frozen=True, slots=True)
class Send:
    """Write ``outbound`` on the turn's connection."""

    outbound: Request | str


class Errand(Enum):
    """What a request beside the turn's is for."""

    PREPARE = "prepare"
    """What a connection needs before it can be opened: a token, a session."""
    REPLY = "reply"
    AGAIN = "reply again"
    """The same reply once more."""
    POLL = "poll"
    """Where does a turn stand that goes on out of sight?"""
    RECONCILE = "reconcile"
    """What does the server say of a run whose stream broke off?"""
    FAREWELL = "farewell"
    """The conversation is over; nobody waits for the answer."""


@dataclass(frozen=True, slots=True)
class Post:
    """Make ``request`` on a connection beside the turn's, after those before it, and report
    `post_written`, then `posted` or `post_failed`.
    """

    errand: Errand
    request: Request


@dataclass(frozen=True, slots=True)
class Visit:
    """Open ``url`` as a browser would, following redirects, and report `visited`; with ``deny`` as
    somebody who refuses the consent that is asked for there.
    """

    url: str
    deny: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Call `tick` at ``until_ns`` or earlier; a later one does not cancel an earlier one."""

    until_ns: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Read nothing from the turn's connection for ``for_ns``."""

    for_ns: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop the connection at once, if it still stands: as a network loss would look, or
    ``orderly``, with its goodbye.
    """

    orderly: bool = False


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Drop the connection if there is one and open another.

    ``upgrade`` is its opening request on a socket; ``orderly``: the old one gets its goodbye.  The
    first connection of a conversation is a reconnect from nothing.
    """

    upgrade: Request | None
    orderly: bool = False


class Parting(Enum):
    """What becomes of a turn's connection."""

    KEEP = "keep"
    """It is in a known state and may carry another turn."""
    CLOSE = "close"
    """It is closed in order: with a goodbye, where the protocol has one."""
    BREAK = "break"
    """It is dropped, as a network loss would look."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The turn is over."""

    record: TurnRecord
    parting: Parting


Command = Send | Post | Visit | Wait | Hold | Drop | Reconnect | Finish
