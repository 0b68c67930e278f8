"""One analyst at a time beside a plain client, and eight slots."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from uuid import uuid4

import bareclient
import gevent
import pytest
from counterparts import Server
from dialogue import Analyst, Habits

from loadgen.clock import NS_PER_MS
from loadgen.identity import IdentityPlan
from loadgen.metrics import Clock, turn_clocks

TURNS = 5
REPLY_S = 0.25
WORDS = "steps=1 step_kind=none step_ms=150 think_ms=50 llm=1 tokens=8 token_ms=30"
SCRIPTED_MS = {Clock.TTFP: 200, Clock.TTFA: 230, Clock.TTC: 440}
ASK = {"nat-sse": bareclient.ask_sse, "nat-ws": bareclient.ask_ws}


@pytest.mark.parametrize("prompt", ["", "hitl=radio hitl_at=mid"], ids=["plain", "with a prompt"])
@pytest.mark.parametrize("dialect", ASK)
def test_the_clocks_are_the_scripted_times_without_the_human_pause(
    server: Server, dialect: str, prompt: str
) -> None:
    """The plain client replies at once, our analyst after a while: the clocks must not show it."""
    question = f"{WORDS} {prompt}"
    with (
        ThreadPoolExecutor() as pool,
        Analyst(server, dialect, habits=Habits(reply_s=REPLY_S)) as analyst,
    ):
        asking = pool.submit(lambda: [ASK[dialect](server, question) for _ in range(TURNS)])
        rows = [analyst.ask(question) for _ in range(TURNS)]
        while not asking.done():
            gevent.sleep(0.05)
    reference = [bareclient.milestones(seen) for seen in asking.result()]
    clocks = [turn_clocks(row) for row in rows]
    for clock, scripted in SCRIPTED_MS.items():
        ours = [turn[clock] for turn in clocks]
        theirs = [turn[clock] for turn in reference]
        assert min(ours) >= scripted
        assert min(theirs) >= scripted
        assert median(ours) - scripted <= 3 * (max(theirs) - scripted)
    paused = REPLY_S * 1000 if prompt else 0
    assert all(turn[Clock.HUMAN] >= paused for turn in clocks)
    assert all(
        turn[Clock.WALL] == pytest.approx(turn[Clock.TTC] + turn[Clock.HUMAN]) for turn in clocks
    )


@pytest.mark.parametrize("name", ["real-8", "mock-8"])
@pytest.mark.parametrize("dialect", ASK)
def test_with_eight_slots_the_ninth_turn_shows_nothing_until_one_is_free(
    running: Callable[[str], Server], name: str, dialect: str
) -> None:
    server = running(name)
    identity = IdentityPlan(method="api_key", template=uuid4().hex)

    def ask() -> dict[str, float]:
        with Analyst(server, dialect, identity=identity) as analyst:
            row = analyst.ask("steps=1 step_ms=800 tokens=4 token_ms=30")
        assert row["outcome"] == "completed"
        begin = row["started_mono_ns"] / NS_PER_MS
        return {mark: begin + row[f"{mark}_ms"] for mark in ("first_step", "first_answer")}

    turns = [turn.get() for turn in [gevent.spawn(ask) for _ in range(12)]]
    # The first slot is free some 90 ms after the first answer began.
    first_answer = min(turn["first_answer"] for turn in turns)
    assert sum(turn["first_step"] < first_answer for turn in turns) <= 8
