"""Does a streaming route stream, or does the whole answer come at once at the end?

Proxies buffer event streams, and some agents write their answer in one piece: the first answer is
then the completion, and ttfa says nothing about what the analyst could read meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from loadgen.analysis import frame, numerals
from loadgen.analysis.quantiles import SHARES, ascending, quantile

LEAST_TURNS = 5

LATE = 0.95
"""First answer over completion, in the median: what comes later than this comes at the end."""

_POLLED = "nat-poll"


def sentences(table: pd.DataFrame) -> Iterator[str]:
    """A warning for each dialect and route that does not stream.  ``table`` is `frame.turns`.

    An answer in one piece counts on event streams; on a socket it may be what was asked for.
    """
    plain = frame.plain(table)
    for (dialect, route), chosen in plain.groupby(["dialect", "route"], sort=True):
        if dialect == _POLLED:
            continue
        streams = chosen if str(dialect).endswith("-sse") else chosen[chosen["chunks"] > 1]
        share = quantile(ascending(streams["ttfa_ms"] / streams["ttc_ms"]), SHARES["p50"])
        span = quantile(ascending(streams["ttc_ms"] - streams["ttfa_ms"]), SHARES["p50"])
        if len(streams) < LEAST_TURNS or share is None or span is None or share.value < LATE:
            continue
        yield (
            f"not streaming: {dialect} on {route} gave 100 % of its answers in the last "
            f"{numerals.duration(span.value)} (median; first answer / completion = "
            f"{share.value:.3f}); a proxy may buffer, or the agent writes in one piece"
        )
