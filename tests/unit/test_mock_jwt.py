"""Where the mock's JWT verification gets its keys, and which of them it takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest

from loadgen.clock import NS_PER_S, wall_ns
from mockagent.jwt_verifier import JwtPolicy, JwtVerifier

ISSUER, AUDIENCE = "https://identity.example", "loadgen"
SECRETS = {"one": b"1" * 32, "two": b"2" * 32}


def token(secret: bytes, kid: str | None) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": wall_ns() // NS_PER_S + 60}
    return jwt.encode(claims, secret, "HS256", headers={"kid": kid} if kid else None)


def keys(*names: str) -> str:
    """A set of symmetric keys."""
    made = [{"kty": "oct", "kid": name, "k": _base64url(SECRETS[name])} for name in names]
    return json.dumps({"keys": made})


def _base64url(secret: bytes) -> str:
    return jwt.utils.base64url_encode(secret).decode()


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
