"""Where the mock's JWT verification gets its keys, and which of them it takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from loadgen.clock import NS_PER_S, wall_ns
from mockagent.jwt_verifier import JwtPolicy, JwtVerifier

ISSUER, AUDIENCE = "https://identity.example", "loadgen"
SECRETS = {"one": b"1" * 32, "two": b"2" * 32}


def good_claims() -> dict[str, Any]:
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": wall_ns() // NS_PER_S + 60}


def token(secret: bytes, kid: str | None) -> str:
    return jwt.encode(good_claims(), secret, "HS256", headers={"kid": kid} if kid else None)


def keys(*names: str) -> str:
    """A set of symmetric keys."""
    made = [{"kty": "oct", "kid": name, "k": _base64url(SECRETS[name])} for name in names]
    return json.dumps({"keys": made})


def _base64url(secret: bytes) -> str:
    return jwt.utils.base64url_encode(secret).decode()


def _part(members: dict[str, Any]) -> str:
    return _base64url(json.dumps(members).encode())


def verified(place: str, text: str) -> bool:
    verifier = JwtVerifier(JwtPolicy(place, ISSUER, AUDIENCE))
    return asyncio.run(verifier.verify(text))


@pytest.mark.parametrize(
    ("names", "signed", "kid", "expected"),
    [
        (["one"], "one", "one", True),
        (["one"], "one", None, True),
        (["one"], "two", None, False),
        (["one", "two"], "two", "two", True),
        (["one", "two"], "two", None, False),
        (["one", "two"], "two", "one", False),
        (["one"], "one", "three", False),
    ],
)
def test_the_key_is_the_named_one_or_the_only_one(
    tmp_path: Path, names: list[str], signed: str, kid: str | None, expected: bool
) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(keys(*names))
    assert verified(str(file), token(SECRETS[signed], kid)) is expected


@pytest.mark.parametrize("content", ["", "{}", '{"keys": []}', "[1]", '{"keys": [{"kty": "x"}]}'])
def test_a_set_without_keys_verifies_nothing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(content)
    assert not verified(str(file), token(SECRETS["one"], "one"))


def test_a_place_without_keys_verifies_nothing(tmp_path: Path) -> None:
    assert not verified(str(tmp_path / "nothing"), token(SECRETS["one"], "one"))
    assert not verified("http://127.0.0.1:9/jwks", token(SECRETS["one"], "one"))


GOOD = {"kty": "oct", "kid": "one", "k": _base64url(SECRETS["one"])}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([GOOD], True),
        ([GOOD, "junk"], True),
        ([GOOD | {"use": "sig", "key_ops": ["verify"], "alg": "HS512"}], True),
        ([GOOD | {"use": "enc"}], False),
        ([GOOD | {"key_ops": ["sign"]}], False),
        ([GOOD, {"kty": "lock"}], False),
        ([GOOD, {"kty": "RSA", "kid": "two", "e": "AQAB"}], False),
        ([GOOD, {"kid": "two"}], False),
    ],
)
def test_a_key_must_be_for_signatures_and_none_of_its_set_unusable(
    tmp_path: Path, keys: list[Any], expected: bool
) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": keys}))
    assert verified(str(file), token(SECRETS["one"], "one")) is expected


CURVES: dict[str, Callable[[], ec.EllipticCurve]] = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1}


@pytest.mark.parametrize(
    ("curve", "algorithm", "expected"),
    [
        ("P-256", "ES256", True),
        ("P-384", "ES384", True),
        ("P-384", "ES256", False),
        ("P-256", "ES384", False),
    ],
)
def test_an_algorithm_has_its_curve(
    tmp_path: Path, curve: str, algorithm: str, expected: bool
) -> None:
    private = ec.generate_private_key(CURVES[curve]())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(private.public_key()))
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [public | {"kid": "one"}]}))
    head = {"alg": algorithm, "kid": "one"}
    signed = f"{_part(head)}.{_part(good_claims())}"
    signature = jwt.get_algorithm_by_name(algorithm).sign(signed.encode(), private)
    text = f"{signed}.{jwt.utils.base64url_encode(signature).decode()}"
    assert verified(str(file), text) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"exp": 4_000_000_000.0}, True),
        ({"exp": 4_000_000_000.5}, False),
        ({"exp": float("inf")}, False),
        ({"exp": True}, False),
        ({"exp": 0}, False),
        ({"nbf": None}, False),
        ({"iat": "now"}, False),
        ({"aud": ["other", 7, AUDIENCE]}, True),
        ({"aud": AUDIENCE + "s"}, False),
        ({"sub": 7}, False),
        ({"jti": 7}, False),
        ({"azp": 7}, False),
        ({"azp": 0, "client_id": "desk"}, True),
        ({"scope": ["ask", 7]}, False),
        ({"scope": {"ask": True}}, False),
        ({"scope": 7}, False),
        ({"scope": 0, "scp": "ask"}, True),
    ],
)
def test_claims_have_the_types_that_nat_wants(
    tmp_path: Path, changes: dict[str, Any], expected: bool
) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(keys("one"))
    payload = json.dumps(good_claims() | changes).encode()
    text = jwt.PyJWS().encode(payload, SECRETS["one"], "HS256", headers={"kid": "one"})
    assert verified(str(file), text) is expected


def test_a_token_of_more_than_256_kb_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(keys("one"))
    for size, expected in ((150_000, True), (200_000, False)):
        payload = json.dumps(good_claims() | {"padding": "x" * size}).encode()
        text = jwt.PyJWS().encode(payload, SECRETS["one"], "HS256", headers={"kid": "one"})
        assert verified(str(file), text) is expected


@pytest.fixture
def key_server() -> Iterator[tuple[str, list[str]]]:
    """The URL of a set of keys, and the requests for it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(keys("one").encode())

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/jwks", asked
        server.shutdown()
        thread.join()


def test_keys_come_from_a_url_and_are_kept(key_server: tuple[str, list[str]]) -> None:
    url, asked = key_server

    async def twice() -> list[bool]:
        verifier = JwtVerifier(JwtPolicy(url, ISSUER, AUDIENCE))
        return [await verifier.verify(token(SECRETS["one"], "one")) for _ in range(2)]

    assert asyncio.run(twice()) == [True, True]
    assert asked == ["/jwks"]
