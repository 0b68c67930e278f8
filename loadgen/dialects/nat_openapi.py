"""What a NAT server's ``/openapi.json`` says of a workflow route: the parameter it takes.

An agent's schema has ``input_message``; a function's is made from its own parameters (protocols,
NAT section 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loadgen.dialects.contract import Options
from loadgen.dialects.nat import Json
from loadgen.dialects.nat_http import INPUT, MESSAGES


def workflow_input(openapi: Json, route: str) -> str | None:
    """The input parameter of ``route``, as the option ``input`` takes it; None if it cannot be
    told.

    ``openapi`` may be any JSON object.  The document leaves a proxy's prefix out of its paths.
    """
    for schema in _objects(openapi, _body(openapi, route)):
        properties = _dict(schema.get("properties"))
        if INPUT in properties:
            return INPUT
        required = schema.get("required")
        needed = required if type(required) is list else []
        if MESSAGES in needed and _holds_messages(openapi, properties.get(MESSAGES)):
            return MESSAGES
        texts = [name for name, one in properties.items() if _is_text(one)]
        for names in ([name for name in texts if name in needed], texts):
            if len(names) == 1:
                return names[0]
    return None


def needs_input(dialect: str, route: str | None, options: Options) -> bool:
    """Whether the dialect called ``dialect`` sends a workflow's input on ``route`` and nobody has
    named its parameter.
    """
    parts = (route or "").partition("?")[0].split("/")
    speaks = dialect in ("nat-sse", "nat-poll") and "input" not in options
    return speaks and ("workflow" in parts or "generate" in parts)


def _body(openapi: Json, route: str) -> Any:
    """The schema of the route's JSON body."""
    path = route.partition("?")[0]
    paths = _dict(openapi.get("paths"))
    served = [one for one in paths if one and path.endswith(one)]
    if not served:
        return None
    post = _dict(_dict(paths[max(served, key=len)]).get("post"))
    content = _dict(_dict(post.get("requestBody")).get("content"))
    return _dict(content.get("application/json")).get("schema")


def _objects(openapi: Json, schema: Any) -> Iterator[Json]:
    """The object schemas that ``schema`` is, refers to or chooses from, outermost first."""
    waiting, seen = [schema], set()
    while waiting:
        one = _dict(waiting.pop())
        if "properties" in one:
            yield one
        for choices in (one.get("allOf"), one.get("oneOf"), one.get("anyOf")):
            waiting += reversed(choices) if type(choices) is list else ()
        reference = one.get("$ref")
        if type(reference) is str and reference not in seen:
            seen.add(reference)
            waiting.append(_referred(openapi, reference))


def _referred(openapi: Json, reference: str) -> Any:
    """What a reference within the document (RFC 6901) points to."""
    if not reference.startswith("#/"):
        return None
    place: Any = openapi
    for name in reference[2:].split("/"):
        place = _dict(place).get(name.replace("~1", "/").replace("~0", "~"))
    return place


def _is_text(schema: Any) -> bool:
    """Whether a property takes a string, perhaps among others."""
    schema = _dict(schema)
    kinds = schema.get("type")
    if kinds == "string" or (type(kinds) is list and "string" in kinds):
        return True
    choices = schema.get("anyOf")
    return type(choices) is list and any(_dict(one).get("type") == "string" for one in choices)


def _holds_messages(openapi: Json, schema: Any) -> bool:
    """Whether a property is a list of ``{role, content}``."""
    items = _objects(openapi, _dict(schema).get("items"))
    return any({"role", "content"} <= _dict(item["properties"]).keys() for item in items)


def _dict(value: Any) -> Json:
    return value if type(value) is dict else {}
