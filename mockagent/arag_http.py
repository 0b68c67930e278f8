"""The one-shot route of Progress Agentic RAG: a question as a request, its frames as lines of JSON.

Source: ``hyperforge.api.v1.interaction``, 1.0.0.post437.  Nothing can be asked back here.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mockagent.answers import VARY, ClientLeft, answer_html, answer_json, read_body
from mockagent.arag_frames import AragFrames
from mockagent.arag_requests import InteractionRequest
from mockagent.arag_sessions import Unknown
from mockagent.arag_stage import LinesStage
from mockagent.arag_tokens import key_refusal
from mockagent.arag_turns import Arag, Place, Plan
from mockagent.bodies import Invalid, read_json, validated
from mockagent.truth import Outcome

ONE_SHOTS = (
    "/api/v1/agent/{agent}/session/{session}",
    "/api/v1/agent/{agent}/workflow/{workflow}/session/{session}",
)
_TYPE = "application/x-ndjson"
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", _TYPE.encode()), VARY],
}
_LOGIN_WALL = "<!doctype html><title>Sign in</title><h1>Please sign in to continue</h1>"


class AragLines:
    """The ASGI endpoint of both paths."""

    def __init__(self, arag: Arag) -> None:
        self._arag = arag

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            body = await read_body(receive)
        except ClientLeft:
            return
        refusal = key_refusal(request, self._arag.agent.settings.arag.service_key)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            kind = request.headers.get("content-type", "")
            asked = validated(InteractionRequest, read_json(body, kind))
        except Invalid as invalid:
            await answer_json({"detail": invalid.detail}, 422)(scope, receive, send)
            return
        workflow = request.path_params.get("workflow")
        place = Place(
            request.path_params["agent"],
            workflow or request.query_params.get("workflow_id", "default"),
            request.path_params["session"],
            scope["path"],
        )
        try:
            self._arag.sessions.check(place.agent, place.workflow)
        except Unknown as unknown:
            line = AragFrames(self._arag.agent.settings.edition).error(str(unknown))
            stage = LinesStage(send, None)
            await send(_START)
            await stage.send((line,))
            await stage.end()
            return
        await self._answer(asked, place, scope, receive, send)

    async def _answer(
        self, asked: InteractionRequest, place: Place, scope: Scope, receive: Receive, send: Send
    ) -> None:
        arag, agent = self._arag, self._arag.agent
        plan = arag.plan(asked.question)
        truth = arag.begin(asked, plan, place, "arag-http", scope["headers"])
        refusal = _refusal(plan)
        if refusal is not None:
            agent.truth.end(truth, Outcome.REFUSED)
            await refusal(scope, receive, send)
            return
        client = scope["client"]
        stage = LinesStage(send, (lambda: agent.reset(client)) if plan.words.reset else None)
        performance = arag.performance(asked, plan, place, stage, truth)
        await send(_START)
        performing = arag.launch(performance, asked.question, place, truth)
        watching = asyncio.create_task(_watch(receive, stage))
        try:
            await asyncio.wait((performing, watching), return_when=asyncio.FIRST_COMPLETED)
            if not performing.done() and agent.settings.arag.stop_on_leave:
                performing.cancel()
            if not performing.done() and not stage.gone:
                await asyncio.wait((performing,))
        finally:
            watching.cancel()


def _refusal(plan: Plan) -> Response | None:
    """The answer to a question that is not even tried; only this mock gives it."""
    faults = plan.faults
    if 400 <= faults.status <= 599:
        response = answer_json({"detail": f"scripted status {faults.status}"}, faults.status)
        if faults.status in (429, 503):
            response.headers["retry-after"] = str(faults.retry_after)
        return response
    return answer_html(_LOGIN_WALL) if faults.html else None


async def _watch(receive: Receive, stage: LinesStage) -> None:
    """Notice that the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if not stage.ended:
        stage.leave()
