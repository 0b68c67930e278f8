"""`Mint`: JSON Web Tokens that we sign ourselves, one for each analyst (RFC 7519).

PyJWT and cryptography are imported where they are needed: a run without tokens starts without them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from secrets import token_bytes
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from loadgen import secretfile
from loadgen.clock import NS_PER_S, wall_ns
from loadgen.errors import ConfigError
from loadgen.section import Section, Share, Text

Algorithm = Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256"]

_WHAT = "key file"
_THROWAWAY_BYTES = 64
_RSA_BITS = 2048
_PEM = b"-----BEGIN "
_WANTED = {
    "HS": "a raw secret",
    "RS": "a private RSA key in PEM, without a password",
    "ES": "a private P-256 key in PEM, without a password",
}


class Mint(Section):
    """Tokens made by the scenario.

    ``{n}`` in ``subject`` stands for the analyst's number; ``claim`` is where the subject stands.
    ``key_file`` is a private key in PEM for RS and ES, a raw secret for HS; without it each process
    makes a key of its own, for servers that do not verify.  ``expired_share`` of the analysts hold
    a token that expired ``lifetime_s`` ago.  ``claims`` are added as they are.
    """

    subject: Text = "analyst-{n}"
    claim: Literal["sub", "email", "preferred_username"] = "sub"
    algorithm: Algorithm = "HS256"
    key_file: Text | None = None
    key_id: Text | None = None
    issuer: Text | None = None
    audience: Text | None = None
    scopes: tuple[Text, ...] = ()
    lifetime_s: Annotated[int, Field(ge=1, le=10 * 366 * 86_400)] = 86_400
    expired_share: Share = 0.0
    claims: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.claims:
            if name in _OWN_KEYS or name == self.claim:
                raise ValueError(
                    f"claims must not hold {name}: {_OWN_KEYS.get(name, 'subject')} says it"
                )
        return self


_OWN_KEYS = {
    "iss": "issuer",
    "aud": "audience",
    "scope": "scopes",
    "iat": "lifetime_s",
    "exp": "lifetime_s",
}
"""Claims that a key of their own speaks for."""

_tokens: dict[tuple[str, int, int], tuple[int, str]] = {}
"""The tokens of this process and when each was made, in s of the wall clock."""


def minted(mint: Mint, number: int, clock: Callable[[], int] = wall_ns) -> str:
    """The token of analyst ``number``; ``clock`` gives the wall time in ns.

    Given again for as long as at least half of its life is left.  Raises ConfigError for a key that
    cannot be read or does not fit the algorithm.
    """
    now_s = clock() // NS_PER_S
    edition = 0 if mint.key_file is None else secretfile.edition(mint.key_file, _WHAT)
    place = (mint.model_dump_json(), number, edition)
    made_s, token = _tokens.get(place, (0, ""))
    if not token or not 0 <= now_s - made_s <= mint.lifetime_s // 2:
        token = _sign(mint, claims_of(mint, number, now_s), edition)
        _tokens[place] = now_s, token
    return token


def claims_of(mint: Mint, number: int, now_s: int) -> dict[str, Any]:
    """What the token of analyst ``number`` says; ``now_s`` is the wall time in s."""
    made_s = now_s - 2 * mint.lifetime_s if _is_expired(mint, number) else now_s
    claims: dict[str, Any] = {
        mint.claim: mint.subject.replace("{n}", str(number)),
        "iat": made_s,
        "exp": made_s + mint.lifetime_s,
        **mint.claims,
    }
    said = {"iss": mint.issuer, "aud": mint.audience, "scope": " ".join(mint.scopes)}
    return claims | {name: value for name, value in said.items() if value}


def _is_expired(mint: Mint, number: int) -> bool:
    """Whether the analyst is of the expired share.

    Multiples of the golden ratio spread evenly over every regular part of the crowd, such as a
    group or a worker has (Knuth, The Art of Computer Programming 3, 6.4: Fibonacci hashing).
    """
    return (number * 0x9E37_79B9_7F4A_7C15) % 2**64 < mint.expired_share * 2**64


def _sign(mint: Mint, claims: dict[str, Any], edition: int) -> str:
    import jwt

    key = _signing_key(mint.algorithm, mint.key_file, edition)
    headers = {"kid": mint.key_id} if mint.key_id else None
    try:
        return jwt.encode(claims, key, algorithm=mint.algorithm, headers=headers)
    except (jwt.PyJWTError, ValueError):
        raise _unfit(mint.algorithm, mint.key_file) from None


@lru_cache
def _signing_key(algorithm: Algorithm, key_file: str | None, edition: int) -> Any:
    """The key; reading one costs more than signing with it."""
    if key_file is None:
        return _throwaway_key(algorithm)
    raw = secretfile.read_bytes(key_file, _WHAT)
    if not raw.strip():
        raise ConfigError(f"identity: the {_WHAT} {key_file} is empty")
    if not algorithm.startswith("HS"):
        return _private_key(algorithm, key_file, raw)
    if _PEM in raw:
        raise _unfit(algorithm, key_file)
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def _private_key(algorithm: Algorithm, key_file: str, raw: bytes) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(raw, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _unfit(algorithm, key_file) from None
    if algorithm.startswith("RS"):
        fits = isinstance(key, rsa.RSAPrivateKey)
    else:
        fits = isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)
    if not fits:
        raise _unfit(algorithm, key_file)
    return key


def _throwaway_key(algorithm: Algorithm) -> Any:
    if algorithm.startswith("HS"):
        return token_bytes(_THROWAWAY_BYTES)
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if algorithm.startswith("RS"):
        return rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
    return ec.generate_private_key(ec.SECP256R1())


def _unfit(algorithm: Algorithm, key_file: str | None) -> ConfigError:
    wanted = _WANTED[algorithm[:2]]
    return ConfigError(f"identity: the {_WHAT} {key_file} does not fit: {algorithm} wants {wanted}")
