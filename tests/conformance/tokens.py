"""The suite's JSON Web Tokens: keys made when first needed, tokens signed when they go out.

A row names a token in its text, ``{token:expired}``; `filled` puts the signed one there.  Tokens
are put together by hand, because what a row needs is often what a library refuses to sign.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from jwt.algorithms import (
    ECAlgorithm,
    OKPAlgorithm,
    RSAAlgorithm,
    get_default_algorithms,
)

from loadgen.clock import NS_PER_S, wall_ns

ISSUER, AUDIENCE, SCOPE = "https://identity.example", "conformance", "ask"
"""What the servers of kind ``jwt`` want; those of kind ``jwts`` want no scope (`nat/jwt*.yml`)."""

_TOKEN = re.compile(r"\{token:([^}]+)\}")
_making = Lock()
_SECRET = b"a secret of thirty-two characters"


@dataclass(frozen=True)
class In:
    """A moment so many seconds after the token is signed."""

    seconds: float


@dataclass(frozen=True)
class Token:
    """A good token but for ``claims``, of which None leaves one out and ``...`` is a null, and
    ``head``, its header.  ``key`` signs it, under the name ``kid`` (None: no name); ``forged`` are
    claims that are changed when it is signed.
    """

    claims: Mapping[str, Any] = field(default_factory=dict)
    key: str = "one"
    kid: str | None = "one"
    algorithm: str = "RS256"
    head: Mapping[str, Any] = field(default_factory=dict)
    forged: Mapping[str, Any] = field(default_factory=dict)


TOKENS: dict[str, Token] = {
    "good": Token(),
    "good, of bob": Token({"sub": "bob"}),
    "good, by e-mail": Token({"sub": None, "email": "ann@example.com"}),
    "good, by name": Token({"sub": " ", "preferred_username": "ann"}),
    "good, with everything": Token(
        {"iat": In(-5), "nbf": In(-5), "jti": "7", "azp": "desk", "aud": ["other", AUDIENCE]}
    ),
    "with scp": Token({"scope": None, "scp": ["other", SCOPE]}),
    "just expired": Token({"exp": In(-30)}),
    "expired": Token({"exp": In(-120)}),
    "not yet valid": Token({"nbf": In(120)}),
    "valid in a moment": Token({"nbf": In(30)}),
    "of the future": Token({"iat": In(120)}),
    "of another issuer": Token({"iss": "https://other.example"}),
    "of an issuer with a slash": Token({"iss": f"{ISSUER}/"}),
    "of an empty issuer": Token({"iss": ""}),
    "of a number as issuer": Token({"iss": 7}),
    "without issuer": Token({"iss": None}),
    "for another audience": Token({"aud": "other"}),
    "for other audiences": Token({"aud": ["other", f"{AUDIENCE}s"]}),
    "for an audience and a number": Token({"aud": [7, AUDIENCE]}),
    "without audience": Token({"aud": None}),
    "with another scope": Token({"scope": f"{SCOPE}s other"}),
    "without scope": Token({"scope": None}),
    "with scopes of numbers": Token({"scope": [7, SCOPE]}),
    "with scopes as members": Token({"scope": {SCOPE: True}}),
    "without exp": Token({"exp": None}),
    "with exp 0": Token({"exp": 0}),
    "with a text for exp": Token({"exp": "2099-01-01"}),
    "with a truth for exp": Token({"exp": True}),
    "with a fraction for exp": Token({"exp": 4_000_000_000.5}),
    "with exp without end": Token({"exp": float("inf")}),
    "with a text for nbf": Token({"nbf": "now"}),
    "with no nbf and no iat": Token({"nbf": None, "iat": None}),
    "with a null for nbf": Token({"nbf": ...}),
    "with a number for jti": Token({"jti": 7}),
    "with a number for azp": Token({"azp": 7}),
    "with a number beside a client": Token({"azp": 7, "client_id": "desk"}),
    "with a client that is a number": Token({"azp": "", "client_id": 7}),
    "with a number for a client": Token({"client_id": 7}),
    "with roles of numbers": Token({"roles": [7]}),
    "with roles of a realm": Token({"roles": "none", "realm_access": {"roles": ["r", None]}}),
    "with groups and roles": Token({"groups": ["g"], "roles": ["r"], "realm_access": 7}),
    "with odd groups and audiences": Token({"groups": [None], "aud": [AUDIENCE, None]}),
    "of a number": Token({"sub": 7, "email": "ann@example.com"}),
    "of nobody": Token({"sub": None}),
    "of nobody, expired": Token({"sub": None, "exp": In(-120)}),
    "signed by a stranger": Token(key="stranger"),
    "signed by a stranger, no kid": Token(key="stranger", kid=None),
    "of an unknown kid": Token(kid="two"),
    "without kid": Token(kid=None),
    "of an empty kid": Token(kid=""),
    "of a number as kid": Token(head={"kid": 7}),
    "with another hash": Token(algorithm="RS512"),
    "with other padding": Token(algorithm="PS256"),
    "unsigned": Token(algorithm="none"),
    "unsigned, in capitals": Token(algorithm="none", head={"alg": "NONE"}),
    "without algorithm": Token(head={"alg": None}),
    "signed with the public key": Token(key="one as a secret", algorithm="HS256"),
    "signed with a curve": Token(key="P-256", algorithm="ES256"),
    "with an extension": Token(head={"crit": ["mood"], "mood": "good"}),
    "forged": Token(forged={"sub": "bob"}),
}
"""For the servers with one key, ``one``."""

OF_SEVERAL: dict[str, Token] = {
    "by the first": Token(),
    "without kid": Token(kid=None),
    "without kid, by the nameless key": Token(key="nameless", kid=None),
    "by the nameless key under a name": Token(key="nameless"),
    "P-256": Token(key="P-256", kid="P-256", algorithm="ES256"),
    "P-384": Token(key="P-384", kid="P-384", algorithm="ES384"),
    "P-384 as if it were P-256": Token(key="P-384", kid="P-384", algorithm="ES256"),
    "secp256k1": Token(key="secp256k1", kid="secp256k1", algorithm="ES256K"),
    "Ed25519": Token(key="Ed25519", kid="Ed25519", algorithm="EdDSA"),
    "a shared secret": Token(key="secret", kid="secret", algorithm="HS256"),
    "a shared secret of another": Token(key="secret", kid="one", algorithm="HS256"),
    "a curve under an RSA key's name": Token(key="P-256", algorithm="ES256"),
    "RSA under a curve's name": Token(kid="P-256"),
    "a key for encryption": Token(kid="enc"),
    "a key that may not verify": Token(kid="not to verify"),
    "a key of another algorithm": Token(kid="RS512"),
    "no scope": Token({"scope": None}),
    "a number for a scope": Token({"scope": 7}),
    "a zero for a scope": Token({"scope": 0}),
    "members for a scope": Token({"scope": {SCOPE: True}}),
}
"""For the servers with several keys."""


def filled(text: str) -> str:
    """``text`` with the tokens that it names: ``{token:expired}``, ``{token:several/P-256}``."""
    return _TOKEN.sub(lambda found: _signed(_named(found[1])), text)


def write_key_sets(folder: Path) -> None:
    """Write what the servers' ``jwks_uri`` shows: ``one.json`` and ``several.json``."""
    one = _public("one") | {"kid": "one"}
    named = [_public(name) | {"kid": name} for name in ("P-256", "P-384", "secp256k1", "Ed25519")]
    secret = {"kty": "oct", "kid": "secret", "k": _base64url(_SECRET)}
    others = [
        one | {"kid": "enc", "use": "enc"},
        one | {"kid": "not to verify", "key_ops": ["encrypt"]},
        one | {"kid": "RS512", "alg": "RS512", "use": "sig"},
    ]
    several = [one, *named, secret, *others, _public("nameless")]
    for name, keys in (("one", [one]), ("several", several)):
        (folder / f"{name}.json").write_text(json.dumps({"keys": keys}))


def mint(**changes: Any) -> dict[str, Any]:
    """The plan of good tokens, as `loadgen.mint` reads it, but for ``changes``."""
    good = {
        "algorithm": "RS256",
        "key_file": str(_key_file("one")),
        "key_id": "one",
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "scopes": [SCOPE],
    }
    if "key" in changes:
        changes["key_file"] = str(_key_file(changes.pop("key")))
    return good | changes


def _named(name: str) -> Token:
    place, _, rest = name.rpartition("/")
    return OF_SEVERAL[rest] if place else TOKENS[rest]


def _signed(token: Token) -> str:
    """In compact form (RFC 7515, 7.1)."""
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "scope": f"other {SCOPE}", "exp": In(600)}
    head = {"alg": token.algorithm, "kid": token.kid} | token.head
    claims = good | token.claims
    signed = f"{_part(head)}.{_part(claims)}"
    signature = b""
    if token.algorithm != "none":
        algorithm = get_default_algorithms()[token.algorithm]
        signature = algorithm.sign(signed.encode(), _private(token.key))
    return f"{_part(head)}.{_part(claims | token.forged)}.{_base64url(signature)}"


def _part(members: Mapping[str, Any]) -> str:
    said = {name: _now(value) for name, value in members.items() if value is not None}
    return _base64url(json.dumps(said).encode())


def _now(value: Any) -> Any:
    if isinstance(value, In):
        return int(wall_ns() / NS_PER_S + value.seconds)
    return None if value is ... else value


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _private(name: str) -> Any:
    """The key ``name``: many rows sign at the same time, and it must be one for all."""
    with _making:
        return _made(name)


@cache
def _made(name: str) -> Any:
    if name == "secret":
        return _SECRET
    if name == "one as a secret":
        public = _made("one").public_key()
        return bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    if name == "Ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    curves = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1, "secp256k1": ec.SECP256K1}
    if name in curves:
        return ec.generate_private_key(curves[name]())
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _public(name: str) -> dict[str, Any]:
    """As a JSON Web Key."""
    public = _private(name).public_key()
    kinds = {"Ed25519": OKPAlgorithm, "P-256": ECAlgorithm, "P-384": ECAlgorithm}
    kinds |= {"secp256k1": ECAlgorithm}
    return dict(kinds.get(name, RSAAlgorithm).to_jwk(public, as_dict=True))


@cache
def _key_file(name: str) -> Path:
    """The private key ``name`` in PEM; the file goes when the process does."""
    pem = _private(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = Path(_folder().name, f"{name}.pem")
    file.touch(mode=0o600)
    file.write_bytes(pem)
    return file


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()
