"""The prompts of the scripted workflow, one of each kind that the toolkit has."""

from __future__ import annotations

from typing import Any

from nat.data_models.interactive import (
    BinaryHumanPromptOption,
    HumanPromptBinary,
    HumanPromptCheckbox,
    HumanPromptDropdown,
    HumanPromptNotification,
    HumanPromptRadio,
    HumanPromptText,
    MultipleChoiceOption,
)

_YES_NO = [
    BinaryHumanPromptOption(id=choice, label=choice.title(), value=choice)
    for choice in ("continue", "cancel")
]
_CHANNELS = [
    MultipleChoiceOption(id=name, label=name.title(), value=name, description=f"Use {name}")
    for name in ("email", "sms", "push")
]
_PROMPTS: dict[str, tuple[type, dict[str, Any]]] = {
    "text": (
        HumanPromptText,
        {"text": "Which policy period?", "placeholder": "2024", "required": True},
    ),
    "notification": (HumanPromptNotification, {"text": "This may take a while."}),
    "binary_choice": (HumanPromptBinary, {"text": "Continue?", "options": _YES_NO}),
    "radio": (HumanPromptRadio, {"text": "Pick one channel", "options": _CHANNELS}),
    "checkbox": (HumanPromptCheckbox, {"text": "Pick channels", "options": _CHANNELS}),
    "dropdown": (HumanPromptDropdown, {"text": "Pick from the list", "options": _CHANNELS}),
}


def prompt(kind: str, timeout_s: int | None) -> Any:
    """The toolkit's prompt object of ``kind``.  Raises KeyError where there is no such kind."""
    make, content = _PROMPTS[kind]
    return make(**content, timeout=timeout_s)


def said(reply: Any) -> str:
    """The text, or the value of the chosen option, in the human's reply."""
    content = reply.content
    text = getattr(content, "text", None)
    return str(content.selected_option.value if text is None else text)
