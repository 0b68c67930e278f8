"""Bare clients: what is left of the cost when nothing is done but read, split and parse JSON.

``python -m tests.bench.floors hub|into|small|plain|batch|uvloop sse|ws``.  No Locust, no
conversation, no records, no HTTP parser: they understand just what the load server writes.  ``hub``
is a gevent io watcher with recvmsg and kernel stamps, as our client reads; ``uvloop`` is an asyncio
protocol.  The others read otherwise in gevent's loop: into a buffer that is kept, into a small one,
without stamps, or all sockets by one epoll under a single watcher.
"""

from __future__ import annotations

import asyncio
import os
import resource
import select
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import orjson

from loadgen.clock import NS_PER_S, now_ns, wall_ns
from tests.bench.meter import Meter, Order, order

_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("qq")
_MASK = b"\0\0\0\0"
"""A masking key that changes nothing."""


class SseFloor:
    """One stream of events.  ``write`` is given the bytes to send."""

    def __init__(self, meter: Meter, write: Callable[[bytes], Any]) -> None:
        self._meter = meter
        self._write = write
        self._tail = b""

    def ask(self) -> None:
        """Put the question."""
        self._id, self._events, self._first_ns = uuid4().hex, 0, 0
        messages = [{"role": "user", "content": self._meter.order.question}]
        body = orjson.dumps({"messages": messages, "stream": True})
        head = (
            f"POST /v1/chat/stream HTTP/1.1\r\nhost: bench\r\nuser-message-id: {self._id}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._write(head.encode() + body)

    def feed(self, data: bytes, at_ns: int) -> None:
        """Bytes that arrived at ``at_ns``."""
        lines = (self._tail + data).split(b"\n")
        self._tail = lines.pop()
        for line in lines:
            if line.startswith(b"data: "):
                orjson.loads(line[6:])
                self._events += 1
                self._first_ns = self._first_ns or at_ns
            elif line.startswith(b"intermediate_data: "):
                orjson.loads(line[19:])
                self._events += 1
            elif line == b"0\r":
                self._meter.turns.append((self._id, self._events, self._first_ns, now_ns()))
                self.ask()


class WsFloor:
    """One WebSocket; the handshake's answer is skipped."""

    def __init__(self, meter: Meter, write: Callable[[bytes], Any]) -> None:
        self._meter = meter
        self._write = write
        self._tail = b""
        self._open = False

    def ask(self) -> None:
        """Open the socket, or put the question on an open one."""
        if not self._open:
            self._write(
                b"GET /websocket HTTP/1.1\r\nhost: bench\r\nupgrade: websocket\r\n"
                b"connection: upgrade\r\nsec-websocket-version: 13\r\n"
                b"sec-websocket-key: MDEyMzQ1Njc4OTAxMjM0NQ==\r\n\r\n"
            )
            return
        self._id, self._events, self._first_ns = uuid4().hex, 0, 0
        said = {"role": "user", "content": [{"type": "text", "text": self._meter.order.question}]}
        message = {"type": "user_message", "schema_type": "chat_stream", "id": self._id,
                   "conversation_id": self._id, "content": {"messages": [said]}}  # fmt: skip
        body = orjson.dumps(message)
        self._write(b"\x81\xfe" + len(body).to_bytes(2, "big") + _MASK + body)

    def feed(self, data: bytes, at_ns: int) -> None:
        """Bytes that arrived at ``at_ns``."""
        if self._tail:
            data = self._tail + data
        if not self._open:
            _, found, data = data.partition(b"\r\n\r\n")
            self._open = bool(found)
            self.ask()
        at, size = 0, len(data)
        while size - at >= 4:
            length, start = data[at + 1], at + 2
            if length == 126:
                length, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            if start + length > size:
                break
            self._message(orjson.loads(data[start : start + length]), at_ns)
            at = start + length
        self._tail = data[at:]

    def _message(self, message: Any, at_ns: int) -> None:
        if message["type"] == "system_response_message":
            if message["status"] == "complete":
                self._meter.turns.append((self._id, self._events, self._first_ns, now_ns()))
                self.ask()
                return
            self._first_ns = self._first_ns or at_ns
        self._events += 1


def run_hub(given: Order, make: Any, read: Any, batch: bool = False) -> None:
    """gevent's loop, one io watcher a socket, no greenlet a stream.

    ``read`` is called with a socket and who is to be fed.  With ``batch`` there is one watcher, of
    an epoll that has all sockets.
    """
    import gevent  # only one event loop is loaded into a process

    meter, loop = Meter(given), gevent.get_hub().loop
    address = _address(given)
    watchers = []
    epoll, fed = select.epoll(), {}
    if batch:
        watchers.append(loop.io(epoll.fileno(), 1))
        watchers[0].start(_all_readable, epoll, fed, read)
    for _ in range(given.streams):
        plain = socket.create_connection(address)
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        floor = make(meter, plain.send)
        if batch:
            fed[plain.fileno()] = plain, floor.feed
            epoll.register(plain.fileno(), select.EPOLLIN)
        else:
            watchers.append(loop.io(plain.fileno(), 1))
            watchers[-1].start(read, plain, floor.feed)
        floor.ask()
        gevent.sleep(1 / given.streams)
    meter.measure(gevent.sleep)


def _all_readable(epoll: Any, fed: Any, read: Any) -> None:
    for descriptor, _ in epoll.poll(0):
        read(*fed[descriptor])


def _stamped(plain: socket.socket, feed: Any) -> None:
    data, ancillary, _, _ = plain.recvmsg(65_536, 32)
    feed(data, _arrival_ns(ancillary))


def _small(plain: socket.socket, feed: Any) -> None:
    data, ancillary, _, _ = plain.recvmsg(4_096, 32)
    feed(data, _arrival_ns(ancillary))


def _into(plain: socket.socket, feed: Any) -> None:
    size, ancillary, _, _ = plain.recvmsg_into([_KEPT], 32)
    feed(bytes(_KEPT[:size]), _arrival_ns(ancillary))


def _plain(plain: socket.socket, feed: Any) -> None:
    feed(plain.recv(65_536), now_ns())


_KEPT = memoryview(bytearray(65_536))


def _arrival_ns(ancillary: Any) -> int:
    at_ns = now_ns()
    if ancillary:
        seconds, rest = _TIMESPEC.unpack(ancillary[0][2])
        at_ns -= wall_ns() - (seconds * NS_PER_S + rest)
    return at_ns


_READERS = {"hub": _stamped, "into": _into, "small": _small, "plain": _plain, "batch": _stamped}


class _Protocol(asyncio.Protocol):
    def __init__(self, meter: Meter, make: Any) -> None:
        self._meter = meter
        self._make = make

    def connection_made(self, transport: Any) -> None:
        self._floor = self._make(self._meter, transport.write)
        self._floor.ask()

    def data_received(self, data: bytes) -> None:
        self._floor.feed(data, now_ns())


async def _run_loop(given: Order, make: Any) -> None:
    meter, loop = Meter(given), asyncio.get_running_loop()
    host, port = _address(given)
    streams = []
    for _ in range(given.streams):
        streams.append(await loop.create_connection(lambda: _Protocol(meter, make), host, port))
        await asyncio.sleep(1 / given.streams)
    await asyncio.sleep(given.warm_s)
    meter.begin()
    await asyncio.sleep(given.window_s)
    meter.finish()


def run_uvloop(given: Order, make: Any) -> None:
    """uvloop, one protocol a stream."""
    import uvloop  # only one event loop is loaded into a process

    uvloop.run(_run_loop(given, make))


def _address(given: Order) -> tuple[str, int]:
    parts = urlsplit(given.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def main() -> None:
    """Run a floor until the reading is written, then stop dead: streams are still open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    loop, wire = sys.argv[1:]
    make = {"sse": SseFloor, "ws": WsFloor}[wire]
    if loop == "uvloop":
        run_uvloop(order(), make)
    else:
        run_hub(order(), make, _READERS[loop], batch=loop == "batch")
    os._exit(0)


if __name__ == "__main__":
    main()
