"""NAT's chat streams over HTTP, and the routes for answering their prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from loadgen.clock import NS_PER_MS, NS_PER_S, now_ns, wall_ns
from mockagent import frames, nat_schema, payloads
from mockagent.agent import Agent
from mockagent.deadlines import Deadlines
from mockagent.executions import Execution, Executions, Resolved, Unknown
from mockagent.faults import Break, Faults
from mockagent.identity import IdentityError, from_connection
from mockagent.ids import new_id
from mockagent.payloads import Written
from mockagent.performance import Performance
from mockagent.script import Script
from mockagent.stage import Part
from mockagent.truth import Outcome, TurnTruth
from mockagent.workflow import Step, WorkflowFailure

VARY = (b"vary", b"Origin")
_STREAM_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8"), VARY],
}
_LOGIN_WALL = "<!doctype html><title>Sign in</title><h1>Please sign in to continue</h1>"


class ClientLeft(Exception):
    """The client left before its request was complete."""


def answer_json(value: Any, status: int = 200) -> Response:
    """A JSON answer as NAT's server gives it."""
    response = Response(orjson.dumps(value), status, media_type="application/json")
    response.raw_headers.append(VARY)
    return response


class ChatStream:
    """The ASGI endpoint of a chat stream.

    ``interactive`` is NAT's word for the routes that can prompt; the others end with ``[DONE]`` and
    show a failure as bare JSON.
    """

    def __init__(self, agent: Agent, route: str, interactive: bool) -> None:
        self._agent = agent
        self._route = route
        self._interactive = interactive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await _read_body(receive)
        except ClientLeft:
            return
        at_ns = now_ns()
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        try:
            content = nat_schema.read_json(body, headers.get(b"content-type", ""))
            messages, options = nat_schema.chat_request(content)
        except nat_schema.Invalid as invalid:
            await answer_json({"detail": invalid.detail}, 422)(scope, receive, send)
            return
        truth = self._agent.truth.begin(
            headers.get(b"user-message-id"), headers.get(b"conversation-id"), "sse", self._route,
            at_ns,
        )  # fmt: skip
        question = nat_schema.last_text(messages)
        script, faults = (Script(), Faults()) if question is None else self._agent.plan(question)
        truth.tag = script.tag
        nobody: IdentityError | None = None
        try:
            user = from_connection(scope["headers"])
        except IdentityError as error:
            user, nobody = None, error
        refusal = self._refusal(user, nobody, faults)
        if refusal is not None:
            await refusal(scope, receive, send)
            self._agent.truth.end(truth, Outcome.REFUSED)
            return
        given = payloads.request_text(messages, options)
        stage = SseStage(send, self._agent.executions, self._interactive, bool(faults.usage))
        part = Part(question, given, script, faults)
        await send(_STREAM_START)
        if nobody is not None:
            await stage.send(stage.failed(WorkflowFailure("ValueError", str(nobody))))
            await stage.end()
            self._agent.truth.end(truth, Outcome.FAILED)
            return
        await self._stream(part, stage, truth, receive)

    def _refusal(
        self, user: str | None, nobody: IdentityError | None, faults: Faults
    ) -> Response | None:
        """The answer to a request that gets no stream."""
        if self._agent.settings.require_auth and user is None:
            return answer_json({"detail": str(nobody or "Not authenticated")}, 401)
        if 400 <= faults.status <= 599:
            response = answer_json({"detail": f"scripted status {faults.status}"}, faults.status)
            if faults.status in (429, 503):
                response.headers["retry-after"] = str(faults.retry_after)
            return response
        if faults.html:
            return HTMLResponse(_LOGIN_WALL)
        if nobody is not None and not self._interactive:
            return PlainTextResponse("Internal Server Error", 500)
        return None

    async def _stream(
        self, part: Part, stage: SseStage, truth: TurnTruth, receive: Receive
    ) -> None:
        """Perform the turn in this task; a second one watches for the client's leaving."""
        agent = self._agent
        performing: asyncio.Task[None] | None = asyncio.current_task()
        assert performing is not None
        agent.performing.add(performing)
        watcher = asyncio.create_task(_watch(receive, performing, stage))
        helpers: list[asyncio.Task[None]] = [watcher]
        if part.faults.keepalive_ms > 0:
            beat = _beat(stage, part.faults.keepalive_ms, agent.deadlines)
            helpers.append(asyncio.create_task(beat))
        outcome = Outcome.FAILED
        try:
            async with agent.slots:
                outcome = await Performance(part, stage, truth, agent.deadlines).run()
        except asyncio.CancelledError:
            outcome = Outcome.CLIENT_GONE if watcher.done() else Outcome.STOPPED
        finally:
            for helper in helpers:
                helper.cancel()
            agent.performing.discard(performing)
            agent.truth.end(truth, outcome)


class SseStage:
    """A turn shown as server-sent events."""

    websocket = False

    def __init__(self, send: Send, executions: Executions, interactive: bool, usage: bool) -> None:
        self.ended = False
        self._send = send
        self._executions = executions
        self._interactive = interactive
        self._execution: Execution | None = None
        self._usage = usage

    def step(self, step: Step) -> bytes:
        return frames.sse_step(step)

    def chunk(self, written: Written) -> bytes:
        return frames.sse_chunk(written.id, written.text, written.wall_ns // NS_PER_S)

    def role(self) -> bytes:
        return frames.sse_role(new_id(), wall_ns() // NS_PER_S)

    def trace(self, trace: str) -> bytes:
        return frames.sse_trace(trace)

    def inband_error(self) -> Sequence[bytes]:
        error = {"message": "scripted error inside the stream", "type": "server_error", "code": 500}
        return (frames.sse_data({"error": error}), frames.DONE)

    def failed(self, failure: WorkflowFailure) -> Sequence[bytes]:
        error = {"code": "workflow_error", "message": str(failure), "details": failure.kind}
        if self._interactive:
            return (frames.sse_event("error", error),)
        return (orjson.dumps(error),)

    def completed(self, chunks: int) -> Sequence[bytes]:
        if self._interactive:
            return ()
        created_s = wall_ns() // NS_PER_S
        last = [frames.sse_stop(new_id(), created_s)]
        if self._usage:
            last.append(frames.sse_usage(new_id(), chunks, created_s))
        return (*last, frames.DONE)

    def ask(
        self, kind: str, prompt: dict[str, Any]
    ) -> tuple[bytes | None, asyncio.Future[str] | None]:
        if not self._interactive:
            raise WorkflowFailure(
                "NotImplementedError",
                "No human prompt callback was registered. Unable to handle requested prompt.",
            )
        if kind == "notification":
            return None, None
        if self._execution is None:
            self._execution = Execution()
        answer = self._executions.ask(self._execution, prompt)
        content = {"event_type": "interaction_required"} | self._execution.pending()
        return frames.sse_event("interaction_required", content), answer

    def asked(self) -> None:
        """Whether the prompt is over is the store's business."""

    async def send(self, frames: Sequence[bytes]) -> None:
        if frames:
            body = frames[0] if len(frames) == 1 else b"".join(frames)
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        """The last chunk of the body; on the interactive routes it alone ends the turn."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def break_off(self, how: Break) -> None:
        """A cut needs nothing here: the server closes a connection whose answer is unfinished."""
        if how is Break.EOF:
            await self.end()
        elif how is Break.STALL:
            await asyncio.Event().wait()


class ExecutionRoutes:
    """``GET /executions/{id}`` and the answer to a prompt."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions

    async def status(self, request: Request) -> Response:
        """The status of an execution."""
        try:
            return answer_json(self._executions.status(request.path_params["execution"]))
        except Unknown as unknown:
            return answer_json({"detail": str(unknown)}, 404)

    async def respond(self, request: Request) -> Response:
        """Take the human's answer; 204 without a body."""
        where = request.path_params
        try:
            content_type = request.headers.get("content-type", "")
            value = nat_schema.reply(nat_schema.read_json(await request.body(), content_type))
            self._executions.answer(where["execution"], where["interaction"], value)
        except nat_schema.Invalid as invalid:
            return answer_json({"detail": invalid.detail}, 422)
        except Unknown as unknown:
            return answer_json({"detail": str(unknown)}, 404)
        except Resolved as resolved:
            return answer_json({"detail": str(resolved)}, 400)
        response = Response(status_code=204)
        response.raw_headers.append(VARY)
        return response


async def _read_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        body += bytes(message.get("body", b""))
        if not message.get("more_body", False):
            return body


async def _watch(receive: Receive, performing: asyncio.Task[None], stage: SseStage) -> None:
    """Break the turn off as soon as its client is gone: NAT frees the slot at once."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if not stage.ended:
        performing.cancel()


async def _beat(stage: SseStage, every_ms: float, deadlines: Deadlines) -> None:
    """SSE comments at an interval from now on."""
    due_ns = now_ns()
    while True:
        due_ns += int(every_ms * NS_PER_MS)
        await deadlines.until(due_ns)
        if stage.ended:
            return
        await stage.send((frames.PING,))
