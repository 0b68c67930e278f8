"""Frames as NAT 1.9.0 writes them: SSE events as bytes, WebSocket messages as text.

Templates are rendered around the few values that change: a mock that serves hundreds of streams
must not be what a benchmark measures.  Source: protocols recorded in ``tests/recordings/nat``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from mockagent.edition import Edition
from mockagent.ids import new_id
from mockagent.workflow import Step

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"

_CHUNK_TAIL = (
    b',"model":"unknown-model","object":"chat.completion.chunk","system_fingerprint":null,'
    b'"service_tier":null,"usage":null}\n\n'
)
_ROLE_TAIL = b',"role":"assistant","tool_calls":null}}],"created":'
_TEXT_TAIL = b',"role":null,"tool_calls":null}}],"created":'


def json_text(value: Any) -> str:
    """``value`` as compact JSON, in UTF-8 without ASCII escapes."""
    return orjson.dumps(value).decode()


class Timestamp:
    """The text of the wall clock in WebSocket messages: ``2026-11-29 20:08:23.984630+00:00``, in
    the documented edition ``2026-11-29T20:08:23Z``.
    """

    __slots__ = ("_documented", "_prefix", "_second")

    def __init__(self, edition: Edition = Edition.SERVER) -> None:
        self._documented = edition.documented
        self._second = -1
        self._prefix = ""

    def text(self, wall_ns: int) -> str:
        """``wall_ns`` (since the epoch) as Python's ``str`` of an aware datetime prints it."""
        second, rest = divmod(wall_ns, 1_000_000_000)
        if second != self._second:
            self._second = second
            separator = "T" if self._documented else " "
            self._prefix = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d{separator}%H:%M:%S}"
        if self._documented:
            return f"{self._prefix}Z"
        micros = rest // 1_000
        return f"{self._prefix}.{micros:06d}+00:00" if micros else f"{self._prefix}+00:00"


def sse_chunk(id_: str, text: str, created_s: int) -> bytes:
    """An answer chunk; ``created_s`` in seconds since the epoch."""
    return b"".join((
        b'data: {"id":"',
        id_.encode(),
        b'","choices":[{"finish_reason":null,"index":0,"delta":{"content":',
        orjson.dumps(text),
        _TEXT_TAIL,
        b"%d" % created_s,
        _CHUNK_TAIL,
    ))  # fmt: skip


def sse_role(id_: str, created_s: int) -> bytes:
    """A chunk that says who will speak and nothing else, as OpenAI's servers begin (mock only)."""
    head = b'","choices":[{"finish_reason":null,"index":0,"delta":{"content":""'
    parts = (b'data: {"id":"', id_.encode(), head, _ROLE_TAIL, b"%d" % created_s, _CHUNK_TAIL)
    return b"".join(parts)


def sse_stop(id_: str, created_s: int) -> bytes:
    """The chunk that ends an answer on routes with ``[DONE]``."""
    head = b'","choices":[{"finish_reason":"stop","index":0,"delta":{"content":""'
    parts = (b'data: {"id":"', id_.encode(), head, _TEXT_TAIL, b"%d" % created_s, _CHUNK_TAIL)
    return b"".join(parts)


def sse_usage(id_: str, chunks: int, created_s: int) -> bytes:
    """A chunk with token counts and no choices, as OpenAI's servers end (mock only)."""
    return sse_data({
        "id": id_,
        "choices": [],
        "created": created_s,
        "model": "unknown-model",
        "object": "chat.completion.chunk",
        "system_fingerprint": None,
        "service_tier": None,
        "usage": {"prompt_tokens": 0, "completion_tokens": chunks, "total_tokens": chunks},
    })  # fmt: skip


def sse_value(text: str) -> bytes:
    """An answer chunk on the workflow routes, in ASCII."""
    return f"data: {json.dumps({'value': text})}\n\n".encode()


def sse_step(step: Step, kind: str = "markdown") -> bytes:
    """An intermediate step, under NAT's own field name; ``kind`` is the event's where it is raw."""
    content = {
        "id": step.id,
        "parent_id": step.parent,
        "type": kind,
        "name": step.name,
        "payload": step.payload,
    }
    return b"intermediate_data: %b\n\n" % orjson.dumps(content)


def sse_trace(trace: str) -> bytes:
    """An observability trace id, under NAT's own field name."""
    return b"observability_trace: %b\n\n" % orjson.dumps({"observability_trace_id": trace})


def sse_data(content: Mapping[str, Any]) -> bytes:
    """An event of the default type."""
    return b"data: %b\n\n" % orjson.dumps(content)


def sse_event(kind: str, content: Mapping[str, Any]) -> bytes:
    """An event with a type."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(content))


class WsFrames:
    """Messages of one turn; the constant parts are rendered once.

    The documented edition says ``completed`` or ``failed`` at the end, and gives a step the id of
    its user message as parent.
    """

    __slots__ = ("_clock", "_documented", "_ends", "_parent", "_turn")

    def __init__(
        self,
        turn: str,
        conversation: str | None,
        clock: Timestamp,
        edition: Edition = Edition.SERVER,
    ) -> None:
        self._clock = clock
        self._documented = edition.documented
        self._parent = f'"parent_id":{json_text(turn)},'
        self._turn = f'"conversation_id":{json_text(conversation)},"content":'
        words = ("in_progress", "completed" if edition.documented else "complete", "failed")
        self._ends = tuple(f',"status":"{word}","timestamp":"' for word in words)

    def chunk(self, id_: str, text: str, wall_ns: int) -> str:
        """A piece of the answer."""
        content = f'{{"text":{json_text(text)}}}'
        return self._message("system_response_message", id_, content, wall_ns)

    def step(self, step: Step, wall_ns: int) -> str:
        """An intermediate step; on the server it carries no id of its turn."""
        content = json_text({"name": step.name, "payload": step.payload})
        if self._documented:
            links = f'{self._parent}"intermediate_parent_id":"{step.parent}",'
        else:
            links = (
                f'"parent_id":"{step.parent}","intermediate_parent_id":"default",'
                '"update_message_id":"default",'
            )
        return (
            f'{{"type":"system_intermediate_message","id":"{step.id}","thread_id":"default",'
            f'{links}{self._turn}{content}{self._ends[0]}{self._clock.text(wall_ns)}"}}'
        )

    def prompt(self, prompt: Mapping[str, Any], wall_ns: int) -> str:
        """A prompt to the human."""
        content = json_text(prompt)
        return self._message("system_interaction_message", new_id(), content, wall_ns)

    def error(self, code: str, message: str, details: str, wall_ns: int) -> str:
        """A failure; a closing message follows it in most cases."""
        content = json_text({"code": code, "message": message, "details": details})
        return self._message("error_message", new_id(), content, wall_ns)

    def complete(self, wall_ns: int, failed: bool = False) -> str:
        """The end of the turn.  The documents know no null text, and tell a failure apart."""
        content = '{"text":""}' if self._documented else '{"text":null}'
        end = 2 if failed and self._documented else 1
        return self._message("system_response_message", new_id(), content, wall_ns, end)

    def trace(self, trace: str, wall_ns: int) -> str:
        """An observability trace id; it comes after the end."""
        return (
            f'{{"type":"observability_trace_message","id":"{new_id()}",{self._parent}{self._turn}'
            f'{{"observability_trace_id":"{trace}"}},"timestamp":"{self._clock.text(wall_ns)}"}}'
        )

    def _message(self, kind: str, id_: str, content: str, wall_ns: int, end: int = 0) -> str:
        return (
            f'{{"type":"{kind}","id":"{id_}","thread_id":"default",{self._parent}{self._turn}'
            f'{content}{self._ends[end]}{self._clock.text(wall_ns)}"}}'
        )
