"""The markdown that NAT's step adaptor puts into step frames, and the texts of Python objects that
it quotes there.

Source: ``nat.front_ends.fastapi.step_adaptor`` and pydantic's ``str`` of ``ChatRequest`` and
``ChatResponseChunk``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from loadgen.clock import NS_PER_S

_OPTIONS: dict[str, Any] = {
    "model": None,
    "frequency_penalty": 0.0,
    "logit_bias": None,
    "logprobs": None,
    "top_logprobs": None,
    "max_tokens": None,
    "n": 1,
    "presence_penalty": 0.0,
    "response_format": None,
    "seed": None,
    "service_tier": None,
    "stream": False,
    "stream_options": None,
    "temperature": 1.0,
    "top_p": None,
    "tools": None,
    "tool_choice": None,
    "parallel_tool_calls": True,
    "user": None,
}
_DEFAULT_OPTIONS = " ".join(f"{name}={value!r}" for name, value in _OPTIONS.items())


class Written(NamedTuple):
    """An answer chunk as it was made: its id, its text, and when (ns since the epoch)."""

    id: str
    text: str
    wall_ns: int


def tool(asked: str, found: str) -> str:
    """A tool's step: its input, and its output once there is one."""
    payload = f"**Input:**\n{_fence(asked)}"
    return f"{payload}\n\n**Output:**\n{_fence(found)}" if found else payload


def llm(asked: str, said: str) -> str:
    """A model's step: its input, and all it has said so far."""
    payload = f"**Input:**\n```python\n{html.escape(asked, quote=False)}\n```"
    return f"{payload}\n\n**Output:**\n{html.escape(said, quote=False)}" if said else payload


def function_start(given: str) -> str:
    """The opening step of a function."""
    return f"**Function Input:**\n{_fence(given)}"


def function_complete(given: str, result: str) -> str:
    """The closing step of a function: input and output."""
    return f"{function_start(given)}**Function Output:**\n{_fence(result)}"


def request_text(messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
    """A chat request as its Python object prints itself."""
    said = ", ".join(_message_text(message) for message in messages)
    if not options:
        return f"messages=[{said}] {_DEFAULT_OPTIONS}"
    rest = " ".join(f"{name}={value!r}" for name, value in {**_OPTIONS, **options}.items())
    return f"messages=[{said}] {rest}"


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


def value_text(answer: Written) -> str:
    """A whole answer of a generate schema, as it prints itself."""
    return f"value={answer.text!r}"


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


def _message_text(message: Mapping[str, Any]) -> str:
    role = message["role"]
    content = message["content"]
    shown = repr(content)
    if isinstance(content, list):
        shown = f"[{', '.join(_part_text(part) for part in content)}]"
    fields = [
        f"content={shown}",
        f"role=<UserMessageContentRoleType.{role.upper()}: {role!r}>",
        f"tool_calls={message.get('tool_calls')!r}",
        f"tool_call_id={message.get('tool_call_id')!r}",
    ]
    known = ("content", "role", "tool_calls", "tool_call_id")
    fields += [f"{key}={value!r}" for key, value in message.items() if key not in known]
    return f"Message({', '.join(fields)})"


def _part_text(part: Mapping[str, Any]) -> str:
    if part["type"] == "text":
        text = part.get("text", "default")
        return f"TextContent(type=<ChatContentType.TEXT: 'text'>, text={text!r})"
    if part["type"] == "image_url":
        url = part.get("image_url", {}).get("url", "http://default.com")
        return (
            "ImageContent(type=<ChatContentType.IMAGE_URL: 'image_url'>, "
            f"image_url=ImageUrl(url={url!r}))"
        )
    audio = part.get("input_audio", {})
    return (
        "AudioContent(type=<ChatContentType.INPUT_AUDIO: 'input_audio'>, input_audio=InputAudio("
        f"data={audio.get('data', 'default')!r}, format={audio.get('format', 'default')!r}))"
    )
