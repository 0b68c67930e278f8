"""What a service says of its own work, beside what its analysts waited.

Some dialects tell which module of the agent ran for how long, and close with an answer that cites
its sources.  The server's seconds are its own measurement and modules may run side by side: they
can add up to more than the turn took, and what they leave open is waiting or work it does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from loadgen.analysis import frame, numerals
from loadgen.analysis.quantiles import SHARES, ascending, quantile
from loadgen.journal import RunData
from loadgen.metrics import Clock, Row, turn_clocks

Json = dict[str, Any]

_TOKENS = ("input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Module:
    """One module's steps over all completed turns: ``seconds`` and tokens are the server's sums."""

    name: str
    turns: int
    steps: float
    seconds: float
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Work:
    """One dialect's completed turns.

    ``work_ms`` and ``ttc_ms`` are medians over turns that tell their work, ``share`` the median of
    one over the other.  ``lost_chunks`` of ``compared`` turns gave an answer that their chunks do
    not add up to; ``unresolved`` of ``citations`` name a source that was never shown.
    """

    turns: int
    modules: tuple[Module, ...]
    work_ms: float | None
    ttc_ms: float | None
    share: float | None
    compared: int
    lost_chunks: int
    citations: int
    unresolved: int
    visualizations: int


def find(run: RunData, table: pd.DataFrame) -> dict[str, Work]:
    """The work of each dialect that tells any.  ``table`` is `frame.turns`."""
    told = table[table["worked"] & frame.completed(table)].sort_values("row")
    return {
        str(dialect): _work([*run.rows_at(turns["row"])])
        for dialect, turns in told.groupby("dialect", sort=True, observed=True)
    }


def sentences(found: dict[str, Work]) -> Iterator[str]:
    """What of it a reader should know."""
    for dialect, work in found.items():
        if work.lost_chunks:
            yield (
                f"{numerals.count(work.lost_chunks)} of {numerals.count(work.compared)} {dialect} "
                f"turns ({numerals.share(work.lost_chunks / work.compared)}) lost answer chunks: "
                "the chunks do not add up to the answer"
            )
        if work.unresolved:
            yield (
                f"{numerals.count(work.unresolved)} of {numerals.count(work.citations)} citations "
                f"of {dialect} name a source that was never shown"
            )


def as_json(work: Work) -> Json:
    """For the summary; ms, the server's seconds as ms too."""
    return {
        "turns": work.turns,
        "modules": [
            {
                "module": module.name,
                "turns": module.turns,
                "steps": module.steps,
                "total_ms": round(module.seconds * 1000, 3),
                "mean_ms": round(module.seconds * 1000 / module.steps, 3),
                "input_tokens": round(module.input_tokens, 3),
                "output_tokens": round(module.output_tokens, 3),
            }
            for module in work.modules
        ],
        "work_p50_ms": work.work_ms,
        "ttc_p50_ms": work.ttc_ms,
        "share_p50": work.share,
        "compared": work.compared,
        "lost_chunks": work.lost_chunks,
        "lost_share": work.lost_chunks / work.compared if work.compared else None,
        "citations": work.citations,
        "unresolved_citations": work.unresolved,
        "visualizations": work.visualizations,
    }


def _work(rows: Sequence[Row]) -> Work:
    told = [row for row in rows if row.get("work")]
    worked = pd.Series([_worked_ms(row) for row in told], dtype=float)
    took = pd.Series([turn_clocks(row).get(Clock.TTC) for row in told], dtype=float)
    compared = [row["chunks_match"] for row in rows if "chunks_match" in row]
    return Work(
        turns=len(rows),
        modules=_modules(told),
        work_ms=_median(worked),
        ttc_ms=_median(took),
        share=_median(worked / took),
        compared=len(compared),
        lost_chunks=compared.count(False),
        citations=sum(row.get("citations", 0) for row in rows),
        unresolved=sum(row.get("unresolved_citations", 0) for row in rows),
        visualizations=sum(row.get("visualizations", 0) for row in rows),
    )


def _modules(rows: Sequence[Row]) -> tuple[Module, ...]:
    """The dearest first."""
    spent: dict[str, list[Mapping[str, float]]] = {}
    for row in rows:
        for name, facts in row["work"].items():
            spent.setdefault(name, []).append(facts)
    modules = [
        Module(
            name,
            len(facts),
            *(sum(item[key] for item in facts) for key in ("steps", "seconds", *_TOKENS)),
        )
        for name, facts in spent.items()
    ]
    return tuple(sorted(modules, key=lambda module: (-module.seconds, module.name)))


def _worked_ms(row: Row) -> float:
    return 1000 * sum((float(facts["seconds"]) for facts in row["work"].values()), 0.0)


def _median(values: pd.Series[float]) -> float | None:
    found = quantile(ascending(values), SHARES["p50"])
    return None if found is None else round(found.value, 3)
