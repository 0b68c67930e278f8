"""What an agent asks of its user: questions with the JSON schema of their replies, credentials.

Source: ``hyperforge.interaction.Feedback``; the first question is the reference agent's.
"""

from __future__ import annotations

from typing import Any

from mockagent.ids import new_hex

CREDENTIALS_URI = "https://mcp.example.com/mcp"
"""Whose credentials the scripted agent needs."""
CREDENTIALS_TIMEOUT_S = 60.0
_YEARS = ["2022", "2023", "2024"]
_QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "string": ("Which policy year?", {"type": "string"}),
    "enum": ("Which of these policy years?", {"type": "string", "enum": _YEARS}),
    "number": ("Which share, in percent?", {"type": "number", "minimum": 0, "maximum": 100}),
    "integer": ("How many claims?", {"type": "integer", "minimum": 1}),
    "boolean": ("Include reserves?", {"type": "boolean"}),
    "array": (
        "Which lines of business?",
        {
            "type": "array",
            "items": {"type": "string", "enum": ["motor", "property", "marine"]},
            "minItems": 1,
            "uniqueItems": True,
        },
    ),
    "object": (
        "Which period?",
        {
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
        },
    ),
    "tool": ("May the tool be called?", {"type": "boolean"}),
}
KINDS = (*_QUESTIONS, "free")
"""What a question can be; ``free`` has no schema, ``tool`` is answered by ``call_tool``."""
_OF_PROMPTS = {
    "text": "string",
    "binary_choice": "boolean",
    "radio": "enum",
    "dropdown": "enum",
    "checkbox": "array",
}
"""NAT's prompts as the questions that are nearest to them; a notification is none."""
_OAUTH_SCHEMA: dict[str, Any] = {
    "properties": {
        "existing_credentials": {
            "anyOf": [
                {
                    "additionalProperties": {
                        "additionalProperties": {"type": "string"},
                        "type": "object",
                    },
                    "type": "object",
                },
                {"type": "null"},
            ],
            "default": None,
            "title": "Existing Credentials",
        }
    },
    "title": "OAuthFeedbackReturnSchema",
    "type": "object",
}


def kinds_of(feedback: str, prompts: str) -> list[str]:
    """The questions of the word ``feedback``, then those of NAT's word ``hitl``.

    Raises:
        ValueError: there is no such question.
    """
    asked = [kind for kind in feedback.split(",") if kind not in ("", "0")]
    kinds = ["string" if kind == "1" else kind for kind in asked]
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"unknown feedback kind {kind!r}")
    return kinds + [_OF_PROMPTS[kind] for kind in prompts.split(",") if kind in _OF_PROMPTS]


def question(kind: str, session: str, timeout_s: float) -> dict[str, Any]:
    """A feedback object; its ``request_id`` is the session's name, as Hyperforge's agents have it.

    ``timeout_s`` in seconds.
    """
    if kind == "free":
        return _feedback(session, "Anything else?", "smart", timeout_s, None)
    asked, schema = _QUESTIONS[kind]
    key = "call_tool" if kind == "tool" else "response"
    whole = {"type": "object", "properties": {key: schema}, "required": [key]}
    return _feedback(session, asked, "smart", timeout_s, whole)


def get_credentials(session: str) -> dict[str, Any]:
    """Whether the client has credentials already."""
    asked = _feedback(session, "Get credentials", "oauth", CREDENTIALS_TIMEOUT_S, _OAUTH_SCHEMA)
    return asked | {"get_credentials": {CREDENTIALS_URI: "mcp_oauth"}}


def send_credentials(session: str, token: str) -> dict[str, Any]:
    """Credentials for the client to keep; it has to acknowledge them."""
    asked = _feedback(session, "Send credentials", "oauth", CREDENTIALS_TIMEOUT_S, _OAUTH_SCHEMA)
    given = {"access_token": token, "token_type": "Bearer"}
    return asked | {"credentials": {CREDENTIALS_URI: given}}


def _feedback(
    session: str, asked: str, module: str, timeout_s: float, schema: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "request_id": session,
        "feedback_id": new_hex(),
        "question": asked,
        "module": module,
        "agent_id": "scripted",
        "data": None,
        "timeout_ms": round(timeout_s * 1000),
        "response_schema": schema,
        "get_credentials": None,
        "credentials": None,
    }
