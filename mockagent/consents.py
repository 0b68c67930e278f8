"""OAuth: the users whose token the agent has, and the flows in which they are asked for one.

NAT keeps tokens in memory, one for each user: only a user's first turn asks.
Source: ``nat.authentication.oauth2``, ``nat.front_ends.fastapi.auth_flow_handlers``, 1.9.0.
"""

from __future__ import annotations

import asyncio
import secrets
from urllib.parse import urlencode

from loadgen.clock import NS_PER_S, now_ns

AUTHORIZE = "/_oauth/authorize"
REDIRECT = "/auth/redirect"
TOKEN_LIFE_S = 3_600
"""How long the bundled provider's tokens live; no refresh tokens are given."""


class Flow:
    """One question to a user, from the URL that is shown to the redirect that answers it.

    ``popup`` chooses the page that the redirect shows in the end.
    """

    __slots__ = ("future", "popup", "state", "url")

    def __init__(self, origin: str, popup: bool) -> None:
        self.state = secrets.token_urlsafe(16)
        query = {
            "response_type": "code",
            "client_id": "sim",
            "redirect_uri": origin + REDIRECT,
            "state": self.state,
        }
        self.url = f"{origin}{AUTHORIZE}?{urlencode(query)}"
        self.popup = popup
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def allow(self) -> None:
        """The user has allowed it, and the token is there."""
        if not self.future.done():
            self.future.set_result(None)

    def refuse(self, why: str) -> None:
        """There will be no token."""
        if not self.future.done():
            self.future.set_exception(Refused(why))
            self.future.exception()  # whoever waits is told; nobody may be waiting any more


class Refused(Exception):
    """The provider, or the user, has said no."""


class Consents:
    """Tokens by user, and flows by state; ``origin`` is where this server is reached."""

    def __init__(self, timeout_s: float) -> None:
        self.origin = ""
        self.timeout_s = timeout_s
        self._until_ns: dict[str, int] = {}
        self._flows: dict[str, Flow] = {}

    def granted(self, user: str) -> bool:
        """Whether the user's token is there and alive."""
        return self._until_ns.get(user, 0) > now_ns()

    def begin(self, popup: bool = False) -> Flow:
        """Open a flow."""
        flow = Flow(self.origin, popup)
        self._flows[flow.state] = flow
        return flow

    def flow(self, state: str | None) -> Flow | None:
        """The open flow with this state."""
        return self._flows.get(state or "")

    def end(self, flow: Flow) -> None:
        """Forget a flow: it was answered, or nobody waits for it any more."""
        self._flows.pop(flow.state, None)

    async def obtain(self, user: str, flow: Flow) -> None:
        """Wait for the user's decision.

        Raises:
            Refused: it was no.
            TimeoutError: there was none.
        """
        try:
            await asyncio.wait_for(asyncio.shield(flow.future), self.timeout_s)
        finally:
            self.end(flow)
        self._until_ns[user] = now_ns() + TOKEN_LIFE_S * NS_PER_S
