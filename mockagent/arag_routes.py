"""The routes of Progress Agentic RAG: which path is answered how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from mockagent.agent import Agent
from mockagent.arag_http import ONE_SHOTS, AragLines
from mockagent.arag_oauth import AGENT_CALLBACK, FIXED_CALLBACK
from mockagent.arag_tokens import PATHS, TokenRoute, with_key
from mockagent.arag_turns import Arag
from mockagent.arag_ws import SOCKETS, AragSocket

Handler = Callable[[Request], Awaitable[Response]]
_SESSIONS = "/api/v1/agent/{agent}/sessions"
_SESSION = "/api/v1/agent/{agent}/session/{session}"


def arag_routes(agent: Agent) -> list[BaseRoute]:
    """All routes of this family, for ``agent``."""
    arag = Arag(agent)
    sessions, oauth = arag.sessions, arag.oauth
    handlers: list[tuple[str, str, Handler]] = [
        (AGENT_CALLBACK, "GET", oauth.agent_callback),
        (FIXED_CALLBACK, "GET", oauth.fixed_callback),
        (_SESSIONS, "POST", with_key(agent, sessions.create)),
        (_SESSIONS, "GET", with_key(agent, sessions.list)),
        (_SESSION, "GET", with_key(agent, sessions.get)),
        (_SESSION, "PATCH", with_key(agent, sessions.patch)),
        (_SESSION, "DELETE", with_key(agent, sessions.delete)),
    ]
    token = TokenRoute(agent, arag.tokens)
    routes: list[BaseRoute] = [_route(path, token.serve, "POST") for path in PATHS]
    routes += [_route(path, AragLines(arag), "POST") for path in ONE_SHOTS]
    routes += [WebSocketRoute(path, AragSocket(arag)) for path in SOCKETS]
    return routes + [_route(path, handler, method) for path, method, handler in handlers]


def _route(path: str, endpoint: Handler | ASGIApp, method: str) -> Route:
    """A route for one method: FastAPI, unlike Starlette, does not add HEAD to GET."""
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}
    return route
