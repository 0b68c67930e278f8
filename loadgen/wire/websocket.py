"""WebSocket, the client's side: bytes to frames and messages to bytes (RFC 6455).

websockets' sans-I/O protocol does the work; here its frames become messages, and every way in
which a socket can end becomes one last frame.

One kind of frame takes a shorter way, because nearly all of a stream's are of it: an unfragmented,
unmasked text message that fits the limit, on a socket without extensions, is cut out of the bytes
here.  All others are handed to the protocol whole, so that its parser always stands between two
frames; the first bytes that look like a breach end the short way for good.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from websockets import frames as ws
from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import BytesLike
from websockets.uri import parse_uri

from loadgen.errors import GeneratorError
from loadgen.wire.frame import AnyFrame, Close, Frame, Garbage, Open, Refused, Request
from loadgen.wire.request import USER_AGENT, check_headers, check_path
from loadgen.wire.sse import MIB

MAX_REFUSAL = 2048
"""Bytes kept of the body of a refusal."""

_SHOWN = 40
_WHOLE_TEXT = 0x81  # FIN, no reserved bit, opcode 1: RFC 6455 section 5.2
_MASKED = 0x80
_TWO_BYTES = 126  # the length follows in two bytes
_SHORTEST = 4
_MAX_REASON = 123  # RFC 6455 section 5.5: a control frame's payload is at most 125 bytes
_BREACHES: dict[type[Exception], int] = {
    ProtocolError: 1002,
    UnicodeDecodeError: 1007,
    PayloadTooBig: 1009,
}
_ABNORMAL = 1006
_parse_uri = lru_cache(maxsize=64)(parse_uri)

# Not in the tree of loggers: at level DEBUG websockets logs every frame, and with it every token.
_SILENT = logging.Logger("loadgen.wire.websocket", level=logging.CRITICAL + 1)


class SocketLink:
    """One WebSocket; the handshake is queued on creation.

    ``uri`` gives the host header; path, query and further headers come from ``request``.  The last
    frame is one of: `Refused` or `Garbage` (the handshake failed), `Close` (1006 without a close
    frame of the peer).  If the peer breaks the protocol, sends invalid UTF-8 or a message over
    ``max_size`` bytes, we send a close frame and give its code, 1002, 1007 or 1009; ``breach`` then
    says what it was.  After the last frame the owner should close the connection.

    permessage-deflate is offered only with ``compression``: its contexts cost memory.
    Raises ValueError for a request that cannot be written.
    """

    __slots__ = (
        "_ended", "_kind", "_max_size", "_missing", "_opening", "_parts", "_pieces", "_protocol",
        "_short", "answered", "breach", "comments", "pongs", "unasked",
    )  # fmt: skip

    def __init__(
        self,
        uri: str,
        request: Request,
        *,
        compression: bool = False,
        max_size: int = 16 * MIB,
        user_agent: str = USER_AGENT,
    ) -> None:
        self.comments = 0
        """Pings of the peer, each answered with a pong."""
        self.pongs = 0
        self.unasked = True
        self.answered = True
        self.breach = ""
        """What the peer did wrong, when that is why the socket closed."""

        self._ended = False
        self._opening: bytes | None = b""
        self._kind = ""
        self._parts: list[bytes] | None = None
        self._short = False
        self._pieces: list[bytes] = []  # of a frame that has begun, while on the short way
        self._missing = 0
        self._max_size = max_size
        self._protocol = ClientProtocol(
            _parse_uri(uri),
            extensions=[_deflate()] if compression else None,
            max_size=max_size,
            logger=_SILENT,
        )
        check_path(request.path)
        headers = {"user-agent": user_agent, **request.headers}
        check_headers(headers)
        handshake = self._protocol.connect()
        handshake.path = request.path
        for name, value in headers.items():
            handshake.headers.pop(name, None)
            handshake.headers[name] = value
        self._protocol.send_request(handshake)

    def send(self, outbound: Request | str) -> None:
        """Queue a text message.  Raises GeneratorError unless the socket is open."""
        if not isinstance(outbound, str):
            raise TypeError("a WebSocket sends a text message, not a Request")
        if not self.reusable:
            raise GeneratorError("this WebSocket is not open")
        self._protocol.send_text(outbound.encode())

    def receive_data(self, data: bytes) -> list[AnyFrame]:
        """Frames completed by ``data``; none after the last one."""
        if self._ended:
            return []
        found: list[AnyFrame] = []
        if self._opening is not None:
            data = self._shake_hands(data, found)
        if self._short:
            self._take(data, found)
        elif data:
            self._give(data, found)
        return found

    def usual(self, data: bytes) -> bytes | None:
        """The text message that ``data`` is, if it is one whole unfragmented one."""
        if (
            not self._short
            or self._ended
            or self._pieces
            or self._parts is not None
            or len(data) < _SHORTEST
            or data[0] != _WHOLE_TEXT
        ):
            return None
        length, begin = data[1], 2
        if length == _TWO_BYTES:
            length, begin = data[2] << 8 | data[3], 4
        # A longer length, or a mask, is none of these.
        if length + begin != len(data) or length > self._max_size:
            return None
        return data[begin:]

    def receive_eof(self) -> list[AnyFrame]:
        """The last frame, if it has not been given yet."""
        found: list[AnyFrame] = []
        if not self._ended and self._pieces:
            self._give(b"".join(self._pieces), found)
        if not self._ended:
            self._protocol.receive_eof()
            self._frames(found)
        return found

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Queue a close frame.  The peer's answer to it is the last frame; until then its messages
        are still given.
        """
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code, _cut(reason))
        elif self._protocol.state is State.CONNECTING:
            self._ended = True

    def data_to_send(self) -> bytes:
        """Bytes to write now."""
        return b"".join(self._protocol.data_to_send())

    @property
    def reusable(self) -> bool:
        """Whether a message may be sent."""
        return not self._ended and self._protocol.state is State.OPEN

    @property
    def trailing(self) -> bool:
        """Never: a message ends with its last frame."""
        return False

    def _shake_hands(self, data: bytes, found: list[AnyFrame]) -> bytes:
        """Give the protocol the answer to the handshake and nothing more; gives what is left.

        By lines: the answer ends with one, and what follows it may belong to a frame.
        """
        at = 0
        while self._opening is not None and at < len(data) and not self._ended:
            end = data.find(b"\n", at) + 1 or len(data)
            self._opening = (self._opening + data[at:end])[:_SHOWN]
            self._give(data[at:end], found)
            at = end
        if self._ended:
            return b""
        self._short = self._opening is None and not self._protocol.extensions
        return data[at:]

    def _take(self, data: bytes, found: list[AnyFrame]) -> None:
        """Cut ``data`` and the pieces before it into frames: the short way of the module's text."""
        if self._pieces:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._pieces)
            self._pieces = []
        at, size = 0, len(data)
        while at < size and not self._ended:
            begin, end = _extent(data, at, size)
            if end - begin > self._max_size or (size > at + 1 and data[at + 1] & _MASKED):
                self._short = False
                self._give(data[at:], found)
                return
            if end > size:
                self._pieces = [data[at:]]
                self._missing = end - size
                return
            if data[at] == _WHOLE_TEXT and self._parts is None:
                self._message("text", data[begin:end], found)
            else:
                self._give(data[at:end], found)
            at = end

    def _give(self, data: bytes, found: list[AnyFrame]) -> None:
        self._protocol.receive_data(data)
        self._frames(found)

    def _frames(self, found: list[AnyFrame]) -> None:
        """Add what the protocol has read; then, if it stopped, the last frame."""
        protocol = self._protocol
        for event in protocol.events_received():
            if isinstance(event, ws.Frame):
                self._receive(event, found)
            elif isinstance(event, Response):
                self._answered(event, found)
            if self._ended:
                return
        if protocol.parser_exc is not None:
            self._failed(protocol.parser_exc, found)
        elif protocol.handshake_exc is not None:
            self._unanswered(protocol.handshake_exc, found)

    def _receive(self, frame: ws.Frame, found: list[AnyFrame]) -> None:
        opcode = frame.opcode
        if opcode is ws.TEXT or opcode is ws.BINARY:
            kind = "text" if opcode is ws.TEXT else "binary"
            if frame.fin:
                self._message(kind, frame.data, found)
            else:
                self._kind, self._parts = kind, [bytes(frame.data)]
        elif opcode is ws.CONT and self._parts is not None:
            self._parts.append(bytes(frame.data))
            if frame.fin:
                parts, self._parts = self._parts, None
                self._message(self._kind, b"".join(parts), found)
        elif opcode is ws.PING:
            self.comments += 1
        elif opcode is ws.PONG:
            self.pongs += 1
        elif opcode is ws.CLOSE and self._protocol.close_rcvd is not None:
            closed = self._protocol.close_rcvd
            self._ended = True
            found.append(Close(int(closed.code), closed.reason))

    def _message(self, kind: str, data: BytesLike, found: list[AnyFrame]) -> None:
        if kind == "binary":
            found.append(Frame("binary", str(data, "latin-1")))
            return
        try:
            found.append(Frame("text", str(data, "utf-8")))
        except UnicodeDecodeError as error:
            # RFC 6455 section 8.1: text that is not UTF-8 fails the connection.
            detail = f"{error.reason} at position {error.start}"
            self._protocol.fail(1007, detail)
            self._end(1007, f"invalid UTF-8: {detail}", found)

    def _answered(self, response: Response, found: list[AnyFrame]) -> None:
        self._opening = None
        problem = self._protocol.handshake_exc
        if problem is None:
            found.append(Open())
            return
        self._ended = True
        if response.status_code == 101:
            found.append(Garbage(f"bad WebSocket handshake: {problem}"))
            return
        headers: dict[str, str] = {}
        for name, value in response.headers.raw_items():
            before = headers.get(name.lower())
            headers[name.lower()] = value if before is None else f"{before}, {value}"
        body = bytes(response.body[:MAX_REFUSAL]).decode("utf-8", "replace")
        found.append(Refused(response.status_code, headers, body))

    def _unanswered(self, problem: Exception, found: list[AnyFrame]) -> None:
        """There is no HTTP response to the handshake, or no whole one."""
        self._ended = True
        cause = problem.__cause__
        if isinstance(cause, EOFError):
            found.append(Close(_ABNORMAL, _one_line(cause)))
        else:
            found.append(Garbage(f"not HTTP ({_one_line(cause or problem)}): the answer to the "
                                 f"handshake begins {self._opening!r}"))  # fmt: skip

    def _failed(self, problem: Exception, found: list[AnyFrame]) -> None:
        if isinstance(problem, EOFError):
            self._ended = True
            found.append(Close(_ABNORMAL, ""))
        else:
            self._end(_BREACHES.get(type(problem), 1011), _one_line(problem), found)

    def _end(self, code: int, breach: str, found: list[AnyFrame]) -> None:
        self._ended = True
        self.breach = breach
        self._parts = None
        found.append(Close(code, breach))


def _extent(data: bytes, at: int, size: int) -> tuple[int, int]:
    """Where the payload of the frame at ``at`` begins and ends, as far as its header is there: an
    end beyond ``size`` is the least that must come to know more.
    """
    if size < at + 2:
        return at + 2, at + 2
    length = data[at + 1] & ~_MASKED
    begin = at + 2
    if length >= 126:
        begin = at + (4 if length == 126 else 10)
        if size < begin:
            return begin, begin
        length = int.from_bytes(data[at + 2 : begin])
    return begin, begin + length


def _deflate() -> ClientPerMessageDeflateFactory:
    # websockets' own default: half the memory for a little less compression.
    return ClientPerMessageDeflateFactory(compress_settings={"memLevel": 5})


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())


def _cut(reason: str) -> str:
    return reason.encode()[:_MAX_REASON].decode("utf-8", "ignore")
