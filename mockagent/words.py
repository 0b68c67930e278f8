"""``key=value`` words in a question: the little language that steers a turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

_WORD = re.compile(r"(?<![\w-])([a-z_]+)=([^\s'\"}\]]+)")


def read_words(text: str) -> list[tuple[str, str]]:
    """The words of ``text``, in order; trailing ``.,;`` belong to the sentence."""
    return [(key, value.rstrip(".,;")) for key, value in _WORD.findall(text)]


def typed_words(words: Sequence[tuple[str, str]], owner: Any) -> dict[str, Any]:
    """The words that are fields of the dataclass ``owner``, as the type of the field's default;
    the last of a repeated key wins.

    A value that is no such type is ignored, as the scripted workflow of the conformance server
    ignores it.
    """
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(owner)}
    values: dict[str, Any] = {}
    for key, text in words:
        kind = kinds.get(key)
        if kind is None:
            continue
        try:
            values[key] = kind(text)
        except ValueError:
            continue
    return values
