"""Identity by NAT's rules; ids and texts were seen on a real 1.9.0 server."""

from __future__ import annotations

import asyncio
from typing import Any

import jwt
import pytest

from mockagent.identity import BadClaims, Identities, IdentityError, user_id

ANN = "3339211e-2785-56ff-84da-c3b92c02549d"
HEAD = "eyJhbGciOiAibm9uZSJ9"
ANN_JWT = f"{HEAD}.eyJzdWIiOiAiYW5uIn0.c2ln"
NOBODY = "JWT contains no usable identity claim (sub, email, preferred_username)"
NO_JSON = "Expecting value: line 1 column 1 (char 0)"
BASIC_ANN_PW = "c8650dd7-fa85-5e65-bb1b-e6e298ef2299"


def unsigned(**claims: object) -> str:
    """A JWT that nobody signed."""
    return jwt.encode(claims, None, "none") + "c2ln"


def from_payload(payload: dict[str, Any]) -> str:
    return asyncio.run(Identities().from_payload(payload))


def from_handshake(headers: list[tuple[bytes, bytes]], session: str = "") -> str | None:
    return asyncio.run(Identities().from_handshake(headers, session))


def test_a_user_id_is_a_uuid5_of_the_credential() -> None:
    assert user_id("any-string-at-all") == "7855d810-634f-5509-babc-42d25dc829b7"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"method": "api_key", "token": "ann"}, ANN),
        ({"method": "jwt", "token": ANN_JWT}, ANN),
        ({"method": "jwt", "token": f"{HEAD}.eyJzdWIiOiAiIGFubiAifQ.c2ln"}, ANN),
        ({"method": "basic", "username": "ann", "password": "pw"}, BASIC_ANN_PW),
    ],
)
def test_the_same_string_is_the_same_user_by_any_method(
    payload: dict[str, Any], expected: str
) -> None:
    assert from_payload(payload) == expected


@pytest.mark.parametrize(
    ("headers", "session", "expected"),
    [
        ({}, "", None),
        ({}, "ann", ANN),
        ({"cookie": "a=b; nat-session=ann"}, "", ANN),
        ({"cookie": "nat-session=ann"}, "bob", ANN),
        ({"cookie": "nat-session=ann", "authorization": "Bearer bob"}, "", ANN),
        ({"authorization": "Bearer ann"}, "", ANN),
        ({"authorization": f"bearer  {ANN_JWT}"}, "", ANN),
        ({"authorization": "Basic YW5uOnB3"}, "", BASIC_ANN_PW),
        ({"authorization": "Bearer ann", "x-api-key": "bob"}, "", ANN),
        ({"authorization": "Digest x", "x-api-key": "ann"}, "", ANN),
        ({"authorization": "Bearer"}, "", None),
    ],
)
def test_a_connection_is_identified_in_order(
    headers: dict[str, str], session: str, expected: str | None
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert from_handshake(raw, session) == expected


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("not-a-jwt", "JWT token is empty or malformed (expected 3 dot-separated parts)"),
        ("a.b.c", "Failed to decode JWT: Invalid header padding"),
        (f"{HEAD}.%%%.c2ln", "Failed to decode JWT: Invalid payload padding"),
        (f"{HEAD}.eyJzdWIiOiAiYW5uIn0.c2l", "Failed to decode JWT: Invalid crypto padding"),
        (
            f"{HEAD}.WzFd.c2ln",
            "Failed to decode JWT: Invalid payload string: must be a json object",
        ),
        (f"bm90anNvbg.{HEAD}.c2ln", f"Failed to decode JWT: Invalid header string: {NO_JSON}"),
        (f"{HEAD}.eyJmb28iOiAiYmFyIn0.c2ln", NOBODY),
        (f"{HEAD}.eyJzdWIiOiA1fQ.c2ln", NOBODY),
    ],
)
def test_a_bad_jwt_is_refused_in_nats_words(token: str, said: str) -> None:
    with pytest.raises(IdentityError) as caught:
        from_payload({"method": "jwt", "token": token})
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("claims", "where"),
    [
        ({"aud": ["loadgen", 7]}, "audience.1"),
        ({"roles": [None]}, "roles.0"),
        ({"roles": "none", "realm_access": {"roles": [7]}}, "roles.0"),
        ({"groups": [["g"]]}, "groups.0"),
        ({"azp": 7, "client_id": "desk"}, "client_id"),
        ({"azp": "", "client_id": 7}, "client_id"),
    ],
)
def test_a_jwt_with_claims_of_other_types_is_refused_in_pydantics_words(
    claims: dict[str, object], where: str
) -> None:
    with pytest.raises(BadClaims) as caught:
        from_payload({"method": "jwt", "token": unsigned(sub="ann", **claims)})
    assert str(caught.value).splitlines()[:2] == ["1 validation error for JwtUserInfo", where]
    assert caught.value.kind == "ValidationError"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": 7, "roles": "r", "groups": {}, "realm_access": []},
        {"azp": 7},
        {"client_id": 7},
        {"roles": ["r"], "realm_access": {"roles": [7]}},
    ],
)
def test_what_nat_leaves_out_of_a_jwt_is_no_reason_to_refuse_it(claims: dict[str, object]) -> None:
    assert from_payload({"method": "jwt", "token": unsigned(sub="ann", **claims)}) == ANN


@pytest.mark.parametrize("credential", ["%%%", "YWJj", "OmFiYw=="])
def test_a_bad_basic_header_is_refused(credential: str) -> None:
    with pytest.raises(IdentityError, match="Basic auth"):
        from_handshake([(b"authorization", f"Basic {credential}".encode())])
