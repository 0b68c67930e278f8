"""A recorded load: which question came when, in which conversation, over which dialect.

CSV with a line of column names, or JSON lines with the same names: ``time`` and ``question``, and
if wanted ``conversation`` and ``dialect``.  All mistakes of a file are reported at once, each with
its line.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

from loadgen.clock import NS_PER_S
from loadgen.errors import ConfigError

_COLUMNS = ("time", "conversation", "question", "dialect")
_SHOWN = 20
"""More mistakes than this are counted, not listed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn: due ``at_ns`` after the start; ``dialect`` is empty where any will do."""

    at_ns: int
    conversation: str
    question: str
    dialect: str = ""


class _Bad(Exception):
    """A line that is no entry."""


def read_replay(path: Path, speed: float, dialects: Collection[str]) -> tuple[Entry, ...]:
    """The entries of the file in the order of their times.

    ``speed`` 2 is twice as fast.  Times are seconds from the start of the run, or ISO 8601 moments
    of which the earliest is the start.  An entry without a conversation is one of its own.

    Raises:
        ConfigError: with a line for each mistake; ``dialects`` are those that the plan's analysts
            speak.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"load.file: cannot read {path}: {error}") from error
    lines = _json_lines(text) if path.suffix.lower() in (".jsonl", ".ndjson") else _csv_lines(text)
    mistakes: list[str] = []
    found: list[tuple[float, bool, Entry]] = []
    spoken: dict[str, str] = {}
    for number, line in lines:
        try:
            at_s, moment, entry = _entry(line, number, dialects)
            said = spoken.setdefault(entry.conversation, entry.dialect)
            if said != entry.dialect:
                raise _Bad(f"conversation {entry.conversation!r} has spoken {said or 'any'} before")
        except _Bad as bad:
            mistakes.append(f"{path.name}:{number}: {bad}")
        else:
            found.append((at_s, moment, entry))
    if not mistakes and not found:
        mistakes.append(f"{path.name}: holds no turn")
    if len({moment for _, moment, _ in found}) > 1:
        mistakes.append(f"{path.name}: some times are seconds and some are moments")
    if mistakes:
        more = len(mistakes) - _SHOWN
        shown = mistakes[:_SHOWN] + ([f"{path.name}: {more} more mistakes"] if more > 0 else [])
        raise ConfigError("\n".join(shown))
    return _timed(found, speed)


def _timed(found: list[tuple[float, bool, Entry]], speed: float) -> tuple[Entry, ...]:
    begin = min(at for at, _, _ in found) if found[0][1] else 0.0
    made = (
        Entry(round((at - begin) / speed * NS_PER_S), e.conversation, e.question, e.dialect)
        for at, _, e in found
    )
    return tuple(sorted(made, key=lambda entry: entry.at_ns))


def _csv_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    columns: list[str] | None = None
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield reader.line_num, f"not valid CSV: {error}"
            return
        if row is None:
            return
        if not any(row):
            continue
        if columns is None:
            columns = [name.strip() for name in row]
            strange = _strange(columns)
            if strange:
                yield reader.line_num, strange
                return
        elif len(row) != len(columns):
            yield reader.line_num, f"has {len(row)} columns, the first line {len(columns)}"
        else:
            yield reader.line_num, dict(zip(columns, row, strict=True))


def _json_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    # Not splitlines: a text may hold U+2028, which is no line end of JSON lines.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            yield number, f"not valid JSON: {error}"
            continue
        if not isinstance(value, dict):
            yield number, "not a JSON object"
        else:
            yield number, _strange(list(value)) or value


def _strange(columns: list[str]) -> str | None:
    unknown = [name for name in columns if name not in _COLUMNS]
    missing = [name for name in ("time", "question") if name not in columns]
    if unknown:
        return f"unknown column {unknown[0]!r}; known are {', '.join(_COLUMNS)}"
    return f"has no column {missing[0]!r}" if missing else None


def _entry(
    line: Mapping[str, Any] | str, number: int, dialects: Collection[str]
) -> tuple[float, bool, Entry]:
    if isinstance(line, str):
        raise _Bad(line)
    question, dialect = line["question"], line.get("dialect") or ""
    if not isinstance(question, str) or not question.strip():
        raise _Bad(f"question must be a text that says something, got {question!r}")
    if dialect and dialect not in dialects:
        known = ", ".join(sorted(dialects))
        raise _Bad(f"dialect must be one of the plan's analysts' ({known}), got {dialect!r}")
    given = line.get("conversation")
    conversation = f"line {number}" if given in (None, "") else str(given)
    at_s, moment = _time(line["time"])
    return at_s, moment, Entry(0, conversation, question.strip(), dialect)


def _time(given: Any) -> tuple[float, bool]:
    """Seconds, and whether they are those of a moment."""
    wrong = _Bad(f"time must be seconds >= 0 or an ISO 8601 moment, got {given!r}")
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise wrong
    try:
        seconds = float(given)
    except ValueError:
        pass
    else:
        if not math.isfinite(seconds) or seconds < 0:
            raise wrong
        return seconds, False
    try:
        return datetime.fromisoformat(str(given).strip()).timestamp(), True
    except (ValueError, OverflowError):
        raise wrong from None
