"""Requests beside the turn's stream: polls, reconciliation, odd replies, logins; interruptions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from talk import (
    AGENT_FAILED,
    CONSENT,
    CUT,
    HTTP,
    PATIENT,
    PENDING,
    SOCKET,
    TEXT,
    Habits,
    Talk,
    clocks,
    happenings,
)

from loadgen.events import Answer, Completed, Progress, Started
from loadgen.persona import ConsentPlan
from loadgen.phase import Phase
from loadgen.turn import Cause, Outcome

TRACKED = replace(TEXT, execution="e1")


# turns that go on out of sight


def test_a_pending_turn_is_asked_after_until_it_ends():
    talk = Talk(HTTP)
    talk.dialect.states += [(PENDING,), (Answer("all of it"), Completed())]
    talk.ask_at_hand(0)
    talk.hear(100, PENDING)
    talk.heard()
    assert talk.until(599) == ""
    assert talk.until(600) == "post poll /executions/e1"
    talk.posted(610, 200)
    assert talk.until(1110).endswith("post poll /executions/e1")
    assert talk.posted(1120, 200).endswith("finish")
    assert talk.end == (Outcome.COMPLETED, None)
    assert (talk.record.answer, talk.record.polls, talk.record.execution) == ("all of it", 2, "e1")
    assert clocks(talk.record)["ttc"] == 1120
    assert "ttfp" not in clocks(talk.record)


def test_a_prompt_of_a_pending_turn_stops_the_polls_until_the_reply_is_out():
    talk = Talk(HTTP)
    talk.dialect.states += [(Answer("a"), Completed())]
    talk.ask_at_hand(0)
    talk.hear(100, PENDING, TRACKED)
    assert talk.phase is Phase.HUMAN
    talk.heard()
    assert talk.until(1100) == "post reply p1 2024"
    talk.posted(1110)
    assert talk.until(1600).endswith("post poll /executions/e1")
    talk.posted(1610, 200)
    assert talk.end == (Outcome.COMPLETED, None)
    assert clocks(talk.record)["human"] == 1000


def test_the_connection_of_a_pending_turn_may_go():
    talk = Talk(HTTP)
    talk.dialect.states += [(Answer("a"), Completed())]
    talk.ask_at_hand(0)
    talk.hear(100, PENDING)
    talk.lose(300)
    talk.until(600)
    talk.posted(610, 200)
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.losses == []


def test_polls_that_find_no_server_are_tried_again_but_not_for_ever():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, PENDING)
    for at in (600, 1200, 1800):
        talk.until(at)
        talk.post_failed(at + 100)
    assert talk.end == (Outcome.INCOMPLETE, Cause.CONNECT_FAILED)
    assert talk.record.detail == "3 polls in a row failed: connection refused"
    assert talk.record.notices == {"poll_failed": 3}


def test_a_poll_that_is_never_answered_stalls_the_turn():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, PENDING)
    talk.until(60_600)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)
    assert talk.record.detail == "no answer to a poll for silence_s = 60 s"


def test_the_deadline_of_the_turn_ends_the_polls():
    talk = Talk(HTTP, deadlines=PATIENT.model_copy(update={"turn_s": 1}))
    talk.dialect.states += [(PENDING,)] * 9
    talk.ask_at_hand(0)
    talk.hear(100, PENDING)
    talk.until(600)
    talk.posted(610, 200)
    talk.until(1000)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)


# what the server says of a run whose stream broke off


@pytest.mark.parametrize(("status", "said"), [(200, "running"), (200, "completed"), (404, "")])
def test_a_stream_that_breaks_off_after_a_prompt_is_asked_after_once(status, said):
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, TRACKED)
    talk.until(1100)
    talk.posted(1110)
    talk.heard()
    assert talk.hear(1500, CUT) == "post state of e1"
    assert talk.posted(1510, status, said).endswith("finish and break")
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert talk.row["execution_state"] == (said or "HTTP 404")
    assert talk.row["ended_ms"] == 1500, "the question after it is not part of the turn"


def test_a_server_that_does_not_say_is_not_waited_for():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, TRACKED)
    talk.hear(200, CUT)
    talk.until(10_200)
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert "execution_state" not in talk.row
    talk.ask_at_hand(11_000, "t2")
    talk.hear(11_100, TRACKED)
    talk.hear(11_200, CUT)
    talk.post_failed(11_300)
    assert talk.row["execution_state"] == "unreachable"


def test_an_interruption_does_not_take_back_how_the_turn_ended():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, TRACKED)
    talk.hear(200, CUT)
    talk.interrupt(300)
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert talk.row["ended_ms"] == 200


def test_a_stream_that_breaks_off_before_any_prompt_is_claimed_as_nothing():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"))
    assert talk.hear(200, CUT).endswith("finish and break")
    assert "execution" not in talk.row


# replies that provoke the server


def test_a_prompt_may_be_left_to_its_timeout():
    talk = Talk(HTTP, habits=Habits(manner={"delay_ns": None}))
    talk.ask_at_hand(0)
    talk.hear(100, TEXT)
    assert talk.phase is Phase.WORKING
    talk.hear(5000, AGENT_FAILED)
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert talk.record.notices["prompt_ignored"] == 1
    assert talk.row["prompts"] == [{"kind": "text", "paused_ms": 100, "replied": False}]


def test_a_late_reply_goes_out_although_the_turn_has_failed():
    talk = Talk(HTTP, habits=Habits(reply_ms=7000, manner={"insist": True}))
    talk.ask_at_hand(0)
    talk.hear(100, TEXT)
    talk.heard()
    talk.hear(6100, AGENT_FAILED)
    assert talk.phase is Phase.SETTLING
    assert talk.until(7100) == "post reply p1 2024"
    talk.posted(7110, 400)
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert talk.row["ended_ms"] == 6100
    assert talk.row["prompts"][0]["reply_status"] == 400


def test_a_second_reply_is_recorded_beside_the_first():
    talk = Talk(HTTP, habits=Habits(manner={"twice": True}))
    talk.ask_at_hand(0)
    talk.hear(100, TEXT)
    talk.until(1100)
    talk.heard()
    assert talk.posted(1110) == "post reply p1 2024"
    talk.hear(1150, Answer("a"), Completed())
    assert talk.phase is Phase.SETTLING
    talk.posted(1200, 404)
    assert talk.end == (Outcome.COMPLETED, None)
    prompt = talk.row["prompts"][0]
    assert (prompt["reply_status"], prompt["again_status"]) == (204, 404)
    assert talk.row["ended_ms"] == 1150


def test_on_a_socket_the_second_reply_follows_at_once():
    talk = Talk(SOCKET, habits=Habits(manner={"twice": True}))
    talk.ask_at_hand(0)
    talk.hear(100, TEXT)
    talk.heard()
    assert talk.until(1100) == "send reply p1 2024, send reply p1 2024"


# logging in elsewhere


def test_a_consent_is_given_after_a_human_delay_and_has_its_own_measure():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, Started("x"), CONSENT)
    talk.heard()
    assert talk.until(3100) == f"visit {CONSENT.key}"
    talk.visited(3300, 200)
    talk.hear(3400, Progress("tool"))
    talk.hear(4000, Answer("a"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert happenings(talk.record) == [("consent", 300)]
    assert clocks(talk.record)["human"] == 3000
    assert clocks(talk.record)["ttc"] == 1000
    assert talk.row["prompts"] == [
        {"kind": "oauth_consent", "paused_ms": 100, "resumed_ms": 3100, "replied": True,
         "reply_status": 200, "reply_done_ms": 3300, "next_event_ms": 3400},
    ]  # fmt: skip


@pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])
def test_a_login_page_that_cannot_be_reached_ends_the_turn(wire):
    talk = Talk(wire)
    talk.ask_at_hand(0)
    talk.hear(100, CONSENT)
    talk.until(3100)
    talk.visited(3300, 0, "ConnectError at http://login")
    assert talk.end == (Outcome.FAILED, Cause.AUTH_REJECTED)
    assert talk.record.detail == "oauth consent: ConnectError at http://login"


@pytest.mark.parametrize(
    ("do", "said"), [("deny", f"visit {CONSENT.key} to deny"), ("skip", ""), ("fail", "finish")]
)
def test_a_consent_may_be_refused_put_aside_or_the_end(do, said):
    talk = Talk(HTTP, habits=Habits(consents=ConsentPlan(do, 0)))
    talk.ask_at_hand(0)
    talk.heard()
    talk.hear(100, CONSENT)
    talk.until(100)
    assert talk.heard().removesuffix(" and break") == said
    if do == "skip":
        talk.hear(5000, AGENT_FAILED)
        assert talk.record.notices["consent_skipped"] == 1


def test_a_consent_of_a_pending_turn_goes_on_by_polls():
    talk = Talk(HTTP)
    talk.dialect.states += [(Answer("a"), Completed())]
    talk.ask_at_hand(0)
    talk.hear(100, PENDING, CONSENT)
    talk.until(3100)
    talk.visited(3200)
    talk.until(3600)
    talk.posted(3610, 200)
    assert talk.end == (Outcome.COMPLETED, None)


# an analyst that asks something else


@pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])
def test_an_interrupted_turn_is_abandoned_and_its_socket_kept(wire):
    talk = Talk(wire, habits=Habits(interrupt_ms=2000))
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"))
    talk.until(2000)
    assert talk.end == (Outcome.ABANDONED, Cause.PATIENCE)
    assert talk.record.detail == "the analyst asked something else after 2 s"
    assert talk.record.notices == {"interrupted": 1}
    assert talk.connected is (wire is SOCKET)


def test_greetings_are_said_once_on_each_socket_after_the_login():
    talk = Talk(SOCKET, login=True)
    talk.dialect.greeting = ("hello",)
    talk.ask(0)
    talk.open(10)
    talk.heard()
    assert talk.login(20) == "send hello, send ask t1"
    talk.hear(30, Answer("a"))
    talk.lose(100)
    talk.until(200)
    talk.open(210)
    talk.heard()
    assert talk.login(220) == "send hello"


@pytest.mark.parametrize("demand", [TEXT, CONSENT], ids=["prompt", "consent"])
def test_a_demand_that_is_ignored_does_not_stop_the_turns_clock_while_it_is_polled(demand):
    habits = Habits(manner={"delay_ns": None}, consents=ConsentPlan("skip", 0))
    talk = Talk(HTTP, habits=habits, deadlines=PATIENT.model_copy(update={"turn_s": 3}))
    talk.dialect.states += [(PENDING,)] * 20
    talk.ask_at_hand(0)
    talk.hear(100, PENDING, demand)
    for at in range(600, 3000, 510):
        talk.until(at)
        talk.posted(at + 5, 200)
    talk.until(4000)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)
    assert talk.row["ended_ms"] == 3000
