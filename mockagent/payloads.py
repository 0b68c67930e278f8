"""The markdown that NAT's step adaptor puts into step frames, and the texts of Python objects that
it quotes there.

Source: ``nat.front_ends.fastapi.step_adaptor`` and pydantic's ``str`` of ``ChatRequest`` and
``ChatResponseChunk``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from loadgen.clock import NS_PER_S
from mockagent.workflow import Event, Kind, Quoted, Step

WORKFLOW = "<workflow>"
_TOOL = (Kind.TOOL_START, Kind.TOOL_END)
_LLM = (Kind.LLM_START, Kind.LLM_NEW_TOKEN, Kind.LLM_END)
_ADAPTED = (*_TOOL, *_LLM, Kind.FUNCTION_START, Kind.FUNCTION_END)


class Written(NamedTuple):
    """An answer chunk as it was made: its id, its text, and when (ns since the epoch)."""

    id: str
    text: str
    wall_ns: int


class Request:
    """A request as the workflow gets it."""

    __slots__ = ("_body", "_text")

    def __init__(self, body: BaseModel) -> None:
        self._body = body
        self._text = ""

    def text(self) -> str:
        """As the object prints itself."""
        self._text = self._text or str(self._body)
        return self._text

    def value(self) -> Any:
        """Its fields."""
        return self._body.model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class Chunks:
    """All chunks of a streamed answer."""

    written: Sequence[Written]

    def text(self) -> str:
        """As the list prints itself."""
        return chunks_text(self.written)

    def value(self) -> Any:
        """The list of chunks."""
        return [chunk_value(written) for written in self.written]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer in one piece, as a chat response."""

    written: Written

    def text(self) -> str:
        """As the object prints itself."""
        return response_text(self.written)

    def value(self) -> Any:
        """The response."""
        return response_value(self.written)


@dataclass(frozen=True, slots=True)
class ValueAnswer:
    """An answer in one piece, as ``{"value": ...}``."""

    written: Written

    def text(self) -> str:
        """As the object prints itself."""
        return f"value={self.written.text!r}"

    def value(self) -> Any:
        """The object."""
        return {"value": self.written.text}


def text_of(quoted: str | Quoted) -> str:
    """What a step quotes in markdown."""
    return quoted if isinstance(quoted, str) else quoted.text()


def value_of(quoted: str | Quoted) -> Any:
    """What a raw step quotes in JSON."""
    return quoted if isinstance(quoted, str) else quoted.value()


def markdown(event: Event) -> Step | None:
    """The step that the adaptor of the streams makes of an event; None: it shows nothing."""
    kind = event.kind
    if kind not in _ADAPTED:
        return None
    asked, said = text_of(event.asked), text_of(event.said)
    if kind in _TOOL:
        return Step(event.id, event.parent, f"Tool: {event.name}", _tool(asked, said))
    if kind in _LLM:
        return Step(event.id, event.parent, event.name, _llm(asked, said))
    parent = "root" if event.name == WORKFLOW else event.parent
    if kind is Kind.FUNCTION_START:
        return Step(event.id, parent, f"Function Start: {event.name}", _function_start(asked))
    before = _function_start(asked) if asked else ""
    payload = f"{before}**Function Output:**\n{_fence(said)}"
    return Step(event.id, parent, f"Function Complete: {event.name}", payload)


def chunks_text(chunks: Sequence[Written]) -> str:
    """The list of all chunks of an answer, as it prints itself."""
    said = ", ".join(
        f"ChatResponseChunk(id={chunk.id!r}, choices=[ChatResponseChunkChoice(finish_reason=None, "
        f"index=0, delta=ChoiceDelta(content={chunk.text!r}, role=None, tool_calls=None))], "
        f"created={_moment(chunk.wall_ns)}, model='unknown-model', "
        "object='chat.completion.chunk', system_fingerprint=None, service_tier=None, usage=None)"
        for chunk in chunks
    )
    return f"[{said}]"


def response_text(answer: Written) -> str:
    """A whole chat answer, as it prints itself."""
    words = len(answer.text.split())
    return (
        f"id={answer.id!r} object='chat.completion' model='unknown-model' "
        f"created={_moment(answer.wall_ns)} choices=[ChatResponseChoice(finish_reason='stop', "
        f"index=0, message=ChoiceMessage(content={answer.text!r}, "
        "role=<UserMessageContentRoleType.ASSISTANT: 'assistant'>))] "
        f"usage=Usage(prompt_tokens=0, completion_tokens={words}, total_tokens={words}) "
        "system_fingerprint=None service_tier=None"
    )


def chunk_value(written: Written) -> dict[str, Any]:
    """A chunk of a chat as JSON."""
    delta = {"content": written.text, "role": None, "tool_calls": None}
    return {
        "id": written.id,
        "choices": [{"finish_reason": None, "index": 0, "delta": delta}],
        "created": written.wall_ns // NS_PER_S,
        "model": "unknown-model",
        "object": "chat.completion.chunk",
        "system_fingerprint": None,
        "service_tier": None,
        "usage": None,
    }


def response_value(answer: Written) -> dict[str, Any]:
    """A whole chat answer as JSON."""
    words = len(answer.text.split())
    message = {"content": answer.text, "role": "assistant"}
    return {
        "id": answer.id,
        "object": "chat.completion",
        "model": "unknown-model",
        "created": answer.wall_ns // NS_PER_S,
        "choices": [{"finish_reason": "stop", "index": 0, "message": message}],
        "usage": {"prompt_tokens": 0, "completion_tokens": words, "total_tokens": words},
        "system_fingerprint": None,
        "service_tier": None,
    }


def _tool(asked: str, found: str) -> str:
    """A tool's step: its input, and its output once there is one."""
    payload = f"**Input:**\n{_fence(asked)}"
    return f"{payload}\n\n**Output:**\n{_fence(found)}" if found else payload


def _llm(asked: str, said: str) -> str:
    """A model's step: its input, and all it has said so far."""
    payload = f"**Input:**\n```python\n{html.escape(asked, quote=False)}\n```"
    return f"{payload}\n\n**Output:**\n{html.escape(said, quote=False)}" if said else payload


def _function_start(given: str) -> str:
    return f"**Function Input:**\n{_fence(given)}"


def _fence(text: str) -> str:
    escaped = html.escape(text, quote=False)
    return f"```{'json' if _is_json(escaped) else 'python'}\n{escaped}\n```"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _moment(wall_ns: int) -> str:
    """The ``repr`` of a datetime, which leaves out trailing zeros."""
    second, rest = divmod(wall_ns, NS_PER_S)
    micros = rest // 1_000
    if micros:
        return f"datetime.datetime({_second(second)}, {micros}, tzinfo=datetime.timezone.utc)"
    return repr(datetime.fromtimestamp(second, UTC))


@lru_cache(maxsize=64)
def _second(second: int) -> str:
    return ", ".join(str(part) for part in datetime.fromtimestamp(second, UTC).timetuple()[:6])
