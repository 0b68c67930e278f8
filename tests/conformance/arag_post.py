"""HTTP exchanges of Progress Agentic RAG written down by shape: what a row of the `arag_httpbook`
makes a server say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from arag_frames import frame_line, kind_of_line, page_shape
from counterparts import Server
from exchange import Answer
from shapes import masked, text_shape

_UNSEEN = ("date", "content-length")
_NDJSON = "application/x-ndjson"


@dataclass(frozen=True)
class Row:
    """One exchange.  ``body`` is a JSON value, or the bytes that are sent as they are.

    ``{me}`` in the path is unique to the playing.  ``racing``: only the order inside each kind of
    line is compared.
    """

    name: str
    path: str
    body: Any = None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    racing: bool = False


def play(server: Server, row: Row) -> list[str]:
    """What ``row`` makes ``server`` say, by shape."""
    path = row.path.replace("{me}", uuid4().hex)
    answer = Answer(server, row.method, path, row.body, row.headers)
    lines = [f"status: {answer.status}"]
    lines += sorted(
        f"{name}: {masked(value)}" for name, value in answer.headers if name not in _UNSEEN
    )
    whole = "".join(answer.frames())
    kind = dict(answer.headers).get("content-type", "")
    if kind == _NDJSON:
        lines += [f"line: {frame_line(line)}" for line in whole.removesuffix("\n").split("\n")]
        lines.append("ends in a line end" if whole.endswith("\n") else "ends without a line end")
    elif kind.startswith("text/html"):
        lines.append(page_shape(whole))
    else:
        lines.append(text_shape(whole))
    lines.append(f"end: {answer.end}")
    return sorted(lines, key=kind_of_line) if row.racing else lines
