"""NAT's HTTP routes: which is answered how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mockagent.agent import Agent
from mockagent.answers import ClientLeft, answer_html, answer_json
from mockagent.bodies import Invalid
from mockagent.consents import AUTHORIZE, REDIRECT
from mockagent.execution_routes import ExecutionRoutes
from mockagent.intake import consider, read_request
from mockagent.jobs import JobRoutes
from mockagent.oauth_routes import TOKEN, OAuthRoutes
from mockagent.openapi import DOCS, Operation, describe
from mockagent.requests import (
    ChatRequest,
    InteractionResponseRequest,
    job_schema,
    workflow_schema,
)
from mockagent.singles import NO_CALLBACK, SingleRoute
from mockagent.sse_stage import Shape, Steps
from mockagent.stage import Form
from mockagent.streams import StreamRoute

Handler = Callable[[Request], Awaitable[Response]]

_CHAT_STREAMS = {
    "/v1/chat/stream": Shape(interactive=True),
    "/chat/stream": Shape(interactive=False, done=True),
}
_WORKFLOW_STREAMS = {
    "/v1/workflow/stream": Shape(interactive=True, values=True),
    "/v1/workflow/full": Shape(interactive=True, values=True, steps=Steps.RAW),
    "/v1/workflow/atif": Shape(interactive=False, steps=Steps.ATIF),
    "/generate/stream": Shape(interactive=False, values=True),
    "/generate/full": Shape(interactive=False, values=True, steps=Steps.RAW),
}
_SINGLES = {
    "/v1/workflow": (Form.WHOLE_VALUE, True),
    "/v1/chat": (Form.WHOLE_CHAT, True),
    "/generate": (Form.WHOLE_VALUE, False),
    "/chat": (Form.WHOLE_CHAT, False),
}
_COMPLETIONS = "/v1/chat/completions"
_EXECUTION = "/executions/{execution_id}"
_RESPONSE = "/executions/{execution_id}/interactions/{interaction_id}/response"
_JOBS = ("/v1/workflow/async", "/generate/async")


class Completions:
    """The ASGI endpoint of OpenAI's chat completions: ``stream`` in the body chooses."""

    def __init__(self, agent: Agent) -> None:
        interactive = agent.settings.interactive_completions
        shape = Shape(interactive=interactive, done=not interactive)
        self._agent = agent
        self._stream = StreamRoute(agent, ChatRequest, shape)
        self._single = SingleRoute(agent, ChatRequest, Form.WHOLE_CHAT, interactive, NO_CALLBACK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_request(scope, receive, ChatRequest)
        except ClientLeft:
            return
        except Invalid as invalid:
            await answer_json({"detail": invalid.detail}, 422)(scope, receive, send)
            return
        asked = consider(self._agent, scope, body, "sse" if body.stream else "http")
        if isinstance(asked, Response):
            await asked(scope, receive, send)
        else:
            route = self._stream if body.stream else self._single
            await route.answer(asked, scope, receive, send)


def nat_routes(agent: Agent) -> Iterator[BaseRoute]:
    """All routes of the toolkit's HTTP front end, and those of the bundled OAuth provider."""
    legacy = agent.settings.legacy_routes
    workflow = workflow_schema(agent.settings.workflow_input)
    job = job_schema(agent.settings.workflow_input)
    operations: list[Operation] = []

    def route(
        path: str,
        endpoint: Handler | ASGIApp,
        method: str = "POST",
        body: type[BaseModel] | None = None,
        answers: tuple[int, ...] = (200,),
        query: tuple[str, ...] = (),
    ) -> Route:
        operations.append(Operation(path, method, _summary(path), body, answers, query))
        return plain_route(path, endpoint, method)

    for path, shape in (_CHAT_STREAMS | _WORKFLOW_STREAMS).items():
        if legacy or path.startswith("/v1/"):
            schema = ChatRequest if path in _CHAT_STREAMS else workflow
            query = ("filter_steps",) if shape.steps is Steps.RAW else ()
            stream = StreamRoute(agent, schema, shape)
            yield route(path, stream, body=schema, answers=(200, 500), query=query)
    for path, (form, interactive) in _SINGLES.items():
        if legacy or path.startswith("/v1/"):
            schema = ChatRequest if form is Form.WHOLE_CHAT else workflow
            single = SingleRoute(agent, schema, form, interactive)
            yield route(path, single, body=schema, answers=(200, 202, 500))
    completions = Completions(agent)
    yield route(_COMPLETIONS, completions, body=ChatRequest, answers=(200, 202, 500))

    jobs = JobRoutes(agent, job, agent.settings.job_slots)
    for path in _JOBS if legacy else _JOBS[:1]:
        yield route(path, jobs.start, body=job, answers=(200, 202, 500))
        yield route(f"{path}/job/{{job_id}}", jobs.status, "GET", answers=(200, 404, 500))
    executions = ExecutionRoutes(agent.executions, agent.settings.edition)
    yield route(_EXECUTION, executions.status, "GET", answers=(200, 404))
    reply = InteractionResponseRequest
    yield route(_RESPONSE, executions.respond, body=reply, answers=(200, 204, 400, 404))
    oauth = OAuthRoutes(agent.consents)
    yield route(REDIRECT, oauth.redirect, "GET")
    yield route("/health", _health, "GET")
    if agent.settings.per_user:
        yield route("/monitor/users", _monitor(agent), "GET", query=("user_id",))
    yield plain_route(AUTHORIZE, oauth.authorize, "GET")
    yield plain_route(TOKEN, oauth.token, "POST")
    yield plain_route("/openapi.json", _constant(answer_json(describe(operations))), "GET")
    yield plain_route("/docs", _constant(answer_html(DOCS)), "GET")


def plain_route(path: str, endpoint: Handler | ASGIApp, method: str) -> Route:
    """A route for one method: FastAPI, unlike Starlette, does not add HEAD to GET."""
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}
    return route


async def _health(request: Request) -> Response:
    return answer_json({"status": "healthy"})


def _monitor(agent: Agent) -> Handler:
    async def usage(request: Request) -> Response:
        return answer_json(agent.users.usage(request.query_params.get("user_id")))

    return usage


def _constant(response: Response) -> Handler:
    async def answer(request: Request) -> Response:
        return response

    return answer


def _summary(path: str) -> str:
    return path.strip("/").replace("/", " ").title()
