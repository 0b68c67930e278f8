"""Following a URL that the agent gave its analyst: the pages of an OAuth login.

Not on the clock but for its end, so httpx does it: redirects and cookies as a browser has them.
"""

from __future__ import annotations

import ssl
from urllib.parse import parse_qs, urlencode, urlsplit

from loadgen.dialects.contract import Site
from loadgen.net.browser import browser

MAX_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)


def visit(
    url: str, site: Site, route: str, tls: ssl.SSLContext | None, timeout_s: float
) -> tuple[int, str, str]:
    """Open ``url`` and follow its redirects as far as ``site`` allows.

    Gives the last status (0 without an answer), what kept us from arriving, or "", and the last URL
    that was opened.  That one may hold a credential: it must not be shown.
    """
    import httpx

    status, opened = 0, ""
    try:
        with browser(tls, timeout_s) as client:
            for _ in range(MAX_REDIRECTS):
                place = site.locate(url, route)
                if place is None:
                    problem = f"{_origin(url)} is not this target; see target.allow_origins"
                    return status, problem, opened
                origin, path = place
                url = f"{origin or site.origin}{path}"
                answer, opened = client.get(url), url
                status = answer.status_code
                if status not in _REDIRECTS:
                    return status, f"HTTP {status}" if status >= 400 else "", opened
                url = str(answer.url.join(answer.headers.get("location", "")))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return status, f"{type(error).__name__} at {_origin(url)}", opened
    return status, f"more than {MAX_REDIRECTS} redirects", opened


def denial(url: str) -> str | None:
    """Where a provider sends a user who refuses the consent asked for at ``url`` (RFC 6749,
    4.1.2.1); None if ``url`` does not say.
    """
    query = parse_qs(urlsplit(url).query)
    back = query.get("redirect_uri", [""])[0]
    if not back:
        return None
    said = {"error": "access_denied", **{k: v[0] for k, v in query.items() if k == "state"}}
    return f"{back}{'&' if '?' in back else '?'}{urlencode(said)}"


def _origin(url: str) -> str:
    """Of a URL no more than this is shown: its query holds states and codes."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" if parts.scheme and host else "that URL"
