"""Who a caller is, by NAT's rules: any credential resolves to an id, none is verified.

Source: ``nat.runtime.user_manager``, ``nat.data_models.user_info``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from starlette.requests import cookie_parser

_NAMESPACE = uuid5(NAMESPACE_DNS, "nemo-agent-toolkit")
_SAFE_SESSION = re.compile(r"^[A-Za-z0-9\-_.~]+$")
_CLAIMS = ("sub", "email", "preferred_username")


class IdentityError(ValueError):
    """A credential is there and cannot be resolved; the text is NAT's."""


def user_id(key: str) -> str:
    """The id of whoever has ``key``: the same for the same text, whatever kind of credential."""
    return str(uuid5(_NAMESPACE, key))


def safe_session(session: str) -> bool:
    """Whether a ``?session=`` value is accepted; another one refuses the handshake."""
    return _SAFE_SESSION.match(session) is not None


def from_connection(headers: Sequence[tuple[bytes, bytes]], session: str = "") -> str | None:
    """The user id of a request or handshake, None without credential.

    ``session`` is the ``?session=`` of a handshake: it counts as the cookie unless there is one.

    Raises:
        IdentityError: the first credential found cannot be resolved.
    """
    said = {name.lower(): value.decode("latin-1") for name, value in reversed(headers)}
    cookie = cookie_parser(said.get(b"cookie", "")).get("nat-session") or session
    if cookie:
        return user_id(cookie)
    key = _from_authorization(said.get(b"authorization", ""))
    if key is not None:
        return user_id(key)
    api_key = said.get(b"x-api-key")
    return user_id(api_key) if api_key else None


def from_payload(payload: Mapping[str, Any]) -> str:
    """The user id of a valid ``auth_message`` payload.

    Raises:
        IdentityError: the token is no JWT, or says nobody's name.
    """
    if payload["method"] == "jwt":
        return user_id(_jwt_subject(payload["token"]))
    if payload["method"] == "api_key":
        return user_id(payload["token"])
    return user_id(_basic_key(payload["username"], payload["password"]))


def _from_authorization(header: str) -> str | None:
    parts = header.split(maxsplit=1)
    if len(parts) != 2:
        return None
    scheme, credential = parts[0], parts[1].strip()
    if scheme.lower() == "bearer":
        return _jwt_subject(credential) if credential.count(".") == 2 else credential
    if scheme.lower() == "basic":
        return _basic_header(credential)
    return None


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


def _jwt_subject(token: str) -> str:
    if token.count(".") != 2:
        raise IdentityError("JWT token is empty or malformed (expected 3 dot-separated parts)")
    header, payload, signature = token.split(".")
    _json_object(_base64url(header, "header"), "header")
    content = _base64url(payload, "payload")
    _base64url(signature, "crypto")
    claims = _json_object(content, "payload")
    for claim in _CLAIMS:
        value = claims.get(claim)
        if isinstance(value, str) and value.strip():
            return value.strip()
    raise IdentityError("JWT contains no usable identity claim (sub, email, preferred_username)")


def _base64url(part: str, what: str) -> bytes:
    """Strict, as PyJWT is: no foreign characters, no loose bits, padding only where it fits."""
    bare = part.rstrip("=").encode()
    padded = len(part) - len(bare)
    try:
        if padded > 2 or (padded and len(part) % 4):
            raise ValueError("padding")
        decoded = base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))
        if base64.urlsafe_b64encode(decoded).rstrip(b"=") != bare:
            raise ValueError("not canonical")
    except ValueError:
        raise IdentityError(f"Failed to decode JWT: Invalid {what} padding") from None
    return decoded


def _json_object(content: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError as error:
        raise IdentityError(f"Failed to decode JWT: Invalid {what} string: {error}") from None
    if not isinstance(value, dict):
        raise IdentityError(f"Failed to decode JWT: Invalid {what} string: must be a json object")
    return value
