"""Turns that asked their analyst something: whose time was it, the analyst's or the server's?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from loadgen.analysis import frame
from loadgen.analysis.quantiles import SHARES, ascending, quantile

Json = dict[str, Any]


_COLUMNS = ("human_ms", "ttc_ms", "wall_ms")


def turns(table: pd.DataFrame) -> pd.DataFrame:
    """Completed turns that kept their connection and waited for their analyst."""
    plain = frame.plain(table, *_COLUMNS)
    return plain[plain["human_ms"] > 0]


def find(table: pd.DataFrame) -> Json | None:
    """Medians of such turns, in ms, and of all others for comparison; None without any.

    Server time is the ttc: wall time without the human pauses.  ``table`` is `frame.turns`.
    """
    chosen, plain = turns(table), frame.plain(table, *_COLUMNS)
    if chosen.empty:
        return None
    return {
        "turns": len(chosen),
        "human_p50_ms": _median(chosen["human_ms"]),
        "server_p50_ms": _median(chosen["ttc_ms"]),
        "wall_p50_ms": _median(chosen["wall_ms"]),
        "others": len(plain) - len(chosen),
        "others_p50_ms": _median(plain.loc[~(plain["human_ms"] > 0), "ttc_ms"]),
    }


def _median(values: pd.Series[float]) -> float | None:
    found = quantile(ascending(values), SHARES["p50"])
    return None if found is None else round(found.value, 3)
