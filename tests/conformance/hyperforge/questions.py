"""What the scripted agents ask their human: questions with the JSON schema of the reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from script import Script

_YEARS = ["2022", "2023", "2024"]
_PERIOD = {
    "type": "object",
    "properties": {
        "from": {"type": "string", "pattern": r"^\d{4}$"},
        "to": {"type": "integer", "minimum": 2000, "maximum": 2030},
        "split": {
            "type": "object",
            "properties": {"by": {"enum": ["month", "quarter"]}},
            "required": ["by"],
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["from", "to", "split"],
    "additionalProperties": False,
}
_LINES = {
    "type": "array",
    "items": {"type": "string", "enum": ["motor", "property", "marine"]},
    "minItems": 1,
    "uniqueItems": True,
}


class Question(NamedTuple):
    """``schema`` None: the reply may be anything."""

    text: str
    schema: dict[str, Any] | None


def _asked(text: str, schema: dict[str, Any], key: str = "response") -> Question:
    """The runtime's agents want an object with one member."""
    return Question(text, {"type": "object", "properties": {key: schema}, "required": [key]})


QUESTIONS = {
    "string": _asked("Which policy year?", {"type": "string"}),
    "enum": _asked("Which of these policy years?", {"type": "string", "enum": _YEARS}),
    "number": _asked("Which share, in percent?", {"type": "number", "minimum": 0, "maximum": 100}),
    "integer": _asked("How many claims?", {"type": "integer", "minimum": 1}),
    "boolean": _asked("Include reserves?", {"type": "boolean"}),
    "array": _asked("Which lines of business?", _LINES),
    "object": _asked("Which period?", _PERIOD),
    "tool": _asked("May the tool be called?", {"type": "boolean"}, "call_tool"),
    "free": Question("Anything else?", None),
}
_NEAREST = {
    "text": "string",
    "binary_choice": "boolean",
    "radio": "enum",
    "dropdown": "enum",
    "checkbox": "array",
}
"""The toolkit's prompts; a notification wants no reply, so it is no question."""


def kinds(words: Script) -> Iterator[str]:
    """The kinds of the questions that a turn asks, some of which there may not be."""
    for kind in words.feedback.split(","):
        if kind not in ("", "0"):
            yield "string" if kind == "1" else kind
    for prompt in words.hitl.split(","):
        if prompt in _NEAREST:
            yield _NEAREST[prompt]
