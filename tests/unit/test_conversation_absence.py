"""Analysts that are not there: they leave in mid-answer, look away, ask again."""

from __future__ import annotations

from random import Random

import pytest
from talk import HTTP, SOCKET, TEXT, Habits, Talk

from loadgen.clock import NS_PER_MS
from loadgen.events import Answer, Completed, Progress
from loadgen.persona import PRESENT, Absence, Persona
from loadgen.plan import Group, Human
from loadgen.turn import Cause, Outcome

BOTH = pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])
LEFT = (Outcome.ABANDONED, Cause.PATIENCE)
OK = (Outcome.COMPLETED, None)


def leaving(chunks: int, after_ms: float = 0, **habits) -> Habits:
    return Habits(away=Absence(chunks, int(after_ms * NS_PER_MS)), **habits)


@BOTH
def test_an_analyst_leaves_with_the_chunk_that_was_enough(wire):
    talk = Talk(wire, habits=leaving(3))
    talk.ask_at_hand(0)
    for at in (100, 200, 300):
        talk.hear(at, Answer("a"))
    talk.heard()
    assert talk.until(300) == "finish and break"
    assert talk.end == LEFT
    assert talk.record.chunks == 3
    assert talk.row["ended_ms"] == 300
    assert talk.record.detail == "the analyst left after 0.3 s"


@BOTH
def test_or_a_little_later_with_what_came_meanwhile(wire):
    talk = Talk(wire, habits=leaving(1, after_ms=500))
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"))
    talk.hear(400, Answer("b"))
    assert "finish" not in talk.until(599)
    talk.until(600)
    assert talk.end == LEFT
    assert (talk.record.chunks, talk.row["ended_ms"]) == (2, 600)


@BOTH
def test_an_answer_that_is_shorter_or_ends_earlier_is_read_to_its_end(wire):
    talk = Talk(wire, habits=leaving(3, after_ms=500))
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"), Answer("b"), Completed())
    assert talk.end == OK


@BOTH
def test_an_answer_that_ends_before_the_analyst_leaves_is_complete(wire):
    talk = Talk(wire, habits=leaving(3, after_ms=500))
    talk.ask_at_hand(0)
    talk.hear(1100, Answer("a"), Answer("b"), Answer("c"))
    talk.hear(1200, Completed())
    assert talk.end == OK


def test_patience_that_ends_earlier_counts():
    talk = Talk(HTTP, habits=leaving(1, after_ms=5000, patience_ms=2000))
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"))
    talk.until(2000)
    assert talk.end == LEFT
    assert talk.record.detail == "the analyst left after 2 s"


def test_time_at_a_prompt_does_not_count():
    talk = Talk(SOCKET, habits=leaving(2, after_ms=300, reply_ms=10_000))
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"))
    talk.hear(200, TEXT)
    talk.until(10_200)
    talk.hear(10_300, Answer("b"))
    talk.until(10_599)
    assert not talk.records or talk.records[-1].turn != "t1"
    talk.until(10_600)
    assert talk.end == LEFT
    assert talk.record.detail == "the analyst left after 0.6 s"


@BOTH
def test_an_analyst_looks_away_once_from_the_first_sign_of_life_on(wire):
    talk = Talk(wire, habits=Habits(away=Absence(looks_away_ns=4_000_000_000)))
    talk.ask_at_hand(0)
    talk.heard()
    assert talk.hear(100, Progress("tool")) == "hold for 4000"
    talk.heard()
    assert talk.hear(4100, Answer("a")) == ""
    talk.hear(4200, Completed())
    assert talk.end == OK
    assert talk.record.notices == {"looked_away": 1}


def test_its_own_silence_is_not_the_agents():
    talk = Talk(HTTP, habits=Habits(away=Absence(looks_away_ns=90_000_000_000)))
    silence_ms = talk.conversation._deadlines.silence_s * 1000
    assert silence_ms < 90_000
    talk.ask_at_hand(0)
    talk.hear(100, Progress("tool"))
    talk.until(90_099 + silence_ms)
    assert not talk.records
    talk.until(90_100 + silence_ms)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)


def drawn(count: int = 2000, **human) -> list[Absence]:
    persona = Persona(Human(**human), Group(name="g", dialect="nat-ws"), Random(3))
    return [persona.absence() for _ in range(count)]


def test_shares_of_turns_are_as_the_plan_says():
    found = drawn(abandon_share=0.3, abandon_after_chunks=7, slow_share=0.1, slow_s=2)
    leaving_ = [item for item in found if item.leaves_at]
    assert len(leaving_) / len(found) == pytest.approx(0.3, abs=0.04)
    assert {item.leaves_at for item in leaving_} == {7}
    away = [item.looks_away_ns for item in found if item.looks_away_ns]
    assert len(away) / len(found) == pytest.approx(0.1, abs=0.03)
    assert set(away) == {2_000_000_000}


def test_an_ordinary_analyst_is_always_there_and_draws_nothing_for_it():
    rng = Random(3)
    persona = Persona(Human(), Group(name="g", dialect="nat-ws"), rng)
    state = rng.getstate()
    assert persona.absence() == PRESENT
    assert not persona.asks_again()
    assert rng.getstate() == state, "plans of before would draw something else"


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 100)])
def test_a_question_is_asked_again_in_a_share_of_the_turns_given_up(share, expected):
    human = Human(ask_again_share=share)
    persona = Persona(human, Group(name="g", dialect="nat-ws"), Random(3))
    assert sum(persona.asks_again() for _ in range(100)) == expected
