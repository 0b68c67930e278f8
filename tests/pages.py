"""Which numerals a page may show: those in which the values of its summary are written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from loadgen.analysis import numerals
from loadgen.report import document

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def own_words() -> str:
    """All that the templates say themselves."""
    folder = Path(document.__file__).parent / "templates"
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.j2")))
    return re.sub(r"{[{%].*?[%}]}", "", "".join(texts), flags=re.S)


def numbers(value: Any) -> Iterator[str]:
    """The numerals in which a value of the summary may stand on the page."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from NUMBER.findall(str(key))
            yield from numbers(item)
    elif isinstance(value, list | tuple):
        yield str(len(value))
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        texts = [str(value), numerals.plain(value), numerals.duration(value), numerals.fixed(value)]
        texts += [numerals.fixed(value / 1000), numerals.seconds(value)]
        if isinstance(value, int):
            texts.append(numerals.count(value))
        if 0 <= value <= 1:
            texts += [numerals.share(value), *(numerals.share(value, at) for at in (0.95, 0.01))]
        for text in texts:
            yield from NUMBER.findall(text)
    elif isinstance(value, str):
        yield from NUMBER.findall(value)
