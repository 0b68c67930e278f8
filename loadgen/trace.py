"""Where a turn stands in a distributed trace (W3C Trace Context, section 3.2).

A turn's id is 128 random bits, so it is the trace's id as well: whoever has a row of a journal has
its trace.
"""

from __future__ import annotations

HEADER = "traceparent"

_SAMPLED = "01"


def trace_id(turn: str) -> int:
    """The trace of ``turn`` (32 hexadecimal digits)."""
    return int(turn, 16)


def span_id(turn: str) -> int:
    """The span that we make of ``turn``: 64 of its random bits."""
    return int(turn[-16:], 16)


def traceparent(turn: str) -> str:
    """The header with which a server's own spans become children of ours."""
    return f"00-{trace_id(turn):032x}-{span_id(turn):016x}-{_SAMPLED}"
