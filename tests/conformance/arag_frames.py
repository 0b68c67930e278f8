"""Frames of Progress Agentic RAG: what they are and how two are compared."""

from __future__ import annotations

import json
import re
from typing import Any

from shapes import masked, shape

_OPERATIONS = {1: "quit", 2: "start", 3: "done", 4: "error", 7: "reasoning"}
_KIND = re.compile(r"\w+: \d \w+")
_ID = re.compile(r"[0-9a-f]{32}")
_SECRET = re.compile(r"\btok-[0-9a-f]{2,}|(?<=\bcode=)[\w-]+")
"""What each server's own provider gives."""

_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE)
_BIG = 100_000
_LONGEST = 300


def meaning(frame: Any) -> str:
    """In a word, what a frame is there for."""
    if not isinstance(frame, dict):
        return "nothing"
    operation = frame.get("operation")
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    if operation == 6:
        return "source" if frame.get("agent_request") is not None else "chunk"
    names = ("feedback", "oauth", "step", "context", "possible_answer", "answer")
    return next((name for name in names if frame.get(name) is not None), "nothing")


def frame_line(text: str) -> str:
    """A frame by its operation, its meaning and its shape; how it is written counts."""
    text = _SECRET.sub("<secret>", text)
    told = json.loads(text)
    if not isinstance(told, dict) or "operation" not in told:
        return f"no frame: {shape(told)}"
    compact = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    written = "" if compact == text else " (not as compact JSON)"
    size = f" {len(text) // _BIG}00 kB" if len(text) > _BIG else ""
    return f"{told['operation']} {meaning(told)}{size}{written}{_exactly(told)} {shape(told)}"


def _exactly(frame: dict[str, Any]) -> str:
    """What is compared to the letter, as a shape is not: texts of the answer, time limits."""
    match meaning(frame):
        case "answer":
            told = frame["answer"]
        case "chunk":
            told = (frame.get("streaming_response_chunk") or {}).get("text")
        case "reasoning":
            told = (frame.get("reasoning") or {}).get("text")
        case "feedback":
            told = frame["feedback"].get("timeout_ms")
        case _:
            return ""
    return f" {_ID.sub('<id>', repr(told))[:_LONGEST]}"


def page_shape(text: str) -> str:
    """A page for human eyes by its title, any other text as it is."""
    found = _TITLE.search(text)
    return f"a page titled {found[1]}" if found else masked(text)


def kind_of_line(line: str) -> str:
    """What lines of a racing row are sorted by."""
    found = _KIND.match(line)
    return found[0] if found else line
