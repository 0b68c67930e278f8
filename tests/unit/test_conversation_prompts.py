"""Prompts: the analyst's pause, the reply, and whose time it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from talk import (
    AGENT_FAILED,
    CUT,
    HTTP,
    PATIENT,
    SOCKET,
    TEXT,
    Habits,
    Talk,
    clocks,
    happenings,
)

from loadgen.events import Answer, Completed, Option, Progress, Prompt, PromptKind, Started
from loadgen.phase import Phase
from loadgen.turn import Cause, Outcome

BOTH = pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])
SAY = {HTTP: "post", SOCKET: "send"}


@pytest.mark.case("D-38")
@BOTH
def test_the_analysts_time_is_in_no_clock_of_the_server(wire):
    talk = Talk(wire, habits=Habits(reply_ms=5000))
    talk.ask_at_hand(0)
    talk.heard()
    talk.hear(800, TEXT)
    assert talk.phase is Phase.HUMAN
    assert talk.until(5799) == ""
    assert talk.until(5800) == f"{SAY[wire]} reply p1 2024"
    talk.hear(6200, Answer("w0 "))
    talk.hear(6800, Answer("end"), Completed())

    assert talk.end == (Outcome.COMPLETED, None)
    expected = {"wall": 6800, "human": 5000, "ttc": 1800, "ttfa": 1200, "ttfv": 800}
    found = clocks(talk.record)
    assert {name: found[name] for name in expected} == expected
    assert happenings(talk.record) == [("resume", 400)]


@pytest.mark.parametrize(
    "kind",
    [k for k in PromptKind if k not in (PromptKind.NOTIFICATION, PromptKind.OAUTH_CONSENT)],
)
@BOTH
def test_a_prompt_of_every_kind_is_answered_once(wire, kind):
    options = (
        () if kind is PromptKind.TEXT else (Option("1", "Yes", "yes"), Option("2", "No", "no"))
    )
    prompt = Prompt(kind, "p7", "well?", options, execution="e1")
    talk = Talk(wire, habits=Habits(reply_ms=100, value="yes"))
    talk.ask_at_hand(0)
    talk.heard()
    talk.hear(100, prompt)
    assert talk.until(10_000) == f"{SAY[wire]} reply p7 yes"
    talk.hear(10_100, Answer("a"), Completed())

    (found,) = talk.row["prompts"]
    assert found["kind"] == kind.value
    assert found["replied"] is True
    assert (found["paused_ms"], found["resumed_ms"], found["next_event_ms"]) == (100, 200, 10_100)
    assert talk.record.execution == "e1"


@BOTH
def test_a_notification_is_visible_and_stops_nobody(wire):
    talk = Talk(wire)
    talk.ask_at_hand(0)
    talk.heard()
    assert talk.hear(300, Prompt(PromptKind.NOTIFICATION, "n1", "fyi")) == ""
    assert talk.phase is Phase.WORKING
    talk.hear(900, Answer("a"), Completed())

    assert talk.row["prompts"] == [
        {"kind": "notification", "paused_ms": 300, "replied": False},
    ]
    found = clocks(talk.record)
    assert (found["ttfv"], found["human"], found["ttc"]) == (300, 0, 900)


@BOTH
def test_several_prompts_of_one_turn_are_each_answered_and_their_pauses_add_up(wire):
    talk = Talk(wire, habits=Habits(reply_ms=1000))
    talk.ask_at_hand(0)
    for number, at in enumerate((500, 2000, 4000)):
        talk.hear(at, replace(TEXT, key=f"p{number}"))
        talk.until(at + 1000)
        if wire is HTTP:
            talk.posted(at + 1005)
    talk.hear(6000, Answer("a"), Completed())

    assert [word for word in talk.heard().split(", ") if "reply" in word] == [
        f"{SAY[wire]} reply p{number} 2024" for number in range(3)
    ]
    found = clocks(talk.record)
    assert (found["human"], found["ttc"]) == (3000, 3000)
    assert happenings(talk.record) == [("resume", 500), ("resume", 1000), ("resume", 1000)]
    assert talk.habits.deliveries == [1, 1, 1]


def test_the_pause_lasts_until_the_reply_is_written():
    talk = Talk(HTTP, habits=Habits(reply_ms=1000), slow=True)
    talk.ask_at_hand(0)
    talk.flush(1)
    talk.hear(500, TEXT)
    talk.until(1500)
    talk.flush(1520)
    talk.posted(1530)
    talk.hear(1600, Answer("a"), Completed())

    (prompt,) = talk.row["prompts"]
    assert (prompt["resumed_ms"], prompt["reply_done_ms"], prompt["reply_status"]) == (
        1520,
        1530,
        204,
    )
    assert clocks(talk.record)["human"] == 1020


@BOTH
def test_a_step_that_the_prompt_overtook_is_not_what_the_reply_brought_about(wire):
    talk = Talk(wire, habits=Habits(reply_ms=1000))
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.hear(501, Progress("tool", "search"))
    assert talk.phase is Phase.HUMAN
    talk.until(1500)
    talk.hear(1499, Progress("tool", "arrived before the reply, read after it"))
    talk.hear(1900, Answer("a"), Completed())
    assert happenings(talk.record) == [("resume", 400)]
    assert talk.record.steps == 2


@BOTH
def test_a_second_prompt_supersedes_the_one_that_is_open(wire):
    talk = Talk(wire, habits=Habits(reply_ms=1000))
    talk.ask_at_hand(0)
    talk.heard()
    talk.hear(500, TEXT)
    talk.hear(900, replace(TEXT, key="p2"))
    assert talk.until(5000) == f"{SAY[wire]} reply p2 2024"
    talk.hear(5000, Answer("a"), Completed())

    assert [(p["paused_ms"], p["resumed_ms"], p["replied"]) for p in talk.row["prompts"]] == [
        (500, 900, False),
        (900, 1900, True),
    ]
    assert clocks(talk.record)["human"] == 1400


@BOTH
@pytest.mark.parametrize(
    ("last", "end"),
    [
        (Completed(), (Outcome.COMPLETED, None)),
        (AGENT_FAILED, (Outcome.FAILED, Cause.AGENT_ERROR)),
        (CUT, (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
    ],
    ids=["completed", "failed", "cut"],
)
def test_a_turn_may_end_without_waiting_for_the_analyst(wire, last, end):
    talk = Talk(wire, habits=Habits(reply_ms=60_000))
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.hear(2000, Answer("went on without you"), last)
    assert talk.end == end
    assert clocks(talk.record)["human"] == 1500
    assert "reply" not in talk.heard()
    assert talk.until(100_000) == ""


# replies by request


@pytest.mark.parametrize("status", [400, 404, 422, 500])
def test_a_refused_reply_does_not_spoil_an_answer_that_comes_whole(status):
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.until(1500)
    talk.posted(1510, status)
    assert talk.phase is Phase.WORKING
    talk.hear(2000, Answer("a"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.row["prompts"][0]["reply_status"] == status


def test_a_refused_reply_explains_a_stream_that_is_cut():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.until(1500)
    talk.posted(1510, 404)
    talk.hear(2000, CUT)
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert talk.record.detail == "reply got 404"


def test_a_refused_reply_fails_the_turn_also_if_the_stream_stays_silent():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.until(1500)
    talk.posted(1510, 422)
    talk.until(61_500)
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert talk.row["ended_ms"] == 61_500


def test_a_reply_that_cannot_be_delivered_ends_the_turn():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.until(1500)
    assert talk.post_failed(1600, Cause.CLIENT_RESOURCE).endswith("finish and break")
    assert talk.end == (Outcome.FAILED, Cause.CLIENT_RESOURCE)
    assert talk.record.detail == "reply not delivered: connection refused"


def test_only_the_acknowledgement_is_lost_if_the_agent_has_gone_on():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.until(1500)
    talk.hear(1600, Answer("on it"))
    talk.post_failed(1700, Cause.STREAM_CUT)
    talk.hear(2000, Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.notices == {"reply_unacknowledged": 1}


def test_the_second_reply_failing_is_not_excused_by_the_first_having_arrived():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.until(1500)
    talk.posted(1510)
    talk.hear(1600, Started("x"))
    talk.hear(1700, TEXT)
    talk.slow = True
    talk.until(2700)
    talk.post_failed(2800)
    assert talk.end == (Outcome.FAILED, Cause.CONNECT_FAILED)


def test_an_answer_to_a_reply_after_the_end_is_nobodys():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(500, TEXT)
    talk.until(1500)
    talk.hear(1600, Answer("a"), Completed())
    talk.posted(1700, 500)
    talk.post_failed(1800)
    talk.ask_at_hand(2000, "t2")
    talk.posted(2100, 500)
    talk.hear(2200, Answer("b"), Completed())
    assert [record.outcome for record in talk.records] == [Outcome.COMPLETED] * 2


# deadlines stand still while the analyst thinks


@BOTH
@pytest.mark.parametrize("patience_ms", [None, 2000])
def test_neither_the_turns_deadline_nor_patience_runs_while_the_analyst_thinks(wire, patience_ms):
    habits = Habits(reply_ms=5000, patience_ms=patience_ms)
    talk = Talk(wire, deadlines=_deadlines(turn_s=3), habits=habits, slow=True)
    limit = 3000 if patience_ms is None else patience_ms
    talk.ask(0)
    talk.open(0)
    talk.flush(0)
    talk.hear(1000, TEXT)
    talk.until(6000)
    # The reply is due, and takes 500 ms until it is written: nobody's pause ends the turn.
    assert talk.phase is Phase.WORKING
    talk.until(6500)
    assert talk.phase is Phase.WORKING
    talk.flush(6500)
    talk.until(5500 + limit - 1)
    assert talk.phase is Phase.WORKING
    talk.until(5500 + limit)
    assert talk.record.outcome is (Outcome.TIMED_OUT if patience_ms is None else Outcome.ABANDONED)
    assert talk.row["ended_ms"] == 5500 + limit
    assert clocks(talk.record)["human"] == 5500


@BOTH
def test_silence_is_counted_from_the_reply(wire):
    talk = Talk(wire, deadlines=_deadlines(silence_s=2), habits=Habits(reply_ms=10_000))
    talk.ask_at_hand(0)
    talk.hear(1000, TEXT)
    talk.until(12_999)
    assert talk.phase is Phase.WORKING
    talk.until(13_000)
    assert talk.end == (Outcome.TIMED_OUT, Cause.STALLED)
    assert talk.record.detail == "silent for silence_s = 2 s"


def _deadlines(**changes):
    return PATIENT.model_copy(update=changes)


# prompts that run out


TIMED = Prompt(PromptKind.FEEDBACK, "f1", timeout_ns=1_000_000_000)


def _at_timed_prompt(**manner):
    talk = Talk(SOCKET, habits=Habits(manner=manner))
    talk.ask_at_hand(0)
    talk.hear(100, Progress("step"), TIMED)
    talk.heard()
    return talk


def test_an_agent_that_goes_on_without_a_reply_ends_the_pause_at_the_timeout():
    talk = _at_timed_prompt(delay_ns=None)
    talk.hear(1105, Progress("step"))
    talk.hear(1300, Answer("a"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.row["notices"] == {"prompt_ignored": 1, "prompt_expired": 1}
    assert clocks(talk.record)["human"] == 1000
    assert clocks(talk.record)["ttc"] == 300
    assert talk.row["prompts"][0]["expired"]


def test_an_agent_that_withholds_the_turn_after_the_timeout_is_told_from_a_silent_one():
    talk = _at_timed_prompt(delay_ns=None)
    talk.until(10**6)
    assert talk.end == (Outcome.TIMED_OUT, Cause.WITHHELD)
    assert talk.row["ended_ms"] == 100 + 1000 + PATIENT.prompt_grace_s * 1000


def test_a_late_reply_is_sent_and_noted_and_what_it_releases_is_heard():
    talk = _at_timed_prompt(delay_ns=1_100_000_000)
    talk.until(1200)
    assert talk.heard() == "send reply f1 2024"
    talk.hear(1250, Answer("a"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.row["notices"] == {"hitl_late": 1}
    assert happenings(talk.record) == [("resume", 50)]


def test_a_reply_in_time_is_not_late():
    talk = _at_timed_prompt(delay_ns=900_000_000)
    talk.until(1000)
    assert talk.heard() == "send reply f1 2024"
    talk.hear(1050, Answer("a"), Completed())
    assert talk.row.get("notices") is None


def test_the_agent_may_go_on_before_a_late_reply_and_both_are_noted():
    talk = _at_timed_prompt(delay_ns=1_100_000_000)
    talk.hear(1101, Progress("step"))
    talk.until(1200)
    assert talk.heard() == "send reply f1 2024"
    talk.hear(1300, Answer("a"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.row["notices"] == {"prompt_expired": 1, "hitl_late": 1}
    assert talk.row["prompts"][0]["replied"]
    assert happenings(talk.record) == [], "what follows a late reply does not come of it"
    assert clocks(talk.record)["human"] == 1000
