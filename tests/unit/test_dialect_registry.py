"""Dialects by name."""

from __future__ import annotations

import pytest

from loadgen.dialects import DIALECTS, create
from loadgen.dialects.contract import Wire
from loadgen.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "wire", "route"),
    [
        ("nat-sse", Wire.HTTP, "/v1/chat/stream"),
        ("nat-ws", Wire.WEBSOCKET, "/websocket"),
    ],
)
def test_a_dialect_has_its_name_its_wire_and_a_route_of_its_own(name, wire, route):
    dialect = create(name)
    assert (dialect.name, dialect.wire, dialect.route) == (name, wire, route)


def test_a_route_of_the_plan_takes_the_place_of_the_default():
    assert create("nat-sse", "/chat/stream").route == "/chat/stream"
    assert create("nat-ws", "/ws").route == "/ws"


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_can_be_made(name):
    assert create(name, origin="http://127.0.0.1:8000").name == name


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'nat-smoke' is unknown; known are nat-sse, nat-ws"):
        create("nat-smoke")
