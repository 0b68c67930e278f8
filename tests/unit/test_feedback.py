"""Replies made from a JSON schema."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft202012Validator

from loadgen.feedback import TEXTS, drafted, other_than, reply_for

TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}

SATISFIABLE = [
    {},
    {"type": "string"},
    {"type": "string", "minLength": 40},
    {"type": "string", "maxLength": 2},
    {"type": "string", "minLength": 3, "maxLength": 3},
    {"type": "string", "pattern": r"^\d{4}$"},
    {"type": "string", "pattern": "^[A-Z]{2}$"},
    *({"type": "string", "format": name} for name in ("date", "date-time", "email", "uuid", "uri")),
    {"type": "integer"},
    {"type": "integer", "minimum": 5, "maximum": 5},
    {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7},
    {"type": "integer", "minimum": 10, "maximum": 20, "multipleOf": 7},
    {"type": "integer", "maximum": -3},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": 0.25, "maximum": 0.75},
    {"type": "number", "minimum": 0.3, "multipleOf": 0.5},
    {"type": "integer", "minimum": 10**18, "multipleOf": 10**19},
    {"type": "number", "minimum": 1e300},
    {"type": "boolean"},
    {"type": "null"},
    {"const": {"a": [1]}},
    {"enum": ["sms", "email", 3, None]},
    {"type": "string", "enum": ["north", "south"]},
    {"type": "integer", "examples": ["no number", 7]},
    {"type": "string", "default": "x", "minLength": 5},
    {"type": ["null", "string"]},
    {"type": "array"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 4, "uniqueItems": True},
    {"type": "array", "items": False},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
    {"type": "array", "maxItems": 0},
    {"type": "object"},
    {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]},
    {"type": "object", "required": ["anything"]},
    {"type": "object", "properties": {"a": {}, "b": False}},
    {"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 0},
    {"type": "object", "minProperties": 3},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
    {"properties": {"a": {"const": 1}}, "required": ["a"]},
    {"minimum": 3, "type": "number"},
    {"$ref": "#/$defs/Year", "$defs": {"Year": {"type": "integer", "minimum": 1990}}},
    {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"enum": [1]}}},
    {"items": {"$ref": "#/prefixItems/0"}, "prefixItems": [{"const": 1}], "type": "array"},
    {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "null"}]},
    {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/none"}, "minItems": 1},
               {"type": "integer"}], "$defs": {"none": {"not": {}}}},
    {"oneOf": [{"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 3}]},
    {"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"required": ["b"]}],
     "type": "object"},
    {"type": "object", "allOf": [{"required": ["a"]}], "anyOf": [{"required": ["b"]}]},
    {"not": {"type": "string"}, "type": ["string", "boolean"]},
    TREE,
    {"type": "object", "properties": {name: {"$ref": "#"} for name in "abcdefgh"}},
]  # fmt: skip


@pytest.mark.parametrize("schema", SATISFIABLE, ids=json.dumps)
def test_a_reply_satisfies_its_schema_whatever_the_analyst(schema, caplog):
    for seed in range(20):
        text = reply_for(schema, Random(seed))
        Draft202012Validator(schema).validate(json.loads(text))
    assert caplog.records == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "exclusiveMinimum": True, "maximum": 4},
        {"type": "array", "items": [{"const": 1}], "additionalItems": False, "minItems": 1,
         "minimum": 0, "exclusiveMinimum": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_of_draft_4_is_understood_as_such(schema):
    value, problem = drafted(schema, Random(1))
    assert problem == ""
    Draft4Validator(schema).validate(value)


UNUSABLE = [
    ({"not": {}}, "2024"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, 1),
    ({"type": "string", "pattern": "^zzz$"}, "2024"),
    ({"type": "wish"}, "2024"),
    ({"type": "object", "required": 5}, {}),
    ({"$ref": "#/nowhere", "type": "boolean"}, True),
    ({"$ref": "http://127.0.0.1:9/schema.json"}, "2024"),
    ({"$ref": "file:///etc/hostname"}, "2024"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, {}),
    ({"anyOf": [{"$ref": "#"}] * 9}, "2024"),
    ({"type": "array", "items": {"$ref": "#"}, "minItems": 10**9}, []),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 3, "uniqueItems": True}, []),
]


@pytest.mark.parametrize(("schema", "guess"), UNUSABLE, ids=str)
def test_where_no_value_is_found_a_guess_is_sent_and_the_log_says_so_once(schema, guess, caplog):
    with caplog.at_level(logging.WARNING):
        texts = {reply_for(schema, Random(seed)) for seed in range(3)}
    assert texts == {json.dumps(guess)}
    assert [str(schema)[:40] in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/s.json", "file:///etc/hostname", "s.json"])
def test_a_url_that_a_schema_names_is_never_opened(url, monkeypatch):
    def opened(*_, **__):
        pytest.fail("it was opened")

    monkeypatch.setattr("urllib.request.urlopen", opened)
    schema = {"const": {"a": 1}, "properties": {"a": {"$ref": url}}}
    assert "it cannot be used" in drafted(schema, Random(1))[1]


NAMES = st.sampled_from("abc")
KEYWORDS = st.dictionaries(
    st.sampled_from(
        [
            "type", "const", "enum", "default", "examples", "minimum", "maximum", "multipleOf",
            "exclusiveMinimum", "minLength", "maxLength", "pattern", "format", "minItems", "items",
            "uniqueItems", "required", "$ref", "$schema", "minProperties", "allOf", "anyOf",
        ]
    ),
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False)
    | st.sampled_from(["string", "object", "array", "#", "#/a", "[", "date"])
    | st.lists(st.sampled_from(["string", "null", "a"]), max_size=2),
    max_size=4,
)  # fmt: skip
SCHEMAS = st.recursive(
    KEYWORDS | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer"]),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "$ref": st.sampled_from(["#", "#/properties/a", "#/items", "x"]),
        },
    ),
    max_leaves=6,
)


@given(SCHEMAS.filter(lambda schema: type(schema) is dict), st.integers(0, 9))
def test_any_schema_gives_a_reply_that_satisfies_it_or_says_why_not(schema, seed):
    value, problem = drafted(schema, Random(seed))
    assert json.loads(reply_for(schema, Random(seed))) == value
    if not problem:
        validator = Draft202012Validator
        if list(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)):
            validator = Draft4Validator
        assert validator(schema).is_valid(value)


def test_the_same_seed_gives_the_same_reply_and_another_one_another():
    schema = {"type": "string"}
    assert {reply_for(schema, Random(seed)) for seed in (1, 1)} == {reply_for(schema, Random(1))}
    assert len({reply_for(schema, Random(seed)) for seed in range(50)}) == len(TEXTS)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "object"}, "0.5"),
        ({"type": "number"}, '"something else"'),
        ({"enum": [0.5, "something else", []]}, "{}"),
        ({}, "null"),
        ({"type": "wish"}, "null"),
    ],
)
def test_a_reply_of_another_type_does_not_satisfy_the_schema(schema, text):
    assert other_than(schema) == text


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("import loadgen.feedback, loadgen.persona, loadgen.dialects", False),
        ("from loadgen.dialects import create; create('nat-ws')", False),
        ("from loadgen.dialects import create; create('arag-ws', options={'agent': 'a'})", True),
    ],
)
def test_the_judge_is_loaded_with_the_first_dialect_that_needs_it(code, loaded):
    run = [sys.executable, "-c", f"{code}; import sys; sys.exit('jsonschema' in sys.modules)"]
    assert bool(subprocess.run(run, check=False).returncode) is loaded
