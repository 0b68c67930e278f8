"""The mock's routes."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute

from mockagent.agent import Agent
from mockagent.answers import answer_json
from mockagent.arag_routes import arag_routes
from mockagent.nat_routes import nat_routes, plain_route
from mockagent.nat_ws import ROUTE, ChatSocket
from mockagent.truth import resident_bytes


def build_app(agent: Agent) -> Starlette:
    """The ASGI application of ``agent``."""
    socket = WebSocketRoute(ROUTE, ChatSocket(agent))
    return Starlette(
        routes=[*nat_routes(agent), socket, *arag_routes(agent), *_truth_routes(agent)],
        exception_handlers={HTTPException: _refuse},
    )


def _truth_routes(agent: Agent) -> list[BaseRoute]:
    async def turns(request: Request) -> Response:
        since = request.query_params.get("since", "0")
        if not since.isdecimal():
            return answer_json({"detail": f"since must be a whole number, got {since!r}"}, 422)
        running = request.query_params.get("running") == "1"
        return _json_lines(agent.truth.lines(int(since), running))

    async def sockets(request: Request) -> Response:
        return _json_lines(agent.truth.sockets())

    async def summary(request: Request) -> Response:
        more = {
            "connections": agent.connections(),
            "slots": agent.users.slots(),
            "rss": resident_bytes(),
        }
        return answer_json(agent.truth.summary() | more)

    async def control(request: Request) -> Response:
        return await agent.control(request)

    return [
        plain_route("/_control", control, "POST"),
        plain_route("/_truth", turns, "GET"),
        plain_route("/_truth/sockets", sockets, "GET"),
        plain_route("/_truth/summary", summary, "GET"),
    ]


async def _refuse(request: Request, error: Exception) -> Response:
    """404 and 405 as FastAPI words them."""
    assert isinstance(error, HTTPException)
    response = answer_json({"detail": error.detail}, error.status_code)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _json_lines(lines: Iterable[bytes]) -> Response:
    return Response(b"".join(lines), media_type="application/x-ndjson")
