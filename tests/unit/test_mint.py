"""Minted tokens: what they say, who accepts them, and which keys do not fit."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from loadgen.clock import NS_PER_S, wall_ns
from loadgen.errors import ConfigError
from loadgen.mint import Mint, minted
from mockagent.identity import Identities, Unverified, user_id
from mockagent.jwt_verifier import JwtPolicy, JwtVerifier

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
P384_KEY = ec.generate_private_key(ec.SECP384R1())
SECRET = b"a raw secret of at least 64 bytes, so that it is fit for HS512 too"
ISSUER, AUDIENCE = "https://identity.example", "agent"


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    lock = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)


def public_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def key_file(folder: Path, content: bytes) -> str:
    (folder / "key").write_bytes(content)
    return str(folder / "key")


def unverified(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, options={"verify_signature": False}))


# what they say


@pytest.mark.parametrize(
    ("algorithm", "content", "verified_with"),
    [
        ("HS256", SECRET, SECRET),
        ("HS384", SECRET + b"\n", SECRET),
        ("HS512", SECRET + b"\r\n", SECRET),
        ("RS256", pem(RSA_KEY), RSA_KEY.public_key()),
        ("RS384", pem(RSA_KEY), RSA_KEY.public_key()),
        ("RS512", pem(RSA_KEY), RSA_KEY.public_key()),
        ("ES256", pem(EC_KEY), EC_KEY.public_key()),
    ],
)
def test_a_token_is_signed_with_the_key_and_says_what_the_plan_says(
    tmp_path, algorithm, content, verified_with
) -> None:
    mint = Mint(
        algorithm=algorithm,
        key_file=key_file(tmp_path, content),
        key_id="2026-11",
        issuer=ISSUER,
        audience=AUDIENCE,
        scopes=("chat", "read"),
        lifetime_s=60,
        claims={"tenant": "blue", "roles": ["a", "b"]},
    )
    before_s = wall_ns() // NS_PER_S
    token = minted(mint, 7)
    said = jwt.decode(
        token, verified_with, algorithms=[algorithm], audience=AUDIENCE, issuer=ISSUER
    )
    made_s = said.pop("iat")
    assert before_s <= made_s <= wall_ns() // NS_PER_S
    assert said == {
        "sub": "analyst-7",
        "exp": made_s + 60,
        "iss": ISSUER,
        "aud": AUDIENCE,
        "scope": "chat read",
        "tenant": "blue",
        "roles": ["a", "b"],
    }
    assert jwt.get_unverified_header(token) == {
        "alg": algorithm,
        "kid": "2026-11",
        "typ": "JWT",
    }


def test_the_least_token_says_who_and_how_long() -> None:
    said = unverified(minted(Mint(claim="email", subject="ann-{n}@x.example"), 3))
    assert said.keys() == {"email", "iat", "exp"}
    assert said["email"] == "ann-3@x.example"
    assert said["exp"] - said["iat"] == 86_400


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512", "RS256", "ES256"])
def test_without_a_key_file_a_process_has_one_key_of_its_own(algorithm) -> None:
    mint = Mint(algorithm=algorithm)
    tokens = [minted(mint, number) for number in range(2)]
    assert [unverified(token)["sub"] for token in tokens] == ["analyst-0", "analyst-1"]
    assert jwt.get_unverified_header(tokens[0])["alg"] == algorithm


# expired ones


@pytest.mark.parametrize("share", [0.0, 0.1, 1 / 3, 0.9, 1.0])
@pytest.mark.parametrize("stride", [1, 2, 5, 13])
def test_the_expired_share_is_kept_in_every_regular_part_of_the_crowd(share, stride) -> None:
    now_s = 1_800_000_000
    mint = Mint(expired_share=share, lifetime_s=100)
    numbers = range(0, 200 * stride, stride)
    said = [unverified(minted(mint, n, lambda: now_s * NS_PER_S)) for n in numbers]
    expired = [claims for claims in said if claims["exp"] <= now_s]
    assert abs(len(expired) - 200 * share) <= 4
    assert {claims["exp"] for claims in expired} <= {now_s - 100}
    assert {c["exp"] for c in said if c["exp"] > now_s} <= {now_s + 100}


def test_an_expired_token_is_expired_to_whoever_looks() -> None:
    mint = Mint(expired_share=1, lifetime_s=1)
    with pytest.raises(jwt.ExpiredSignatureError):
        jwt.decode(minted(mint, 0), options={"verify_signature": False, "verify_exp": True})


# kept

MOMENTS = (1000, 1001, 1050, 1051, 900)
"""In s; at last the wall clock is set back."""


def test_a_token_is_kept_until_half_of_its_life_is_over() -> None:
    mint = Mint(subject="kept", lifetime_s=100)
    made_at = [unverified(minted(mint, 0, lambda at=at: at * NS_PER_S))["iat"] for at in MOMENTS]
    assert made_at == [1000, 1000, 1000, 1051, 900]


def test_another_plan_or_analyst_has_another_token() -> None:
    tokens = {
        minted(mint, number, lambda: 0)
        for mint in (Mint(subject="a"), Mint(subject="b"))
        for number in (0, 1)
    }
    assert len(tokens) == 2
    numbered = {minted(Mint(), number, lambda: 0) for number in (0, 1)}
    assert len(numbered) == 2


def test_a_new_key_in_the_file_makes_new_tokens(tmp_path: Path) -> None:
    path = key_file(tmp_path, SECRET)
    mint = Mint(key_file=path)
    minted(mint, 0)
    Path(path).write_bytes(SECRET[::-1])
    os.utime(path, ns=(1, 1))
    assert jwt.decode(minted(mint, 0), SECRET[::-1], algorithms=["HS256"])


# keys that do not fit

WANTED = {
    "HS256": "a raw secret",
    "RS256": "a private RSA key in PEM, without a password",
    "ES256": "a private P-256 key in PEM, without a password",
}


@pytest.mark.parametrize(
    ("algorithm", "content"),
    [
        ("HS256", pem(RSA_KEY)),
        ("HS256", public_pem(RSA_KEY)),
        ("RS256", SECRET),
        ("RS256", pem(EC_KEY)),
        ("RS256", public_pem(RSA_KEY)),
        ("RS256", pem(RSA_KEY, b"locked")),
        ("RS256", pem(RSA_KEY)[:300]),
        ("ES256", SECRET),
        ("ES256", pem(RSA_KEY)),
        ("ES256", pem(P384_KEY)),
        ("ES256", public_pem(EC_KEY)),
    ],
)
def test_a_key_that_does_not_fit_is_told_and_not_shown(tmp_path, algorithm, content) -> None:
    path = key_file(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        minted(Mint(algorithm=algorithm, key_file=path), 0)
    assert str(caught.value) == (
        f"identity: the key file {path} does not fit: {algorithm} wants {WANTED[algorithm]}"
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "cannot read the key file K: No such file or directory"),
        ("folder", "cannot read the key file K: Is a directory"),
        (b"", "the key file K is empty"),
        (b" \n", "the key file K is empty"),
    ],
)
def test_a_key_file_without_a_key_is_told(tmp_path, content, line) -> None:
    path = tmp_path / "key"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        minted(Mint(key_file=str(path)), 0)
    assert str(caught.value).replace(str(path), "K") == f"identity: {line}"


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"claims": {"exp": 1}}, "claims must not hold exp: lifetime_s says it"),
        ({"claims": {"iss": "x"}}, "claims must not hold iss: issuer says it"),
        ({"claims": {"sub": "x"}}, "claims must not hold sub: subject says it"),
        ({"claim": "email", "claims": {"email": "x"}}, "claims must not hold email: subject says"),
        ({"algorithm": "none"}, "Input should be 'HS256'"),
        ({"lifetime_s": 0}, "greater than or equal to 1"),
        ({"expired_share": 1.1}, "less than or equal to 1"),
        ({"claims": {"day": b"x"}}, "valid JSON"),
        ({"secret": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_a_mint_that_contradicts_itself_is_a_mistake(keys, what) -> None:
    with pytest.raises(ValueError, match=what):
        Mint(**keys)


# the mock's verification, which is NAT's


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        ({}, True),
        ({"expired_share": 1}, False),
        ({"issuer": "https://elsewhere.example"}, False),
        ({"audience": "another"}, False),
        ({"scopes": ("read",)}, False),
        ({"key_id": "another"}, False),
        ({"key_file": None}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("algorithm", ["HS256", "RS256", "ES256"])
def test_a_server_that_verifies_accepts_the_right_tokens_only(
    tmp_path: Path, algorithm, changes, accepted
) -> None:
    content, jwk = {
        "HS256": (SECRET, jwt.algorithms.HMACAlgorithm.to_jwk(SECRET)),
        "RS256": (pem(RSA_KEY), jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key())),
        "ES256": (pem(EC_KEY), jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key())),
    }[algorithm]
    keys = [json.loads(jwk) | {"kid": "k1", "alg": algorithm}]
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": keys}))
    policy = JwtPolicy(str(tmp_path / "jwks.json"), ISSUER, AUDIENCE, scopes=("chat",))
    right = {
        "algorithm": algorithm,
        "key_file": key_file(tmp_path, content),
        "key_id": "k1",
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "scopes": ("chat", "read"),
    }
    token = minted(Mint.model_validate(right | changes), 5)
    server = Identities(verifier=JwtVerifier(policy))
    asked = server.from_payload({"method": "jwt", "token": token})
    if accepted:
        assert asyncio.run(asked) == user_id(f"{ISSUER}\x1fanalyst-5")
    else:
        with pytest.raises(Unverified):
            asyncio.run(asked)
