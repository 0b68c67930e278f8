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

    REPLY = "reply"
    AGAIN = "reply again"
    """The same reply once more."""
    POLL = "poll"
    """Where does a turn stand that goes on out of sight?"""
    RECONCILE = "reconcile"
    """What does the server say of a run whose stream broke off?"""


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
class Drop:
    """Drop the connection at once, as a network loss would look, if it still stands."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Drop the connection if there is one and open another.

    ``upgrade`` is its opening request on a socket.  The first connection of a conversation is a
    reconnect from nothing.
    """

    upgrade: Request | None


@dataclass(frozen=True, slots=True)
class Finish:
    """The turn is over.  ``keep``: the connection is in a known state and may carry another."""

    record: TurnRecord
    keep: bool


Command = Send | Post | Visit | Wait | Drop | Reconnect | Finish
