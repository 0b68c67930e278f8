"""The frames that the load server writes: NAT 1.9.0's, byte for byte in shape and size.

Their own copy, not the mock's, so that figures stay comparable while the mock grows.  Each is
rendered once a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import uuid4

import orjson
from websockets.frames import Frame, Opcode

_TEXT = "w123 "
_CREATED_S = 1_795_996_800
_TIME = "2026-11-30 00:00:00.123456+00:00"
_STEPS = (
    ("Function Start: <workflow>", "**Function Input:**\n```python\nbenchmark\n```"),
    ("Tool: search", "**Input:**\n```python\nquery 0\n```"),
)


class Frames(Protocol):
    """The frames of one turn, as bytes for the socket."""

    @property
    def openings(self) -> Sequence[bytes]:
        """The synthetic first step and a tool's step."""

    @property
    def chunk(self) -> bytes:
        """A piece of the answer."""

    @property
    def ending(self) -> bytes:
        """What ends the turn."""


class SseFrames:
    """Events in HTTP chunks."""

    ending = b"0\r\n\r\n"

    def __init__(self, turn: str) -> None:
        root = str(uuid4())
        self.openings = [
            _chunked(b"intermediate_data: ", {
                "id": id_, "parent_id": parent, "type": "markdown", "name": name,
                "payload": payload,
            })
            for (name, payload), id_, parent in _placed(root)
        ]  # fmt: skip
        delta = {"content": _TEXT, "role": None, "tool_calls": None}
        self.chunk = _chunked(b"data: ", {
            "id": str(uuid4()),
            "choices": [{"finish_reason": None, "index": 0, "delta": delta}],
            "created": _CREATED_S, "model": "unknown-model", "object": "chat.completion.chunk",
            "system_fingerprint": None, "service_tier": None, "usage": None,
        })  # fmt: skip


class WsFrames:
    """Text messages, unmasked."""

    def __init__(self, turn: str) -> None:
        root = str(uuid4())
        self.openings = [
            _message({
                "type": "system_intermediate_message", "id": id_, "thread_id": "default",
                "parent_id": parent, "intermediate_parent_id": "default",
                "update_message_id": "default", "conversation_id": "bench",
                "content": {"name": name, "payload": payload}, "status": "in_progress",
                "timestamp": _TIME,
            })
            for (name, payload), id_, parent in _placed(root)
        ]  # fmt: skip
        self.chunk = _response(turn, _TEXT, "in_progress")
        self.ending = _response(turn, None, "complete")


def _placed(root: str) -> Sequence[tuple[tuple[str, str], str, str]]:
    """The steps with their ids and parents."""
    return ((_STEPS[0], root, "root"), (_STEPS[1], str(uuid4()), root))


def _chunked(field: bytes, content: object) -> bytes:
    body = field + orjson.dumps(content) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(body), body)


def _response(turn: str, text: str | None, status: str) -> bytes:
    return _message({
        "type": "system_response_message", "id": str(uuid4()), "thread_id": "default",
        "parent_id": turn, "conversation_id": "bench", "content": {"text": text},
        "status": status, "timestamp": _TIME,
    })  # fmt: skip


def _message(content: object) -> bytes:
    return Frame(Opcode.TEXT, orjson.dumps(content)).serialize(mask=False)
