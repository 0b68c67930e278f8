"""Prompts to the human as NAT's scripted workflow words them, key for key."""

from __future__ import annotations

from typing import Any

from mockagent.edition import Edition

_TOO_LATE = "This prompt is no longer available."
_YES_NO = [
    {"id": "continue", "label": "Continue", "value": "continue"},
    {"id": "cancel", "label": "Cancel", "value": "cancel"},
]
_CHANNELS = [
    {"id": name, "label": name.title(), "value": name, "description": f"Use {name}"}
    for name in ("email", "sms", "push")
]
_TEXTS = {
    "text": "Which policy period?",
    "notification": "This may take a while.",
    "binary_choice": "Continue?",
    "radio": "Pick one channel",
    "checkbox": "Pick channels",
    "dropdown": "Pick from the list",
}

ACKNOWLEDGED = "Notification acknowledgement."
"""What a notification counts as answered with; nobody is waited for."""


def known(kind: str) -> bool:
    """Whether there is such a prompt."""
    return kind in _TEXTS


def prompt(kind: str, timeout_s: int | None, edition: Edition = Edition.SERVER) -> dict[str, Any]:
    """The prompt object of a frame; ``timeout_s`` in whole seconds.

    The server says ``required`` of texts only, the documents of every prompt that wants a reply.
    """
    content = _prompt(kind, timeout_s)
    if edition.documented and kind != "notification":
        content["required"] = True
    return content


def consent(url: str) -> dict[str, Any]:
    """The content of the message that asks a user to log in at ``url``."""
    return {"text": url, "timeout": None, "error": _TOO_LATE, "input_type": "oauth_consent"}


def _prompt(kind: str, timeout_s: int | None) -> dict[str, Any]:
    content: dict[str, Any] = {"text": _TEXTS[kind], "timeout": timeout_s, "error": _TOO_LATE}
    if kind == "binary_choice":
        return content | {"input_type": kind, "options": _YES_NO}
    if kind in ("radio", "checkbox", "dropdown"):
        return content | {"options": _CHANNELS, "input_type": kind}
    if kind == "text":
        return content | {"input_type": kind, "placeholder": "2024", "required": True}
    return content | {"input_type": kind}
