"""One connection: a non-blocking socket, one persistent hub watcher, arrival stamps.

No greenlet runs here: the hub calls back when the socket is readable, the callback reads once,
stamps, and hands the bytes to the owner.  An exception never reaches the hub.  The arrival stamp is
the kernel's (SO_TIMESTAMPNS) where the platform has it, so that a lagging hub does not age what it
reads; a read that holds several segments carries the stamp of the last one.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, Protocol

from gevent import get_hub, monkey

from loadgen.clock import NS_PER_S, now_ns, wall_ns
from loadgen.net.endpoint import Endpoint, describe_failure
from loadgen.net.stamp import arrival_ns, was_set
from loadgen.net.tls import TlsSession
from loadgen.turn import Cause

_log = logging.getLogger(__name__)

_PlainSocket = monkey.get_original("socket", "socket")
"""The socket class that never waits in a greenlet, whether Locust has patched the module or not."""

_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("qq")
_ANCILLARY_SIZE = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
_READ_SIZE = 65_536
_READ, _WRITE = 1, 2
_HAS_STAMPS = sys.platform == "linux"


class Owner(Protocol):
    """Who is told what happens on a connection.  All times in monotonic ns."""

    def opened(self, at_ns: int) -> None:
        """TCP and TLS stand."""

    def received(self, data: bytes, at_ns: int, kernel: bool) -> None:
        """Plain bytes arrived."""

    def ended(self, at_ns: int) -> None:
        """The peer closed or reset the stream."""

    def failed(self, at_ns: int, cause: Cause, detail: str) -> None:
        """The connection could not be made."""

    def flushed(self, at_ns: int) -> None:
        """The kernel has all bytes written so far."""

    def broken(self, at_ns: int, error: Exception) -> None:
        """Our own code failed in a callback."""


class Connection:
    """A client connection to ``endpoint``; opens at once, reports to ``owner``."""

    __slots__ = (
        "_addresses", "_apart", "_endpoint", "_held", "_last_ns", "_last_stamp", "_out", "_owner",
        "_read_ns", "_reader", "_socket", "_stamps", "_tls", "_writer", "closed", "connected",
    )  # fmt: skip

    def __init__(self, endpoint: Endpoint, owner: Owner) -> None:
        self._endpoint = endpoint
        self._owner = owner
        self._addresses = list(endpoint.addresses)
        self._socket: socket.socket | None = None
        self._reader: Any = None
        self._held: Any = None
        self._writer: Any = None
        self._tls: TlsSession | None = None
        self._out = bytearray()
        self._stamps = False
        self._last_stamp = 0
        self._last_ns = 0
        self._apart = 0
        self._read_ns = 0
        self.connected = False
        self.closed = False

    def open(self) -> None:
        """Start connecting; `Owner.opened` or `Owner.failed` follows, from the hub."""
        get_hub().loop.run_callback(self._guarded, self._connect_next)

    def write(self, data: bytes) -> None:
        """Send ``data``; what the kernel does not take now is kept and sent when it can."""
        if self.closed or not data:
            return
        self._push(self._tls.encrypt(data) if self._tls else data)

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not yet taken."""
        return len(self._out)

    def hold(self, seconds: float) -> None:
        """Read nothing for a while.

        What arrives waits in the kernel and, when its buffer is full, with the peer.  It is then
        read in large pieces, each stamped with its last segment: an upper bound for what is before.
        """
        if self._reader is None or self._held is not None:
            return
        self._reader.stop()
        self._held = get_hub().loop.timer(seconds)
        self._held.start(self._guarded, self._read_on, update=True)

    def _read_on(self) -> None:
        self._unhold()
        if self._reader is not None:
            self._reader.start(self._guarded, self._readable)

    def _unhold(self) -> None:
        if self._held is not None:
            self._held.stop()
            self._held.close()
            self._held = None

    def close(self, *, abort: bool = False) -> None:
        """Close now; with ``abort`` as a network loss would look (RST).  The owner hears nothing
        more.
        """
        if self.closed:
            return
        self.closed = True
        if abort and self._socket is not None:
            linger = struct.pack("ii", 1, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._release()

    def _release(self) -> None:
        """Let go of the watchers, then of the socket whose descriptor they watch."""
        self._unwatch_write()
        self._unhold()
        if self._reader is not None:
            self._reader.stop()
            self._reader.close()
            self._reader = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # connecting

    def _connect_next(self) -> None:
        if self.closed:
            return
        family, address = self._addresses.pop(0)
        try:
            self._socket = self._new_socket(family)
            code = self._socket.connect_ex(address)
        except OSError as error:
            self._connect_error(error)
            return
        if code in (0, errno.EINPROGRESS):
            self._watch_write(self._connect_done)
        else:
            self._connect_error(OSError(code, errno.errorcode.get(code, "connect failed")))

    def _new_socket(self, family: int) -> socket.socket:
        plain: socket.socket = _PlainSocket(family, socket.SOCK_STREAM)
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stamps = _HAS_STAMPS
        self._read_ns = now_ns()
        self._apart = wall_ns() - self._read_ns
        if _HAS_STAMPS:
            try:
                plain.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            except OSError:
                self._stamps = False
        return plain

    def _connect_done(self) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._connect_error(OSError(code, os.strerror(code)))
            return
        self._unwatch_write()
        self._reader = get_hub().loop.io(self._socket.fileno(), _READ)
        self._reader.start(self._readable)
        if self._endpoint.tls is None:
            self._established(now_ns())
        else:
            self._tls = TlsSession(self._endpoint.tls, self._endpoint.host)
            self._shake_hands(b"")

    def _connect_error(self, error: OSError) -> None:
        self._release()
        if self._addresses:
            self._connect_next()
            return
        self.close()
        self._owner.failed(now_ns(), *describe_failure(self._endpoint, error))

    def _shake_hands(self, data: bytes) -> None:
        assert self._tls is not None
        try:
            out = self._tls.handshake(data)
        except OSError as error:
            self._push(self._tls.alert())
            self._addresses.clear()
            self._connect_error(error)
            return
        self._push(out)
        if self._tls.established:
            self._established(now_ns())
            if not self.closed:
                self._plain(b"", now_ns(), False)

    def _established(self, at_ns: int) -> None:
        self.connected = True
        self._owner.opened(at_ns)

    # reading

    def _readable(self) -> None:
        """Read once.  The hub's usual callback, so the guard of `_guarded` is its own."""
        plain = self._socket
        if plain is None:
            return
        try:
            kernel = False
            try:
                if self._stamps:
                    data, ancillary, _, _ = plain.recvmsg(_READ_SIZE, _ANCILLARY_SIZE)
                    wall, at_ns = wall_ns(), now_ns()
                    if ancillary:
                        seconds, rest = _TIMESPEC.unpack(ancillary[0][2])
                        stamp = seconds * NS_PER_S + rest
                        arrival = arrival_ns(stamp, self._last_stamp, wall, at_ns)
                        apart, passed = wall - at_ns, at_ns - self._read_ns
                        if arrival is None or was_set(apart, self._apart, passed):
                            self._last_stamp, arrival = 0, at_ns
                        else:
                            self._last_stamp, kernel = stamp, True
                        self._apart, self._read_ns, at_ns = apart, at_ns, arrival
                else:
                    data = plain.recv(_READ_SIZE)
                    at_ns = now_ns()
            except BlockingIOError:
                return
            except OSError as error:
                self._read_error(now_ns(), error)
                return
            # The same stamp converted twice differs by the clocks' jitter: time must not run back.
            if at_ns < self._last_ns:
                at_ns = self._last_ns
            self._last_ns = at_ns
            if data and self._tls is None:
                self._owner.received(data, at_ns, kernel)
            else:
                self._unusual(data, at_ns, kernel)
        except Exception as error:  # noqa: BLE001 - the task boundary
            self._failed(error)

    def _unusual(self, data: bytes, at_ns: int, kernel: bool) -> None:
        """The end of the stream, or bytes under TLS."""
        if not data:
            self._over(at_ns)
        elif self._tls is not None and self._tls.established:
            self._plain(data, at_ns, kernel)
        else:
            self._shake_hands(data)

    def _plain(self, data: bytes, at_ns: int, kernel: bool) -> None:
        """Decrypt and hand on."""
        assert self._tls is not None
        plain, closed = self._tls.decrypt(data)
        self._push(self._tls.encrypt(b""))
        if plain:
            self._owner.received(plain, at_ns, kernel)
        if closed:
            self._over(at_ns)

    def _read_error(self, at_ns: int, error: OSError) -> None:
        if self.connected:
            self._over(at_ns)
        else:
            self._addresses.clear()
            self._connect_error(error)

    def _over(self, at_ns: int) -> None:
        if self.closed:
            return
        was_connected = self.connected
        self.close()
        if was_connected:
            self._owner.ended(at_ns)
        else:
            error = ConnectionResetError(errno.ECONNRESET, "closed during the TLS handshake")
            self._owner.failed(at_ns, *describe_failure(self._endpoint, error))

    # writing

    def _push(self, data: bytes) -> None:
        if self._socket is None or not data:
            return
        if self._out:
            self._out += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            # The reading side learns the same and reports it, after all that arrived before.
            return
        if sent < len(data):
            self._out += data[sent:]
            self._watch_write(self._writable)

    def _writable(self) -> None:
        if self._socket is None:
            return
        at_ns = now_ns()
        try:
            sent = self._socket.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            self._out.clear()
            self._unwatch_write()
            return
        del self._out[:sent]
        if not self._out:
            self._unwatch_write()
            self._owner.flushed(at_ns)

    def _watch_write(self, callback: Callable[[], None]) -> None:
        assert self._socket is not None
        self._unwatch_write()
        self._writer = get_hub().loop.io(self._socket.fileno(), _WRITE)
        self._writer.start(self._guarded, callback)

    def _unwatch_write(self) -> None:
        if self._writer is not None:
            self._writer.stop()
            self._writer.close()
            self._writer = None

    def _guarded(self, callback: Callable[[], None]) -> None:
        """The boundary to the hub: a fault of ours becomes data of the turn and a traceback in the
        log.
        """
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the task boundary
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        _log.error("a connection callback failed", exc_info=error)
        self.close()
        self._owner.broken(now_ns(), error)
