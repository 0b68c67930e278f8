"""What a conversation wants done: the alphabet between the brain and the body."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.turn import TurnRecord
from loadgen.wire.frame import Request


@dataclass(frozen=True, slots=True)
class Send:
    """Write ``outbound`` on the turn's connection."""

    outbound: Request | str


@dataclass(frozen=True, slots=True)
class Post:
    """Make ``request`` on a connection beside the turn's, and report `posted` or `post_failed`."""

    request: Request


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


Command = Send | Post | Wait | Drop | Reconnect | Finish
