"""What lies between the agent and its clients: a slow, narrow, stale or broken network.

`Network` says what is wrong with it; `Line` is a transport on which it happens.  Turns know nothing
of it: their truth is when a frame was handed over, not when it left.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Any

from loadgen.clock import NS_PER_MS, NS_PER_S, now_ns
from loadgen.errors import ConfigError
from mockagent.deadlines import Deadlines
from mockagent.faults import Faults
from mockagent.words import typed_words

_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: closing the socket sends RST (socket(7))."""
_PIECE = 1024
"""Bytes that cross a narrow line in one go."""
_LONGEST_MS = 3_600_000.0


@dataclass(frozen=True, slots=True)
class Network:
    """What is wrong with the network; ``_ms`` in milliseconds; 0, and -1 of bytes, is nothing.

    What concerns a connection concerns those that are made from then on.
    """

    delay_ms: float = 0.0
    """Everything that the server says arrives so much later."""
    jitter_ms: float = 0.0
    """And up to so much later still, but never out of order."""
    bytes_s: int = 0
    """Bytes a second that a connection carries to its client."""
    cut_bytes: int = -1
    """A connection ends after so many bytes to its client."""
    reset_bytes: int = -1
    """The same with a TCP reset."""
    accept_ms: float = 0.0
    """How long a connection waits before anybody reads what it says."""
    half_open: int = 0
    """1: connections are taken, requests never answered."""
    gzip: int = 0
    """1: HTTP answers are compressed, and what is compressed leaves when the buffer is full."""
    buffer: int = 0
    """1: HTTP answers leave when they are complete, as behind a proxy that buffers."""
    ws_status: int = 0
    """WebSocket upgrades are refused with this status (400-599)."""
    retry_after: int = 1
    """Seconds in the Retry-After header of such a 429 or 503."""

    @property
    def shapes(self) -> bool:
        """Whether what the server says arrives in another way than it was said."""
        limits = self.cut_bytes >= 0 or self.reset_bytes >= 0
        return bool(self.delay_ms or self.jitter_ms or self.bytes_s or limits)


def faults_of(texts: Sequence[str]) -> tuple[Network, tuple[tuple[str, str], ...]]:
    """What ``key=value`` texts ask for: of the network, and of each question that says nothing else
    about it.

    Raises:
        ConfigError: a key or a value that cannot be.
    """
    words: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        _check(key, value if equals else None)
        words.append((key, value))
    network = Network(**typed_words(words, Network))
    if network.ws_status and not 400 <= network.ws_status <= 599:
        raise ConfigError(f"fault: ws_status must be 400 to 599, got {network.ws_status}")
    known = {field.name for field in fields(Faults)}
    return network, tuple(word for word in words if word[0] in known)


def _check(key: str, value: str | None) -> None:
    kinds: dict[str, Any] = {
        field.name: type(field.default) for owner in (Faults, Network) for field in fields(owner)
    }
    if key not in kinds:
        known = ", ".join(sorted(kinds))
        raise ConfigError(f"fault: {key!r} is no fault; known are {known}")
    try:
        number = float(kinds[key](value or ""))
    except ValueError:
        raise ConfigError(f"fault: {key} must be a number, got {value!r}") from None
    if key.endswith("_ms") and not 0 <= number <= _LONGEST_MS:
        raise ConfigError(f"fault: {key} must be 0 to {_LONGEST_MS:.0f}, got {value}")
    if key == "bytes_s" and number < 0:
        raise ConfigError(f"fault: bytes_s must be >= 0, got {value}")


def reset(transport: Any) -> None:
    """End a TCP connection with RST: no goodbye, and no FIN."""
    peer = transport.get_extra_info("socket")
    if peer is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


class Line(asyncio.Transport):
    """A transport with a bad network behind it.  ``spared`` says of the answer that is being
    written that nothing happens to it.
    """

    def __init__(
        self,
        transport: Any,
        network: Network,
        deadlines: Deadlines,
        rng: Random,
        spared: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._transport = transport
        self._network = network
        self._deadlines = deadlines
        self._rng = rng
        self._spared = spared
        self._queue: deque[tuple[int, bytes]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._free_ns = self._last_ns = self._sent = 0
        self._closing = False

    def write(self, data: Any) -> None:
        """Let ``data`` go at the network's pace."""
        if self._closing or not data:
            return
        if self._spared():
            self._put(now_ns(), bytes(data))
            return
        left, how = self._left()
        part = bytes(data) if left is None else bytes(data)[: max(left - self._sent, 0)]
        self._sent += len(part)
        size = _PIECE if self._network.bytes_s else max(len(part), 1)
        for begin in range(0, len(part), size):
            piece = part[begin : begin + size]
            self._put(self._due_ns(len(piece)), piece)
        if left is not None and self._sent >= left:
            self._closing = True
            self._put(self._last_ns, how)

    def close(self) -> None:
        """Close when all has left."""
        if not self._closing:
            self._closing = True
            self._put(self._last_ns, b"")

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._queue.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._closing or bool(self._transport.is_closing())

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def _left(self) -> tuple[int | None, bytes]:
        """How many bytes may be said in all, and how the connection ends then."""
        network = self._network
        limits = [(network.cut_bytes, b""), (network.reset_bytes, _RESET)]
        set_ = [(limit, how) for limit, how in limits if limit >= 0]
        return min(set_, key=lambda item: item[0]) if set_ else (None, b"")

    def _due_ns(self, size: int) -> int:
        network = self._network
        at_ns = now_ns()
        if network.bytes_s:
            self._free_ns = max(self._free_ns, at_ns) + size * NS_PER_S // network.bytes_s
            at_ns = self._free_ns
        late_ms = network.delay_ms + network.jitter_ms * self._rng.random()
        self._last_ns = max(self._last_ns, at_ns + int(late_ms * NS_PER_MS))
        return self._last_ns

    def _put(self, due_ns: int, data: bytes) -> None:
        """Queue ``data``; empty is the close, `_RESET` (by identity) a reset."""
        self._queue.append((due_ns, data))
        if self._pump is None:
            self._pump = asyncio.get_running_loop().create_task(self._carry())

    async def _carry(self) -> None:
        while self._queue:
            due_ns, _ = self._queue[0]
            if due_ns > now_ns():
                await self._deadlines.until(due_ns)
            if not self._queue:
                break
            _, data = self._queue.popleft()
            if data is _RESET:
                reset(self._transport)
            elif data:
                self._transport.write(data)
            else:
                self._transport.close()
        self._pump = None


_RESET = b"RST"
