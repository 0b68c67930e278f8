"""Server-sent events: bytes to frames, as the WHATWG HTML standard reads them (section 9.2.6,
"Interpreting an event stream").

Where we go beyond the standard: a field that it does not know is a frame of its own, given the
moment its line is complete, because NAT sends its steps as ``intermediate_data:`` lines and some
of its errors as a bare JSON line (protocols, NAT section 2); lines and events have a size limit.

Lines are cut from bytes and decoded one by one.  That is safe because no UTF-8 sequence contains
CR or LF, and it is what keeps U+2028, U+0085 or a form feed from ever ending a line.
"""

from __future__ import annotations

import re

from loadgen.wire.frame import Frame, Garbage

MIB = 1 << 20
REPLACEMENT = "\ufffd"

_BOM = b"\xef\xbb\xbf"
_LF, _CR = b"\n", b"\r"
_DATA = b"data: "
_STANDARD = frozenset(("data", "event", "id", "retry"))
_FIELD = re.compile(r"[A-Za-z0-9_-]+")
_KNOWN_MAX = 32
_RETRY_DIGITS = 18


class SseDecoder:
    """One event stream.  `feed` it bytes, then call `end` once.

    Never raises for what a peer sends.  After a breach of a limit it gives one `Garbage`, sets
    ``broken`` and is deaf.  ``max_line`` is in bytes, ``max_event`` in characters of data.
    """

    __slots__ = (
        "_calm", "_data", "_id", "_kinds", "_max_event", "_max_fast", "_max_line", "_partial",
        "_size", "_skip_lf", "_started", "_type", "_usual", "broken", "bytes", "comments",
        "last_event_id", "replaced", "retry_ms", "unknown_fields",
    )  # fmt: skip

    def __init__(self, max_line: int = 16 * MIB, max_event: int = 16 * MIB) -> None:
        self.bytes = 0
        """Bytes fed."""
        self.comments = 0
        """Comment lines: a server's keep-alives."""
        self.unknown_fields = 0
        """Lines that the standard ignores, given as ``field:NAME`` or ``line``."""
        self.replaced = 0
        """U+FFFD in complete lines: invalid UTF-8, of the server or of whoever fed it."""
        self.last_event_id = ""
        """The ``id`` in force for the event given last."""
        self.retry_ms: int | None = None
        """The reconnection time that the server asked for."""
        self.broken = False
        """Whether a limit was breached."""

        self._max_line = max_line
        self._max_event = max_event
        self._max_fast = min(max_line, max_event)
        self._partial = bytearray()
        self._skip_lf = False
        self._started = False
        self._data: list[str] = []
        self._size = 0
        self._type = ""
        self._id = ""
        self._kinds = {"data": "message"}
        self._usual = {b"data": "message"}
        self._calm = False

    def feed(self, data: bytes) -> list[Frame | Garbage]:
        """Frames that ``data`` completes, in order.

        An event is complete at its blank line, also at a CR whose LF has not come yet; an unknown
        field at the end of its own line, wherever it stands in an event.
        """
        size = len(data)
        self.bytes += size
        # The usual read is one whole one-line event: take it without the general machinery.
        if (
            self._calm
            and size <= self._max_fast
            and data.find(_LF) == size - 2
            and data[-1:] == _LF
            and data.find(_CR) < 0
        ):
            name, _, value = data.partition(b": ")
            kind = self._usual.get(name)
            if kind is not None:
                if kind != "message":
                    self.unknown_fields += 1
                text = value[:-2].decode("utf-8", "replace")
                if not text.isascii():
                    self.replaced += text.count(REPLACEMENT)
                return [Frame(kind, text)]
        if self.broken or not data:
            return []
        return self._lines(data)

    def usual(self, data: bytes, begin: int, end: int) -> bytes | None:
        """The value of the one event that ``data[begin:end]`` is, if it is a lone ``data`` line."""
        if (
            self._calm
            and data.startswith(_DATA, begin)
            and data.find(_LF, begin) == end - 2
            and data[end - 1 : end] == _LF
            and data.find(_CR, begin, end) < 0
            and end - begin <= self._max_fast
        ):
            return data[begin + len(_DATA) : end - 2]
        return None

    def end(self, clean: bool = True) -> tuple[list[Frame], str]:
        """The frames that the end of the stream completes, and what it left unfinished.

        An event without its blank line is never given (the standard discards it): its lines are the
        pending text, with the line that was being received.  If the stream ended in order
        (``clean``), a last line without line end is complete, so an unknown field or a bare line is
        given; in a stream that was cut off it may be half a line, and is pending.
        """
        frames: list[Frame | Garbage] = []
        pending = [f"event: {self._type}"] if self._type else []
        pending += [f"data: {value}" for value in self._data]
        tail = self._take_partial(b"")
        if tail and not self.broken:
            text = tail.decode("utf-8", "replace")
            if not clean or text.partition(":")[0] in _STANDARD:
                pending.append(text)
            else:
                self._field(text, frames)
        self._forget_event()
        self._calm = False
        self.broken = True
        return [frame for frame in frames if isinstance(frame, Frame)], "\n".join(pending)

    def _lines(self, data: bytes) -> list[Frame | Garbage]:
        """Any bytes in any state."""
        frames: list[Frame | Garbage] = []
        if self._skip_lf:
            self._skip_lf = False
            data = data.removeprefix(_LF)
        if data.find(_CR) >= 0:
            # A CR ends its line at once; if it is the last byte, its LF may still be on the way.
            self._skip_lf = data.endswith(_CR)
            data = data.replace(b"\r\n", _LF).replace(_CR, _LF)
        head, newline, rest = data.partition(_LF)
        if newline:
            lines = rest.split(_LF)
            tail = lines.pop()
            self._line(self._take_partial(head), frames)
            for line in lines:
                self._line(line, frames)
            self._partial += tail
        else:
            self._partial += head
        if len(self._partial) > self._max_line:
            self._break(f"event stream: a line longer than {self._max_line} bytes", frames)
        self._calm = (
            not (self._partial or self._skip_lf or self._data or self._type or self.broken)
            and self._id == self.last_event_id
        )
        return frames

    def _take_partial(self, head: bytes) -> bytes:
        """The line that ends in ``head``, without the byte order mark of a stream's first line."""
        if self._partial:
            head = bytes(self._partial + head)
            self._partial = bytearray()
        if not self._started:
            self._started = True
            if len(head) <= self._max_line:
                head = head.removeprefix(_BOM)
        return head

    def _line(self, line: bytes, frames: list[Frame | Garbage]) -> None:
        if self.broken:
            return
        if not line:
            self._dispatch(frames)
        elif len(line) > self._max_line:
            self._break(f"event stream: a line longer than {self._max_line} bytes", frames)
        else:
            self._field(line.decode("utf-8", "replace"), frames)

    def _field(self, text: str, frames: list[Frame | Garbage]) -> None:
        if not text.isascii():
            self.replaced += text.count(REPLACEMENT)
        name, colon, value = text.partition(":")
        if colon and not name:
            self.comments += 1
            return
        value = value.removeprefix(" ")
        if name == "data":
            self._size += len(value) + 1
            if self._size > self._max_event:
                self._break(
                    f"event stream: an event larger than {self._max_event} characters", frames
                )
            else:
                self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "id":
            if "\0" not in value:
                self._id = value
        elif name == "retry":
            if value.isascii() and value.isdigit() and len(value) <= _RETRY_DIGITS:
                self.retry_ms = int(value)
        else:
            self.unknown_fields += 1
            if colon and _FIELD.fullmatch(name):
                frames.append(Frame(self._unknown_kind(name), value))
            else:
                frames.append(Frame("line", text))

    def _unknown_kind(self, name: str) -> str:
        kind = self._kinds.get(name)
        if kind is None:
            kind = f"field:{name}"
            # Bounded, so that a server that makes up names cannot grow us.
            if len(self._kinds) < _KNOWN_MAX:
                self._kinds[name] = self._usual[name.encode()] = kind
        return kind

    def _dispatch(self, frames: list[Frame | Garbage]) -> None:
        self.last_event_id = self._id
        if self._data:
            frames.append(Frame(self._type or "message", "\n".join(self._data)))
        self._forget_event()

    def _forget_event(self) -> None:
        self._data = []
        self._size = 0
        self._type = ""

    def _break(self, detail: str, frames: list[Frame | Garbage]) -> None:
        if not self.broken:
            self.broken = True
            self._forget_event()
            self._partial = bytearray()
            frames.append(Garbage(detail))
