"""Taking credentials out of a text before it is kept or shown."""

from __future__ import annotations

from collections.abc import Iterable

from loadgen.plan import REDACTED

_TELLING = 8
"""So many first characters of a secret tell it: a server's words may be cut in its middle."""


def redacted(text: str, secrets: Iterable[str]) -> str:
    """``text`` without ``secrets``."""
    for secret in secrets:
        text = _without(text, secret)
    return text


def _without(text: str, secret: str) -> str:
    """``text`` with a mark in place of ``secret``, or of as much of it as a cut has left."""
    head, parts, begin = secret[:_TELLING], [], 0
    while head and (at := text.find(head, begin)) >= 0:
        parts.append(text[begin:at])
        begin = at + len(head)
        while begin < len(text) and text[begin] == secret[begin - at : begin - at + 1]:
            begin += 1
    return REDACTED.join([*parts, text[begin:]])
