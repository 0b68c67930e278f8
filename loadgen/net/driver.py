"""The driver: carries out a conversation's commands and feeds it what arrives.

`Driver.ask` blocks its greenlet until the turn's record exists; all that happens in between runs in
hub callbacks.  Nothing here decides what a frame means.
"""

from __future__ import annotations

import logging
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gevent
from gevent import get_hub, monkey
from gevent.event import AsyncResult

from loadgen.clock import NS_PER_S, now_ns, utc_text, wall_ns
from loadgen.commands import (
    Command,
    Drop,
    Finish,
    Hold,
    Parting,
    Post,
    Reconnect,
    Send,
    Visit,
    Wait,
)
from loadgen.conversation import Conversation
from loadgen.dialects.contract import Site, Wire
from loadgen.errors import GeneratorError
from loadgen.net.connection import Connection
from loadgen.net.endpoint import Endpoint, resolve
from loadgen.net.posting import Poster
from loadgen.net.tls import client_context
from loadgen.net.visit import denial, visit
from loadgen.phase import Phase
from loadgen.plan import Plan, Target, seconds_ns, target_host
from loadgen.trace import HEADER as TRACE_HEADER
from loadgen.trace import traceparent
from loadgen.turn import Cause, Outcome, TurnRecord
from loadgen.wire.frame import Link, Request
from loadgen.wire.http1 import HttpLink
from loadgen.wire.websocket import SocketLink

_log = logging.getLogger(__name__)

_FAREWELL_S = 2.0
"""How long an analyst that leaves waits for its last requests to be answered."""

_VISIT_S = 30.0
"""How long each page of a login may take."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """How connections are made; ``keep_alive_s`` is how long an idle one is trusted.

    ``others``: where else the server may send us, by origin.
    """

    endpoint: Endpoint
    keep_alive_s: float = 4.0
    compression: bool = False
    others: Mapping[str, Endpoint] = field(default_factory=dict)

    @property
    def site(self) -> Site:
        """The target as dialects need to know it."""
        return Site(self.endpoint.root, tuple(self.others))

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context of this target or of the first other one that has one."""
        contexts = (endpoint.tls for endpoint in (self.endpoint, *self.others.values()))
        return next((context for context in contexts if context is not None), None)


def wiring_of(target: Target, host: str) -> Wiring:
    """How to reach ``host``, as ``target`` of the plan says.  Raises ConfigError, TargetError."""
    origins = (target_host(host), *target.allow_origins)
    context = None
    if any(origin.startswith("https:") for origin in origins):
        context = client_context(verify=target.verify_tls, ca_file=target.ca_file)
    home, *others = (resolve(o, context if o.startswith("https:") else None) for o in origins)
    return Wiring(
        home,
        target.keep_alive_s,
        target.compression,
        dict(zip(target.allow_origins, others, strict=True)),
    )


def wirings_of(plan: Plan, host: str) -> dict[str, Wiring]:
    """How each group of ``plan`` reaches its host, ``host`` where it names none of its own.

    Raises ConfigError, TargetError.
    """
    made: dict[str, Wiring] = {}
    for group in plan.analysts:
        there = group.host or host
        if there not in made:
            made[there] = wiring_of(plan.target, there)
    return {group.name: made[group.host or host] for group in plan.analysts}


class _Stream:
    """The turn's connection: bytes through the codec into the conversation."""

    __slots__ = ("_conversation", "_driver", "connection", "idle_since_ns", "link", "reused")

    def __init__(self, driver: Driver, endpoint: Endpoint, link: Link) -> None:
        self._driver = driver
        self._conversation = driver.conversation
        self.link = link
        self.connection = Connection(endpoint, self)
        self.reused = False
        self.idle_since_ns = 0

    def opened(self, at_ns: int) -> None:
        self._conversation.connected(at_ns)
        self.pump()
        self._driver.act()

    def received(self, data: bytes, at_ns: int, kernel: bool) -> None:
        conversation = self._conversation
        link = self.link
        message = link.usual(data)
        if message is not None and conversation.receive_usual(message, at_ns, len(data), kernel):
            return
        conversation.receive(link.receive_data(data), at_ns, len(data), kernel)
        if link.unasked:
            self.pump()
        if conversation.has_commands:
            self._driver.act()

    def ended(self, at_ns: int) -> None:
        answered = not self.reused or self.link.answered
        frames = self.link.receive_eof()
        if answered and frames:
            self._conversation.receive(frames, at_ns, 0, False)
            self._driver.act()
        self._driver.gone(self, at_ns, answered)

    def failed(self, at_ns: int, cause: Cause, detail: str) -> None:
        self._conversation.connect_failed(at_ns, cause, detail)
        self._driver.act()

    def flushed(self, at_ns: int) -> None:
        self._conversation.flushed(at_ns)
        self._driver.act()

    def broken(self, at_ns: int, error: Exception) -> None:
        self._driver.fault(at_ns, error)
        self._driver.gone(self, at_ns, True)

    def send(self, outbound: Request | str) -> None:
        if isinstance(outbound, str) and not self.link.reusable:
            return  # it closed in the read that made us speak; the conversation has heard of that
        placed = self._driver.endpoint.placed
        self.link.send(outbound if isinstance(outbound, str) else placed(outbound))
        # Before the write: the peer's answer may be stamped before the call returns.
        at_ns = now_ns()
        self.pump()
        if not self.connection.unsent:
            self._conversation.flushed(at_ns)

    def pump(self) -> None:
        """Write what the codec has to say: a handshake, a message, a pong."""
        data = self.link.data_to_send()
        if data:
            self.connection.write(data)

    def close(self, *, abort: bool = False) -> None:
        if not abort:
            self.link.close()
            self.pump()
        self.connection.close(abort=abort)


class Driver:
    """One analyst's body.

    ``sink`` is given every record in the asking greenlet, before `ask` returns or re-raises.
    ``interrupted`` names the outcome of a turn whose greenlet is killed.  ``traced``: requests of a
    turn say which trace they belong to, so that the server's spans join ours.
    """

    def __init__(
        self,
        wiring: Wiring,
        conversation: Conversation,
        sink: Callable[[TurnRecord], None],
        interrupted: Callable[[], Outcome] = lambda: Outcome.CUT_OFF,
        *,
        traced: bool = False,
    ) -> None:
        self._traced = traced
        self._trace = ""
        self.conversation = conversation
        self.endpoint = wiring.endpoint
        self._wiring = wiring
        self._sink = sink
        self._interrupted = interrupted
        self._todo: deque[Command] = deque()
        self._stream: _Stream | None = None
        self._poster = Poster(
            wiring.endpoint, wiring.keep_alive_s, conversation, self.act, self.fault,
            wiring.others,
        )  # fmt: skip
        self._timer: Any = None
        self._visitor: Any = None
        self._armed_ns = 0
        self._result: AsyncResult | None = None
        self._record: TurnRecord | None = None

    def ask(
        self, turn: str, text: str, *, tag: str | None = None, scheduled_ns: int | None = None
    ) -> TurnRecord:
        """Put a question and wait for the record of the turn; a bad turn is a record, not an
        exception.  Raises GeneratorError while another turn is under way.
        """
        if self.conversation.phase is not Phase.IDLE:
            raise GeneratorError(f"turn {turn} was asked while another is under way")
        self._record = None
        if self._traced:
            self._trace = traceparent(turn)
        self._result = result = AsyncResult()
        at_hand = self._take_kept()
        try:
            self._put(turn, text, tag, scheduled_ns, at_hand)
            record: TurnRecord = result.get()
        except BaseException:
            self.conversation.interrupt(now_ns(), self._interrupted(), None, "")
            self.act()
            if self._record is not None:
                self._sink(self._record)
            raise
        self._sink(record)
        return record

    def _put(
        self, turn: str, text: str, tag: str | None, scheduled_ns: int | None, at_hand: bool
    ) -> None:
        at_ns, started_at = now_ns(), utc_text(wall_ns())
        try:
            self.conversation.ask(
                turn,
                text,
                at_ns,
                started_at=started_at,
                scheduled_ns=scheduled_ns,
                tag=tag,
                at_hand=at_hand,
            )
            self.act()
        except Exception as error:
            _log.exception("turn %s could not be asked", turn)
            self.fault(now_ns(), error)
            if self._record is None:
                raise

    @property
    def connected(self) -> bool:
        """Whether there is a connection to lose: a WebSocket, or a request under way."""
        stream, spoken = self._stream, self.conversation
        kept = spoken.dialect.wire is Wire.WEBSOCKET or spoken.phase is not Phase.IDLE
        return stream is not None and stream.connection.connected and kept

    def drop(self) -> bool:
        """Lose the connection as a network would; False when there is none."""
        stream = self._stream
        if stream is None:
            return False
        stream.close(abort=True)
        self.gone(stream, now_ns(), True)
        return True

    def close(self) -> None:
        """The analyst leaves: end the turn if one is under way, say goodbye and close."""
        self.conversation.interrupt(now_ns(), self._interrupted(), None)
        self.conversation.leave()
        self.act()
        self._poster.drain(_FAREWELL_S)
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def act(self) -> None:
        """Carry out what the conversation wants; after a fault of ours, what is left of it."""
        todo = self._todo
        while todo or self.conversation.has_commands:
            if not todo:
                todo.extend(self.conversation.take_commands())
            command = todo.popleft()
            _ACTIONS[command.__class__](self, command)

    def gone(self, stream: _Stream, at_ns: int, answered: bool) -> None:
        """``stream`` has ended; tell the conversation unless it knows already."""
        if stream is self._stream:
            self._stream = None
            self.conversation.lost(at_ns, answered)
            self.act()

    def fault(self, at_ns: int, error: Exception) -> None:
        """Our own code failed: the turn says so."""
        self.conversation.interrupt(at_ns, Outcome.FAILED, Cause.GENERATOR_FAULT, repr(error))
        self.act()

    def _take_kept(self) -> bool:
        """Whether an idle HTTP connection can carry the next request."""
        stream = self._stream
        if stream is None or self.conversation.dialect.wire is not Wire.HTTP:
            return False
        idle_ns = now_ns() - stream.idle_since_ns
        if stream.link.reusable and idle_ns < seconds_ns(self._wiring.keep_alive_s):
            stream.reused = True
            return True
        stream.close()
        self._stream = None
        return False

    def _send(self, command: Command) -> None:
        assert isinstance(command, Send)
        outbound = command.outbound
        if self._stream is None:
            self.conversation.lost(now_ns(), answered=False)
        else:
            self._stream.send(outbound if isinstance(outbound, str) else self._joined(outbound))

    def _post(self, command: Command) -> None:
        assert isinstance(command, Post)
        if self._trace:
            command = replace(command, request=self._joined(command.request))
        self._poster.post(command)

    def _joined(self, request: Request) -> Request:
        """``request`` as a part of the turn's trace, if there is one; no other origin is told."""
        if not self._trace or request.origin is not None:
            return request
        return replace(request, headers={**request.headers, TRACE_HEADER: self._trace})

    def _visit(self, command: Command) -> None:
        """In a greenlet of its own: httpx blocks, the hub must not."""
        assert isinstance(command, Visit)
        self._visitor = gevent.spawn(self._walk, command)

    def _walk(self, command: Visit) -> None:
        url = denial(command.url) if command.deny else command.url
        if url is None:
            outcome = 0, "the URL does not say where to refuse", ""
        else:
            route = self.endpoint.base_path + self.conversation.dialect.route
            walk = partial(visit, url, self._wiring.site, route, self._wiring.tls, _VISIT_S)
            # Where sockets are not patched (the probe), httpx would stop the hub.
            patched = monkey.is_module_patched("socket")
            outcome = walk() if patched else get_hub().threadpool.apply(walk)
        self._visitor = None
        status, problem, location = outcome
        self.conversation.visited(status, problem, now_ns(), location)
        self.act()

    def _hold(self, command: Command) -> None:
        assert isinstance(command, Hold)
        if self._stream is not None:
            self._stream.connection.hold(command.for_ns / NS_PER_S)

    def _drop(self, command: Command) -> None:
        assert isinstance(command, Drop)
        if self._stream is not None:
            self._stream.close(abort=not command.orderly)
            self._stream = None

    def _reconnect(self, command: Command) -> None:
        assert isinstance(command, Reconnect)
        if self._stream is not None:
            self._stream.close(abort=not command.orderly)
        endpoint = self.endpoint
        link: Link
        if command.upgrade is None:
            link = HttpLink(endpoint.host_header)
        else:
            link = SocketLink(
                endpoint.socket_uri,
                endpoint.placed(self._joined(command.upgrade)),
                compression=self._wiring.compression,
            )
        self._stream = _Stream(self, endpoint, link)
        self._stream.connection.open()

    def _finish(self, command: Command) -> None:
        assert isinstance(command, Finish)
        self._disarm()
        self._poster.forget()
        if self._visitor is not None:
            self._visitor.kill(block=False)
            self._visitor = None
        self._record = command.record
        stream = self._stream
        if stream is not None:
            keep = command.parting is Parting.KEEP
            # The last chunk of a body often comes in a read of its own, behind the event that ended
            # the turn: it is read while the analyst thinks.
            usable = stream.link.reusable or stream.link.trailing
            if keep and usable and not stream.connection.closed:
                stream.idle_since_ns = now_ns()
            else:
                stream.close(abort=command.parting is Parting.BREAK)
                self._stream = None
                if keep:
                    self.conversation.lost(now_ns())
        if self._result is not None:
            self._result.set(command.record)

    def _wait(self, command: Command) -> None:
        assert isinstance(command, Wait)
        if self._timer is not None:
            if self._armed_ns <= command.until_ns:
                return
            self._disarm()
        delay = max(0, command.until_ns - now_ns()) / NS_PER_S
        self._armed_ns = command.until_ns
        self._timer = get_hub().loop.timer(delay)
        self._timer.start(self._tick, update=True)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None

    def _tick(self) -> None:
        self._disarm()
        try:
            self.conversation.tick(now_ns())
            self.act()
        except Exception as error:  # noqa: BLE001 - the task boundary
            self.fault(now_ns(), error)


_ACTIONS: dict[type, Callable[[Driver, Command], None]] = {
    Send: Driver._send,
    Post: Driver._post,
    Visit: Driver._visit,
    Hold: Driver._hold,
    Drop: Driver._drop,
    Reconnect: Driver._reconnect,
    Finish: Driver._finish,
    Wait: Driver._wait,
}
