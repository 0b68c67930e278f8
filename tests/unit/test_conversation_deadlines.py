"""Every deadline: it fires at its time, not before, and says what was waited for."""

from __future__ import annotations

import pytest
from talk import AGENT_FAILS, HTTP, PATIENT, SOCKET, TEXT, Habits, Talk

from loadgen.events import Answer, Completed, Notice, Progress, Started
from loadgen.phase import Phase
from loadgen.turn import Cause, Outcome

BOTH = pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])


def _deadlines(**changes):
    return PATIENT.model_copy(update=changes)


@BOTH
def test_connecting_takes_no_longer_than_its_deadline(wire):
    talk = Talk(wire, deadlines=_deadlines(connect_s=2))
    talk.ask(100)
    talk.until(2099)
    assert talk.phase is Phase.CONNECTING
    assert talk.until(2100).endswith("finish and break")
    assert talk.end == (Outcome.REFUSED, Cause.CONNECT_FAILED)
    assert talk.record.detail == "no connection within connect_s = 2 s"
    assert talk.row["connections"] == [{"begun_ms": 0, "failure": "connect_failed"}]
    assert talk.row["ended_ms"] == 2000
    assert "sent_ms" not in talk.row


def test_a_socket_whose_handshake_hangs_is_not_connected():
    talk = Talk(SOCKET, deadlines=_deadlines(connect_s=2))
    talk.ask(0)
    talk.dial(5)
    talk.until(2000)
    assert talk.end == (Outcome.REFUSED, Cause.CONNECT_FAILED)


def test_a_login_without_an_answer_is_given_up():
    talk = Talk(SOCKET, login=True, deadlines=_deadlines(auth_s=3))
    talk.ask(0)
    talk.open(1000)
    talk.until(3999)
    assert talk.phase is Phase.LOGGING_IN
    talk.until(4000)
    assert talk.end == (Outcome.REFUSED, Cause.AUTH_REJECTED)
    assert talk.record.detail == "no answer to auth_message within auth_s = 3 s"
    assert "ask" not in talk.heard()


@BOTH
def test_the_first_event_has_a_deadline_that_notices_do_not_meet(wire):
    talk = Talk(wire, deadlines=_deadlines(first_event_s=5))
    talk.ask_at_hand(0)
    talk.hear(4000, Notice("headers", "200"))
    talk.until(4999)
    assert talk.phase is Phase.WAITING
    talk.until(5000)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)
    assert talk.record.detail == "no event within first_event_s = 5 s"


@pytest.mark.case("D-28")
@BOTH
@pytest.mark.parametrize("event", [Started("x"), Progress("tool"), Answer("a")], ids=repr)
def test_a_stream_that_falls_silent_is_stalled_and_the_next_turn_connects_anew(wire, event):
    talk = Talk(wire, deadlines=_deadlines(silence_s=2))
    talk.ask_at_hand(0)
    talk.hear(1000, event)
    talk.hear(2500, event)
    talk.hear(4000, Notice("usage"))
    talk.until(4499)
    assert talk.phase is Phase.WORKING
    assert talk.until(4500).endswith("finish and break")
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)
    assert talk.record.detail == "silent for silence_s = 2 s"
    talk.heard()
    assert talk.ask(9000, "t2").startswith("connect")


def test_reconnecting_without_the_turn_coming_back_is_a_lost_resume():
    talk = Talk(SOCKET, deadlines=_deadlines(resume_s=4))
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"))
    talk.lose(1000)
    talk.until(1100)
    talk.open(1200)
    talk.hear(3000, Notice("trace"))
    talk.until(5199)
    assert talk.phase is Phase.RESUMING
    talk.until(5200)
    assert talk.end == (Outcome.INCOMPLETE, Cause.LOST_RESUME)
    assert talk.record.detail == "reconnected, but nothing came within resume_s = 4 s"
    assert talk.row["losses"] == [{"lost_ms": 1000, "during": "turn"}]
    assert not talk.record.recovered


@BOTH
def test_the_whole_turn_has_a_deadline_however_lively_it_is(wire):
    talk = Talk(wire, deadlines=_deadlines(turn_s=3))
    talk.ask_at_hand(0)
    for at in range(0, 3000, 100):
        talk.until(at)
        talk.hear(at, Progress("tool"))
    talk.until(3000)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)
    assert talk.record.detail == "no end within turn_s = 3 s"


def _connecting(talk):
    talk.ask(0)


def _logging_in(talk):
    talk.ask(0)
    talk.open(1)


def _waiting(talk):
    talk.ask_at_hand(0)


def _backing_off(talk):
    talk.ask_at_hand(0)
    talk.lose(2950)


def _resuming(talk):
    talk.ask_at_hand(0)
    talk.lose(100)
    talk.until(200)
    talk.open(210)


@pytest.mark.parametrize("until", [_connecting, _logging_in, _waiting, _backing_off, _resuming])
def test_the_turns_deadline_holds_in_every_phase_but_the_analysts(until):
    talk = Talk(SOCKET, login=until is _logging_in, deadlines=_deadlines(turn_s=3))
    until(talk)
    talk.until(2999)
    assert talk.phase is not Phase.IDLE
    talk.until(3000)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)


@BOTH
def test_an_analyst_who_loses_patience_abandons_the_turn(wire):
    talk = Talk(wire, habits=Habits(patience_ms=1500))
    talk.ask_at_hand(0)
    talk.hear(1400, Progress("tool"))
    talk.until(1499)
    assert talk.phase is Phase.WORKING
    assert talk.until(1500).endswith("finish and break")
    assert talk.end == (Outcome.ABANDONED, Cause.PATIENCE)
    assert talk.record.detail == "the analyst left after 1.5 s"


def test_patience_beyond_the_turns_deadline_does_not_lengthen_it():
    talk = Talk(HTTP, deadlines=_deadlines(turn_s=3), habits=Habits(patience_ms=3000))
    talk.ask_at_hand(0)
    talk.until(3000)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)


@BOTH
@pytest.mark.parametrize("deadline", ["first_event_s", "silence_s", "turn_s"])
def test_a_failure_that_was_told_before_the_silence_is_the_cause(wire, deadline):
    talk = Talk(wire, deadlines=_deadlines(**{deadline: 2}))
    talk.ask_at_hand(0)
    talk.hear(0, AGENT_FAILS)
    talk.until(400_000)
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert talk.record.detail == "it breaks"


def test_a_timer_that_fires_early_is_set_again():
    talk = Talk(HTTP, deadlines=_deadlines(silence_s=2))
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"))
    talk.alarm_ns = None
    talk.conversation.tick(10**12 + 50_000_000)
    talk._done(50)
    assert talk.phase is Phase.WORKING
    talk.until(2100)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)


def test_a_timer_that_fires_after_the_end_is_nothing():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"), Completed())
    talk.conversation.tick(10**12 + 10**11)
    assert not talk.conversation.has_commands
    assert talk.conversation.due_ns() is None


def test_time_lost_to_a_dead_connection_counts_for_the_turn_and_time_at_a_prompt_does_not():
    talk = Talk(SOCKET, deadlines=_deadlines(turn_s=3), habits=Habits(reply_ms=10_000))
    talk.ask_at_hand(0)
    talk.hear(1000, TEXT)
    talk.lose(8000)
    talk.until(8100)
    talk.until(9999)
    assert talk.phase is Phase.CONNECTING
    talk.until(10_000)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)
