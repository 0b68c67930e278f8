"""The mock's routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from mockagent.agent import Agent
from mockagent.nat_http import ChatStream, ExecutionRoutes, answer_json
from mockagent.nat_ws import ROUTE, ChatSocket

Handler = Callable[[Request], Awaitable[Response]]


def build_app(agent: Agent) -> Starlette:
    """The ASGI application of ``agent``."""
    return Starlette(
        routes=[*_nat_routes(agent), *_truth_routes(agent)],
        exception_handlers={HTTPException: _refuse},
    )


def _nat_routes(agent: Agent) -> list[BaseRoute]:
    executions = ExecutionRoutes(agent.executions)
    return [
        _route("/v1/chat/stream", ChatStream(agent, "/v1/chat/stream", interactive=True), "POST"),
        _route("/chat/stream", ChatStream(agent, "/chat/stream", interactive=False), "POST"),
        _route("/executions/{execution}", executions.status, "GET"),
        _route(
            "/executions/{execution}/interactions/{interaction}/response",
            executions.respond,
            "POST",
        ),
        _route("/health", _health, "GET"),
        WebSocketRoute(ROUTE, ChatSocket(agent)),
    ]


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
        slots = {"total": agent.slots.total, "held": agent.slots.held}
        slots |= {"waiting": agent.slots.waiting}
        counts = agent.truth.summary()
        return answer_json(counts | {"connections": agent.connections(), "slots": slots})

    return [
        _route("/_truth", turns, "GET"),
        _route("/_truth/sockets", sockets, "GET"),
        _route("/_truth/summary", summary, "GET"),
    ]


def _route(path: str, endpoint: Handler | ASGIApp, method: str) -> Route:
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}  # FastAPI, unlike Starlette, does not add HEAD to GET
    return route


async def _health(request: Request) -> Response:
    return answer_json({"status": "healthy"})


async def _refuse(request: Request, error: Exception) -> Response:
    """404 and 405 as FastAPI words them."""
    assert isinstance(error, HTTPException)
    response = answer_json({"detail": error.detail}, error.status_code)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _json_lines(lines: Iterable[bytes]) -> Response:
    return Response(b"".join(lines), media_type="application/x-ndjson")
