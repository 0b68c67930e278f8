"""Requests beside the turn's stream, one after another on a connection of their own: an analyst's
replies, and questions after a turn that goes on out of sight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import gevent

from loadgen.clock import now_ns
from loadgen.commands import Errand, Post
from loadgen.conversation import Conversation
from loadgen.net.connection import Connection
from loadgen.net.endpoint import Endpoint
from loadgen.plan import seconds_ns
from loadgen.turn import Cause
from loadgen.wire.frame import AnyFrame, End, Frame, Garbage, Head
from loadgen.wire.http1 import HttpLink

_LOOK_S = 0.01


class Poster:
    """Makes a conversation's side requests in order, and keeps the connection for a while.

    A reused connection that the server closes before any byte of the answer is replaced once.
    ``others`` are the endpoints of other origins that a request may name.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keep_alive_s: float,
        conversation: Conversation,
        act: Callable[[], None],
        fault: Callable[[int, Exception], None],
        others: Mapping[str, Endpoint],
    ) -> None:
        self._home = endpoint
        self._others = others
        self._endpoint = endpoint
        self._keep_alive_ns = seconds_ns(keep_alive_s)
        self._conversation = conversation
        self._act = act
        self._fault = fault
        self._connection: Connection | None = None
        self._link: HttpLink | None = None
        self._post: Post | None = None
        self._queue: deque[Post] = deque()
        self._reused = False
        self._idle_since_ns = 0
        self._status = 0
        self._body = ""

    def post(self, post: Post) -> None:
        """Make the request after those before it; `Conversation` hears what came of it.

        A reply does not wait: the answers of what was before it are nobody's then.
        """
        if post.errand is Errand.REPLY:
            self.forget()
        self._queue.append(post)
        if self._post is None:
            self._next()

    def forget(self) -> None:
        """An answer that is still to come is nobody's: the turn is over, or goes on."""
        self._queue.clear()
        if self._post is not None:
            self.close()

    def drain(self, limit_s: float) -> None:
        """Wait for what is under way, in the calling greenlet, then drop the connection."""
        with gevent.Timeout(limit_s, False):
            while self._post is not None:
                gevent.sleep(_LOOK_S)
        self.close()

    def close(self) -> None:
        """Drop the connection; requests under way are forgotten."""
        self._queue.clear()
        if self._connection is not None:
            self._connection.close()
        self._connection = self._link = self._post = None

    def opened(self, at_ns: int) -> None:
        self._write(at_ns)

    def received(self, data: bytes, at_ns: int, kernel: bool) -> None:
        if self._link is not None:
            self._take(self._link.receive_data(data), at_ns)

    def ended(self, at_ns: int) -> None:
        link, post = self._link, self._post
        self._connection = self._link = None
        if link is None or post is None:
            return
        if self._reused and not link.answered:
            self._open()
        else:
            self._take(link.receive_eof(), at_ns)

    def failed(self, at_ns: int, cause: Cause, detail: str) -> None:
        self._fail(at_ns, cause, detail)

    def flushed(self, at_ns: int) -> None:
        if self._post is not None:
            self._conversation.post_written(self._post.errand, at_ns)
            self._act()

    def broken(self, at_ns: int, error: Exception) -> None:
        self._queue.clear()
        self._connection = self._link = self._post = None
        self._fault(at_ns, error)

    def _next(self) -> None:
        if not self._queue:
            return
        self._post = post = self._queue.popleft()
        self._status, self._body = 0, ""
        origin = post.request.origin
        endpoint = self._home if origin is None else self._others[origin]
        fresh = now_ns() - self._idle_since_ns < self._keep_alive_ns
        there = endpoint.origin == self._endpoint.origin
        self._endpoint = endpoint
        if self._link is not None and self._link.reusable and fresh and there:
            self._reused = True
            self._write(now_ns())
        else:
            self._open()

    def _open(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._reused = False
        self._link = HttpLink(self._endpoint.host_header)
        self._connection = Connection(self._endpoint, self)
        self._connection.open()

    def _write(self, at_ns: int) -> None:
        if self._connection is None or self._link is None or self._post is None:
            return
        request = self._post.request
        self._link.send(request if request.origin else self._endpoint.placed(request))
        written_ns = now_ns()
        self._connection.write(self._link.data_to_send())
        if not self._connection.unsent:
            self.flushed(written_ns)

    def _take(self, frames: list[AnyFrame], at_ns: int) -> None:
        for frame in frames:
            if isinstance(frame, Head):
                self._status = frame.status
            elif isinstance(frame, Frame):
                self._body += frame.data
            elif isinstance(frame, End) and frame.clean:
                self._done(at_ns)
            elif isinstance(frame, End | Garbage):
                self._fail(at_ns, Cause.STREAM_CUT, "the answer was cut")

    def _done(self, at_ns: int) -> None:
        post, self._post = self._post, None
        self._idle_since_ns = at_ns
        if self._link is not None and not self._link.reusable:
            self._drop()
        if post is not None:
            self._conversation.posted(post.errand, self._status, self._body, at_ns)
            self._act()
        self._go_on()

    def _fail(self, at_ns: int, cause: Cause, detail: str) -> None:
        post, self._post = self._post, None
        self._drop()
        if post is not None:
            self._conversation.post_failed(post.errand, at_ns, cause, detail)
            self._act()
        self._go_on()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._link = None

    def _go_on(self) -> None:
        if self._post is None:
            self._next()
