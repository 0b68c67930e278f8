"""Dialects by name."""

from __future__ import annotations

import pytest

from loadgen.dialects import DIALECTS, NEEDED, create
from loadgen.dialects.contract import Site, Wire
from loadgen.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "wire", "route"),
    [
        ("nat-sse", Wire.HTTP, "/v1/chat/stream"),
        ("nat-poll", Wire.HTTP, "/v1/chat"),
        ("nat-ws", Wire.WEBSOCKET, "/websocket"),
        ("arag-http", Wire.HTTP, "/api/v1/agent/AGENT"),
        ("arag-ws", Wire.WEBSOCKET, "/api/v1/agent/AGENT"),
    ],
)
def test_a_dialect_has_its_name_its_wire_and_a_route_of_its_own(name, wire, route):
    dialect = create(name, options=NEEDED.get(name, {}))
    assert (dialect.name, dialect.wire, dialect.route) == (name, wire, route)


def test_a_route_of_the_plan_takes_the_place_of_the_default():
    assert create("nat-sse", "/chat/stream").route == "/chat/stream"
    assert create("nat-poll", "/chat").route == "/chat"
    assert create("nat-ws", "/ws").route == "/ws"


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_can_be_made(name):
    site, needed = Site("http://127.0.0.1:8000"), NEEDED.get(name, {})
    assert create(name, site=site, options=needed).name == name


@pytest.mark.parametrize("name", NEEDED)
def test_a_dialect_that_needs_options_says_which_are_missing(name):
    for option in NEEDED[name]:
        with pytest.raises(ConfigError, match=rf"options\.{option} of {name} is missing"):
            create(name)


@pytest.mark.parametrize("name", DIALECTS)
def test_an_option_that_a_dialect_does_not_have_is_answered_with_those_that_it_has(name):
    words = rf"options\.colour of {name} is not one of .*; its options are "
    with pytest.raises(ConfigError, match=words):
        create(name, options={"colour": "red"})


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(
        ConfigError, match=r"'nat-smoke' is unknown; known are arag-http, arag-ws, nat-poll, nat"
    ):
        create("nat-smoke")
