"""How answers streamed, by dialect and route: gaps between chunks, stalls, bursts, buffering.

Gaps are of chunks, not of tokens; percentiles of them are the middles of buckets (`loadgen.flow`),
at most 1.6 % from the true value.  Proxies buffer event streams, and some agents write their answer
in one piece: the first answer is then the completion, and ttfa says nothing about what the analyst
could read meanwhile.  How many tokens an answer has only the server knows: rates are of turns for
which it said so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadgen.analysis import frame, numerals
from loadgen.analysis.ledger import Gaps
from loadgen.analysis.quantiles import SHARES, ascending, least, quantile, rank
from loadgen.flow import edges_ms

Json = dict[str, Any]

LEAST_TURNS = 5

LATE = 0.95
"""Nearly all of an answer came at the end if its first twentieth came later than this share of the
turn, in the median.
"""

TOGETHER = 0.5
"""If more chunks than these came in one read with the one before, something gathers them."""

_POLLED = "nat-poll"
_PLAIN = ("", "identity")


@dataclass(frozen=True, slots=True)
class Stream:
    """The completed turns of one dialect and route that kept their connection, with answer text.

    ``gaps`` has the percentiles of all ``n`` gaps in ms, ``histogram`` rows of low and high edge in
    ms and number.  ``together`` is the share of gaps within one read; ``late`` the median share of
    the turn at which a twentieth of the answer had come, ``span_ms`` the median time from its first
    chunk to its end.  ``tokens_per_s`` is the median over ``token_turns``, from the first chunk on.
    """

    dialect: str
    route: str
    turns: int
    chunks: int
    n: int
    gaps: Mapping[str, float | None]
    gap_max_ms: float | None
    histogram: Sequence[tuple[float, float, int]]
    together: float | None
    stalls: int
    stalled_turns: int
    stalled_ms: float
    max_burst: int
    merged: float | None
    late: float | None
    first: float | None
    span_ms: float | None
    end_ms: float | None
    encodings: Mapping[str, int]
    tokens_per_s: float | None
    token_turns: int

    @property
    def at_the_end(self) -> bool:
        """Whether nearly all of its answers came in one piece at the end.

        On event streams one chunk counts; on a socket it may be what was asked for.
        """
        many = self.dialect.endswith("-sse") or self.chunks > self.turns
        enough = self.turns >= LEAST_TURNS and self.late is not None and self.late >= LATE
        return enough and many and self.dialect != _POLLED

    @property
    def gathered(self) -> bool:
        """Whether chunks come several at a time although the answer takes its time."""
        streams = self.span_ms is not None and self.span_ms >= 1000 and not self.at_the_end
        enough = self.turns >= LEAST_TURNS and self.together is not None
        return enough and streams and (self.together or 0.0) >= TOGETHER


def find(table: pd.DataFrame, gaps: Gaps) -> list[Stream]:
    """The streams of a run, by dialect and route, from `frame.turns` and `frame.gaps`."""
    chosen = frame.plain(table)
    chosen = chosen[chosen["ttfa_ms"].notna()]
    return [
        _stream(str(dialect), str(route), rows, gaps.get((str(dialect), str(route)), Counter()))
        for (dialect, route), rows in chosen.groupby(["dialect", "route"], sort=True, observed=True)
    ]


def sentences(streams: Sequence[Stream]) -> Iterator[str]:
    """What a reader should know of routes that do not stream as they should."""
    for one in streams:
        where = f"{one.dialect} on {one.route}"
        if one.at_the_end:
            yield f"not streaming: {where} gave {_piece(one)}"
        for encoding, number in one.encodings.items():
            yield (
                f"buffered: content-encoding {encoding}: {numerals.of(number, 'answer')} of "
                f"{where} were encoded, which holds events back unless each is flushed"
            )
        if one.gathered and one.together is not None:
            yield (
                f"buffering suspected: {where} gave {numerals.share(one.together)} of its chunks "
                f"in one read with the one before, up to {numerals.count(one.max_burst)} events at "
                "a time; a proxy may gather them, or the agent writes them so"
            )
        if one.stalls:
            yield (
                f"stalls: {numerals.count(one.stalled_turns)} of {numerals.count(one.turns)} "
                f"answers of {where} paused for more than 1 s, {numerals.count(one.stalls)} times, "
                f"at most {numerals.duration(one.gap_max_ms)}"
            )


def as_json(one: Stream) -> Json:
    """As it stands in the summary."""
    found = {key: round(v, 4) if isinstance(v, float) else v for key, v in asdict(one).items()}
    return found | {"not_streaming": one.at_the_end, "buffering_suspected": one.gathered}


def _piece(one: Stream) -> str:
    """All of it, or nearly all, and in what time."""
    late, first = one.late or 0.0, one.first or 0.0
    if first >= LATE:
        part, within, ratio = "100 %", one.span_ms, f"first answer / completion = {first:.3f}"
    else:
        part, within = "95 %", one.end_ms
        ratio = f"a twentieth had come at {late:.3f} of the turn"
    return (
        f"{part} of its answers in the last {numerals.duration(within)} (median; {ratio}); a proxy "
        "may buffer, or the agent writes in one piece"
    )


def _stream(dialect: str, route: str, rows: pd.DataFrame, counted: Counter[int]) -> Stream:
    n = sum(counted.values())
    ends, firsts = rows["ttc_ms"].to_numpy(np.float64), rows["ttfa_ms"].to_numpy(np.float64)
    bulks = rows["twentieth_ms"].fillna(rows["ttfa_ms"]).to_numpy(np.float64)
    longest = ascending(rows["max_gap_ms"])
    reads, rates = int(rows["reads"].sum()), _token_rates(rows)
    encoded = rows.loc[~rows["content_encoding"].isin(_PLAIN), "content_encoding"]
    with np.errstate(divide="ignore", invalid="ignore"):
        late, first = bulks / ends, firsts / ends
    return Stream(
        dialect=dialect, route=route, turns=len(rows), n=n, chunks=int(rows["chunks"].sum()),
        gaps={name: _percentile(counted, n, share) for name, share in SHARES.items()},
        gap_max_ms=float(longest[-1]) if longest.size else None,
        histogram=[(*edges_ms(bucket), number) for bucket, number in sorted(counted.items())],
        together=counted.get(0, 0) / n if n else None,
        stalls=int(rows["stalls"].sum()), stalled_turns=int((rows["stalls"] > 0).sum()),
        stalled_ms=float(rows["stalled_ms"].sum()), max_burst=int(rows["max_burst"].max()),
        merged=int(rows["merged_reads"].sum()) / reads if reads else None,
        late=_median(late), first=_median(first), span_ms=_median(ends - firsts),
        end_ms=_median(ends - bulks),
        encodings={str(name): int(number) for name, number in encoded.value_counts().items()},
        tokens_per_s=_median(rates), token_turns=rates.size,
    )  # fmt: skip


def _token_rates(rows: pd.DataFrame) -> NDArray[np.float64]:
    """Tokens a second of each turn whose server counted them, from its first chunk to its last;
    of turns that nobody paused.
    """
    took = (rows["last_answer_ms"] - rows["ttfa_ms"]).where(rows["prompts"] == 0)
    rates = rows["output_tokens"] / took.where(took > 0) * 1000
    return rates.dropna().to_numpy(np.float64)


def _percentile(counted: Counter[int], n: int, share: Fraction) -> float | None:
    """The middle of the bucket in which the percentile lies; None of too few gaps."""
    if n < least(share):
        return None
    wanted, seen = rank(n, share), 0
    for bucket, number in sorted(counted.items()):
        seen += number
        if seen >= wanted:
            low, high = edges_ms(bucket)
            return low if bucket == 0 else (low + high) / 2
    raise AssertionError("a percentile beyond all buckets")


def _median(values: NDArray[np.float64]) -> float | None:
    found = quantile(ascending(values), SHARES["p50"])
    return None if found is None else found.value
