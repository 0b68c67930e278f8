"""Content codings of HTTP (RFC 9110 section 8.4.1), decoded as the bytes come.

We ask for none; a proxy may compress all the same, and then the run must still be measured.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

READABLE = frozenset(("gzip", "x-gzip", "deflate"))
"""Names of the codings that `Inflate` reads."""

_STEP = 1 << 20
_GZIP = zlib.MAX_WBITS | 16


class Inflate:
    """One body in one of the `READABLE` codings.

    Output comes in steps of at most 1 MiB, so that a small input cannot make a large allocation.
    """

    def __init__(self, coding: str) -> None:
        self._gzip = coding != "deflate"
        self._fed = False
        self._start = b""
        self._object = zlib.decompressobj(wbits=_GZIP) if self._gzip else None

    @property
    def whole(self) -> bool:
        """Whether the compressed data came to its own end (or never began)."""
        return not self._fed or (self._object is not None and self._object.eof)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompressed parts; raises zlib.error."""
        self._fed = True
        if self._object is None:
            self._start += data
            if len(self._start) < 2:
                return
            data = self._start
            self._object = zlib.decompressobj(wbits=_deflate_bits(data))
        part = b""
        while data or len(part) == _STEP:
            if self._object.eof:
                if not self._gzip or not data:
                    return
                # RFC 1952 section 2.2: a gzip file is a series of members.
                self._object = zlib.decompressobj(wbits=_GZIP)
            part = self._object.decompress(data, _STEP)
            if part:
                yield part
            data = self._object.unconsumed_tail or self._object.unused_data


def _deflate_bits(start: bytes) -> int:
    """Some servers send deflate without its zlib wrapper (RFC 9110 section 8.4.1.2), which begins
    with two bytes that can be told (RFC 1950 section 2.2).
    """
    wrapped = start[0] & 0x0F == zlib.DEFLATED and int.from_bytes(start[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS
