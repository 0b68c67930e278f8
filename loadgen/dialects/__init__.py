"""Wire languages of agents: frames to events, commands to bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from loadgen.dialects.arag_http import AragHttp
from loadgen.dialects.arag_ws import AragWs
from loadgen.dialects.contract import Dialect, Options, Site
from loadgen.dialects.nat_poll import NatPoll
from loadgen.dialects.nat_sse import NatSse
from loadgen.dialects.nat_ws import NatWs
from loadgen.errors import ConfigError

_NOWHERE = Site()
_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})

DIALECTS: dict[str, Callable[[str | None, Site, Options], Dialect]] = {
    "arag-http": AragHttp,
    "arag-ws": AragWs,
    "nat-poll": NatPoll,
    "nat-sse": NatSse,
    "nat-ws": NatWs,
}
"""Dialects by name, each made from (route or None for its own default, site, options)."""

NEEDED: Mapping[str, Options] = {
    "arag-http": {"agent": "AGENT"},
    "arag-ws": {"agent": "AGENT"},
}
"""Options that a dialect cannot be made without, each with a word in its place."""


def create(
    name: str, route: str | None = None, site: Site = _NOWHERE, options: Options = _NO_OPTIONS
) -> Dialect:
    """The dialect called ``name`` on ``route``, for a target at ``site``.

    Raises `ConfigError` for a name, a route or an option that nobody knows.
    """
    make = DIALECTS.get(name)
    if make is None:
        raise ConfigError(f"dialect {name!r} is unknown; known are {', '.join(sorted(DIALECTS))}")
    return make(route, site, options)
