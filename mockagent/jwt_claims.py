"""What NAT reads from the claims of a JWT, verified or not: who it is about.

Source: ``UserManager._user_info_from_jwt`` in ``nat.runtime.user_manager``,
``nat.data_models.user_info``; nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

_NAMES = ("sub", "email", "preferred_username")


class JwtUserInfo(BaseModel):
    """The fields that NAT does not check before it makes this object of them.

    It has NAT's name and their order, because its complaint goes on the wire.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    roles: list[str]
    groups: list[str]
    audience: list[str] | None
    client_id: str | None


def subject_of(claims: Mapping[str, Any]) -> str:
    """The name that identifies the user.

    Raises:
        ValueError: there is none, or (pydantic's ValidationError) another claim has a type that NAT
            cannot take.
    """
    for name in _NAMES:
        value = claims.get(name)
        if isinstance(value, str) and value.strip():
            _read(claims)
            return value.strip()
    raise ValueError("JWT contains no usable identity claim (sub, email, preferred_username)")


def _read(claims: Mapping[str, Any]) -> JwtUserInfo:
    roles = claims.get("roles")
    if not isinstance(roles, list):
        realm = claims.get("realm_access")
        roles = realm.get("roles") if isinstance(realm, dict) else None
    groups, audience = claims.get("groups"), claims.get("aud")
    audience = [audience] if isinstance(audience, str) else audience
    clients = (claims.get("azp"), claims.get("client_id"))
    named = any(isinstance(client, str) for client in clients)
    return JwtUserInfo(
        roles=roles if isinstance(roles, list) else [],
        groups=groups if isinstance(groups, list) else [],
        audience=audience if isinstance(audience, list) else None,
        client_id=clients[0] or clients[1] if named else None,
    )
