"""Verification of JWTs against a set of public keys: signature, time, issuer, audience, scopes.

Source: ``nat.authentication.credential_validator.BearerTokenValidator``, nvidia-nat-core 1.9.0, and
what that leaves to ``authlib.jose``.
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
from pydantic import BaseModel

from loadgen.clock import NS_PER_S, now_ns, wall_ns

_CACHE_S = 900
_FETCH_S = 10
_LONGEST = 256_000
_CURVES = {"ES256": "P-256", "ES256K": "secp256k1", "ES384": "P-384", "ES512": "P-521"}
_ALGORITHMS = {
    *("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"),
    *_CURVES,
}
_NEEDED = {"RSA": {"e", "n"}, "EC": {"crv", "x", "y"}, "OKP": {"crv", "x"}, "oct": {"k"}}
"""The members of a key by its ``kty``: one key without them makes the whole set useless."""

_log = logging.getLogger("mockagent")
Key = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JwtPolicy:
    """What a JWT must be: ``jwks`` is a URL or a file; ``leeway_s`` is allowed for clocks."""

    jwks: str
    issuer: str
    audience: str
    scopes: tuple[str, ...] = ()
    leeway_s: int = 60


class _Result(BaseModel):
    """The types that NAT's ``TokenValidationResult`` wants of claims it makes no rule of."""

    client_id: str | None
    scopes: list[str] | None
    exp: int
    nbf: int | None = None
    iat: int | None = None
    sub: str | None = None
    jti: str | None = None


class JwtVerifier:
    """Verifies tokens; keys are fetched when they are first needed and kept for 15 minutes."""

    def __init__(self, policy: JwtPolicy) -> None:
        self.issuer = policy.issuer
        self._policy = policy
        self._keys: list[Key] = []
        self._fetched_ns = 0

    async def verify(self, token: str) -> bool:
        """Whether ``token`` is signed, in time, and what the policy wants; why not is logged."""
        try:
            _check(_signed_claims(token, await self._current_keys()), self._policy)
        except (jwt.PyJWTError, OSError, ValueError, TypeError) as error:
            _log.warning("JWT verification failed: %s", error)
            return False
        return True

    async def _current_keys(self) -> list[Key]:
        if not self._keys or now_ns() - self._fetched_ns > _CACHE_S * NS_PER_S:
            self._keys = _key_set(await asyncio.to_thread(_read, self._policy.jwks))
            self._fetched_ns = now_ns()
        return self._keys


def _read(place: str) -> bytes:
    if place.startswith(("http://", "https://")):
        with urlopen(place, timeout=_FETCH_S) as answer:
            return bytes(answer.read())
    return Path(place).read_bytes()


def _key_set(text: bytes) -> list[Key]:
    """The keys of a JSON Web Key Set (RFC 7517, 5)."""
    found = json.loads(text)
    listed = found.get("keys") if isinstance(found, dict) else None
    keys = [key for key in listed if isinstance(key, dict)] if isinstance(listed, list) else []
    if not keys:
        raise ValueError("there are no keys")
    for key in keys:
        kind = key.get("kty")
        if kind not in _NEEDED or not _NEEDED[kind] <= key.keys():
            raise ValueError(f"a key of type {kind!r} cannot be used")
    return keys


def _signed_claims(token: str, keys: list[Key]) -> dict[str, Any]:
    """What ``token`` says, if one of ``keys`` has signed it."""
    if len(token) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST}")
    head = jwt.get_unverified_header(token)
    algorithm = head.get("alg")
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"no algorithm {algorithm!r}")
    key = _named(head.get("kid"), keys)
    if "verify" not in key.get("key_ops", ["verify"]) or key.get("use", "sig") != "sig":
        raise ValueError("its key is not meant for signatures")
    if key.get("crv") != _CURVES.get(algorithm, key.get("crv")):
        raise ValueError(f"its key is on another curve than that of {algorithm}")
    public = {name: value for name, value in key.items() if name != "d"}
    prepared = jwt.PyJWK(public, algorithm).key
    claims = json.loads(jwt.PyJWS().decode(token, prepared, [algorithm]))
    if not isinstance(claims, dict):
        raise ValueError("its payload is no object")
    return claims


def _named(name: Any, keys: list[Key]) -> Key:
    """The key that a token names; the only one if it names none."""
    if name is None and len(keys) == 1:
        return keys[0]
    for key in keys:
        if key.get("kid") == name:
            return key
    raise ValueError(f"no key {name!r} in the set")


def _check(claims: Mapping[str, Any], policy: JwtPolicy) -> None:
    """Raises ValueError or TypeError for claims that are not what the policy wants."""
    now_s = wall_ns() // NS_PER_S
    if _moment(claims, "exp", 0) < now_s - policy.leeway_s:
        raise ValueError("it has expired")
    for name in ("nbf", "iat"):
        if _moment(claims, name, now_s) > now_s + policy.leeway_s:
            raise ValueError(f"its {name} is not yet")
    if claims.get("iss") != policy.issuer:
        raise ValueError(f"its issuer is {claims.get('iss')!r}")
    said = claims.get("aud")
    if policy.audience not in (said if isinstance(said, list) else [said]):
        raise ValueError(f"its audience is {said!r}")
    scopes = claims.get("scope") or claims.get("scp") or None
    scopes = scopes.split() if isinstance(scopes, str) else scopes
    if policy.scopes and not set(policy.scopes) <= set(scopes or ()):
        raise ValueError(f"its scopes are {scopes!r}")
    client = claims.get("azp") or claims.get("client_id") or claims.get("sub")
    _Result.model_validate({**claims, "client_id": client, "scopes": scopes})


def _moment(claims: Mapping[str, Any], name: str, otherwise: float) -> float:
    """A time in seconds since the epoch (RFC 7519, 2: NumericDate)."""
    value = claims.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"its {name} is no number")
    return value
