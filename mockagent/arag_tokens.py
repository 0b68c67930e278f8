"""Ephemeral tokens: what a client fetches before each socket, and what a gateway makes of them.

The published server has no part in this; the three paths are those of the two SDKs and of the
documentation, the refusals those of a gateway.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from loadgen.clock import NS_PER_MS, NS_PER_S, now_ns
from mockagent.agent import Agent
from mockagent.answers import answer_json

PATHS = (
    "/api/v1/account/{account}/kb/{agent}/ephemeral_tokens",
    "/api/v1/agent/{agent}/ephemeral_token",
    "/api/v1/ephemeral_token",
)
_KEY_HEADERS = ("x-nuclia-serviceaccount", "authorization", "x-nuclia-nuakey")
_KEPT = 100_000
_LONGEST_S = 86_400.0


class Tokens:
    """The tokens that were given out; ``life_s`` in seconds."""

    def __init__(self, life_s: float, single_use: bool) -> None:
        self._life_s = life_s
        self._single_use = single_use
        self._until_ns: dict[str, int] = {}

    def issue(self, ttl_s: float | None, at_ns: int) -> str:
        """A new token, for ``ttl_s`` or else the usual life."""
        if len(self._until_ns) >= _KEPT:
            self._until_ns = {t: end for t, end in self._until_ns.items() if end > at_ns}
        life_s = self._life_s if ttl_s is None else min(ttl_s, _LONGEST_S)
        token = f"eph-{secrets.token_hex(16)}"
        self._until_ns[token] = at_ns + int(life_s * NS_PER_S)
        return token

    def accept(self, token: str, at_ns: int) -> bool:
        """Whether a socket may be opened with ``token``; with single use only once."""
        until_ns = self._until_ns.get(token, 0)
        if self._single_use:
            self._until_ns.pop(token, None)
        return until_ns > at_ns


class TokenRoute:
    """The endpoint of all three paths."""

    def __init__(self, agent: Agent, tokens: Tokens) -> None:
        self._agent = agent
        self._tokens = tokens
        self._rng = Random(f"{agent.settings.seed}\0token")

    async def serve(self, request: Request) -> Response:
        """Give out a token, or refuse to."""
        agent, settings = self._agent, self._agent.settings.arag
        begin_ns = now_ns()
        asked = _fields(await request.body())
        if settings.token_delay_ms > 0:
            await agent.deadlines.until(begin_ns + int(settings.token_delay_ms * NS_PER_MS))
        failure = settings.token_failure
        failed = failure is not None and self._rng.random() < failure.share
        refusal = key_refusal(request, settings.service_key)
        if failure is not None and failed:
            response = answer_json({"detail": "scripted failure"}, failure.status)
            if failure.status in (429, 503):
                response.headers["retry-after"] = "1"
        elif refusal is not None:
            response = refusal
        else:
            ttl = asked.get("ttl")
            ttl_s = float(ttl) if isinstance(ttl, int | float) and ttl > 0 else None
            response = answer_json({"token": self._tokens.issue(ttl_s, now_ns())})
        session = asked.get("agent_session")
        where = session if isinstance(session, str) else None
        agent.truth.happened("token", 0, where, status=response.status_code)
        return response


def key_refusal(request: Request, key: str | None) -> Response | None:
    """The answer to a request that does not carry the service key; None: it does."""
    if key is None:
        return None
    given = [request.headers.get(name) for name in _KEY_HEADERS]
    if not any(given):
        return answer_json({"detail": "Not authenticated"}, 401)
    if f"Bearer {key}" not in given:
        return answer_json({"detail": "Forbidden"}, 403)
    return None


def with_key(
    agent: Agent, handler: Callable[[Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """``handler`` for those who carry the service key."""

    async def guarded(request: Request) -> Response:
        refusal = key_refusal(request, agent.settings.arag.service_key)
        return await handler(request) if refusal is None else refusal

    return guarded


def _fields(body: bytes) -> dict[str, Any]:
    """The body's fields; none if it has none."""
    try:
        value = orjson.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
