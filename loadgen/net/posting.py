"""Requests beside the turn's stream: an analyst's replies, each on a connection that carries
nothing else then.
"""

from __future__ import annotations

from collections.abc import Callable

from loadgen.clock import now_ns
from loadgen.conversation import Conversation
from loadgen.net.connection import Connection
from loadgen.net.endpoint import Endpoint
from loadgen.plan import seconds_ns
from loadgen.turn import Cause
from loadgen.wire.frame import AnyFrame, End, Frame, Garbage, Head, Request
from loadgen.wire.http1 import HttpLink


class Poster:
    """Makes a conversation's side requests, one at a time, and keeps the connection for a while.

    A reused connection that the server closes before any byte of the answer is replaced once.  If
    the next reply comes before the answer to the last, that answer is not waited for.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keep_alive_s: float,
        conversation: Conversation,
        act: Callable[[], None],
        fault: Callable[[int, Exception], None],
    ) -> None:
        self._endpoint = endpoint
        self._keep_alive_ns = seconds_ns(keep_alive_s)
        self._conversation = conversation
        self._act = act
        self._fault = fault
        self._connection: Connection | None = None
        self._link: HttpLink | None = None
        self._request: Request | None = None
        self._reused = False
        self._idle_since_ns = 0
        self._status = 0
        self._body = ""

    def post(self, request: Request) -> None:
        """Send ``request``; `Conversation.posted` or `post_failed` follows."""
        self._request = self._endpoint.placed(request)
        self._status, self._body = 0, ""
        fresh = now_ns() - self._idle_since_ns < self._keep_alive_ns
        if self._link is not None and self._link.reusable and fresh:
            self._reused = True
            self._write(now_ns())
        else:
            self._open()

    def forget(self) -> None:
        """The turn is over: an answer that is still to come is nobody's."""
        if self._request is not None:
            self.close()

    def close(self) -> None:
        """Drop the connection; a request under way is forgotten."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._link = self._request = None

    def opened(self, at_ns: int) -> None:
        self._write(at_ns)

    def received(self, data: bytes, at_ns: int, kernel: bool) -> None:
        if self._link is not None:
            self._take(self._link.receive_data(data), at_ns)

    def ended(self, at_ns: int) -> None:
        link, request = self._link, self._request
        self._connection = self._link = None
        if link is None or request is None:
            return
        if self._reused and not link.answered:
            self._open()
        else:
            self._take(link.receive_eof(), at_ns)

    def failed(self, at_ns: int, cause: Cause, detail: str) -> None:
        self._fail(at_ns, cause, detail)

    def flushed(self, at_ns: int) -> None:
        self._conversation.flushed(at_ns)
        self._act()

    def broken(self, at_ns: int, error: Exception) -> None:
        self._connection = self._link = self._request = None
        self._fault(at_ns, error)

    def _open(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._reused = False
        self._link = HttpLink(self._endpoint.host_header)
        self._connection = Connection(self._endpoint, self)
        self._connection.open()

    def _write(self, at_ns: int) -> None:
        if self._connection is None or self._link is None or self._request is None:
            return
        self._link.send(self._request)
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
                self._fail(at_ns, Cause.STREAM_CUT, "the answer to the reply was cut")

    def _done(self, at_ns: int) -> None:
        self._request = None
        self._idle_since_ns = at_ns
        if self._link is not None and not self._link.reusable:
            self.close()
        self._conversation.posted(self._status, self._body, at_ns)
        self._act()

    def _fail(self, at_ns: int, cause: Cause, detail: str) -> None:
        if self._request is None:
            return
        self.close()
        self._conversation.post_failed(at_ns, cause, detail)
        self._act()
