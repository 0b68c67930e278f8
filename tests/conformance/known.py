"""The differences between the mock and the real server that are known, each with its reason.

A difference that is not here fails its row; one that is here and occurs nowhere fails as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff


@dataclass(frozen=True)
class Known:
    """In rows whose name ``rows`` matches, these are the only differences: lines that only the
    real server (``-``) or only the mock (``+``) writes, each matched by one of ``lines``.
    """

    rows: str
    lines: Sequence[str]
    reason: str

    def explains(self, row: str, difference: Sequence[str]) -> bool:
        """Whether all of the ``difference`` is known."""
        return re.search(self.rows, row) is not None and all(
            any(re.match(line, told) for line in self.lines) for told in difference
        )


_STRAY = "name: 'Function Complete: <workflow>', payload: '**Function Output:**\\n```python\\nNone"
"""The real server puts the closing step of an abandoned run into whatever stream it then writes:
when, and into which, is up to its garbage collector.
"""


def differences(real: Sequence[str], mock: Sequence[str]) -> list[str]:
    """The lines that only one of them wrote."""
    told = unified_diff([line for line in real if _STRAY not in line], mock, n=0, lineterm="")
    return [line for line in told if not line.startswith(("---", "+++", "@@"))]


KNOWN = (
    Known(
        r"bad requests: (GET|POST) /v1/chat/$",
        [r"-vary: Origin"],
        "the router redirects inside the toolkit's CORS layer, which the mock has not",
    ),
    Known(
        r"an unknown job$",
        [r"[-+]\{detail: "],
        "the mock has async jobs without Dask; the toolkit has the routes only with that extra",
    ),
)
