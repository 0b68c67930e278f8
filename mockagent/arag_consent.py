"""How a Progress agent comes by its user's credentials: the order of the server, and of the
documentation.

Server: ask for cached ones, send the user away, take the callback, hand the new ones to the client.
Documentation: send the user away, wait for the connection to be restored, ask for the credentials.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qs

from mockagent import arag_questions as questions
from mockagent.arag_acts import Replied
from mockagent.arag_oauth import REFERENCE_TOKEN, AragFlow, AragOAuth, cached_credentials
from mockagent.arag_workflow import StageFailure

CACHED = "used cached credentials"


class Asking(Protocol):
    """Who can speak to the user: a performance."""

    async def ask(self, feedback: dict[str, Any], kind: str) -> Replied:
        """Ask, and wait for the reply or the timeout."""

    async def send_away(self, url: str, payload: asyncio.Future[str]) -> str:
        """Show a URL, and wait for what the callback brings."""

    async def restored(self) -> None:
        """Wait for a connection."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The consents of one turn; ``origin`` None: no provider of its own is configured."""

    oauth: AragOAuth
    origin: str | None
    agent: str
    workflow: str
    session: str
    question: str
    documented: bool

    async def obtain(self, own_provider: bool, asking: Asking) -> str:
        """What came of it, in the words of the conformance server's agent.

        Raises:
            StageFailure: there are no credentials in the end.
        """
        if self.documented:
            return await self._as_documented(own_provider, asking)
        wanted = questions.get_credentials(self.session)
        replied = await asking.ask(wanted, "get_credentials")
        cached = cached_credentials(replied.text)
        foreign = cached is not None and not own_provider
        if foreign or self.oauth.valid(self.session, cached):
            return CACHED
        payload = await self._away(own_provider, asking)
        token = self.oauth.issue(self.session) if own_provider else REFERENCE_TOKEN
        given = questions.send_credentials(self.session, token)
        await asking.ask(given, "send_credentials")
        return f"oauth callback payload: {payload}"

    async def _as_documented(self, own_provider: bool, asking: Asking) -> str:
        if self.oauth.granted(self.session):
            return CACHED
        payload = await self._away(own_provider, asking)
        await asking.restored()
        replied = await asking.ask(questions.get_credentials(self.session), "get_credentials")
        if not cached_credentials(replied.text):
            raise StageFailure("no credentials were sent", "context")
        self.oauth.issue(self.session)
        return f"oauth callback payload: {payload}"

    async def _away(self, own_provider: bool, asking: Asking) -> str:
        flow = self._begin(own_provider)
        try:
            payload = await asking.send_away(flow.url, flow.payload)
        finally:
            self.oauth.end(flow)
        error = parse_qs(payload).get("error")
        if error:
            raise StageFailure(f"OAuth authorization failed ({error[0]})", "context")
        return payload

    def _begin(self, own_provider: bool) -> AragFlow:
        if not own_provider:
            return self.oauth.begin_reference(
                self.agent, self.workflow, self.session, self.question
            )
        if self.origin is None:
            raise StageFailure("no auth_provider in the configuration", "context")
        return self.oauth.begin(self.origin)
