"""``/auth/redirect``, where users come back, and the provider that sends them: a bundled one, which
grants every consent that the query does not deny (``deny=access_denied``).

Source of the first: ``nat.front_ends.fastapi.routes.auth``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from mockagent.answers import answer_html, answer_json
from mockagent.consents import TOKEN_LIFE_S, Consents
from mockagent.oauth_pages import BAD_STATE, Page, page

TOKEN = "/_oauth/token"
_CODE = "sim-code"


class OAuthRoutes:
    """The routes of both sides; ``consents`` None: no provider is configured."""

    def __init__(self, consents: Consents | None) -> None:
        self._consents = consents

    async def redirect(self, request: Request) -> Response:
        """The end of a flow: the page for the user's browser, the news for the waiting run."""
        query = request.query_params
        consents = self._consents
        flow = consents.flow(query.get("state")) if consents else None
        if consents is None or flow is None:
            return answer_html(BAD_STATE, 400)
        consents.end(flow)
        how = Page.SUCCESS
        error, why = query.get("error"), query.get("error_description", "")
        if error == "access_denied":
            how = Page.CANCELLED
            flow.refuse(f"Authorisation denied: {error} ({why})")
        elif error:
            how = Page.ERROR
            flow.refuse(f"OAuth error: {error} ({why})")
        elif query.get("code") != _CODE:
            how = Page.ERROR
            flow.refuse("Authorization server rejected request: invalid_grant (unknown code)")
        else:
            flow.allow()
        response = answer_html(page(how, flow.popup))
        response.headers["cache-control"] = "no-cache"
        return response

    async def authorize(self, request: Request) -> Response:
        """The provider's page: it sends the browser back at once."""
        query = request.query_params
        back = query.get("redirect_uri")
        if back is None:
            return answer_json({"error": "invalid_request"}, 400)
        denied = query.get("deny")
        said = {"error": denied} if denied else {"code": _CODE}
        more = "&" if "?" in back else "?"
        where = f"{back}{more}{urlencode({'state': query.get('state', '')} | said)}"
        return Response(status_code=302, headers={"location": where})

    async def token(self, request: Request) -> Response:
        """The provider's token endpoint, for agents other than this one."""
        await request.body()
        token = {"access_token": "sim-token", "token_type": "Bearer", "expires_in": TOKEN_LIFE_S}
        return answer_json(token)
