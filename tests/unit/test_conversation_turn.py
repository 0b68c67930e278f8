"""A turn that meets no trouble on its connection: from the question to the end, on both wires."""

from __future__ import annotations

import pytest
from talk import (
    AGENT_FAILED,
    AGENT_FAILS,
    CONSENT,
    CUT,
    HTTP,
    SECRET,
    SOCKET,
    TEXT,
    Habits,
    Talk,
    beside,
    clocks,
    happenings,
)

from loadgen.errors import GeneratorError
from loadgen.events import Answer, Completed, Failed, Login, Notice, Progress, Started
from loadgen.persona import ConsentPlan
from loadgen.phase import Phase
from loadgen.redaction import redacted
from loadgen.turn import Cause, Outcome

BOTH = pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])


@BOTH
def test_a_turn_runs_from_connecting_to_the_end(wire):
    talk = Talk(wire)

    assert talk.ask(0) == ("connect" if wire is HTTP else "connect /toy")
    talk.heard()
    assert talk.open(10) == "send ask t1"
    talk.heard()
    talk.hear(700, Started("workflow"))
    talk.hear(900, Progress("tool", "search"))
    talk.hear(1400, Answer("It is "))
    assert talk.phase is Phase.WORKING
    talk.hear(1500, Answer("42."))
    assert talk.hear(2000, Completed()) == "finish"

    assert talk.end == (Outcome.COMPLETED, None)
    row = talk.row
    facts = {
        "connected_ms": 10,
        "sent_ms": 10,
        "first_byte_ms": 700,
        "first_step_ms": 700,
        "first_progress_ms": 900,
        "first_answer_ms": 1400,
        "last_answer_ms": 1500,
        "ended_ms": 2000,
        "max_gap_ms": 100,
        "first_progress_kind": "tool",
        "steps": 1,
        "chunks": 2,
        "answer": "It is 42.",
        "answer_chars": 9,
        "number": 1,
        "dialect": "toy",
        "route": "/toy",
        "user": "u1",
        "conversation": "c1",
        "analyst_group": "group",
        "stamp": "kernel",
    }
    assert {name: row.get(name) for name in facts} == facts
    assert happenings(talk.record) == [("connect", 10)]


@BOTH
def test_a_synthetic_first_step_is_no_progress(wire):
    talk = Talk(wire)
    talk.ask_at_hand()
    talk.hear(700, Started("workflow"))
    talk.hear(4000, Answer("yes"), Completed())

    assert talk.row["first_step_ms"] == 700
    assert "first_progress_ms" not in talk.row
    assert "ttfp" not in clocks(talk.record)
    assert clocks(talk.record)["ttfv"] == 4000


@BOTH
def test_progress_without_a_synthetic_first_step_is_the_first_step(wire):
    talk = Talk(wire)
    talk.ask_at_hand()
    talk.hear(800, Progress("reasoning"))
    talk.hear(900, Started("late"), Progress("tool"))
    talk.hear(4000, Answer("yes"), Completed())
    assert (talk.row["first_step_ms"], talk.row["first_progress_ms"]) == (800, 800)
    assert talk.row["first_progress_kind"] == "reasoning"


@BOTH
def test_notices_are_counted_and_are_no_sign_of_the_agent(wire):
    talk = Talk(wire)
    talk.ask_at_hand()
    talk.hear(100, Notice("headers", "200"), Notice("encoding", "gzip"), Notice("usage"))
    talk.hear(200, Notice("usage", "40"), Notice("trace"))
    assert talk.phase is Phase.WAITING
    talk.hear(300, Answer("yes"), Completed())

    row = talk.row
    assert (row["status"], row["content_encoding"]) == (200, "gzip")
    assert row["notices"] == {"usage": 2, "trace": 1}
    assert row["output_tokens"] == 40
    assert clocks(talk.record)["ttfv"] == 300


@pytest.mark.case("D-30")
def test_a_socket_carries_one_turn_after_another_and_each_has_its_own_record():
    talk = Talk(SOCKET)
    talk.ask(0, "t1")
    talk.open(50)
    talk.hear(200, Answer("a"), Completed())
    for turn, start, took in (("t2", 60_000, 300), ("t3", 120_000, 400)):
        talk.heard()
        assert talk.ask(start, turn) == f"send ask {turn}"
        talk.hear(start + took, Answer("a"), Completed())

    assert [clocks(record)["ttc"] for record in talk.records] == [200, 300, 400]
    assert [len(record.connections) for record in talk.records] == [1, 0, 0]
    assert [record.number for record in talk.records] == [1, 2, 3]


def test_a_kept_http_connection_carries_the_next_question_at_once():
    talk = Talk(HTTP)
    assert talk.ask_at_hand(0) == "send ask t1"
    talk.hear(100, Answer("a"), Completed())
    assert "connections" not in talk.row
    assert "connected_ms" not in talk.row


@BOTH
def test_sent_is_stamped_when_the_kernel_has_it_all(wire):
    talk = Talk(wire)
    talk.ask_at_hand(0, "t0")
    talk.hear(5, Answer("a"), Completed())
    talk.slow = True
    talk.ask_at_hand(10)
    talk.flush(35)
    talk.flush(40)
    talk.hear(100, Answer("a"), Completed())
    assert clocks(talk.record)["setup"] == 25


def test_the_intended_start_is_kept_beside_the_real_one():
    talk = Talk(HTTP)
    scheduled_ns = 10**12 - 250_000_000
    talk.ask_at_hand(0, scheduled_ns=scheduled_ns)
    talk.hear(1000, Answer("a"), Completed())
    assert clocks(talk.record)["lag"] == 250
    assert clocks(talk.record)["ttc_intended"] == 1250


@pytest.mark.case("D-17")
def test_events_of_one_read_share_its_stamp_and_are_counted_as_a_burst():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, Answer("a"), size=50)
    talk.hear(300, Answer("b"), Answer("c"), Answer("d"), Answer("e"), Completed(), size=250)

    record = talk.record
    assert (record.reads, record.bytes, record.events) == (2, 300, 6)
    assert (record.merged_reads, record.max_burst) == (1, 5)
    assert talk.row["last_answer_ms"] == 300
    assert talk.row["max_gap_ms"] == 200


def test_one_gap_is_no_gap_when_there_is_one_chunk():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, Answer("all of it"), Completed())
    assert "max_gap_ms" not in talk.row


@pytest.mark.parametrize(
    ("stamps", "source"),
    [([True, True], "kernel"), ([True, False], "user"), ([False, False], "user"), ([], None)],
)
def test_a_record_says_kernel_only_if_every_stamp_was_the_kernels(stamps, source):
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    for kernel in stamps:
        talk.hear(100, Answer("a"), kernel=kernel)
    talk.interrupt(200)
    assert talk.record.stamp == source


# failures


@BOTH
@pytest.mark.parametrize(
    ("failure", "command"),
    [(AGENT_FAILED, "finish"), (CUT, "finish and break")],
    ids=["told", "cut"],
)
def test_a_final_failure_ends_the_turn_with_its_outcome_and_cause(wire, failure, command):
    talk = Talk(wire)
    talk.ask_at_hand()
    talk.hear(100, Answer("some"))
    talk.heard()
    assert talk.hear(300, failure) == command
    assert talk.end == (failure.outcome, failure.cause)
    assert talk.record.detail == failure.detail
    assert talk.record.answer == "some"


@pytest.mark.case("D-24")
@BOTH
def test_a_failure_told_before_the_terminal_frame_decides_the_outcome(wire):
    talk = Talk(wire)
    talk.ask_at_hand()
    talk.hear(100, AGENT_FAILS)
    assert talk.phase is Phase.WORKING
    assert talk.hear(200, Completed()).endswith("finish")
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert talk.row["ended_ms"] == 200
    assert "ttc" not in clocks(talk.record)


@BOTH
def test_the_first_failure_is_the_cause_and_what_follows_from_it_is_not(wire):
    talk = Talk(wire)
    talk.ask_at_hand()
    talk.hear(100, AGENT_FAILS)
    talk.hear(200, CUT)
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert talk.record.detail == "it breaks"


@BOTH
def test_a_socket_survives_a_failure_that_the_agent_told_of(wire):
    talk = Talk(wire)
    talk.ask_at_hand()
    talk.hear(100, AGENT_FAILED)
    talk.heard()
    assert talk.ask_at_hand(1000, "t2") == "send ask t2"


def test_an_empty_answer_is_a_failure_only_if_nothing_was_said_on_any_connection():
    empty = Failed(Outcome.FAILED, Cause.EMPTY_ANSWER, "the answer has no text")
    talk = Talk(SOCKET)
    talk.ask_at_hand()
    talk.hear(100, empty)
    assert talk.end == (Outcome.FAILED, Cause.EMPTY_ANSWER)

    talk.ask_at_hand(1000, "t2")
    talk.hear(1100, Answer("said before the loss"))
    talk.lose(1200)
    talk.until(1300)
    talk.open(1310)
    talk.hear(1400, empty)
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.recovered


# whose answer is it


@pytest.mark.case("D-41")
@pytest.mark.parametrize(
    ("answer", "end", "seen"),
    [
        (["w0 w1 ", "tag=mine"], (Outcome.COMPLETED, None), "mine"),
        (["w0 w1 tag=", "mine rest"], (Outcome.COMPLETED, None), "mine"),
        (["w0 tag=theirs"], (Outcome.FAILED, Cause.ISOLATION), "theirs"),
        (["tag=mine then tag=theirs"], (Outcome.FAILED, Cause.ISOLATION), "theirs"),
        (["an agent that echoes nothing"], (Outcome.COMPLETED, None), None),
        (["ends in tag="], (Outcome.COMPLETED, None), None),
    ],
)
def test_an_answer_with_the_tag_of_another_turn_breaks_isolation(answer, end, seen):
    talk = Talk(HTTP)
    talk.ask_at_hand(0, tag="mine")
    for number, text in enumerate(answer):
        talk.hear(100 + number, Answer(text))
    talk.hear(200, Completed())
    assert talk.end == end
    assert talk.record.tag_seen == seen
    if end[1] is Cause.ISOLATION:
        assert "'theirs'" in talk.record.detail


def test_without_a_tag_nothing_is_looked_for():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, Answer("tag=theirs"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.tag_seen is None


@BOTH
def test_events_after_the_end_are_counted_on_the_next_record(wire):
    talk = Talk(wire)
    talk.ask_at_hand(0, "t0")
    talk.hear(5, Answer("a"), Completed())
    before = talk.record.late_events
    talk.hear(20, Answer("late"), Progress("tool"), Completed(), AGENT_FAILED)
    talk.hear(30, Notice("trace"), Login(True))
    talk.ask_at_hand(100, "t2")
    talk.hear(200, Answer("b"), Completed())
    assert before == 0
    assert talk.record.late_events == 5  # a trace id comes behind the end of its turn, by rule
    assert talk.record.answer == "b"


def test_what_arrived_before_the_question_is_no_answer_to_it_even_if_it_is_read_later():
    talk = Talk(SOCKET)
    talk.ask_at_hand(0, "t0")
    talk.hear(5, Answer("a"), Completed())
    talk.ask_at_hand(100, "t1")
    talk.hear(90, Answer("of the turn before"), Completed())
    assert talk.phase is Phase.WAITING
    talk.hear(200, Answer("b"), Completed())
    assert talk.record.answer == "b"
    assert talk.row["first_byte_ms"] == 100
    talk.ask_at_hand(300, "t3")
    talk.hear(400, Answer("c"), Completed())
    assert talk.record.late_events == 2


# what the analyst remembers, and what nobody may read


@BOTH
def test_the_conversation_so_far_goes_with_the_next_question_until_it_is_restarted(wire):
    talk = Talk(wire)
    talk.ask_at_hand(0, "a")
    talk.hear(1, Answer("one"), Completed())
    talk.ask_at_hand(10, "b")
    talk.hear(11, Answer("half"), AGENT_FAILED)
    talk.ask_at_hand(20, "c")
    talk.hear(21, Answer("three"), Completed())
    talk.conversation.restart("c2")
    talk.ask_at_hand(30, "d")

    asked = {ask.turn: ask for ask in talk.dialect.asked}
    told = tuple(pair for pair in asked["c"].history if pair[0] != "question of t0")
    assert told == (("question of a", "one"),)
    assert asked["d"].history == ()
    assert (asked["c"].conversation, asked["d"].conversation) == ("c1", "c2")
    talk.hear(31, Answer("four"), Completed())
    assert (talk.record.conversation, talk.record.number) == ("c2", 1)


def test_a_second_question_or_a_restart_in_mid_turn_is_the_generators_fault():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    with pytest.raises(GeneratorError, match="still under way"):
        talk.conversation.ask("t2", "too soon", 10**12)
    with pytest.raises(GeneratorError, match="cannot be restarted"):
        talk.conversation.restart("c2")


def test_answers_are_kept_only_if_asked_for():
    talk = Talk(HTTP, keep_answers=False)
    talk.ask_at_hand(0)
    talk.hear(100, Answer("abc"), Completed())
    assert "answer" not in talk.row
    assert talk.row["answer_chars"] == 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"bad token {SECRET}", "bad token [redacted]"),
        (f"{SECRET}{SECRET}", "[redacted][redacted]"),
        (f"cut: {SECRET[:12]}...", "cut: [redacted]..."),
        (f"{SECRET[:12]}X", "[redacted]X"),
        ("nothing to hide", "nothing to hide"),
        ("s3cr is too short to tell", "s3cr is too short to tell"),
    ],
)
def test_secrets_are_in_no_detail_and_no_answer_not_even_cut_short(text, shown):
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(100, Answer(text))
    talk.hear(200, Failed(Outcome.FAILED, Cause.AGENT_ERROR, text))
    assert (talk.record.detail, talk.record.answer) == (shown, shown)


def test_a_secret_that_a_server_echoes_as_a_tag_is_not_recorded():
    talk = Talk(HTTP)
    talk.ask_at_hand(0, tag="mine")
    talk.hear(1, Answer(f"tag={SECRET}"), Completed())
    assert talk.record.cause is Cause.ISOLATION
    assert SECRET not in str(talk.row)
    assert talk.record.tag_seen == "[redacted]"


def test_a_secret_is_redacted_before_a_long_detail_is_cut():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(1, Failed(Outcome.FAILED, Cause.AGENT_ERROR, "x" * 495 + SECRET + "y" * 50))
    assert talk.record.detail == "x" * 495 + "[reda"


@pytest.mark.parametrize("secret", ["a", "red", "[redacted]", "[redacte", ""])
def test_a_secret_that_looks_like_its_own_mark_is_redacted_once(secret):
    assert redacted(f"<{secret}>", (secret,)) == ("<[redacted]>" if secret else "<>")


# interruption


def _at_phase(phase):
    """A talk that stands in ``phase``, at 1000 ms at the latest."""
    needs = ("token",) if phase is Phase.PREPARING else ()
    manner = {"needs": needs, "reopens": phase is Phase.AWAY}
    habits = Habits(consents=ConsentPlan("follow", 0))
    talk = Talk(SOCKET, login=phase is Phase.LOGGING_IN, manner=manner, habits=habits)
    talk.ask(0)
    if phase in (Phase.POLLING, Phase.SETTLING):
        return beside(phase)
    if phase in (Phase.PREPARING, Phase.CONNECTING):
        return talk
    talk.open(10)
    if phase in (Phase.LOGGING_IN, Phase.WAITING):
        return talk
    talk.hear(100, Answer("a"))
    if phase is Phase.WORKING:
        return talk
    if phase in (Phase.HUMAN, Phase.AWAY):
        talk.hear(200, TEXT if phase is Phase.HUMAN else CONSENT)
        talk.until(200)
        return talk
    talk.lose(300)
    if phase is Phase.RESUMING:
        talk.until(400)
        talk.open(410)
    return talk


@pytest.mark.parametrize(
    "phase", [phase for phase in Phase if phase not in (Phase.IDLE, Phase.SETTLING)]
)
@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (Outcome.CUT_OFF, None),
        (Outcome.ABANDONED, None),
        (Outcome.FAILED, Cause.GENERATOR_FAULT),
    ],
)
def test_an_interruption_in_any_phase_gives_a_record(phase, outcome, cause):
    talk = _at_phase(phase)
    assert talk.phase is phase
    assert talk.interrupt(1000, outcome, cause).endswith("finish and break")
    assert talk.end == (outcome, cause)
    assert talk.row["ended_ms"] == 1000
    talk.heard()
    first = "post token" if phase is Phase.PREPARING else "connect"
    assert talk.ask(2000, "t2").startswith(first)


def test_an_interruption_between_turns_is_nothing():
    talk = Talk(HTTP)
    assert talk.interrupt(10) == ""
    assert talk.records == []
