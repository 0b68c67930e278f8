"""What it means when a service answers with an HTTP status instead of doing the work.

=====================  =========  ====================  ===========================================
status                 outcome    cause                 because
=====================  =========  ====================  ===========================================
401, 403               refused    auth_rejected         our credentials were not taken
429                    refused    rate_limited          and nothing else is called that
503                    refused    agent_error           it says itself that it cannot serve now
other 3xx and 4xx      refused    protocol_violation    route or body are not what it serves
other 5xx              failed     agent_error           it took the question and broke
2xx of another kind    failed     protocol_violation    an answer, but not in the dialect's language
=====================  =========  ====================  ===========================================

A WebSocket upgrade that is refused (`upgrade_cause`): 401, 403 and 429 as above, any other status
is connect_failed, 503 too: there is no socket, and nobody was told to slow down.

``retry-after`` is kept when it counts seconds (RFC 9110, 10.2.3); its date form would need a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadgen.clock import NS_PER_S
from loadgen.events import Failed
from loadgen.turn import Cause, Outcome

_BY_STATUS = {
    401: (Outcome.REFUSED, Cause.AUTH_REJECTED),
    403: (Outcome.REFUSED, Cause.AUTH_REJECTED),
    429: (Outcome.REFUSED, Cause.RATE_LIMITED),
    503: (Outcome.REFUSED, Cause.AGENT_ERROR),
}
_BY_CLASS = {
    2: (Outcome.FAILED, Cause.PROTOCOL_VIOLATION),
    3: (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION),
    4: (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION),
    5: (Outcome.FAILED, Cause.AGENT_ERROR),
}
_UPGRADE_CAUSES = (Cause.AUTH_REJECTED, Cause.RATE_LIMITED)
_UNKNOWN = (Outcome.FAILED, Cause.PROTOCOL_VIOLATION)

DETAIL_CHARS = 300
"""How much of a server's own words a failure keeps."""


def brief(text: str) -> str:
    """``text`` on one line and short enough for a record."""
    line = " ".join(text[: 4 * DETAIL_CHARS].split())
    return line if len(line) <= DETAIL_CHARS else line[: DETAIL_CHARS - 3] + "..."


def shown(value: Any) -> str:
    """Any ``value`` of a server's JSON, for a record; JSON may nest deeper than Python shows."""
    try:
        return brief(repr(value))
    except RecursionError:
        return "a value nested too deep to show"


def outcome_of(status: int) -> tuple[Outcome, Cause]:
    """The table above."""
    return _BY_STATUS.get(status) or _BY_CLASS.get(status // 100, _UNKNOWN)


def upgrade_cause(status: int) -> Cause:
    """Why there is no socket: one rule for all dialects."""
    _, cause = outcome_of(status)
    return cause if cause in _UPGRADE_CAUSES else Cause.CONNECT_FAILED


def refused(status: int, headers: Mapping[str, str], body: str, wanted: str) -> Failed:
    """The failure of a turn whose request was answered by ``status``.

    ``wanted`` is the media type that the dialect reads; only a 2xx answer speaks of it.
    """
    outcome, cause = outcome_of(status)
    if status // 100 == 2:
        media = headers.get("content-type") or "of no content type"
        what = f"answer is {media}, not {wanted}"
        if status != 200:
            what = f"HTTP {status}, {what}"
    elif status // 100 == 3:
        what = f"HTTP {status}, redirected to {headers.get('location', 'nowhere')}"
    else:
        what = f"HTTP {status}"
    detail = f"{what}: {brief(body)}" if body.strip() else what
    return Failed(outcome, cause, detail, retry_after_ns=retry_after_ns(headers))


def retry_after_ns(headers: Mapping[str, str]) -> int | None:
    """``retry-after`` in ns; None when absent or not a count of seconds."""
    text = headers.get("retry-after", "").strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        return None
    return int(text) * NS_PER_S
