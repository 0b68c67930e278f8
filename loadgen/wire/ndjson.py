"""Newline-delimited JSON: bytes to lines, as they arrive.

What a line holds is not looked at.  Lines are cut from bytes, which is safe because no UTF-8
sequence contains a line feed; a carriage return before it is white space to JSON and taken off.
Source: github.com/ndjson/ndjson-spec 1.0.0, of which blank lines are ignored here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from loadgen.wire.frame import Frame, Garbage

MEDIA_TYPES = frozenset(
    ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
)

_MIB = 1 << 20
_LF = b"\n"


class NdjsonDecoder:
    """One stream of lines.  `feed` it bytes, then call `end` once.

    After a line of more than ``max_line`` bytes it gives one `Garbage`, sets ``broken`` and is
    deaf.
    """

    __slots__ = ("_max_line", "_partial", "broken", "comments")

    def __init__(self, max_line: int = 16 * _MIB) -> None:
        self.broken = False
        """Whether the limit was breached."""
        self.comments = 0
        """There are none in this format."""
        self._max_line = max_line
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[Frame | Garbage]:
        """The lines that ``data`` completes, in order."""
        if self.broken:
            return []
        frames: list[Frame | Garbage] = []
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
            self._break(frames)
        return frames

    def usual(self, data: bytes, begin: int, end: int) -> bytes | None:
        """There is no shorter way for lines."""
        return None

    def end(self, clean: bool = True) -> tuple[list[Frame], str]:
        """The last line, if the stream ended in order and only its line feed is missing; else what
        was cut off of it.
        """
        frames: list[Frame | Garbage] = []
        self._line(self._take_partial(b""), frames)
        self.broken = True
        last = [frame for frame in frames if isinstance(frame, Frame)]
        if clean or not last:
            return last, ""
        return [], last[0].data

    def _take_partial(self, head: bytes) -> bytes:
        """The line that ends in ``head``."""
        if self._partial:
            head = bytes(self._partial + head)
            self._partial = bytearray()
        return head

    def _line(self, line: bytes, frames: list[Frame | Garbage]) -> None:
        if self.broken:
            return
        if len(line) > self._max_line:
            self._break(frames)
        elif line := line.removesuffix(b"\r"):
            frames.append(Frame("line", line.decode("utf-8", "replace")))

    def _break(self, frames: list[Frame | Garbage]) -> None:
        if not self.broken:
            self.broken = True
            self._partial = bytearray()
            frames.append(Garbage(f"NDJSON: a line longer than {self._max_line} bytes"))


def media_type(headers: Mapping[str, str]) -> str:
    """The media type of an answer, without its parameters; of a header that was written twice (the
    values come joined by a comma) the first.
    """
    return re.split("[;,]", headers.get("content-type", ""), maxsplit=1)[0].strip().lower()
