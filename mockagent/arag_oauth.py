"""OAuth of Progress agents: open consents, their credentials, and where browsers come back.

Source: ``hyperforge.api.v1.oauth``, 1.0.0.post437.  Credentials belong to a session: those of
another one count as none.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from mockagent.answers import answer_html, answer_json
from mockagent.arag_questions import CREDENTIALS_URI
from mockagent.arag_sessions import EPHEMERAL
from mockagent.consents import AUTHORIZE
from mockagent.ids import new_hex

AGENT_CALLBACK = (
    "/api/auth/agent/{agent}/workflow/{workflow}/session/{session}/oauth/{oauth_uuid}/callback"
)
FIXED_CALLBACK = "/api/auth/mcp/callback"
REFERENCE_TOKEN = "tok-1"
"""What the conformance server's agent hands out."""
_KEPT = 100_000
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Hyperforge</title></head>
<body>
<div class="brand">Hyperforge</div>
<h1>Authentication successful</h1>
<p>Authentication complete. You can close this window and return to the application.</p>
</body>
</html>
"""


class _Cached(BaseModel):
    """What a client may say: ``hyperforge.interaction.OAuthFeedbackReturnSchema``."""

    existing_credentials: dict[str, dict[str, str]] | None = None


class AragFlow:
    """One consent: the URL that the user is sent to, and the payload that comes back."""

    __slots__ = ("payload", "state", "url")

    def __init__(self, state: str, url: str) -> None:
        self.state = state
        self.url = url
        self.payload: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def come_back(self, payload: str) -> None:
        """The user's browser is back; only the first time counts."""
        if not self.payload.done():
            self.payload.set_result(payload)


class AragOAuth:
    """Flows by state, credentials by token."""

    def __init__(self) -> None:
        self._flows: dict[str, AragFlow] = {}
        self._owners: dict[str, str] = {}
        self._granted: set[str] = set()

    def begin(self, origin: str) -> AragFlow:
        """Open a consent at this server's own provider, which grants it."""
        state = new_hex()
        query = {
            "response_type": "code",
            "client_id": "sim",
            "redirect_uri": origin + FIXED_CALLBACK,
            "state": state,
        }
        return self._open(state, f"{origin}{AUTHORIZE}?{urlencode(query)}")

    def begin_reference(self, agent: str, workflow: str, session: str, question: str) -> AragFlow:
        """Open a consent as the conformance server does: elsewhere, back at the older route."""
        state = new_hex()
        path = AGENT_CALLBACK.format(
            agent=agent, workflow=workflow, session=session, oauth_uuid=state
        )
        back = f"{path}?question_id={question}&account_id=local"
        query = urlencode({"state": state, "redirect_uri": back})
        return self._open(state, f"https://auth.example.com/authorize?{query}")

    def end(self, flow: AragFlow) -> None:
        """Forget a flow."""
        self._flows.pop(flow.state, None)

    def issue(self, session: str) -> str:
        """New credentials of ``session``; the oldest are forgotten when there are too many."""
        token = f"tok-{secrets.token_hex(8)}"
        if len(self._owners) >= _KEPT:
            del self._owners[next(iter(self._owners))]
        self._owners[token] = session
        if session != EPHEMERAL:
            self._granted.add(session)
        return token

    def valid(self, session: str, credentials: Any) -> bool:
        """Whether a client's cached credentials are those of its session."""
        token = credentials.get("access_token") if isinstance(credentials, dict) else None
        return isinstance(token, str) and self._owners.get(token) == session

    def granted(self, session: str) -> bool:
        """Whether ``session`` has credentials here; what remembers nothing never has."""
        return session in self._granted

    async def agent_callback(self, request: Request) -> Response:
        """The route that names the session; it knows no unknown consent, and no refusal."""
        query = request.query_params
        needed = ("question_id", "state", "account_id")
        missing = [name for name in needed if name not in query]
        if missing:
            problems = [
                {"type": "missing", "loc": ["query", name], "msg": "Field required", "input": None}
                for name in missing
            ]
            return answer_json({"detail": problems}, 422)
        flow = self._flows.get(request.path_params["oauth_uuid"])
        if flow is not None:
            flow.come_back(query["state"])
        return answer_html(_PAGE)

    async def fixed_callback(self, request: Request) -> Response:
        """The one route for all agents, told apart by the state."""
        query = request.query_params
        state = query.get("state")
        if state is None:
            return answer_html("Missing OAuth state parameter", 400)
        flow = self._flows.get(state)
        if flow is None:
            return answer_html("Invalid or expired OAuth state", 400)
        known = {name: query.get(name) for name in ("code", "state", "error", "error_description")}
        flow.come_back(urlencode({k: v for k, v in known.items() if v is not None}))
        error = query.get("error")
        if error is None:
            return answer_html(_PAGE)
        why = query.get("error_description")
        return answer_html(f"OAuth authorization failed ({error}{f': {why}' if why else ''})", 400)

    def _open(self, state: str, url: str) -> AragFlow:
        flow = self._flows[state] = AragFlow(state, url)
        return flow


def cached_credentials(reply: str | None) -> dict[str, str] | None:
    """The credentials in a reply to "Get credentials"; None if there are none, or if any in it are
    of a wrong form.
    """
    try:
        said = _Cached.model_validate_json(reply or "")
    except ValidationError:
        return None
    return (said.existing_credentials or {}).get(CREDENTIALS_URI)
