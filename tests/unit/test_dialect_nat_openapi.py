"""The input parameter of a workflow, found in ``/openapi.json``.

``openapi_agent.json`` is of a real server (NeMo Agent Toolkit 1.9.0) whose workflow is an agent,
``openapi_function.json`` of one that serves a plain function behind a proxy; both without the
schemas of answers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.dialects.nat_openapi import needs_input, workflow_input

WORKFLOWS = [
    "/v1/workflow", "/v1/workflow/stream", "/v1/workflow/full", "/generate", "/generate/stream",
    "/generate/full",
]  # fmt: skip


def recorded(name):
    return json.loads((Path(__file__).parent / f"openapi_{name}.json").read_text())


def document(schema, route="/generate", **schemas):
    body = {"content": {"application/json": {"schema": schema}}}
    return {"paths": {route: {"post": {"requestBody": body}}}, "components": {"schemas": schemas}}


@pytest.mark.parametrize("route", WORKFLOWS)
@pytest.mark.parametrize("prefix", ["", "/agents"])
def test_a_real_agent_takes_its_input_message_and_a_real_function_its_own_parameter(route, prefix):
    assert workflow_input(recorded("agent"), prefix + route) == "input_message"
    assert workflow_input(recorded("function"), prefix + route) == "query"


@pytest.mark.parametrize("route", ["/v1/chat", "/v1/chat/stream", "/chat", "/v1/chat/completions"])
def test_a_real_chat_route_takes_messages(route):
    assert workflow_input(recorded("agent"), route) == "messages"


@pytest.mark.parametrize("route", ["/v1/nothing", "/health", "/executions/e", "", "?"])
def test_a_route_that_is_not_there_or_takes_nothing_tells_nothing(route):
    assert workflow_input(recorded("agent"), route) is None


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
MAYBE = {"anyOf": [{"type": "string"}, {"type": "null"}]}
TALK = {"type": "array", "items": {"properties": {"role": TEXT, "content": TEXT}}}


@pytest.mark.parametrize(
    ("properties", "required", "name"),
    [
        ({"query": TEXT}, ["query"], "query"),
        ({"query": TEXT}, None, "query"),
        ({"query": MAYBE}, [], "query"),
        ({"query": {"type": ["string", "null"]}}, [], "query"),
        ({"query": TEXT, "top_k": NUMBER}, ["query", "top_k"], "query"),
        ({"query": TEXT, "language": TEXT}, ["query"], "query"),
        ({"query": TEXT, "language": TEXT, "input_message": MAYBE}, ["query"], "input_message"),
        ({"query": TEXT, "language": TEXT}, ["query", "language"], None),
        ({"query": TEXT, "language": TEXT}, [], None),
        ({"top_k": NUMBER}, ["top_k"], None),
        ({}, [], None),
        ({"messages": TALK, "model": TEXT}, ["messages"], "messages"),
        ({"messages": TALK, "model": TEXT}, [], "model"),
        ({"messages": {"type": "array", "items": TEXT}, "to": TEXT}, ["messages"], "to"),
    ],
)
def test_the_one_text_that_a_workflow_takes_is_its_input(properties, required, name):
    schema = {"type": "object", "properties": properties, "required": required}
    assert workflow_input(document(schema), "/generate") == name
    there = document({"$ref": "#/components/schemas/In"}, In=schema)
    assert workflow_input(there, "/generate") == name
    choice = document({"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/In"}]}, In=schema)
    assert workflow_input(choice, "/generate") == name


def test_a_reference_with_escapes_is_followed():
    there = document({"$ref": "#/components/schemas/a~1b~0c"})
    there["components"]["schemas"]["a/b~c"] = {"properties": {"query": TEXT}}
    assert workflow_input(there, "/generate") == "query"


@pytest.mark.parametrize(
    "reference", ["#/components/schemas/In", "#/components/schemas/No", "http://a.test/b", 7, None]
)
def test_a_reference_may_lead_nowhere_or_in_a_circle(reference):
    circle = {"anyOf": [{"$ref": "#/components/schemas/In"}] * 50}
    assert workflow_input(document({"$ref": reference}, In=circle), "/generate") is None


@pytest.mark.parametrize(
    ("dialect", "route", "options", "needed"),
    [
        *(("nat-sse", route, {}, True) for route in WORKFLOWS if route.count("/") > 1),
        ("nat-poll", "/agents/v1/workflow?a=b", {}, True),
        ("nat-poll", "/generate", {"poll_s": 1}, True),
        ("nat-poll", "/generate", {"input": "query"}, False),
        ("nat-poll", "/v1/chat", {}, False),
        ("nat-sse", "/v1/chat/stream", {}, False),
        ("nat-sse", None, {}, False),
        ("nat-ws", "/generate", {}, False),
    ],
)
def test_only_a_workflow_route_whose_input_nobody_named_needs_one(dialect, route, options, needed):
    assert needs_input(dialect, route, options) == needed


def test_the_longest_path_is_the_route():
    there = document({"properties": {"query": TEXT}}, "/stream")
    there["paths"] |= document({"properties": {"ask": TEXT}}, "/v1/stream")["paths"]
    assert workflow_input(there, "/p/v1/stream") == "ask"


ANY = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["string", "#/components/schemas/In", "query"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["paths", "/generate", "post", "requestBody", "content", "application/json", "schema",
             "$ref", "anyOf", "oneOf", "allOf", "properties", "required", "type", "items",
             "messages", "components", "schemas", "In"]
        ),
        inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["paths", "components", "x"]), ANY), ANY)
def test_any_document_is_read_without_an_error(there, schema):
    for one in (there, document(schema, In=schema)):
        found = workflow_input(one, "/generate")
        assert found is None or type(found) is str
