"""Dialects by name."""

from __future__ import annotations

import pytest

from loadgen.dialects import DIALECTS, create
from loadgen.dialects.contract import Site, Wire
from loadgen.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "wire", "route"),
    [
        ("nat-sse", Wire.HTTP, "/v1/chat/stream"),
        ("nat-poll", Wire.HTTP, "/v1/chat"),
        ("nat-ws", Wire.WEBSOCKET, "/websocket"),
    ],
)
def test_a_dialect_has_its_name_its_wire_and_a_route_of_its_own(name, wire, route):
    dialect = create(name)
    assert (dialect.name, dialect.wire, dialect.route) == (name, wire, route)


def test_a_route_of_the_plan_takes_the_place_of_the_default():
    assert create("nat-sse", "/chat/stream").route == "/chat/stream"
    assert create("nat-poll", "/chat").route == "/chat"
    assert create("nat-ws", "/ws").route == "/ws"


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_can_be_made(name):
    assert create(name, site=Site("http://127.0.0.1:8000")).name == name


@pytest.mark.parametrize("name", DIALECTS)
def test_an_option_that_a_dialect_does_not_have_is_answered_with_those_that_it_has(name):
    with pytest.raises(ConfigError, match=rf"options\.colour of {name}: .*; its options are "):
        create(name, options={"colour": "red"})


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(
        ConfigError, match=r"'nat-smoke' is unknown; known are nat-poll, nat-sse, nat-ws"
    ):
        create("nat-smoke")
