"""HTTP/1.1, the client's side: requests to bytes, and the bytes of an answer to frames (RFC 9112).

httptools (llhttp) does the parsing.  What it leaves to its user is here: which bodies are streams
of events or lines, content codings, where an answer without a length ends, limits, and the
connection's reuse.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)

from loadgen.errors import GeneratorError
from loadgen.wire.frame import AnyFrame, End, Frame, Garbage, Head, Request
from loadgen.wire.inflate import READABLE, Inflate
from loadgen.wire.ndjson import MEDIA_TYPES, NdjsonDecoder, media_type
from loadgen.wire.request import USER_AGENT, render
from loadgen.wire.sse import MIB, SseDecoder

MAX_HEAD = 64 * 1024
"""Bytes of a status line and its headers."""

_EMPTY = frozenset((204, 304))
_SHOWN = 40
_CRLF = b"\r\n"
_HEX = re.compile(rb"[0-9A-Fa-f]{1,8}")
_LONGEST_SIZE = 10
_KNOWN_SIZES = 4096


class HttpLink:
    """One connection of HTTP/1.1: a request, its answer, the next request.

    Of an answer that is no stream at most ``max_body`` bytes are kept; ``body_size`` counts
    all of them, after content decoding.  `Head` comes first, `End` or `Garbage` last.
    """

    def __init__(
        self, host_header: str, *, max_body: int = MIB, accept_encoding: str = "identity"
    ) -> None:
        self.comments = 0
        self.unasked = False
        self.answered = False
        """Whether any byte of the answer to the last request has come.  An `End` that is not clean
        while this is false, on a connection used before, is a server that closed an idle one.
        """
        self.body_size = 0
        self.events: SseDecoder | NdjsonDecoder | None = None
        """The decoder, with its counters, of the stream received last: events or lines."""

        self._headers = {
            "host": host_header,
            "user-agent": USER_AGENT,
            "accept-encoding": accept_encoding,
        }
        self._max_body = max_body
        self._writes: list[bytes] = []
        self._open = True
        self._keep_alive = True
        self._answer: _Answer | None = None

    def send(self, outbound: Request | str) -> None:
        """Queue a request.

        Raises ValueError for a request that cannot be written as one (line breaks in a header), and
        GeneratorError while another is unanswered or the connection cannot be reused.
        """
        if isinstance(outbound, str):
            raise TypeError("an HTTP connection sends a Request, not a message")
        if not self.reusable:
            raise GeneratorError("this connection is not free for another request")
        self._writes.append(render(outbound, self._headers))
        self.answered = False
        self.body_size = 0
        self._keep_alive = not _closes(outbound.headers)
        self._answer = _Answer(self, outbound.method)

    def receive_data(self, data: bytes) -> list[AnyFrame]:
        """Frames completed by ``data``."""
        answer = self._answer
        if answer is not None:
            self.answered = True
            frames = answer.feed(data)
            if answer.done:
                self._answer = None
                self._open = self._open and not answer.broken
                self._keep_alive = self._keep_alive and answer.keep_alive
            return frames
        # RFC 9112 section 2.2: some servers send a stray line break after a body.
        if not self._open or not data.strip(b"\r\n"):
            return []
        self._open = False
        return [Garbage(f"bytes that answer no request: {data[:_SHOWN]!r}")]

    def usual(self, data: bytes) -> bytes | None:
        """The value of the one event that ``data`` is, if it is one whole chunk with just that."""
        answer = self._answer
        if answer is None or not answer.between:
            return None
        head = data.find(_CRLF, 0, _LONGEST_SIZE)
        end = len(data) - 2
        if _SIZES.get(data[:head]) != end - head - 2 or data[-2:] != _CRLF:
            return None
        return answer.events.usual(data, head + 2, end) if answer.events is not None else None

    def receive_eof(self) -> list[AnyFrame]:
        """The end of an answer that lasts until the connection closes, or of one that was cut."""
        self._open = False
        answer, self._answer = self._answer, None
        return [] if answer is None else answer.eof()

    def close(self) -> None:
        """HTTP has no goodbye; nothing more may be sent."""
        self._open = False

    def data_to_send(self) -> bytes:
        """Bytes to write now."""
        writes, self._writes = self._writes, []
        return b"".join(writes)

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent: open, kept alive, and nothing unanswered."""
        return self._open and self._keep_alive and self._answer is None

    @property
    def trailing(self) -> bool:
        """Whether the end of an answer is still to come."""
        return self._open and self._keep_alive and self._answer is not None


class _Answer:
    """Callbacks of one parser, for one answer; dropped with it, so that an idle link is small."""

    def __init__(self, link: HttpLink, method: str) -> None:
        self.done = False
        self.broken = False
        self.keep_alive = False
        self._link = link
        self._bodiless = method == "HEAD"
        self._status = 0
        self._headers: dict[str, str] = {}
        self._head_read = 0
        self._head_size = 0
        self._opening = b""
        self._until_close = False
        self._inflate: Inflate | None = None
        self.events: SseDecoder | NdjsonDecoder | None = None
        self._body = bytearray()
        self._excess = False
        self._chunk_whole = False
        self.between = False
        self._frames: list[AnyFrame] = []
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> list[AnyFrame]:
        if self.between:
            # The usual read is one whole chunk: the parser, which stands between two, need not see
            # it.
            head = data.find(_CRLF, 0, _LONGEST_SIZE)
            if head > 0 and _size(data[:head]) == len(data) - head - 4 and data[-2:] == _CRLF:
                return self._events_of(data[head + 2 : -2])
            self.between = False
        frames = self._frames = []
        if not self._status:
            self._opening = (self._opening + data)[:_SHOWN]
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._break("the server switched protocols, unasked", whole=False)
        except HttpParserCallbackError:
            raise  # a fault of ours, not of the peer
        except HttpParserError as error:
            self._refuse(data, str(error))
        if self._excess:
            self._break(f"bytes after the end of the answer: {data[-_SHOWN:]!r}", whole=True)
        elif not self._status:
            self._head_read += len(data)
            if self._head_read > MAX_HEAD:
                self._break(f"headers longer than {MAX_HEAD} bytes", whole=False)
        if self.done:
            self._release()
        elif self.events is not None and self._inflate is None:
            # Not in the middle of the next size: no part of one ends with a line break.
            self.between = self._chunk_whole and data[-2:] == _CRLF
        return frames

    def eof(self) -> list[AnyFrame]:
        self._frames = []
        self._finish(clean=self._until_close and self._decoded_whole())
        self._release()
        return self._frames

    def on_message_begin(self) -> None:
        if self.done:
            self._excess = True
        else:
            self._head_read = self._head_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status:
            return  # a trailer: nothing that we measure is in one
        self._head_size += len(name) + len(value) + 4
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        before = self._headers.get(key)
        self._headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.done:
            return
        if status < 200:
            self._headers = {}
            return
        if self._head_size > MAX_HEAD:
            self._break(f"headers longer than {MAX_HEAD} bytes", whole=False)
            return
        self._status = status
        headers = self._headers
        self._frames.append(Head(status, headers))
        codings = list(_codings(headers))
        # RFC 9112 section 6.3: without length and chunks the body ends with the connection.
        chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        self._until_close = not chunked and "content-length" not in headers
        if self._bodiless:
            self._complete()
        elif status in _EMPTY:
            pass  # its coding and length are those of a body that does not follow
        elif len(codings) > 1 or not READABLE.issuperset(codings):
            self._break(f"a body in {', '.join(codings)}, which we did not ask for", whole=False)
        else:
            self._inflate = Inflate(codings[0]) if codings else None
            if status == 200 and (decoder := _stream_of(headers)) is not None:
                self.events = self._link.events = decoder
                decoder.comments = self._link.comments

    def on_chunk_header(self) -> None:
        self._chunk_whole = False

    def on_chunk_complete(self) -> None:
        self._chunk_whole = True

    def on_body(self, body: bytes) -> None:
        if self.done:
            self._excess = self._excess or self._bodiless
            return
        if self._inflate is None:
            self._content(body)
            return
        try:
            for part in self._inflate.feed(body):
                self._content(part)
        except zlib.error as error:
            self._break(f"a body that cannot be decompressed: {error}", whole=False)

    def on_message_complete(self) -> None:
        if self._status and not self.done:
            self._complete()

    def _content(self, body: bytes) -> None:
        if self.events is not None:
            self._frames += self._events_of(body)
            return
        link = self._link
        link.body_size += len(body)
        self._body += body[: link._max_body - len(self._body)]

    def _events_of(self, body: bytes) -> list[AnyFrame]:
        """Frames of a part of a stream."""
        link, events = self._link, self.events
        assert events is not None
        link.body_size += len(body)
        frames: list[AnyFrame] = list(events.feed(body))
        link.comments = events.comments
        if events.broken:
            self.done = self.broken = True
            self.between = False
        return frames

    def _complete(self) -> None:
        self.keep_alive = self._parser.should_keep_alive()
        self._finish(clean=self._decoded_whole())

    def _decoded_whole(self) -> bool:
        return self._inflate is None or self._inflate.whole

    def _finish(self, clean: bool) -> None:
        """The last frames.  What a cut left of a body is no body: it is pending."""
        if self.done:
            return
        self.done = True
        pending = ""
        if self.events is not None:
            given, pending = self.events.end(clean)
            self._frames += given
            self._link.comments = self.events.comments
        elif self._body:
            text = self._body.decode("utf-8", "replace")
            if clean:
                self._frames.append(Frame("body", text))
            else:
                pending = text
        self._frames.append(End(clean, pending))

    def _release(self) -> None:
        """Break the cycle of parser and callbacks, so that neither waits for the collector."""
        del self._parser

    def _refuse(self, data: bytes, reason: str) -> None:
        if self.done:
            self._excess = True
        elif self._status:
            self._break(f"bad HTTP ({reason}) in {data[:_SHOWN]!r}", whole=False)
        elif self._opening.startswith(b"HTTP/"):
            self._break(
                f"bad HTTP ({reason}) in an answer that begins {self._opening!r}", whole=False
            )
        elif self._opening[:2] in (b"\x15\x03", b"\x16\x03"):
            self._break(f"TLS, not HTTP: the answer begins {self._opening!r}", whole=False)
        else:
            self._break(f"not HTTP: the answer begins {self._opening!r}", whole=False)

    def _break(self, detail: str, *, whole: bool) -> None:
        """Give `Garbage` once, after a ``whole`` answer or in place of the rest of it."""
        if self.broken or (self.done and not whole):
            return
        self.done = self.broken = True
        self._frames.append(Garbage(detail))


def _size(head: bytes) -> int:
    """The size line of a chunk as a number; -1 for what only the parser can judge."""
    size = _SIZES.get(head, 0)
    if not size:
        size = int(head, 16) if _HEX.fullmatch(head) else -1
        if len(_SIZES) < _KNOWN_SIZES:
            _SIZES[head] = size
    return size or -1


_SIZES: dict[bytes, int] = {}


def _closes(headers: Mapping[str, str]) -> bool:
    return any(
        name.lower() == "connection" and "close" in value.lower() for name, value in headers.items()
    )


def _codings(headers: Mapping[str, str]) -> Iterator[str]:
    for name in ("content-encoding", "transfer-encoding"):
        for coding in headers.get(name, "").lower().split(","):
            if coding.strip() not in ("", "identity", "chunked"):
                yield coding.strip()


def _stream_of(headers: Mapping[str, str]) -> SseDecoder | NdjsonDecoder | None:
    """The decoder of a body that is read as it arrives."""
    media = media_type(headers)
    if media == "text/event-stream":
        return SseDecoder()
    return NdjsonDecoder() if media in MEDIA_TYPES else None
