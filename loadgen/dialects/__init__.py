"""Wire languages of agents: frames to events, commands to bytes."""

from __future__ import annotations

from collections.abc import Callable

from loadgen.dialects.contract import Dialect
from loadgen.dialects.nat_sse import NatSse
from loadgen.dialects.nat_ws import NatWs
from loadgen.errors import ConfigError

DIALECTS: dict[str, Callable[[str | None, str | None], Dialect]] = {
    "nat-sse": NatSse,
    "nat-ws": NatWs,
}
"""Dialects by name, each made from (route or None for its own default, origin or None)."""


def create(name: str, route: str | None = None, origin: str | None = None) -> Dialect:
    """The dialect called ``name`` on ``route``, for a target at ``origin`` (``http://host:port``).

    Raises `ConfigError` for a name or a route that nobody knows.
    """
    make = DIALECTS.get(name)
    if make is None:
        raise ConfigError(f"dialect {name!r} is unknown; known are {', '.join(sorted(DIALECTS))}")
    return make(route, origin)
