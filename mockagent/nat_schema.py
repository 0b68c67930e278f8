"""What NAT accepts, and what it says to the rest: bodies of its routes, messages of its socket.

Refusals have the shape of FastAPI's 422.  Of a chat request only ``messages`` is checked, as far as
the scripted workflow can see it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_SCHEMAS = ("chat_stream", "chat", "generate_stream", "generate")
_ROLES = ("user", "assistant", "system", "tool")
_REPLIES = ("text", "binary_choice", "notification", "radio", "checkbox", "dropdown")
_PARTS = ("text", "image_url", "input_audio")
_ROLE_LIST = "'user', 'assistant', 'system' or 'tool'"
_PART_LIST = "list[tagged-union[TextContent,ImageContent,AudioContent]]"
_NO_OBJECT = "Input should be a valid dictionary or object to extract fields from"
_NULL_CONTENT = (
    "Value error, content may be null only for assistant messages with tool_calls or function_call"
)

Loc = tuple[str | int, ...]


class Invalid(ValueError):
    """A body that is refused with 422; ``detail`` is FastAPI's list."""

    def __init__(self, *detail: dict[str, Any]) -> None:
        super().__init__(detail)
        self.detail = list(detail)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A valid ``user_message`` of the socket."""

    id: str
    conversation: str | None
    schema: str
    messages: list[dict[str, Any]]


def read_json(body: bytes, content_type: str) -> Any:
    """The value of a JSON body.

    Raises:
        Invalid: it is empty or no JSON.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if not body:
        raise Invalid(_problem("missing", ("body",), "Field required", None))
    if kind != "application/json" and not kind.endswith("+json"):
        return body.decode("utf-8", "replace")
    try:
        return orjson.loads(body)
    except ValueError:
        pass
    try:
        json.loads(body)
        position, reason = 0, "not JSON"
    except json.JSONDecodeError as error:
        position, reason = error.pos, error.msg
    except ValueError:
        position, reason = 0, "not UTF-8"
    problem = _problem("json_invalid", ("body", position), "JSON decode error", {})
    raise Invalid(problem | {"ctx": {"error": reason}})


def chat_request(value: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Messages and options of a chat request.

    Raises:
        Invalid: it has no list of messages.
    """
    body = _object(value, ("body",))
    messages = body.get("messages", _MISSING)
    where: Loc = ("body", "messages")
    if messages is _MISSING:
        raise Invalid(_problem("missing", where, "Field required", body))
    if not isinstance(messages, list):
        raise Invalid(_problem("list_type", where, "Input should be a valid list", messages))
    problems = [p for n, message in enumerate(messages) for p in _message(message, (*where, n))]
    if problems:
        raise Invalid(*problems)
    return messages, {key: value for key, value in body.items() if key != "messages"}


def reply(value: Any) -> str:
    """The human's value in the answer to a prompt: its text, or the value of its option.

    Raises:
        Invalid: it is no answer of any kind.
    """
    body = _object(value, ("body",))
    where: Loc = ("body", "response")
    if "response" not in body:
        raise Invalid(_problem("missing", where, "Field required", body))
    response = _object(body["response"], where)
    kind = response.get("type", _MISSING)
    if kind is _MISSING:
        message = "Unable to extract tag using discriminator 'type'"
        problem = _problem("union_tag_not_found", where, message, response)
        raise Invalid(problem | {"ctx": {"discriminator": "'type'"}})
    if kind not in _REPLIES:
        raise Invalid(_bad_tag(kind, "HumanPromptModelType", _REPLIES, where, response))
    if kind in ("text", "notification"):
        default = _MISSING if kind == "text" else "Notification acknowledgement."
        return _text(response, "text", default, (*where, kind))
    where = (*where, kind, "selected_option")
    if "selected_option" not in response:
        raise Invalid(_problem("missing", where, "Field required", response))
    option = _object(response["selected_option"], where)
    strings = ["id", "label"] if kind == "binary_choice" else ["id", "label", "value"]
    problems = [
        _problem("string_type", (*where, key), "Input should be a valid string", option[key])
        for key in strings
        if not isinstance(option.get(key, ""), str)
    ]
    if problems:
        raise Invalid(*problems)
    return str(option.get("value", "default"))


def user_message(message: Mapping[str, Any]) -> UserMessage | None:
    """A ``user_message``, None when NAT would ignore it."""
    messages = _messages(message.get("content"))
    id_, conversation = message.get("id", "default"), message.get("conversation_id")
    schema = message.get("schema_type")
    texts = (message.get("schema_version", ""), message.get("timestamp", ""))
    if messages is None or not isinstance(id_, str) or not all(isinstance(x, str) for x in texts):
        return None
    if conversation is not None and not isinstance(conversation, str):
        return None
    if schema not in _SCHEMAS or not _only(message.get("user", {}), "name", "email"):
        return None
    return UserMessage(id_, conversation, schema, messages)


def interaction(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The messages of a ``user_interaction_message``, None when NAT would ignore it."""
    texts = ("id", "thread_id", "parent_id", "schema_version", "timestamp")
    conversation = message.get("conversation_id")
    valid = (conversation is None or isinstance(conversation, str)) and all(
        isinstance(message.get(key, ""), str) for key in texts
    )
    return _messages(message.get("content")) if valid else None


def auth_payload(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The payload of an ``auth_message``, None when NAT would ignore it."""
    if not _only(message, "type", "payload", "timestamp"):
        return None
    payload = message.get("payload")
    if not isinstance(payload, dict):
        return None
    wanted = {
        "jwt": ("token",),
        "api_key": ("token",),
        "basic": ("username", "password"),
        "oauth_mode_preference": ("mode",),
    }.get(str(payload.get("method")))
    if wanted is None or set(payload) != {"method", *wanted}:
        return None
    if not all(isinstance(payload[key], str) and payload[key] for key in wanted):
        return None
    if "mode" in payload and payload["mode"] not in ("redirect", "popup"):
        return None
    return payload


def last_text(messages: list[dict[str, Any]]) -> str | None:
    """The question as the scripted workflow reads it: the text of the last message, None when there
    is no message.
    """
    if not messages:
        return None
    content = messages[-1]["content"]
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or [])


def last_user_text(messages: list[dict[str, Any]]) -> str | None:
    """The first text part of the last user message that has one."""
    for message in reversed(messages):
        if message["role"] == "user":
            for part in message["content"]:
                if part["type"] == "text":
                    return str(part.get("text", "default"))
    return None


_MISSING: Any = object()


def _problem(kind: str, loc: Loc, message: str, given: Any) -> dict[str, Any]:
    return {"type": kind, "loc": loc, "msg": message, "input": given}


def _object(value: Any, loc: Loc) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(_problem("model_attributes_type", loc, _NO_OBJECT, value))
    return value


def _text(owner: dict[str, Any], key: str, default: Any, loc: Loc) -> str:
    value = owner.get(key, default)
    if value is _MISSING:
        raise Invalid(_problem("missing", (*loc, key), "Field required", owner))
    if not isinstance(value, str):
        problem = _problem("string_type", (*loc, key), "Input should be a valid string", value)
        raise Invalid(problem)
    return value


def _bad_tag(tag: Any, enum: str, known: tuple[str, ...], loc: Loc, given: Any) -> dict[str, Any]:
    names = ", ".join(f"<{enum}.{name.upper()}: '{name}'>" for name in known)
    message = (
        f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {names}"
    )
    context = {"discriminator": "'type'", "tag": str(tag), "expected_tags": names}
    return _problem("union_tag_invalid", loc, message, given) | {"ctx": context}


def _message(message: Any, loc: Loc) -> list[dict[str, Any]]:
    """What is wrong with a message of a chat request."""
    if not isinstance(message, dict):
        return [_problem("model_attributes_type", loc, _NO_OBJECT, message)]
    problems = []
    content = message.get("content", _MISSING)
    if content is _MISSING:
        problems.append(_problem("missing", (*loc, "content"), "Field required", message))
    elif content is not None and not isinstance(content, str):
        problems += _content(content, (*loc, "content"))
    role = message.get("role", _MISSING)
    if role is _MISSING:
        problems.append(_problem("missing", (*loc, "role"), "Field required", message))
    elif role not in _ROLES:
        text = f"Input should be {_ROLE_LIST}"
        problem = _problem("enum", (*loc, "role"), text, role)
        problems.append(problem | {"ctx": {"expected": _ROLE_LIST}})
    called = message.get("tool_calls") or message.get("function_call")
    if not problems and content is None and not (role == "assistant" and called):
        problem = _problem("value_error", loc, _NULL_CONTENT, message)
        problems.append(problem | {"ctx": {"error": {}}})
    return problems


def _content(content: Any, loc: Loc) -> list[dict[str, Any]]:
    """What is wrong with content that is no string."""
    problems = [_problem("string_type", (*loc, "str"), "Input should be a valid string", content)]
    where: Loc = (*loc, _PART_LIST)
    if not isinstance(content, list):
        problems.append(_problem("list_type", where, "Input should be a valid list", content))
        return problems
    bad = [
        _bad_tag(
            part.get("type") if isinstance(part, dict) else part,
            "ChatContentType", _PARTS, (*where, n), part,
        )
        for n, part in enumerate(content)
        if not _valid_part(part)
    ]  # fmt: skip
    return problems + bad if bad else []


def _valid_part(part: Any) -> bool:
    if not isinstance(part, dict) or part.get("type") not in _PARTS:
        return False
    if part["type"] == "text":
        return _only(part, "type", "text") and isinstance(part.get("text", ""), str)
    return _only(part, "type", part["type"]) and isinstance(part.get(part["type"], {}), dict)


def _messages(content: Any) -> list[dict[str, Any]] | None:
    """The messages of a socket's content, whose parts must be lists; None when they are not."""
    if not isinstance(content, dict) or set(content) != {"messages"}:
        return None
    messages = content["messages"]
    if not isinstance(messages, list):
        return None
    for message in messages:
        if not isinstance(message, dict) or set(message) != {"role", "content"}:
            return None
        if message["role"] not in _ROLES or not isinstance(message["content"], list):
            return None
        if not all(_valid_part(part) for part in message["content"]):
            return None
    return messages


def _only(value: Any, *keys: str) -> bool:
    return isinstance(value, dict) and set(value) <= set(keys)
