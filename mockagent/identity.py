"""Who a caller is, by NAT's rules: any credential resolves to an id.

Policies (accepted credentials, JWT verification) rule on WebSockets only; a trusted identity header
rules everywhere.  Source: ``nat.runtime.user_manager``, ``nat.data_models.user_info``,
nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import jwt
from pydantic import ValidationError
from starlette.requests import cookie_parser

from mockagent.jwt_claims import subject_of
from mockagent.jwt_verifier import JwtVerifier

_NAMESPACE = uuid5(NAMESPACE_DNS, "nemo-agent-toolkit")
_SAFE_SESSION = re.compile(r"^[A-Za-z0-9\-_.~]+$")
_SEPARATOR = "\x1f"

Headers = Sequence[tuple[bytes, bytes]]


class Credential(StrEnum):
    """The kinds of credentials, as ``accepted_identity_credentials`` names them."""

    SESSION_COOKIE = "session_cookie"
    JWT = "jwt"
    API_KEY = "api_key"
    BASIC = "basic"


class IdentityError(ValueError):
    """A credential is there and cannot be resolved; the text is NAT's, ``kind`` the name of its
    exception.
    """

    kind = "ValueError"


class BadClaims(IdentityError):
    """A JWT that says who it is about, and something else of a type that NAT cannot take."""

    kind = "ValidationError"


class NotAccepted(IdentityError):
    """A policy refuses the credential: a WebSocket is told so and closed."""

    kind = "IdentityCredentialNotAcceptedError"


class HeaderMissing(NotAccepted):
    """The trusted header is not there exactly once."""

    kind = "IdentityHeaderError"


class Unverified(NotAccepted):
    """A JWT that does not pass verification."""

    kind = "JwtVerificationError"


def user_id(key: str) -> str:
    """The id of whoever has ``key``: the same for the same text, whatever kind of credential."""
    return str(uuid5(_NAMESPACE, key))


def safe_session(session: str) -> bool:
    """Whether a ``?session=`` value is accepted; another one refuses the handshake."""
    return _SAFE_SESSION.match(session) is not None


class Identities:
    """The rules of one server: which credentials count on WebSockets, how JWTs are verified, which
    header is trusted instead of all that.
    """

    def __init__(
        self,
        accepted: frozenset[Credential] | None = None,
        verifier: JwtVerifier | None = None,
        header: str | None = None,
    ) -> None:
        self.header = header
        self._accepted = accepted
        self._verifier = verifier

    def from_request(self, headers: Headers) -> str | None:
        """The user id of an HTTP request, None without credential.

        Raises:
            IdentityError: the first credential found cannot be resolved.
        """
        if self.header is not None:
            return self._from_trusted(self.header, headers)
        found = _credential(headers, "")
        return None if found is None else user_id(_key(*found))

    async def from_handshake(self, headers: Headers, session: str) -> str | None:
        """The user id of a WebSocket, None without credential.

        ``session`` is its ``?session=``: it counts as the cookie unless there is one.

        Raises:
            NotAccepted: a policy refuses it.
            IdentityError: the first credential found cannot be resolved.
        """
        if self.header is not None:
            return self._from_trusted(self.header, headers)
        found = _credential(headers, session)
        return None if found is None else await self._checked(*found)

    async def from_payload(self, payload: Mapping[str, Any]) -> str:
        """The user id of a valid ``auth_message`` payload.

        Raises:
            IdentityError: it is refused, no JWT, or says nobody's name.
        """
        if self.header is not None:
            raise NotAccepted(
                "WebSocket auth messages cannot replace an identity asserted by a trusted header"
            )
        kind = Credential(payload["method"])
        if kind is Credential.BASIC:
            self._ensure_accepted(kind)
            return user_id(_basic_key(payload["username"], payload["password"]))
        return await self._checked(kind, payload["token"])

    async def _checked(self, kind: Credential, text: str) -> str:
        self._ensure_accepted(kind)
        verifier = self._verifier
        if kind is not Credential.JWT or verifier is None:
            return user_id(_key(kind, text))
        claims = _claims(text)
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or not issuer:
            raise Unverified("JWT verification requires a non-empty issuer claim")
        if issuer != verifier.issuer:
            raise Unverified(f"JWT issuer is not accepted: {issuer}")
        if not await verifier.verify(text):
            raise Unverified("JWT verification failed")
        return user_id(f"{issuer}{_SEPARATOR}{_subject(claims)}")

    def _ensure_accepted(self, kind: Credential) -> None:
        if self._accepted is not None and kind not in self._accepted:
            raise NotAccepted(f"Identity credential type '{kind}' is not accepted")

    @staticmethod
    def _from_trusted(name: str, headers: Headers) -> str:
        wanted = name.lower().encode("latin-1")
        values = [value.decode("latin-1") for key, value in headers if key.lower() == wanted]
        if not values:
            raise HeaderMissing(f"Configured identity header '{name}' is missing")
        if len(values) != 1:
            raise HeaderMissing(f"Configured identity header '{name}' must occur exactly once")
        identity = values[0].strip()
        if not identity:
            raise HeaderMissing(f"Configured identity header '{name}' must not be empty")
        return user_id(f"trusted-header:{name.lower()}{_SEPARATOR}{identity}")


def _credential(headers: Headers, session: str) -> tuple[Credential, str] | None:
    """The first credential of a connection, in NAT's order."""
    said = {name.lower(): value.decode("latin-1") for name, value in reversed(headers)}
    cookie = cookie_parser(said.get(b"cookie", "")).get("nat-session") or session
    if cookie:
        return Credential.SESSION_COOKIE, cookie
    scheme, _, credential = said.get(b"authorization", "").strip().partition(" ")
    credential = credential.strip()
    if credential and scheme.lower() == "bearer":
        kind = Credential.JWT if credential.count(".") == 2 else Credential.API_KEY
        return kind, credential
    if credential and scheme.lower() == "basic":
        return Credential.BASIC, credential
    api_key = said.get(b"x-api-key")
    return (Credential.API_KEY, api_key) if api_key else None


def _key(kind: Credential, text: str) -> str:
    """What identifies the user; a Basic credential is the header's, not yet decoded."""
    if kind is Credential.JWT:
        return _subject(_claims(text))
    return _basic_header(text) if kind is Credential.BASIC else text


def _basic_header(credential: str) -> str:
    try:
        decoded = base64.b64decode(credential).decode()
    except ValueError as error:
        raise IdentityError(f"Failed to decode Basic auth credential: {error}") from None
    if ":" not in decoded:
        raise IdentityError(
            "Basic auth credential must contain a colon separator (username:password)"
        )
    name, _, password = decoded.partition(":")
    if not name:
        raise IdentityError("Basic auth username must not be empty")
    return _basic_key(name, password)


def _basic_key(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()


def _claims(token: str) -> dict[str, Any]:
    """What a JWT says, nothing checked."""
    if token.count(".") != 2:
        raise IdentityError("JWT token is empty or malformed (expected 3 dot-separated parts)")
    try:
        return dict(jwt.decode(token, options={"verify_signature": False}))
    except jwt.PyJWTError as error:
        raise IdentityError(f"Failed to decode JWT: {error}") from None


def _subject(claims: Mapping[str, Any]) -> str:
    try:
        return subject_of(claims)
    except ValidationError as error:
        raise BadClaims(str(error)) from None
    except ValueError as error:
        raise IdentityError(str(error)) from None
