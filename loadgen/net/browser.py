"""An httpx client for what is not on the clock: pages of a login, documents of a target."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

# At level INFO httpx logs each URL, and with it the state and the code of a login.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


def browser(tls: ssl.SSLContext | None, timeout_s: float) -> httpx.Client:
    """A client with cookies and without a proxy; it follows no redirect by itself."""
    import httpx

    return httpx.Client(verify=tls or True, timeout=timeout_s, trust_env=False)
