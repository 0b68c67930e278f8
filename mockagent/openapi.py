"""``/openapi.json`` and ``/docs``: FastAPI's description of the routes and of what they take.

Request bodies are complete, so that a client finds the workflow's parameter; answers are named by
their status only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

_REF = "#/components/schemas/{model}"
_MEANING = {
    200: "Successful Response",
    202: "Accepted",
    204: "Response accepted",
    400: "Interaction already resolved",
    404: "Not found",
    422: "Validation Error",
    500: "Internal Server Error",
}
_PROBLEM = {
    "HTTPValidationError": {
        "properties": {
            "detail": {"items": {"$ref": "#/components/schemas/ValidationError"}, "type": "array"}
        },
        "type": "object",
        "title": "HTTPValidationError",
    },
    "ValidationError": {
        "properties": {
            "loc": {"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "type": "array"},
            "msg": {"type": "string"},
            "type": {"type": "string"},
            "input": {},
            "ctx": {"type": "object"},
        },
        "type": "object",
        "required": ["loc", "msg", "type"],
        "title": "ValidationError",
    },
}

DOCS = """
    <!DOCTYPE html>
    <html>
    <head>
    <meta name="viewport" content="width=device-width, initial-scale=1.0">
    <title>FastAPI - Swagger UI</title>
    </head>
    <body>
    <div id="swagger-ui">See <a href="/openapi.json">/openapi.json</a>.</div>
    </body>
    </html>
    """


@dataclass(frozen=True, slots=True)
class Operation:
    """One route: its path parameters are in the path, ``query`` names optional ones."""

    path: str
    method: str
    summary: str
    body: type[BaseModel] | None = None
    answers: tuple[int, ...] = (200,)
    query: tuple[str, ...] = ()


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """The OpenAPI document of the routes."""
    listed = list(operations)
    bodies = {operation.body for operation in listed if operation.body is not None}
    models = sorted(bodies, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in listed:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _entry(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "FastAPI", "version": "0.1.0"},
        "paths": paths,
        "components": {"schemas": dict(sorted((schemas["$defs"] | _PROBLEM).items()))},
    }


def _entry(operation: Operation) -> Mapping[str, Any]:
    entry: dict[str, Any] = {"summary": operation.summary, "operationId": _operation_id(operation)}
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in operation.path.split("/")
        if part.startswith("{")
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": {"type": ["string", "null"]}}
        for name in operation.query
    ]
    if parameters:
        entry["parameters"] = parameters
    answers = set(operation.answers) | ({422} if parameters or operation.body else set())
    if operation.body is not None:
        schema = {"$ref": _REF.format(model=operation.body.__name__)}
        content = {"application/json": {"schema": schema}}
        entry["requestBody"] = {"required": True, "content": content}
    entry["responses"] = {str(status): _answer(status) for status in sorted(answers)}
    return entry


def _answer(status: int) -> Mapping[str, Any]:
    answer: dict[str, Any] = {"description": _MEANING[status]}
    if status == 422:
        schema = {"$ref": _REF.format(model="HTTPValidationError")}
        answer["content"] = {"application/json": {"schema": schema}}
    return answer


def _operation_id(operation: Operation) -> str:
    words = f"{operation.summary} {operation.path} {operation.method}".lower()
    return "".join(letter if letter.isalnum() else "_" for letter in words)
