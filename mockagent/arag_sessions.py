"""Sessions: what was said in them, and, for agents with memory, the stored ones and their routes.

``ephemeral`` remembers nothing; every other name shares one history.  Source:
``hyperforge.memory``, ``hyperforge.api.v1.session``, 1.0.0.post437.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from loadgen.clock import NS_PER_S, now_ns, wall_ns
from mockagent.answers import answer_json
from mockagent.arag_requests import SessionData
from mockagent.bodies import Invalid, read_json, validated
from mockagent.ids import new_hex

EPHEMERAL = "ephemeral"
AGENTS: dict[str, tuple[str, ...]] = {"agent-0001": ("default", "ask")}
"""The agents there are, and their workflows."""
_KEPT_SESSIONS = 100_000
_KEPT_EXCHANGES = 1_000
_NO_MEMORY = (
    "Sessions are currently only supported for Retrieval Agents Orchestrators with a Memory "
    "Knowledge Box associated"
)
_NOT_FOUND = "Session not found"


class Unknown(LookupError):
    """There is no such agent, workflow or session; worded as the server words it."""


class _Wanted(BaseModel):
    """Which sessions are to be listed."""

    page: int = 0
    size: int = 20


class AragSessions:
    """The histories, and the stored sessions of each agent."""

    def __init__(self, memory: bool) -> None:
        self._memory = memory
        self._histories: dict[str, list[tuple[str, str]]] = {}
        self._stored: dict[str, dict[str, dict[str, Any]]] = {agent: {} for agent in AGENTS}
        self._slugs: dict[tuple[str, str], str] = {}
        self._numbers = count(1)

    def check(self, agent: str, workflow: str) -> None:
        """Make sure that there is such a workflow.

        Raises:
            Unknown: there is none.
        """
        if agent not in AGENTS:
            raise Unknown(f"Agent '{agent}' not found")
        if workflow not in AGENTS[agent]:
            raise Unknown("Workflow not found")

    def enter(self, agent: str, session: str, create: bool) -> str:
        """The session's name from now on: agents with memory know sessions by their uuids.

        Raises:
            Unknown: it is not stored, and not to be created.
        """
        if not self._memory or session == EPHEMERAL:
            return session
        found = self._find(agent, session)
        if found is not None:
            return found
        if not create:
            raise Unknown(f"Session '{session}' does not exist")
        return self._store(agent, session, f"Session {session}", "Auto-created session", "")

    def history(self, session: str) -> int:
        """How many exchanges the session remembers."""
        return len(self._histories.get(session, ()))

    def remember(self, session: str, question: str, answer: str) -> None:
        """An exchange is over; the oldest go when there are too many."""
        if session == EPHEMERAL:
            return
        if session not in self._histories and len(self._histories) >= _KEPT_SESSIONS:
            del self._histories[next(iter(self._histories))]
        history = self._histories.setdefault(session, [])
        history.append((question, answer))
        del history[:-_KEPT_EXCHANGES]

    async def create(self, request: Request) -> Response:
        """POST …/sessions."""
        begin_ns = now_ns()
        data, refusal = await self._body(request)
        if data is None:
            return refusal
        agent = request.path_params["agent"]
        if (agent, data.slug) in self._slugs:
            return answer_json({"detail": "Failed to create session"}, 422)
        uuid = self._store(agent, data.slug, data.name, data.summary, data.data)
        took_s = (now_ns() - begin_ns) / NS_PER_S
        return answer_json({"uuid": uuid, "elapsed": took_s, "seqid": next(self._numbers)})

    async def list(self, request: Request) -> Response:
        """GET …/sessions?page&size."""
        try:
            wanted = _Wanted.model_validate(dict(request.query_params))
        except ValidationError as error:
            problems = error.errors(include_url=False)
            detail = [{**item, "loc": ("query", *item["loc"])} for item in problems]
            return answer_json({"detail": detail}, 422)
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        page, size = wanted.page, wanted.size
        stored = list(self._stored[request.path_params["agent"]].values())
        shown = stored[page * size : (page + 1) * size]
        last = (page + 1) * size >= len(stored)
        rows = [{key: value for key, value in row.items() if key != "data"} for row in shown]
        return answer_json(
            {"resources": rows, "pagination": {"page": page, "size": size, "last": last}}
        )

    async def get(self, request: Request) -> Response:
        """GET …/session/{uuid}."""
        found, refusal = self._wanted(request)
        return refusal if found is None else answer_json(found)

    async def patch(self, request: Request) -> Response:
        """PATCH …/session/{uuid}."""
        data, refusal = await self._body(request)
        if data is None:
            return refusal
        found, refusal = self._wanted(request)
        if found is None:
            return refusal
        found |= _facts(data.name, data.summary, data.data)
        return answer_json(None)

    async def delete(self, request: Request) -> Response:
        """DELETE …/session/{uuid}."""
        found, refusal = self._wanted(request)
        if found is None:
            return refusal
        self._forget(request.path_params["agent"], found["id"])
        return answer_json(None)

    def _store(self, agent: str, slug: str, name: str, summary: str, data: str) -> str:
        uuid = new_hex()
        created = datetime.fromtimestamp(wall_ns() / NS_PER_S, UTC).isoformat()
        stored = self._stored[agent]
        if len(stored) >= _KEPT_SESSIONS:
            self._forget(agent, next(iter(stored)))
        self._slugs[agent, slug] = uuid
        stored[uuid] = {"id": uuid, "slug": slug, "created": created} | _facts(name, summary, data)
        return uuid

    def _find(self, agent: str, session: str) -> str | None:
        return session if session in self._stored[agent] else self._slugs.get((agent, session))

    def _forget(self, agent: str, uuid: str) -> None:
        row = self._stored[agent].pop(uuid)
        del self._slugs[agent, row["slug"]]
        self._histories.pop(uuid, None)

    def _refusal(self, request: Request) -> Response | None:
        """The answer of an agent without stored sessions."""
        agent = request.path_params["agent"]
        if agent not in AGENTS:
            why = f"Agent '{agent}' or Workflow 'default' not found for account 'local'"
            return answer_json({"detail": why}, 404)
        return None if self._memory else answer_json({"detail": _NO_MEMORY}, 400)

    def _wanted(self, request: Request) -> tuple[dict[str, Any] | None, Response]:
        refusal = self._refusal(request)
        if refusal is not None:
            return None, refusal
        stored = self._stored[request.path_params["agent"]]
        return stored.get(request.path_params["session"]), answer_json({"detail": _NOT_FOUND}, 404)

    async def _body(self, request: Request) -> tuple[SessionData | None, Response]:
        """What is to be stored, or the answer that refuses it: the body is looked at first."""
        kind = request.headers.get("content-type", "")
        try:
            data = validated(SessionData, read_json(await request.body(), kind))
        except Invalid as invalid:
            return None, answer_json({"detail": invalid.detail}, 422)
        refusal = self._refusal(request)
        return (data, answer_json(None)) if refusal is None else (None, refusal)


def _facts(name: str, summary: str, data: str) -> dict[str, Any]:
    return {"title": name, "summary": summary, "data": {"texts": {"info": {"body": data}}}}
