"""Numbers as people read them: at most four significant digits, always with a unit."""

from __future__ import annotations

from collections.abc import Sequence

NONE = "\u2013"
"""What stands for a missing value."""


def count(number: int) -> str:
    """``1234567`` as ``1,234,567``."""
    return f"{number:,}"


def of(number: int, noun: str) -> str:
    """``1`` and ``turn`` as ``1 turn``, ``1200`` as ``1,200 turns``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def plain(number: float) -> str:
    """A number with at most four significant digits and no trailing zeros."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def duration(ms: float | None) -> str:
    """``812.4`` as ``812 ms``, ``5210`` as ``5.21 s``."""
    if ms is None:
        return NONE
    return f"{fixed(ms / 1000)} s" if abs(ms) >= 1000 else f"{fixed(ms)} ms"


def seconds(s: float) -> str:
    """A limit in seconds, as it was written: ``2 s``, ``0.5 s``."""
    return f"{plain(s)} s"


def share(part: float, against: float | None = None) -> str:
    """``0.612`` as ``61.2 %``.

    With ``against`` as many decimals as it takes (up to four) to see on which side of it ``part``
    lies; 100 % is only written for the whole.
    """
    marks = [mark for mark in (against, 0.0, 1.0) if mark is not None and mark != part]
    for decimals in (1, 2, 3, 4):
        text = f"{part * 100:.{decimals}f}"
        if all(text != f"{mark * 100:.{decimals}f}" for mark in marks):
            break
    return f"{text.rstrip('0').rstrip('.')} %"


def mebibytes(size: float) -> str:
    """``size`` bytes as ``12.3 MiB``."""
    return f"{plain(round(size / 2**20, 1))} MiB"


def column(values_ms: Sequence[float | None]) -> tuple[str, list[str]]:
    """One row of a table in one unit: the unit and the texts.  ``values_ms`` ascend."""
    present = [value for value in values_ms if value is not None]
    in_seconds = bool(present) and (present[0] >= 1000 or present[-1] >= 10_000)
    scale, unit = (1000, "s") if in_seconds else (1, "ms")
    return unit, [NONE if value is None else fixed(value / scale) for value in values_ms]


def at_least(text: str) -> str:
    """A value that may be larger: ``12.3`` as ``≥ 12.3``."""
    return f"≥ {text}"


def fixed(value: float) -> str:
    """At most four digits: two decimals below 100, one below 1,000."""
    if 0 < abs(value) < 0.1:
        return f"{value:.3f}"
    for decimals in (2, 1):
        text = f"{value:.{decimals}f}"
        if len(text.lstrip("-")) <= len("12.34"):
            return text
    return f"{value:,.0f}"
