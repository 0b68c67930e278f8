"""Verification of JWTs against a set of public keys: signature, time, issuer, audience, scopes.

Source: ``nat.authentication.credential_validator.BearerTokenValidator``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import jwt

from loadgen.clock import NS_PER_S, now_ns

_CACHE_S = 900
_FETCH_S = 10
_ALGORITHMS = {
    "RSA": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
    "EC": ["ES256", "ES384", "ES512"],
    "OKP": ["EdDSA"],
    "oct": ["HS256", "HS384", "HS512"],
}
_log = logging.getLogger("mockagent")


@dataclass(frozen=True, slots=True)
class JwtPolicy:
    """What a JWT must be: ``jwks`` is a URL or a file; ``leeway_s`` is allowed for clocks."""

    jwks: str
    issuer: str
    audience: str
    scopes: tuple[str, ...] = ()
    leeway_s: int = 60


class JwtVerifier:
    """Verifies tokens; keys are fetched when they are first needed and kept for 15 minutes."""

    def __init__(self, policy: JwtPolicy) -> None:
        self.issuer = policy.issuer
        self._policy = policy
        self._keys: list[jwt.PyJWK] = []
        self._fetched_ns = 0

    async def verify(self, token: str) -> bool:
        """Whether ``token`` is signed, in time, and what the policy wants; why not is logged."""
        try:
            key = _key_of(token, await self._current_keys())
            claims: dict[str, Any] = jwt.decode(
                token,
                key=key.key,
                algorithms=_ALGORITHMS[key.key_type or ""],
                audience=self._policy.audience,
                issuer=self._policy.issuer,
                leeway=self._policy.leeway_s,
                options={"require": ["exp"]},
            )
        except (jwt.PyJWTError, OSError, ValueError, KeyError) as error:
            _log.warning("JWT verification failed: %s", error)
            return False
        wrong = [name for name in ("exp", "nbf", "iat") if isinstance(claims.get(name), str)]
        if wrong:
            _log.warning("JWT verification failed: %s must be numbers", wrong)
            return False
        missing = set(self._policy.scopes) - set(_scopes(claims))
        if missing:
            _log.warning("JWT verification failed: it lacks scopes %s", sorted(missing))
        return not missing

    async def _current_keys(self) -> list[jwt.PyJWK]:
        if not self._keys or now_ns() - self._fetched_ns > _CACHE_S * NS_PER_S:
            text = await asyncio.to_thread(_read, self._policy.jwks)
            found = json.loads(text)
            if not isinstance(found, dict):
                raise ValueError(f"{self._policy.jwks} holds no set of keys")
            self._keys = jwt.PyJWKSet.from_dict(found).keys
            self._fetched_ns = now_ns()
        return self._keys


def _read(place: str) -> bytes:
    if place.startswith(("http://", "https://")):
        with urlopen(place, timeout=_FETCH_S) as answer:
            return bytes(answer.read())
    return Path(place).read_bytes()


def _key_of(token: str, keys: list[jwt.PyJWK]) -> jwt.PyJWK:
    """The key that the token names; the only one if it names none."""
    name = jwt.get_unverified_header(token).get("kid")
    if name is None and len(keys) == 1:
        return keys[0]
    for key in keys:
        if key.key_id == name:
            return key
    raise ValueError(f"no key {name!r} in the set")


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    said = claims.get("scope") or claims.get("scp") or []
    if isinstance(said, str):
        return said.split()
    return [scope for scope in said if isinstance(scope, str)] if isinstance(said, list) else []
