"""What the dialects of Progress Agentic RAG share: routes, sessions, tokens, the question.

All paths are below the plan's route, ``/api/v1`` by default:

==================  ================================================================================
token ``account``   POST ``/account/{account}/kb/{agent}/ephemeral_tokens``, as both SDKs do
token ``agent``     POST ``/agent/{agent}/ephemeral_token``
token ``plain``     POST ``/ephemeral_token``, as documented
session ``managed`` GET then POST ``/agent/{agent}/sessions``, as an application's front end does;
                    DELETE ``/agent/{agent}/session/{uuid}`` when the conversation is over
a question          ``/agent/{agent}/session/{session}``, or with its workflow in the path
                    ``/agent/{agent}/workflow/{workflow}/session/{session}``; ``/ws`` is the socket
==================  ================================================================================

Refused preparations: 401 and 403 are auth_rejected; 429 and 503 rate_limited (a busy gateway
answers both); another 5xx is connect_failed, all else protocol_violation.

Source: protocols/arag.md, sections 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlencode

import orjson
from pydantic import Field, field_validator

from loadgen.dialects.contract import Ask, Identity, Opening, OptionModel, Preparation
from loadgen.dialects.refusal import brief
from loadgen.errors import ConfigError
from loadgen.events import Failed
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import Request

ROUTE = "/api/v1"
EPHEMERAL = "ephemeral"
"""The session that remembers nothing."""

TOKEN, SESSIONS, SESSION = "token", "sessions", "session"
"""Names of the preparations."""

_PAGE = {"page": "0", "size": "20"}
_REFUSED = {
    401: Cause.AUTH_REJECTED,
    403: Cause.AUTH_REJECTED,
    429: Cause.RATE_LIMITED,
    503: Cause.RATE_LIMITED,
}


class AragOptions(OptionModel):
    """``agent`` and ``workflow`` by their ids, ``workflow_in`` the query or the path.

    ``session``: ``ephemeral`` (the analyst sends its history along), ``named`` (one for each
    conversation, whose history the server keeps) or ``managed`` (the same, created and deleted).
    ``streaming``: the answer is wanted in chunks.  ``headers`` and ``arguments`` are for the
    agent's tools, written as ``name=value, name=value``.
    """

    agent: str = Field(min_length=1)
    workflow: str | None = Field(None, min_length=1)
    workflow_in: Literal["query", "path"] = "query"
    session: Literal["ephemeral", "named", "managed"] = "ephemeral"
    streaming: bool = True
    headers: str = ""
    arguments: str = ""

    @field_validator("headers", "arguments")
    @classmethod
    def _pairs(cls, text: str) -> str:
        pairs(text)
        return text


def pairs(text: str) -> dict[str, str]:
    """``name=value, name=value`` as a table; a value may hold anything but a comma."""
    table = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"must be name=value, name=value, not {pair!r}")
        table[name.strip()] = value.strip()
    return table


def refused_status(status: int) -> Cause:
    """Why a gateway refuses what a socket needs; see the module's table."""
    known = _REFUSED.get(status)
    if known is not None:
        return known
    return Cause.CONNECT_FAILED if status >= 500 else Cause.PROTOCOL_VIOLATION


@dataclass(slots=True)
class Service:
    """One agent as one analyst reaches it; ``managed`` is the session that was created for it."""

    route: str
    """What records say: no session's id is in it."""
    options: AragOptions
    prefix: str
    managed: str = ""
    extras: dict[str, Any] = field(default_factory=dict)
    """Of the question, what is the same each time."""

    @classmethod
    def of(cls, dialect: str, route: str | None, options: AragOptions) -> Service:
        """Raises `ConfigError` where options do not go together."""
        prefix = (route or ROUTE).rstrip("/")
        if route is not None and not route.startswith("/"):
            raise ConfigError(f"{dialect}: a route begins with /, got {route!r}")
        below = f"{prefix}/agent/{_quoted(options.agent)}"
        if options.workflow_in == "path":
            if options.workflow is None:
                raise ConfigError(
                    f"options.workflow_in of {dialect} is 'path', but options.workflow is not given"
                )
            below = f"{below}/workflow/{_quoted(options.workflow)}"
        tables = {"headers": pairs(options.headers), "arguments": pairs(options.arguments)}
        extras = {name: table for name, table in tables.items() if table}
        return cls(below, options, prefix, extras=extras)

    def session(self, conversation: str) -> str:
        """The session in which ``conversation`` is held."""
        if self.options.session == "named":
            return conversation
        return EPHEMERAL if self.options.session == EPHEMERAL else self.managed

    def path(self, conversation: str, end: str = "", query: dict[str, str] | None = None) -> str:
        """Where a question of ``conversation`` is asked."""
        asked = dict(query or {})
        if self.options.workflow is not None and self.options.workflow_in == "query":
            asked["workflow_id"] = self.options.workflow
        return with_query(f"{self.route}/session/{_quoted(self.session(conversation))}{end}", asked)

    def sessions(self, opening: Opening) -> tuple[Preparation, ...]:
        """What gives the conversation its session."""
        if self.options.session != "managed" or SESSION in opening.grants:
            return ()
        path = f"{self._agent}/sessions"
        name = f"loadgen-{opening.conversation}"
        body = {
            "slug": name, "name": name, "summary": "load test", "data": "", "format": "PLAIN",
        }  # fmt: skip
        create = _request("POST", path, opening.identity, body)
        creation = Preparation(SESSION, create, lasting=True)
        if SESSIONS in opening.grants:
            return (creation,)
        listing = _request("GET", with_query(path, _PAGE), opening.identity)
        return (Preparation(SESSIONS, listing, lasting=True), creation)

    def token(self, opening: Opening, kind: str, account: str | None) -> Preparation:
        """The token that one socket needs."""
        path = f"{self.prefix}/ephemeral_token"
        if kind == "account":
            agent = _quoted(self.options.agent)
            path = f"{self.prefix}/account/{_quoted(account or '')}/kb/{agent}/ephemeral_tokens"
        elif kind == "agent":
            path = f"{self._agent}/ephemeral_token"
        body = {"agent_session": self.session(opening.conversation)}
        return Preparation(TOKEN, _request("POST", path, opening.identity, body), secret=True)

    def granted(self, name: str, status: int, body: str) -> str | Failed:
        """What the answer to a preparation gives."""
        if status not in (200, 201):
            detail = f"{name} refused with HTTP {status}"
            # Whatever holds a token is not shown.
            if body.strip() and '"token"' not in body:
                detail = f"{detail}: {brief(body)}"
            return Failed(Outcome.REFUSED, refused_status(status), detail)
        if name == SESSIONS:
            return "listed"
        key = "token" if name == TOKEN else "uuid"
        try:
            told = orjson.loads(body)
        except ValueError:
            told = None
        grant = told.get(key) if type(told) is dict else None
        if type(grant) is not str or not grant or not grant.isprintable():
            detail = f"{name}: the answer (HTTP {status}) has no {key}"
            return Failed(Outcome.REFUSED, Cause.PROTOCOL_VIOLATION, detail)
        if name == SESSION:
            self.managed = grant
        return grant

    def farewell(self, opening: Opening) -> Request | None:
        """The request that deletes the conversation's session."""
        session = opening.grants.get(SESSION)
        if session is None:
            return None
        return _request("DELETE", f"{self._agent}/session/{_quoted(session)}", opening.identity)

    def question(self, ask: Ask) -> dict[str, Any]:
        """The question.  A history is sent where the server keeps none; without one it is ``[]``,
        because without the key the server would look for its own.
        """
        told = {"question": ask.text, "operation": 0, **self.extras}
        if self.options.session == EPHEMERAL:
            told["chat_history"] = [{"question": q, "answer": a} for q, a in ask.history]
        told["streaming"] = self.options.streaming
        return told

    @property
    def _agent(self) -> str:
        return f"{self.prefix}/agent/{_quoted(self.options.agent)}"


def with_query(path: str, query: dict[str, str]) -> str:
    """``path`` with ``query``."""
    return f"{path}?{urlencode(query)}" if query else path


def _request(method: str, path: str, identity: Identity, body: Any = None) -> Request:
    """A request in the analyst's name."""
    joint = "&" if "?" in path else "?"
    path = f"{path}{joint}{urlencode(identity.query)}" if identity.query else path
    headers = {"accept": "application/json", **identity.headers}
    if body is None:
        return Request(method, path, headers)
    headers["content-type"] = "application/json"
    return Request(method, path, headers, orjson.dumps(body))


def _quoted(part: str) -> str:
    return quote(part, safe="")
