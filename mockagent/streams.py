"""Questions over HTTP that are answered by a stream."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from loadgen.clock import NS_PER_MS, now_ns
from mockagent.agent import Agent
from mockagent.answers import VARY, ClientLeft, answer_nobody
from mockagent.deadlines import Deadlines
from mockagent.frames import PING
from mockagent.identity import IdentityError
from mockagent.intake import Asked, take_in
from mockagent.performance import Performance
from mockagent.slots import Slots
from mockagent.sse_stage import Shape, SseStage
from mockagent.stage import Part
from mockagent.truth import Outcome

_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8"), VARY],
}


class StreamRoute:
    """The ASGI endpoint of a stream."""

    def __init__(self, agent: Agent, schema: type[BaseModel], shape: Shape) -> None:
        self._agent = agent
        self._schema = schema
        self._shape = shape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            asked = await take_in(self._agent, scope, receive, self._schema, "sse")
        except ClientLeft:
            return
        if isinstance(asked, Response):
            await asked(scope, receive, send)
        else:
            await self.answer(asked, scope, receive, send)

    async def answer(self, asked: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question.

        The stream of a route that is not interactive begins when its session is over: the run has
        lost its user, and the session knows nothing of how it goes.
        """
        agent, shape = self._agent, self._shape
        stage = SseStage(
            send,
            shape,
            agent.executions,
            asked.conversation if shape.interactive else None,
            Request(scope).query_params.get("filter_steps"),
            usage=bool(asked.faults.usage),
        )
        if asked.nobody is None and shape.interactive:
            await send(_START)
            with agent.users.session(asked.user) as session:
                await self._perform(asked, asked.user, stage, session.slots, receive)
        elif asked.nobody is None:
            with agent.users.session(asked.user) as session:
                slots = session.slots
            await send(_START)
            await self._perform(asked, None, stage, slots, receive)
        elif shape.interactive:
            await send(_START)
            await self._turn_away(asked, asked.nobody, stage)
        else:
            await answer_nobody(asked.nobody)(scope, receive, send)
            agent.truth.end(asked.truth, Outcome.REFUSED)

    async def _turn_away(self, asked: Asked, nobody: IdentityError, stage: SseStage) -> None:
        await stage.send((stage.refused(nobody.kind, str(nobody)),))
        await stage.end()
        self._agent.truth.end(asked.truth, Outcome.FAILED)

    async def _perform(
        self, asked: Asked, user: str | None, stage: SseStage, slots: Slots, receive: Receive
    ) -> None:
        """Perform the turn in this task; a second one watches for the client's leaving."""
        agent = self._agent
        part = Part(asked.question, asked.given, asked.script, asked.faults, user=user)
        performance = Performance(agent, part, stage, asked.truth)
        performing: asyncio.Task[None] | None = asyncio.current_task()
        assert performing is not None
        agent.performing.add(performing)
        watcher = asyncio.create_task(_watch(receive, performing, stage))
        helpers: list[asyncio.Task[None]] = [watcher]
        if asked.faults.keepalive_ms > 0:
            beat = _beat(stage, asked.faults.keepalive_ms, agent.deadlines)
            helpers.append(asyncio.create_task(beat))
        outcome = Outcome.FAILED
        try:
            async with slots:
                outcome = await performance.run()
        except asyncio.CancelledError:
            outcome = Outcome.CLIENT_GONE if watcher.done() else Outcome.STOPPED
        finally:
            for helper in helpers:
                helper.cancel()
            agent.performing.discard(performing)
            agent.truth.end(asked.truth, outcome)
        if outcome is Outcome.CLIENT_GONE and asked.script.block_ms > 0:
            agent.spawn(performance.haunt())


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
        await stage.send((PING,))
