"""HTTP answers as NAT's server gives them: JSON, refusals, a request's body."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive

from mockagent.identity import HeaderMissing, IdentityError

VARY = (b"vary", b"Origin")
"""NAT's CORS middleware puts it on everything but a crash."""


class ClientLeft(Exception):
    """The client left before its request was complete."""


def answer_json(value: Any, status: int = 200) -> Response:
    """A JSON answer."""
    response = Response(orjson.dumps(value), status, media_type="application/json")
    response.raw_headers.append(VARY)
    return response


def answer_twice_typed(value: Any, status: int = 200, trace: str | None = None) -> Response:
    """A JSON answer of a single-answer route: its content type is there twice."""
    response = answer_json(value, status)
    response.raw_headers.append((b"content-type", b"application/json"))
    if trace is not None:
        response.raw_headers.append((b"observability-trace-id", trace.encode()))
    return response


def answer_failed(message: str, details: str) -> Response:
    """A failed run on a single-answer route; it has no trace id even where there is one."""
    return answer_json({"code": "workflow_error", "message": message, "details": details}, 422)


def answer_html(page: str, status: int = 200) -> Response:
    """A page."""
    response = Response(page, status, media_type="text/html")
    response.raw_headers.append(VARY)
    return response


def answer_empty() -> Response:
    """204, without a body."""
    response = Response(status_code=204)
    response.raw_headers.append(VARY)
    return response


def answer_nobody(nobody: IdentityError) -> Response:
    """A route that does not survive a caller without identity: only a missing trusted header is a
    refusal, everything else a crash.
    """
    if isinstance(nobody, HeaderMissing):
        return answer_json({"detail": str(nobody)}, 401)
    return PlainTextResponse("Internal Server Error", 500)


async def read_body(receive: Receive) -> bytes:
    """The body of a request.

    Raises:
        ClientLeft: it never came.
    """
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        body += bytes(message.get("body", b""))
        if not message.get("more_body", False):
            return body
