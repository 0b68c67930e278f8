"""What an agent can show of a turn, through the runtime's own memory: steps, contexts, chunks,
questions to its human, a login, the answer.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from hyperforge.interaction import (
    Feedback,
    OAuthAuthenticateURL,
    OAuthFeedbackReturnSchema,
    Provider,
    StreamingChunk,
)
from hyperforge.memory import QuestionMemory
from hyperforge.models import (
    AnswerCitations,
    Chunk,
    CitationMetadata,
    Context,
    VegaLiteVisualization,
)
from hyperforge_mcp.http import MCPOAuthRoutingParams, encrypt_mcp_oauth_state
from pydantic import ValidationError

NAME = "scripted"
PATH = f"/context/{NAME}"
WRITER = "/generation/default"
LOGIN_TIMEOUT_MS = 60_000
RESOURCE = "https://mcp.example.com/mcp"
"""What the login is for: the key of the credentials."""

FRANCE = "Paris is the capital and largest city of France."
_PAGE = "https://example.com/france"
_CITED = "block-AA"
_CHUNK = "rid-1/t/text/0-48"
_OWNERS: dict[str, str] = {}
"""Whose token is whose: the session, by the token."""


class Turn:
    """One turn of the agent; ``flow`` is the runtime's name for this run of it."""

    def __init__(self, memory: QuestionMemory, flow: str) -> None:
        self.memory = memory
        self._flow = flow

    @property
    def found(self) -> Context | None:
        """What was found last."""
        return self.memory.contexts[-1] if self.memory.contexts else None

    @property
    def question(self) -> str:
        """What was asked."""
        return str(self.memory.original_question)

    @property
    def streams(self) -> bool:
        """Whether the client wants chunks."""
        return bool(self.memory.get_streaming())

    async def step(
        self,
        title: str,
        module: str,
        value: str,
        *,
        reason: str | None = None,
        took_s: float = 0.01,
    ) -> None:
        """A step that is done."""
        await self.memory.add_step(
            step_module=module,
            step_title=title,
            step_agent_path=PATH,
            step_value=value,
            step_reason=reason,
            timeit=took_s,
            input_nuclia_tokens=0.1,
            output_nuclia_tokens=0.2,
        )

    async def context(self, text: str = FRANCE, *, hidden: bool = False) -> Context:
        """A document that was found; ``hidden``: it is shown to nobody."""
        chunk = Chunk(
            chunk_id=_CHUNK,
            title="France",
            source="kb-1",
            text=text,
            labels=["geo/europe"],
            url=[_PAGE],
            origin_url=_PAGE,
            origin_agent="mock",
        )
        found = Context(
            original_question_uuid=self.memory.original_question_uuid,
            actual_question_uuid=self.memory.actual_question_uuid,
            question=self.question,
            chunks=[chunk],
            source="kb-1",
            agent="mock",
            agent_id=NAME,
            title="France",
            citations_id=_CITED,
            summary="Paris is the capital of France.",
            citations=[_CHUNK],
        )
        if hidden:
            self.memory.contexts.append(found)
        else:
            await self.memory.save_context(self._flow, found, agent_id=NAME)
        return found

    async def think(self, thoughts: Iterable[str], pause_s: float) -> None:
        """Reasoning; the runtime closes it with nothing."""
        for text in thoughts:
            await self.memory.emit_streaming_chunk(StreamingChunk(text=text), reasoning=True)
            await asyncio.sleep(pause_s)

    async def announce(self, writer: str = WRITER) -> None:
        """Whose chunks follow."""
        await self.memory.emit_streaming_chunk(agent_request=f"summarize@{writer}")

    async def say(self, text: str, *, last: bool = False) -> None:
        """A chunk of the answer."""
        await self.memory.emit_streaming_chunk(StreamingChunk(text=text, last=last))

    async def stream(self, pieces: Iterable[str], pause_s: float) -> None:
        """All chunks of an answer, with a pause behind each, as a model's stream has them."""
        await self.announce()
        for piece in pieces:
            await self.say(piece)
            await asyncio.sleep(pause_s)
        await self.say("", last=True)

    async def ask(
        self, question: str, schema: dict[str, Any] | None, timeout_ms: int
    ) -> str | None:
        """Ask the human; None when nothing came in time."""
        reply = await self.memory.send_feedback(
            self._request(question, "smart", schema, timeout_ms)
        )
        return None if reply is None else str(reply.response)

    async def log_in(self, *, fixed_route: bool) -> str | None:
        """Get credentials as the runtime's own agents do; None if the client had them already,
        else what came back: to the newer callback route, which is the same for all agents, or to
        the older one, where any token counts.
        """
        schema = OAuthFeedbackReturnSchema.model_json_schema()
        wish = self._request("Get credentials", "oauth", schema, LOGIN_TIMEOUT_MS)
        wish.get_credentials = {RESOURCE: Provider.MCP_OAUTH}
        session = self.memory.get_session_id()
        cached = _cached(await self.memory.send_feedback(wish))
        if cached is not None and (not fixed_route or _OWNERS.get(cached) == session):
            return None
        # The newer agents name a login after its question.
        login = self.memory.original_question_uuid if fixed_route else uuid.uuid4().hex
        query = self._newer(login) if fixed_route else self._older(login)
        url = f"{os.environ['CONFORMANCE_PROVIDER']}/authorize?{urlencode(query)}"
        await self.memory.send_oauth(OAuthAuthenticateURL(oauth_url=url))
        came = await self.memory.recv_oauth_callback(self.memory.original_question_uuid, login)
        gift = self._request("Send credentials", "oauth", schema, LOGIN_TIMEOUT_MS)
        token = f"tok-{uuid.uuid4().hex}" if fixed_route else "tok-1"
        _OWNERS[token] = session
        gift.credentials = {RESOURCE: {"access_token": token, "token_type": "Bearer"}}
        await self.memory.send_feedback(gift)
        return str(came)

    async def propose(
        self,
        text: str,
        cited: Context | None = None,
        writer: str = WRITER,
        *,
        charts: int = 0,
    ) -> None:
        """An answer; the last one that is proposed becomes the turn's."""
        citations = None
        if cited is not None:
            mark = CitationMetadata(context_id=cited.id, origin_urls=[_PAGE], chunk_index=None)
            citations = AnswerCitations(metadata={_CITED: mark})
        chart = _chart() if charts else None
        await self.memory.add_answer(
            text, "summarize", writer, citations=citations, visualization=chart
        )
        # An answer takes one chart, a turn any number.
        self.memory.data_visualizations += [_chart() for _ in range(charts - 1)]

    async def conclude(
        self,
        text: str,
        cited: Context | None = None,
        writer: str = WRITER,
        *,
        charts: int = 0,
    ) -> None:
        """An answer and the step that made it."""
        await self.propose(text, cited, writer, charts=charts)
        await self.step("Summarize: Summarize", "summarize", text, reason="Summarized")

    def _request(
        self, question: str, module: str, schema: dict[str, Any] | None, timeout_ms: int
    ) -> Feedback:
        return Feedback(
            # The runtime's smart, restricted and MCP agents take the session's name as well.
            request_id=self.memory.get_session_id(),
            question=question,
            module=module,
            agent_id=NAME,
            data=None,
            timeout_ms=timeout_ms,
            response_schema=schema,
        )

    def _older(self, login: str) -> dict[str, str]:
        memory = self.memory
        back = (
            f"{os.environ['CONFORMANCE_ORIGIN']}/api/auth/agent/{memory.get_agent_id()}"
            f"/workflow/{memory.get_workflow_id()}/session/{memory.get_session_id()}"
            f"/oauth/{login}/callback"
            f"?question_id={memory.original_question_uuid}&account_id=local"
        )
        return {"state": login, "redirect_uri": back}

    def _newer(self, login: str) -> dict[str, str]:
        routing = MCPOAuthRoutingParams.from_memory(self.memory)
        routing.oauth_uuid = login
        routing.sdk_state = uuid.uuid4().hex
        return {
            "response_type": "code",
            "client_id": NAME,
            "redirect_uri": f"{os.environ['CONFORMANCE_ORIGIN']}/api/auth/mcp/callback",
            "state": encrypt_mcp_oauth_state(routing),
        }


def _cached(reply: Any) -> str | None:
    """The token that a client has kept; None if it has none, or says something else."""
    if reply is None:
        return None
    try:
        said = OAuthFeedbackReturnSchema.model_validate_json(reply.response)
    except ValidationError:
        return None
    credentials = (said.existing_credentials or {}).get(RESOURCE)
    return None if credentials is None else credentials.get("access_token", "")


def _chart() -> VegaLiteVisualization:
    """A chart as Vega-Lite."""
    values = [{"x": x, "y": x} for x in range(3)]
    axes = {"x": {"field": "x"}, "y": {"field": "y"}}
    chart = {"mark": "bar", "data": {"values": values}, "encoding": axes}
    return VegaLiteVisualization(vega_lite_obj=chart)
