"""JSON by shape: members in their order, types for values, and texts without what differs from run
to run.  No product code: it is what two servers are compared by.
"""

from __future__ import annotations

import json
import re
from typing import Any

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_NUMBER = re.compile(r"\d+")
_WORKFLOW = re.compile(r"scripted_analyst(_per_user)?|analyst_sim")
"""What the two servers' workflows are called."""

_CONSENT = re.compile(r"https?://\S+/authorize\?\S+")
"""Where a user is to log in: each has a provider of its own."""

_RANDOM = {"oauth_state": "<state>", "auth_url": "<url>"}
"""Members whose text is another one each time."""

_FIELD = re.compile(r"([a-z_]+):( ?)(.*)", re.DOTALL)
_TEXT_LIMIT = 300


def shape(value: Any) -> str:
    """``value`` by shape; JSON inside a text is looked into."""
    if isinstance(value, dict):
        members = (f"{name}: {_RANDOM.get(name) or shape(v)}" for name, v in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shape, value)) + "]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return "number"
    inner = _parsed(value)
    return f"json {shape(inner)}" if isinstance(inner, dict | list) else repr(masked(value))


def masked(text: str) -> str:
    """``text`` without its ids and numbers, and not too much of it."""
    named = _CONSENT.sub("<url>", _WORKFLOW.sub("<name>", _ID.sub("<id>", text)))
    return _NUMBER.sub("0", named)[:_TEXT_LIMIT]


def text_shape(text: str) -> str:
    """A text that should be JSON, by its shape if it is."""
    inner = _parsed(text)
    return shape(inner) if isinstance(inner, dict | list) else masked(text)


def frame_shape(frame: str) -> str:
    """A frame of an event stream: every line by its field, blank lines as they are."""
    lines = []
    for line in frame.split("\n"):
        field = _FIELD.fullmatch(line)
        lines.append(f"{field[1]}:{field[2]}{text_shape(field[3])}" if field else text_shape(line))
    return "\\n".join(lines)


def _parsed(text: str) -> Any:
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
