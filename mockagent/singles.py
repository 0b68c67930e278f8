"""Questions over HTTP that are answered in one piece: at once, or by polling an execution."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mockagent.agent import Agent
from mockagent.answers import ClientLeft, answer_failed, answer_nobody, answer_twice_typed
from mockagent.consents import Flow
from mockagent.executions import Execution, Executions
from mockagent.faults import Break
from mockagent.intake import Asked, take_in
from mockagent.payloads import Written, response_value
from mockagent.performance import Performance
from mockagent.sse_stage import NO_PROMPTS
from mockagent.stage import Form, Part
from mockagent.truth import Outcome
from mockagent.workflow import Event, WorkflowFailure

NO_FLOW = (
    "Authentication callback failed: Authentication method 'oauth2_auth_code_flow' is not supported"
    " by the HTTP frontend. Do you have WebSockets enabled or HTTP interactive mode active?"
)
NO_CALLBACK = "Authentication callback not set on Context."
_HALF = (
    {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"1024")],
    },
    {"type": "http.response.body", "body": b"{", "more_body": True},
)


class SingleStage:
    """A turn that shows nothing but its end, and its prompts through an execution.

    ``executions`` None: nobody can be prompted, and ``no_consent`` is the error of whoever needs a
    token.
    """

    websocket = False

    def __init__(
        self,
        form: Form,
        execution: Execution,
        executions: Executions | None,
        no_consent: str = NO_FLOW,
    ) -> None:
        self.failure: WorkflowFailure | None = None
        self.trace_id: str | None = None
        self._form = form
        self._execution = execution
        self._executions = executions
        self._no_consent = no_consent
        self._answer = ""
        self._result: Any = None

    def step(self, event: Event) -> None:
        return None

    def chunk(self, written: Written) -> str:
        value = {"value": written.text}
        self._result = response_value(written) if self._form is Form.WHOLE_CHAT else value
        return written.text

    def role(self) -> None:
        return None

    def trace(self, trace: str) -> None:
        self.trace_id = trace

    def inband_error(self) -> Sequence[str]:
        return ()

    def failed(self, failure: WorkflowFailure) -> Sequence[str]:
        self.failure = failure
        return ()

    def completed(self, chunks: int) -> Sequence[str]:
        return ()

    def ask(self, kind: str, prompt: dict[str, Any]) -> tuple[str, asyncio.Future[str] | None]:
        if self._executions is None:
            raise NO_PROMPTS
        answer = None if kind == "notification" else self._executions.ask(self._execution, prompt)
        return kind, answer

    def asked(self) -> None:
        """Whether the prompt is over is the store's business."""

    def consent(self, flow: Flow) -> str:
        if self._executions is None:
            raise WorkflowFailure("RuntimeError", self._no_consent)
        self._executions.consent(self._execution, flow)
        return flow.url

    def consented(self) -> None:
        self._execution.flow = None

    async def send(self, frames: Sequence[str]) -> None:
        """The route, or its poller, takes what there is from the execution."""

    async def end(self) -> None:
        if self.failure is not None:
            self._execution.failed(str(self.failure))
        else:
            self._execution.completed(self._result)

    async def break_off(self, how: Break) -> None:
        if how is Break.STALL:
            await asyncio.Event().wait()
        self._execution.cut = True


class SingleRoute:
    """The ASGI endpoint of an answer in one piece.

    On ``interactive`` routes the first thing that the run wants of its human makes the answer 202,
    and the rest is polled.  A client that leaves does not end its run.
    """

    def __init__(
        self,
        agent: Agent,
        schema: type[BaseModel],
        form: Form,
        interactive: bool,
        no_consent: str = NO_FLOW,
    ) -> None:
        self._agent = agent
        self._schema = schema
        self._form = form
        self._interactive = interactive
        self._no_consent = no_consent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            asked = await take_in(self._agent, scope, receive, self._schema, "http")
        except ClientLeft:
            return
        if isinstance(asked, Response):
            await asked(scope, receive, send)
        else:
            await self.answer(asked, scope, receive, send)

    async def answer(self, asked: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question."""
        if asked.nobody is not None:
            if self._interactive:
                response = answer_failed(str(asked.nobody), "ExecutionFailed")
            else:
                response = answer_nobody(asked.nobody)
            await response(scope, receive, send)
            self._agent.truth.end(asked.truth, Outcome.REFUSED)
            return
        execution = Execution()
        executions = self._agent.executions if self._interactive else None
        stage = SingleStage(self._form, execution, executions, self._no_consent)
        self._agent.spawn(run_single(self._agent, asked, stage, execution, self._form))
        await execution.told.wait()
        if execution.cut:
            for message in _HALF:
                await send(message)
            return
        await self._response(execution, stage)(scope, receive, send)

    def _response(self, execution: Execution, stage: SingleStage) -> Response:
        if stage.failure is not None and self._interactive:
            return answer_failed(str(stage.failure) or "Unknown error", "ExecutionFailed")
        if stage.failure is not None:
            return answer_failed(str(stage.failure), stage.failure.kind)
        status = execution.status()
        if status["status"] == "completed":
            trace = None if self._interactive else stage.trace_id
            return answer_twice_typed(execution.result, trace=trace)
        where = {"execution_id": execution.id, "status_url": f"/executions/{execution.id}"}
        return answer_twice_typed(where | status, 202)


async def run_single(
    agent: Agent, asked: Asked, stage: SingleStage, execution: Execution, form: Form
) -> None:
    """Run a turn whose only trace is its execution."""
    part = Part(asked.question, asked.given, asked.script, asked.faults, form, asked.user)
    outcome = Outcome.STOPPED
    try:
        with agent.users.session(asked.user) as session:
            async with session.slots:
                outcome = await Performance(agent, part, stage, asked.truth).run()
            session.failed = outcome is Outcome.FAILED
    finally:
        agent.truth.end(asked.truth, outcome)
        execution.told.set()
