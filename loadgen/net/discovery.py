"""What a plan leaves to the target to say, asked before the first analyst: the input parameter of
the workflows it calls, from ``/openapi.json``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from loadgen.dialects.contract import Options
from loadgen.dialects.nat_openapi import needs_input, workflow_input
from loadgen.net.browser import browser
from loadgen.net.driver import Wiring
from loadgen.plan import Plan

_log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0


def complete(plan: Plan, wirings: Mapping[str, Wiring]) -> Plan:
    """``plan`` with the option ``input`` filled in for each group whose route needs one.

    ``wirings`` by the groups' names.  A target that does not say keeps the dialect's default.
    Blocks; not for the hub.
    """
    groups = tuple(
        group.model_copy(
            update={
                "options": completed(group.dialect, group.route, group.options, wirings[group.name])
            }
        )
        for group in plan.analysts
    )
    return plan.model_copy(update={"analysts": groups})


def completed(dialect: str, route: str | None, options: Options, wiring: Wiring) -> Options:
    """`complete` for the options of one dialect on one route."""
    if not needs_input(dialect, route, options):
        return options
    found = workflow_input(_fetch(wiring), route or "")
    if found is None:
        _log.info("/openapi.json does not tell the input of %s; options.input would", route)
        return options
    return {**options, "input": found}


def _fetch(wiring: Wiring) -> dict[str, Any]:
    import httpx

    url = f"{wiring.endpoint.root}{wiring.endpoint.base_path}/openapi.json"
    try:
        with browser(wiring.tls, _TIMEOUT_S) as client:
            told = client.get(url).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        _log.info("%s cannot be read: %s", url, type(error).__name__)
        return {}
    return told if isinstance(told, dict) else {}
