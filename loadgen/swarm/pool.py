"""The pool: Locust's users as analysts that wait for arrivals.

An arrival takes an analyst that is free at that instant; if there is none it is dropped, which is
told at once: it is never a silent delay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import gevent
from gevent.event import Event

from loadgen.clock import NS_PER_S, now_ns
from loadgen.timetable import Arrival

NOBODY_FREE = "no analyst was free"
OVER_LIMIT = "max_in_flight was reached"
LOST_ITS_ANALYST = "its conversation has no analyst"
RUN_ENDED = "the run ended before its analyst was free"

Drop = Callable[[Arrival, int, str], None]
"""Told of each arrival that is dropped: the arrival, when it was due (ns), and why."""


@dataclass(frozen=True, slots=True)
class Call:
    """A turn that is due; ``question`` is None where the analyst chooses.

    ``begins``: it is the first of its conversation.
    """

    scheduled_ns: int
    question: str | None = None
    begins: bool = True


class Place:
    """One user's place in the pool; ``group`` is the kind of analyst it is."""

    def __init__(self, pool: Pool, group: str) -> None:
        self.group = group
        self.busy = False
        """Whether it has been given a conversation that is not over."""
        self._pool = pool
        self._calls: deque[tuple[Arrival, Call]] = deque()
        self._woken = Event()
        self._turns = 0
        self._conversation: str | None = None
        self._due_ns = 0
        self._blocked = False

    @property
    def waiting(self) -> bool:
        """Whether its user does nothing but wait for an arrival: then it may be stopped at once."""
        return self._blocked and not self._calls

    def take(self) -> Call | None:
        """Wait for this analyst's next turn to be due; None when no more turn may start."""
        pool = self._pool
        if self._turns and not pool.closed:
            # At its own pace.  Locust's sleep may end early, and nothing starts early.
            wait_until(self._due_ns)
            if self._turns:
                self._turns -= 1
                return Call(self._due_ns, begins=False)
        if pool.closed:
            return None
        if not self._calls and self._conversation is None:
            pool.free(self)
        self._blocked = True
        while not self._calls:
            self._woken.clear()
            self._woken.wait()
        self._blocked = False
        arrival, call = self._calls.popleft()
        self._turns = arrival.turns - 1
        if arrival.last:
            self._conversation = None
            pool.release(arrival)
        return call

    def ended(self, at_ns: int) -> None:
        """A turn has ended: the next one of its conversation is due, if no pause comes first."""
        self._due_ns = at_ns

    def pause_s(self, think_s: Callable[[], float]) -> float:
        """How long the user may sleep now, in s: it thinks between the turns of a conversation."""
        if not self._turns:
            return 0.0
        self._due_ns += round(think_s() * NS_PER_S)
        return max(0, self._due_ns - now_ns()) / NS_PER_S

    def leave(self) -> None:
        """The user is gone for good."""
        self._pool.forget(self)

    def engage(self, arrival: Arrival, call: Call) -> None:
        """Give it an arrival."""
        self._conversation = arrival.conversation
        self._calls.append((arrival, call))
        self._woken.set()

    def abandon(self) -> list[tuple[Arrival, Call]]:
        """What it will not get to any more."""
        left = list(self._calls)
        self._calls.clear()
        self._turns, self._conversation = 0, None
        return left


class Pool:
    """All places of this process; at most ``limit`` of them are busy (None: no limit).

    ``on_idle`` is told whenever the last busy one has become free.
    """

    def __init__(self, drop: Drop) -> None:
        self.limit: int | None = None
        self.busy = 0
        self.closed = False
        self.on_idle: Callable[[], None] = lambda: None
        self._drop = drop
        self._places: dict[Place, None] = {}
        self._idle: dict[str, deque[Place]] = {}
        self._holders: dict[str, Place] = {}
        self._lost: set[str] = set()

    def join(self, group: str) -> Place:
        """A place for a new user; it is free from its first `Place.take` on."""
        place = Place(self, group)
        self._places[place] = None
        return place

    def free_by_group(self) -> dict[str, int]:
        """How many places of each group wait for an arrival."""
        return {group: len(places) for group, places in self._idle.items()}

    def offer(self, arrival: Arrival, due_ns: int) -> None:
        """Give an arrival to the analyst it is for, or to one that is free, or drop it."""
        conversation = arrival.conversation
        if conversation is not None and conversation in self._holders:
            call = Call(due_ns, arrival.question, begins=False)
            self._holders[conversation].engage(arrival, call)
        elif conversation is not None and conversation in self._lost:
            self._drop(arrival, due_ns, LOST_ITS_ANALYST)
        elif self.closed:
            self._lose(arrival, due_ns, RUN_ENDED)
        elif self.limit is not None and self.busy >= self.limit:
            self._lose(arrival, due_ns, OVER_LIMIT)
        elif not self._idle.get(arrival.group):
            self._lose(arrival, due_ns, NOBODY_FREE)
        else:
            place = self._idle[arrival.group].popleft()
            place.busy = True
            self.busy += 1
            if conversation is not None:
                self._holders[conversation] = place
            place.engage(arrival, Call(due_ns, arrival.question))

    def free(self, place: Place) -> None:
        """``place`` waits for an arrival."""
        self._idle.setdefault(place.group, deque()).append(place)
        self._not_busy(place)

    def release(self, arrival: Arrival) -> None:
        """A conversation has had its last arrival."""
        if arrival.conversation is not None:
            self._holders.pop(arrival.conversation, None)

    def forget(self, place: Place) -> None:
        """``place`` is no more; what was waiting for it is dropped."""
        self._places.pop(place, None)
        idle = self._idle.get(place.group)
        if idle and place in idle:
            idle.remove(place)
        for conversation in [name for name, holder in self._holders.items() if holder is place]:
            self._lost.add(conversation)
            del self._holders[conversation]
        self._drop_all(place, LOST_ITS_ANALYST)
        self._not_busy(place)

    def close(self) -> None:
        """No turn starts any more.  Whoever waits for an arrival is left to Locust, which stops it
        now.
        """
        self.closed = True
        for place in list(self._places):
            self._drop_all(place, RUN_ENDED)

    def _not_busy(self, place: Place) -> None:
        if place.busy:
            place.busy = False
            self.busy -= 1
            if not self.busy:
                self.on_idle()

    def _drop_all(self, place: Place, why: str) -> None:
        for arrival, call in place.abandon():
            self._drop(arrival, call.scheduled_ns, why)

    def _lose(self, arrival: Arrival, due_ns: int, why: str) -> None:
        if arrival.conversation is not None:
            self._lost.add(arrival.conversation)
        self._drop(arrival, due_ns, why)


def wait_until(due_ns: int) -> None:
    """Sleep until ``due_ns``; never returns early."""
    while (left_ns := due_ns - now_ns()) > 0:
        gevent.sleep(left_ns / NS_PER_S)
