"""Waiting for an instant of the monotonic clock, never waking before it.

uvloop's timers count whole milliseconds and may fire up to one early (MagicStack/uvloop#739): they
would put all streams in step with each other and shift every frame.  On Linux one ``timerfd`` and a
heap serve all waiting turns with the clock's own resolution; elsewhere the loop's timers do, with a
check of the clock.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Awaitable
from heapq import heappop, heappush
from itertools import count

from loadgen.clock import NS_PER_MS, NS_PER_S, now_ns

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1


class Deadlines:
    """The deadlines of one event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._alarm: _TimerFd | _LoopTimer | None = None

    def until(self, due_ns: int) -> Awaitable[None]:
        """To be awaited at once: over at ``due_ns`` or as soon after as possible.  At least one
        round of the loop passes, so that a turn that is late does not keep the others from theirs.
        """
        if due_ns <= now_ns():
            return asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        if self._alarm is None:
            self._alarm = _alarm(loop, self)
        future: asyncio.Future[None] = loop.create_future()
        entry = (due_ns, next(self._order), future)
        heappush(self._waiting, entry)
        if self._waiting[0] is entry:
            self._alarm.set(due_ns)
        return future

    def ring(self) -> None:
        """Wake all whose time has come, and set the alarm for the next one."""
        waiting = self._waiting
        now = now_ns()
        while waiting:
            due_ns, _, future = waiting[0]
            if not future.done():
                if due_ns > now:
                    break
                future.set_result(None)
            heappop(waiting)
        assert self._alarm is not None
        self._alarm.set(waiting[0][0] if waiting else 0)

    def close(self) -> None:
        """Give the timer back; nobody is woken any more."""
        if self._alarm is not None:
            self._alarm.close()


def _alarm(loop: asyncio.AbstractEventLoop, owner: Deadlines) -> _TimerFd | _LoopTimer:
    return _TimerFd(loop, owner) if sys.platform == "linux" else _LoopTimer(loop, owner)


class _TimerFd:
    """timerfd_create(2): an absolute timer that is a readable file descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: Deadlines) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._value = (ctypes.c_long * 4)()
        self._loop = loop
        self._fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        loop.add_reader(self._fd, owner.ring)

    def set(self, due_ns: int) -> None:
        """Fire at ``due_ns``; 0 disarms.  Setting also takes back a firing that nobody has read, so
        the descriptor never needs a read.
        """
        self._value[2], self._value[3] = divmod(due_ns, NS_PER_S)
        self._settime(self._fd, _TFD_TIMER_ABSTIME, self._value, None)

    def close(self) -> None:
        """Close the descriptor."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)


class _LoopTimer:
    """The event loop's own timer, rounded up to what it can count."""

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: Deadlines) -> None:
        self._loop = loop
        self._owner = owner
        self._handle: asyncio.TimerHandle | None = None

    def set(self, due_ns: int) -> None:
        """Fire at ``due_ns`` or up to about 1 ms later; 0 disarms."""
        self.close()
        if due_ns:
            left_ms = -(-due_ns // NS_PER_MS) - now_ns() // NS_PER_MS
            self._handle = self._loop.call_later(max(left_ms, 0) / 1000, self._owner.ring)

    def close(self) -> None:
        """Disarm."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
