"""A question over HTTP as it comes in: read, understood, its caller known; or refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope

from loadgen.clock import now_ns
from mockagent.agent import Agent
from mockagent.answers import answer_html, answer_json, read_body
from mockagent.bodies import Body, Invalid, read_json, validated
from mockagent.faults import Faults
from mockagent.identity import IdentityError
from mockagent.payloads import Request
from mockagent.requests import AgentFields, ChatRequest
from mockagent.script import Script
from mockagent.truth import Outcome, TurnTruth
from mockagent.workflow import WorkflowFailure

_LOGIN_WALL = "<!doctype html><title>Sign in</title><h1>Please sign in to continue</h1>"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that may be answered, or a request whose run is bound to fail; ``nobody`` is why
    its caller is unknown.
    """

    body: BaseModel
    question: str | WorkflowFailure
    script: Script
    faults: Faults
    truth: TurnTruth
    conversation: str | None
    user: str | None
    nobody: IdentityError | None

    @property
    def given(self) -> Request:
        """The request as steps quote it."""
        return Request(self.body)


async def read_request(scope: Scope, receive: Receive, schema: type[Body]) -> Body:
    """The body of a request.

    Raises:
        ClientLeft: it never came.
        Invalid: it is not ``schema``.
    """
    body = await read_body(receive)
    content_type = header(scope, b"content-type") or ""
    return validated(schema, read_json(body, content_type))


async def take_in(
    agent: Agent, scope: Scope, receive: Receive, schema: type[BaseModel], transport: str
) -> Asked | Response:
    """The question of a request, or the answer that refuses it.

    Raises:
        ClientLeft: the client left before its request was complete.
    """
    try:
        body = await read_request(scope, receive, schema)
    except Invalid as invalid:
        return answer_json({"detail": invalid.detail}, 422)
    return consider(agent, scope, body, transport)


def consider(agent: Agent, scope: Scope, body: BaseModel, transport: str) -> Asked | Response:
    """The question in a valid body, or the answer that refuses it."""
    conversation = header(scope, b"conversation-id")
    truth = agent.truth.begin(
        header(scope, b"user-message-id"), conversation, transport, scope["path"], now_ns()
    )
    question = question_of(body, agent.settings.workflow_input)
    script, faults = agent.plan(question) if isinstance(question, str) else (Script(), Faults())
    truth.tag = script.tag
    nobody: IdentityError | None = None
    user: str | None = None
    try:
        user = agent.identities.from_request(scope["headers"])
        agent.users.admit(user)
    except IdentityError as error:
        nobody = error
    refusal = _refusal(agent, user, nobody, faults)
    if refusal is not None:
        agent.truth.end(truth, Outcome.REFUSED)
        return refusal
    return Asked(body, question, script, faults, truth, conversation, user, nobody)


def question_of(body: BaseModel, parameter: str | None) -> str | WorkflowFailure:
    """The question as the scripted workflow reads it: its one ``parameter``, or the text of the
    last message; the failure when there is no message, or ``input_message`` beside them: the agent
    takes either of the two, and NAT fails in the conversion of a chat request that has both.
    """
    if parameter is None and isinstance(body, ChatRequest) and _beside_messages(body) is not None:
        return WorkflowFailure("TypeError", "")
    if isinstance(body, AgentFields) and body.input_message is not None:
        return body.input_message
    if not isinstance(body, ChatRequest | AgentFields):
        return str(getattr(body, parameter or ""))
    if not body.messages:
        return WorkflowFailure("IndexError", "list index out of range")
    content = body.messages[-1].content
    if isinstance(content, str):
        return content
    return " ".join(str(getattr(part, "text", "")) for part in content or [])


def _beside_messages(body: ChatRequest) -> Any:
    """What ``input_message`` is in a request that should have messages only."""
    return (body.model_extra or {}).get("input_message")


def header(scope: Scope, name: bytes) -> str | None:
    """A request header; the first of several counts."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    found = next((value for key, value in headers if key == name), None)
    return None if found is None else found.decode("latin-1")


def _refusal(
    agent: Agent, user: str | None, nobody: IdentityError | None, faults: Faults
) -> Response | None:
    """The answer to a request that is not even tried; only this mock gives it."""
    if agent.settings.require_auth and user is None:
        return answer_json({"detail": str(nobody or "Not authenticated")}, 401)
    if 400 <= faults.status <= 599:
        detail: Any = {"detail": f"scripted status {faults.status}"}
        response = answer_json(detail, faults.status)
        if faults.status in (429, 503):
            response.headers["retry-after"] = str(faults.retry_after)
        return response
    return answer_html(_LOGIN_WALL) if faults.html else None
