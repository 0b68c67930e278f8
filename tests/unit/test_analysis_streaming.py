"""Routes that should stream and do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import manifest, row

from loadgen.analysis.summary import summarise
from loadgen.journal import RunData


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
