"""Each analyst's first turn, which opens connections and finds cold caches, beside its later ones.

Nothing is left out of any figure: this is a view beside them.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from loadgen.analysis import frame, numerals
from loadgen.analysis.quantiles import SHARES, ascending, quantile
from loadgen.metrics import TITLES, Clock

_CLOCKS = (Clock.TTFV, Clock.TTFA, Clock.TTC)
_TELLING = 1.5
_FEWEST = 5


def compare(table: pd.DataFrame) -> dict[str, Any]:
    """Medians in ms of first and of later turns, over completed ones that kept their connection."""
    plain = frame.plain(table, "first", *(f"{clock}_ms" for clock in _CLOCKS))
    first, later = plain[plain["first"]], plain[~plain["first"]]
    return {
        "turns": int(table["first"].sum()),
        "metrics": {
            clock.value: {
                "first": _median(first[f"{clock}_ms"]),
                "later": _median(later[f"{clock}_ms"]),
            }
            for clock in _CLOCKS
        },
    }


def sentence(found: dict[str, Any]) -> str | None:
    """What a reader should know, where first turns were much slower."""
    for clock in _CLOCKS:
        first, later = found["metrics"][clock.value].values()
        known = first and later and min(first["n"], later["n"]) >= _FEWEST
        if known and first["p50_ms"] > _TELLING * later["p50_ms"]:
            return (
                f"first turns were slower: {TITLES[clock]} {numerals.duration(first['p50_ms'])} "
                f"in the {numerals.count(first['n'])} first turns of analysts, "
                f"{numerals.duration(later['p50_ms'])} in later ones (medians); both are counted"
            )
    return None


def _median(values: pd.Series[float]) -> dict[str, Any] | None:
    ordered = ascending(values)
    found = quantile(ordered, SHARES["p50"])
    return None if found is None else {"n": ordered.size, "p50_ms": round(found.value, 3)}
