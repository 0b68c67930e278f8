"""What is said to a mock agent about itself: commands, and how it is doing.  Off the clock."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from loadgen.net.browser import browser
from loadgen.net.driver import Wiring

_TIMEOUT_S = 5.0


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a URL) is on this machine by its name alone."""
    name = urlsplit(host).hostname or ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def command(wiring: Wiring, body: Mapping[str, Any]) -> tuple[int, str]:
    """Give a command: the status and the text of the answer; status 0 and why there is none."""
    import httpx

    try:
        with browser(wiring.tls, _TIMEOUT_S) as client:
            answer = client.post(f"{wiring.endpoint.root}/_control", json=dict(body))
    except httpx.HTTPError as error:
        return 0, f"{type(error).__name__}: {error}"
    return answer.status_code, answer.text


def condition(wiring: Wiring) -> dict[str, Any] | None:
    """The mock's own counts (``/_truth/summary``); None when it does not answer."""
    import httpx

    try:
        with browser(wiring.tls, _TIMEOUT_S) as client:
            told = client.get(f"{wiring.endpoint.root}/_truth/summary").raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return None
    return told if isinstance(told, dict) else None
