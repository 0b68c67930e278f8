"""What the end of a WebSocket is called."""

from __future__ import annotations

from loadgen.dialects.refusal import brief
from loadgen.wire.frame import Close

CLOSE_CODES = {
    1000: "normal closure",
    1001: "going away",
    1002: "protocol error",
    1003: "unsupported data",
    1006: "no close frame",
    1007: "invalid data",
    1008: "policy violation",
    1009: "message too big",
    1011: "internal error",
    1012: "service restart",
    1013: "try again later",
}
"""Names of RFC 6455, 7.4.1 and its registry."""


def closing_words(close: Close) -> str:
    """Code, name and reason on one line."""
    words = f"{close.code} {CLOSE_CODES.get(close.code, 'of no known meaning')}"
    return f"{words}: {brief(close.reason)}" if close.reason else words
