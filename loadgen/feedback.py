"""What an analyst answers when an agent wants a JSON value that satisfies a JSON schema.

Values are made from the schema (drafts 2020-12 and 4; documents name the one, servers write the
other) and judged by the jsonschema package, so what cannot be made from a keyword (``not``, ``if``,
most patterns) is at least found out.  A reference to anywhere else than the schema itself is never
followed.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import orjson

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_log = logging.getLogger(__name__)

TEXTS = ("2024", "policy year 2023", "commercial property", "the Bavarian portfolio")
"""What an analyst writes where any text will do."""

_BY_FORMAT = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1Y",
    "email": "analyst@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/policy",
    "uuid": "3fa85f64-5717-4562-b3fc-2c963f66afa6",
}
_TYPICAL = (*TEXTS, *_BY_FORMAT.values(), "DE", "ABC-123", "1", "A")
"""What a pattern may want."""

_DEEPEST = 12
_MOST_PARTS = 5_000
"""So many parts of a schema are looked at: one that contains itself twice has no end."""
_FULL_DEPTH = 3
"""Below it only what is required is filled in: a schema may contain itself."""
_LONGEST = 10_000
"""Characters of a text, and items of a list, that a schema gets at most."""
_SPREAD = 100
_SHOWN = 200


class _NoValueError(Exception):
    """Nothing could be made that satisfies the schema."""


def reply_for(schema: Mapping[str, Any], rng: Random) -> str:
    """A JSON text whose value satisfies ``schema``.

    Where none is found it is a guess, and the log says so once for each schema.
    """
    value, problem = drafted(schema, rng)
    if problem:
        _say_once(problem)
    # Not orjson, which has no integers of more than 64 bits.
    return json.dumps(value, separators=(",", ":"))


def load() -> None:
    """Load what judges replies, so that the first prompt of a run does not wait for it."""
    _judge(b"{}")


def other_than(schema: Mapping[str, Any]) -> str:
    """A JSON text whose value does not satisfy ``schema``: of another type, where the schema names
    one; null where it takes anything.
    """
    try:
        judge = _judge(orjson.dumps(schema))
        return next((text for text in _OTHERS if not judge.is_valid(orjson.loads(text))), "null")
    except Exception:  # noqa: BLE001 - a schema is the server's: whatever is wrong with it
        return "null"


_OTHERS = ("0.5", '"something else"', "[]", "{}", "true", "null")


def drafted(schema: Mapping[str, Any], rng: Random) -> tuple[Any, str]:
    """A value for ``schema``, and what is wrong with it: nothing, or why it is only a guess."""
    try:
        judge = _judge(orjson.dumps(schema))
        return _Draft(schema, judge, rng).value(schema, 0), ""
    except _NoValueError:
        problem = "no value found that satisfies it"
    except Exception as error:  # noqa: BLE001 - a schema is the server's: whatever is wrong with it
        problem = f"it cannot be used ({type(error).__name__}: {_brief(error)})"
    return _guess(schema), f"the agent's schema {_brief(schema)}: {problem}"


def _brief(value: object) -> str:
    try:
        return " ".join(str(value).split())[:_SHOWN]
    except RecursionError:
        return "(nested too deep to show)"


def _guess(schema: Mapping[str, Any]) -> Any:
    wanted = schema.get("type")
    return _GUESSES.get(wanted, TEXTS[0]) if type(wanted) is str else TEXTS[0]


_GUESSES: dict[str, Any] = {
    "object": {}, "array": [], "integer": 1, "number": 1, "boolean": True, "null": None,
}  # fmt: skip


@lru_cache(maxsize=64)
def _say_once(problem: str) -> None:
    _log.warning("%s; a guess is sent", problem)


@lru_cache(maxsize=64)
def _judge(schema: bytes) -> Validator:
    """The validator of ``schema``, a JSON text.

    The package takes long to import, and few dialects need it.
    """
    from jsonschema import Draft4Validator, Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    value = orjson.loads(schema)
    kind = validator_for(value, default=Draft202012Validator)
    try:
        kind.check_schema(value)
    except SchemaError:
        if kind is not Draft202012Validator:
            raise
        kind = Draft4Validator
        kind.check_schema(value)
    # Without a registry of its own the validator would open the URLs that a schema names.
    registry: Registry[Any] = Registry()
    return kind(value, registry=registry)


class _Draft:
    """Makes values for the parts of one schema, ``root``."""

    def __init__(self, root: Any, judge: Validator, rng: Random) -> None:
        self._root = root
        self._judge = judge
        self._rng = rng
        self._parts = 0

    def value(self, schema: Any, depth: int) -> Any:
        """The first candidate that satisfies ``schema``."""
        self._look(depth)
        judge = self._judge.evolve(schema=schema)
        for candidate in self._candidates(schema, depth):
            if judge.is_valid(candidate):
                return candidate
        raise _NoValueError

    def _look(self, depth: int) -> None:
        self._parts += 1
        if depth > _DEEPEST or self._parts > _MOST_PARTS:
            raise _NoValueError

    def _candidates(self, schema: Any, depth: int) -> Iterator[Any]:
        if type(schema) is not dict:
            yield self._rng.choice(TEXTS)
            return
        for one in self._alternatives(schema):
            if "const" in one:
                yield one["const"]
            for key in ("enum", "examples"):
                if type(one.get(key)) is list:
                    yield from self._rng.sample(one[key], len(one[key]))
            if "default" in one:
                yield one["default"]
            for wanted in _types(one):
                with suppress(_NoValueError):
                    yield from _MAKERS[wanted](self, one, depth)

    def _alternatives(self, schema: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
        """``schema`` without references and combinations: one for each of its choices."""
        self._look(depth)
        rest = {key: part for key, part in schema.items() if key not in _COMBINED}
        if "$ref" in schema:
            yield from self._alternatives(_merged(rest, self._resolved(schema["$ref"])), depth + 1)
        elif all_of := schema.get("allOf"):
            for part in all_of:
                rest = _merged(rest, part)
            rest |= {key: schema[key] for key in ("anyOf", "oneOf") if key in schema}
            yield from self._alternatives(rest, depth + 1)
        elif choices := schema.get("anyOf") or schema.get("oneOf"):
            for choice in choices:
                with suppress(_NoValueError):
                    yield from self._alternatives(_merged(rest, choice), depth + 1)
        else:
            yield schema

    def _resolved(self, reference: str) -> Any:
        """What ``reference``, a JSON pointer into the schema (RFC 6901), names."""
        if not reference.startswith("#"):
            raise _NoValueError
        found = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(step)] if type(found) is list else found[step]
            except (KeyError, IndexError, TypeError, ValueError):
                raise _NoValueError from None
        return found

    def _text(self, schema: dict[str, Any], depth: int) -> Iterator[str]:
        shortest = min(int(schema.get("minLength", 0)), _LONGEST)
        longest = int(schema.get("maxLength", _LONGEST))
        by_format = _BY_FORMAT.get(str(schema.get("format")))
        if by_format is not None:
            yield by_format
        text = self._rng.choice(TEXTS)
        yield text
        yield (text * (shortest // len(text) + 1))[: max(shortest, min(len(text), longest))]
        yield from _TYPICAL

    def _number(self, schema: dict[str, Any], depth: int) -> Iterator[float]:
        step = schema.get("multipleOf", 1)
        low, high = _bounds(schema, _SPREAD * max(1, step))
        first, last = math.ceil(low / step), math.floor(high / step)
        if first <= last:
            yield self._rng.randint(first, last) * step
            yield from (first * step, last * step)
            # An exclusive bound took the one or the other.
            yield from ((first + 1) * step, (last - 1) * step)
        yield (low + high) / 2

    def _boolean(self, schema: dict[str, Any], depth: int) -> Iterator[bool]:
        yield from self._rng.sample((True, False), 2)

    def _null(self, schema: dict[str, Any], depth: int) -> Iterator[None]:
        yield None

    def _array(self, schema: dict[str, Any], depth: int) -> Iterator[list[Any]]:
        items, first = schema.get("items", True), schema.get("prefixItems", [])
        if type(items) is list:
            items, first = schema.get("additionalItems", True), items
        fewest = max(1, min(int(schema.get("minItems", len(first))), _LONGEST))
        made: list[Any] = []
        with suppress(_NoValueError):
            for number in range(fewest):
                part = first[number] if number < len(first) else items
                made.append(self._unlike(made, part, depth, bool(schema.get("uniqueItems"))))
            yield made
        yield []

    def _unlike(self, made: list[Any], schema: Any, depth: int, unique: bool) -> Any:
        """An item, and another than those ``made`` where each may come once."""
        for _ in range(2 * _SPREAD if unique else 1):
            value = self.value(schema, depth + 1)
            if not unique or value not in made:
                break
        return value

    def _object(self, schema: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
        parts = schema.get("properties", {})
        required = schema.get("required", [])
        needed = {name: self.value(parts.get(name, True), depth + 1) for name in required}
        if depth < _FULL_DEPTH:
            full = dict(needed)
            for name in parts:
                if name not in full:
                    with suppress(_NoValueError):
                        full[name] = self.value(parts[name], depth + 1)
            yield full
        yield needed
        fewest = min(int(schema.get("minProperties", 0)), _LONGEST)
        more = schema.get("additionalProperties", True)
        while len(needed) < fewest:
            needed[f"field {len(needed) + 1}"] = self.value(more, depth + 1)
        yield needed


_MAKERS: dict[str, Callable[[_Draft, dict[str, Any], int], Iterator[Any]]] = {
    "string": _Draft._text,
    "number": _Draft._number,
    "integer": _Draft._number,
    "boolean": _Draft._boolean,
    "null": _Draft._null,
    "array": _Draft._array,
    "object": _Draft._object,
}
_COMBINED = ("$ref", "allOf", "anyOf", "oneOf")
_TELLING = {
    "object": ("properties", "required", "additionalProperties", "minProperties"),
    "array": ("items", "prefixItems", "minItems", "uniqueItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Keywords that tell a type where none is named."""


def _types(schema: dict[str, Any]) -> list[str]:
    named = schema.get("type")
    if named is None:
        return [kind for kind, keys in _TELLING.items() if any(k in schema for k in keys)] + [
            "string"
        ]
    return [kind for kind in ([named] if type(named) is str else named) if kind in _MAKERS]


def _merged(one: dict[str, Any], other: Any) -> dict[str, Any]:
    """Both at once, as far as that can be written as one schema."""
    if type(other) is not dict:
        return one
    both = other | one
    if "properties" in one and "properties" in other:
        both["properties"] = other["properties"] | one["properties"]
    if "required" in one and "required" in other:
        both["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return both


def _bounds(schema: dict[str, Any], spread: float) -> tuple[float, float]:
    """The range to choose from, ``spread`` wide where one end is open; draft 4 marks a bound as
    exclusive by a boolean beside it.
    """
    lows = [schema.get(key) for key in ("minimum", "exclusiveMinimum")]
    highs = [schema.get(key) for key in ("maximum", "exclusiveMaximum")]
    low = max((n for n in lows if n is not None and type(n) is not bool), default=None)
    high = min((n for n in highs if n is not None and type(n) is not bool), default=None)
    if low is None:
        low = 1 if high is None or high >= 1 else high - spread
    return low, low + spread if high is None else high
