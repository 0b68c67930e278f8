"""Request bodies read and validated, or refused as FastAPI refuses them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

Body = TypeVar("Body", bound=BaseModel)


class Invalid(ValueError):
    """A body that is refused with 422; ``detail`` is FastAPI's list."""

    def __init__(self, *detail: dict[str, Any]) -> None:
        super().__init__(detail)
        self.detail = list(detail)


def read_json(body: bytes, content_type: str) -> Any:
    """The value of a JSON body.

    Raises:
        Invalid: it is empty or no JSON.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if not body:
        raise Invalid(_problem("missing", (), "Field required", None))
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        return body.decode("utf-8", "replace")
    try:
        return orjson.loads(body)
    except ValueError:
        pass
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        position, reason = error.pos, error.msg
    except ValueError:
        position, reason = 0, "not UTF-8"
    problem = _problem("json_invalid", (position,), "JSON decode error", {})
    raise Invalid(problem | {"ctx": {"error": reason}})


def validated(schema: type[Body], value: Any) -> Body:
    """``value`` as ``schema``.

    Raises:
        Invalid: it does not fit; worded as FastAPI words it.
    """
    try:
        return schema.model_validate(value, from_attributes=True)
    except ValidationError as error:
        raise Invalid(*(_worded(dict(item)) for item in error.errors(include_url=False))) from None


def _worded(item: dict[str, Any]) -> dict[str, Any]:
    problem = _problem(item["type"], item["loc"], item["msg"], item["input"])
    if "ctx" in item:
        context = item["ctx"]
        problem["ctx"] = {k: {} if isinstance(v, Exception) else v for k, v in context.items()}
    return problem


def _problem(kind: str, where: tuple[Any, ...], message: str, given: Any) -> dict[str, Any]:
    return {"type": kind, "loc": ("body", *where), "msg": message, "input": given}
