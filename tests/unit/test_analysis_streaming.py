"""Routes that should stream and do not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from synthetic import manifest, row

from loadgen.analysis import frame, streaming
from loadgen.analysis.summary import summarise
from loadgen.flow import bucket
from loadgen.journal import RunData
from loadgen.report import streams as drawing


def notes(**facts: object) -> list[str]:
    rows = [row(f"t{number}", **facts) for number in range(10)]
    return summarise(RunData(Path(), manifest(), rows))["notes"]


ALL_AT_ONCE = {"first_answer_ms": 1699.0, "last_answer_ms": 1700.0, "ended_ms": 1700.0}


@pytest.mark.case("D-19")
@pytest.mark.parametrize("chunks", [1, 40])
def test_an_answer_that_comes_at_once_at_the_end_is_called_not_streaming(chunks):
    assert notes(**ALL_AT_ONCE, chunks=chunks)[0] == (
        "not streaming: nat-sse on /v1/chat/stream gave 100 % of its answers in the last 1.00 ms "
        "(median; first answer / completion = 0.999); a proxy may buffer, or the agent writes in "
        "one piece"
    )


@pytest.mark.case("D-19")
@pytest.mark.parametrize(
    "facts",
    [
        {"first_answer_ms": 900.0, "last_answer_ms": 1700.0, "ended_ms": 1700.0, "chunks": 40},
        {**ALL_AT_ONCE, "chunks": 1, "dialect": "nat-ws", "route": "/websocket"},
        {**ALL_AT_ONCE, "chunks": 1, "dialect": "nat-poll", "route": "/v1/chat"},
    ],
    ids=["a stream", "a socket asked for one message", "a route that never streams"],
)
def test_nothing_is_said_of_what_streams_or_need_not(facts):
    assert not any("not streaming" in note for note in notes(**facts))


STREAM = {"first_answer_ms": 900.0, "last_answer_ms": 4900.0, "ended_ms": 5000.0, "chunks": 40}


def streams(*rows: dict[str, object]) -> list[streaming.Stream]:
    run = RunData(Path(), manifest(), [row(f"t{n}", **facts) for n, facts in enumerate(rows)])
    return streaming.find(frame.turns(run), frame.gaps(run))


def gaps(*ms: float) -> list[int]:
    counted = Counter(bucket(round(v * 1e6)) for v in ms)
    return [item for pair in sorted(counted.items()) for item in pair]


def test_gaps_of_all_answers_of_a_route_are_one_distribution():
    (found,) = streams(
        *[{**STREAM, "gaps": gaps(*[50.0] * 90, *[200.0] * 9, 3000.0), "max_gap_ms": 3000.0}] * 10
    )
    assert (found.n, found.gap_max_ms) == (1000, 3000)
    assert found.gaps["p50"] == pytest.approx(50, rel=0.016)
    assert found.gaps["p95"] == pytest.approx(200, rel=0.016)
    assert found.gaps["p99"] == pytest.approx(200, rel=0.016)
    assert sum(number for *_, number in found.histogram) == 1000
    few = streams({**STREAM, "gaps": gaps(*[50.0] * 50), "max_gap_ms": 50.0})[0]
    assert few.gaps["p50"] is not None
    assert few.gaps["p99"] is None


@pytest.mark.case("D-21")
def test_a_server_that_writes_on_ticks_shows_a_comb():
    (found,) = streams({**STREAM, "gaps": gaps(*[50.0] * 20, *[100.0] * 5, 150.0)})
    assert [round((low + high) / 2, -1) for low, high, _ in found.histogram] == [50, 100, 150]
    assert [number for *_, number in found.histogram] == [20, 5, 1]


def test_an_answer_whose_bulk_comes_at_the_end_is_called_not_streaming_too():
    facts = {**STREAM, "twentieth_ms": 4990.0, "last_answer_ms": 4990.0}
    assert notes(**facts)[0] == (
        "not streaming: nat-sse on /v1/chat/stream gave 95 % of its answers in the last 10.00 ms "
        "(median; a twentieth had come at 0.998 of the turn); a proxy may buffer, or the agent "
        "writes in one piece"
    )


@pytest.mark.case("D-18")
def test_an_encoding_is_said_to_buffer():
    assert notes(**STREAM, content_encoding="gzip")[0].startswith(
        "buffered: content-encoding gzip: 10 answers of nat-sse on /v1/chat/stream were encoded"
    )
    assert not any("buffered" in note for note in notes(**STREAM, content_encoding="identity"))


def test_chunks_that_come_several_at_a_time_are_said_to_be_gathered():
    blocks = gaps(*[0.0] * 30, *[500.0] * 9)
    facts = {**STREAM, "gaps": blocks, "max_burst": 5}
    assert notes(**facts)[0] == (
        "buffering suspected: nat-sse on /v1/chat/stream gave 76.9 % of its chunks in one read "
        "with the one before, up to 5 events at a time; a proxy may gather them, or the agent "
        "writes them so"
    )
    steady = {**STREAM, "gaps": gaps(*[0.0] * 5, *[100.0] * 34)}
    assert not any("buffering" in note for note in notes(**steady))


def test_stalls_are_counted_with_the_longest():
    facts = {**STREAM, "stalls": 2, "stalled_ms": 3500.0, "max_gap_ms": 2000.0}
    assert notes(**facts)[0] == (
        "stalls: 10 of 10 answers of nat-sse on /v1/chat/stream paused for more than 1 s, 20 "
        "times, at most 2.00 s"
    )


def test_token_rates_are_of_turns_whose_server_counted_them():
    (found,) = streams({**STREAM, "output_tokens": 400}, {**STREAM, "output_tokens": 800}, STREAM)
    assert (found.token_turns, found.tokens_per_s) == (2, 100.0)
    assert streams(STREAM)[0].tokens_per_s is None


def test_the_chart_of_gaps_shows_what_share_is_longer_and_says_what_stalled():
    facts = {**STREAM, "gaps": gaps(*[50.0] * 97, 200.0, 200.0, 3000.0), "max_gap_ms": 3000.0}
    rows = [row("t1", **facts, stalls=1, stalled_ms=3000.0), row("t2", **facts, dialect="nat-ws")]
    chart = drawing.streams(summarise(RunData(Path(), manifest(), rows)))
    assert chart is not None
    assert chart.title == (
        "95 % of the gaps between chunks of nat-sse /v1/chat/stream are at most 49.66 ms; 1 of 2 "
        "answers stalled for more than 1 s, 3.00 s at most"
    )
    curve = chart.figure.data[0]
    assert list(curve.y) == pytest.approx([100, 3, 1, 0.5])
    assert curve.x[1:] == pytest.approx([0.0508, 0.2, 3.0], rel=0.04)
    silent = summarise(RunData(Path(), manifest(), [row("t1", **STREAM)]))
    assert drawing.streams(silent) is None
