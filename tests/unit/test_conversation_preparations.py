"""What a connection needs first, one turn a socket, questions put again, analysts that quit."""

from __future__ import annotations

import pytest
from talk import AGENT_FAILED, CONSENT, HTTP, SOCKET, Habits, Talk, clocks, happenings

from loadgen.events import Answer, Completed, Failed, Lost, Progress, Rejected, Reviewed, Say, Work
from loadgen.persona import ConsentPlan
from loadgen.turn import Cause, Outcome

TICKETS = {"needs": ("token",), "one_turn": True, "resumes": False}
SDK = TICKETS | {"reasks": 2}
DONE = (Answer("a"), Completed())


def ticketed(**manner) -> Talk:
    """A turn whose socket is open, after its token."""
    habits = manner.pop("habits", None)
    talk = Talk(SOCKET, manner=TICKETS | manner, habits=habits)
    talk.ask(0)
    talk.posted(100, 200)
    talk.open(130)
    talk.heard()
    return talk


def test_a_token_comes_before_the_socket_and_has_its_own_time():
    talk = Talk(SOCKET, manner=TICKETS)
    assert talk.ask(0) == "post token"
    talk.heard()
    assert talk.posted(100, 200) == "connect /toy"
    talk.open(130)
    talk.hear(200, *DONE)
    assert talk.end == (Outcome.COMPLETED, None)
    assert happenings(talk.record) == [("token", 100), ("connect", 30)]
    assert clocks(talk.record)["ttc"] == 200
    assert talk.row["preparations"] == [
        {"name": "token", "begun_ms": 0, "done_ms": 100, "status": 200}
    ]


def test_each_socket_needs_another_token_and_carries_one_turn():
    talk = ticketed()
    assert talk.hear(200, *DONE) == "finish and close"
    talk.heard()
    assert talk.ask(1000, "t2") == "post token"
    talk.posted(1010, 200)
    talk.open(1020)
    talk.hear(1030, *DONE)
    assert talk.row.get("losses") is None, "that a socket of one turn ends is no loss"


@pytest.mark.parametrize(
    ("status", "cause"),
    [(401, Cause.AUTH_REJECTED), (403, Cause.AUTH_REJECTED), (429, Cause.RATE_LIMITED)],
)
@pytest.mark.parametrize("manner", [TICKETS, SDK], ids=["plain", "sdk"])
def test_a_refused_token_ends_the_turn_and_is_not_asked_for_again(status, cause, manner):
    talk = Talk(SOCKET, manner=manner)
    talk.ask(0)
    talk.heard()
    assert talk.posted(100, status) == "finish and break"
    assert talk.end == (Outcome.REFUSED, cause)
    assert talk.record.detail == f"token got {status}"
    assert happenings(talk.record) == [("token", None)]


def test_a_token_that_never_comes_is_not_waited_for_for_ever():
    talk = Talk(SOCKET, manner=TICKETS)
    talk.ask(0)
    talk.until(10**6)
    assert talk.end == (Outcome.REFUSED, Cause.CONNECT_FAILED)
    assert "no answer to the request for token" in talk.record.detail


def test_a_token_request_that_finds_no_server_ends_the_turn():
    talk = Talk(SOCKET, manner=TICKETS)
    talk.ask(0)
    talk.post_failed(50)
    assert talk.end == (Outcome.REFUSED, Cause.CONNECT_FAILED)
    assert talk.record.detail == "token not granted: connection refused"


def test_a_token_reaches_no_record():
    talk = Talk(SOCKET, manner=TICKETS)
    talk.ask(0)
    talk.posted(100, 200, "eph-0123456789")
    talk.open(130)
    leak = Failed(Outcome.FAILED, Cause.AGENT_ERROR, "bad eph-0123456789")
    talk.hear(200, Answer("eph-0123456789"), leak)
    assert "eph-0123" not in str(talk.row)


def test_a_session_lasts_as_long_as_its_conversation_and_is_ended_with_it():
    talk = Talk(SOCKET, manner=TICKETS | {"needs": ("session", "token"), "one_conversation": True})
    assert talk.ask(0) == "post session"
    talk.heard()
    assert talk.posted(10, 201, "s1") == "post token"
    talk.posted(20, 200)
    talk.open(30)
    talk.hear(40, *DONE)
    talk.heard()
    assert talk.ask(100, "t2") == "post token"
    talk.posted(110, 200)
    talk.open(120)
    talk.hear(130, *DONE)
    talk.heard()
    talk.conversation.restart("c2")
    assert talk.ask(200, "t3") == "post end s1, post session"


@pytest.mark.parametrize("lasts", [True, False], ids=["of one conversation", "of any"])
def test_a_socket_of_one_conversation_is_not_used_for_the_next(lasts):
    talk = Talk(SOCKET, manner={"one_conversation": lasts})
    talk.ask_at_hand(0, "t1")
    talk.hear(10, *DONE)
    talk.heard()
    talk.conversation.restart("c2")
    assert talk.ask(100, "t2") == ("connect /toy" if lasts else "send ask t2")


def test_over_http_a_session_is_asked_for_although_a_connection_stands():
    talk = Talk(HTTP, manner={"needs": ("session",)})
    talk.connected = True
    assert talk.ask(0, at_hand=True) == "post session"


# lost connections


def test_without_resume_a_lost_socket_ends_the_turn():
    talk = ticketed()
    talk.hear(200, Progress("step"))
    talk.lose(300)
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert talk.record.asked_again == 0


def test_as_the_sdk_does_a_question_is_put_again_twice_with_a_new_token_each():
    talk = ticketed(reasks=2)
    for begin in (200, 300):
        talk.hear(begin, Answer("a"))
        talk.lose(begin + 10)
        assert talk.heard() == "post token"
        talk.posted(begin + 20, 200)
        talk.open(begin + 30)
        assert talk.heard() == "connect /toy, send ask t1"
    talk.hear(400, Answer("a"))
    talk.lose(410)
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert talk.record.asked_again == 2
    assert [name for name, _ in happenings(talk.record)].count("token") == 3


def test_a_question_put_again_may_succeed_and_the_turn_has_recovered():
    talk = ticketed(reasks=2)
    talk.lose(200)
    talk.posted(210, 200)
    talk.open(220)
    talk.hear(300, *DONE)
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.recovered
    assert talk.row["sent_ms"] == 130, "the question was first sent on the first socket"


def test_a_normal_closure_is_not_answered_by_asking_again():
    talk = ticketed(reasks=2)
    talk.hear(200, Lost("1000 normal closure", 1000))
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)


def test_a_refused_handshake_is_tried_again_as_the_sdk_does():
    talk = Talk(SOCKET, manner=SDK)
    talk.ask(0)
    for begin in (0, 100, 200):
        talk.posted(begin + 10, 200)
        talk.dial(begin + 20)
        talk.hear(begin + 30, Failed(Outcome.REFUSED, Cause.AUTH_REJECTED, "HTTP 403"))
    assert talk.end == (Outcome.REFUSED, Cause.AUTH_REJECTED)
    assert talk.record.asked_again == 0, "the question was never out"
    assert len(talk.record.connections) == 3


# quitting


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ([Rejected("Unexpected message from user")], "quit_refused"),
        ([Completed()], "quit_heeded"),
        ([Lost("1000", 1000)], "quit_closed"),
        ([Answer("more"), Progress("step")], "quit_unanswered"),
    ],
)
def test_an_analyst_that_gives_up_says_so_and_what_that_did_is_noted(said, noted):
    talk = ticketed(quits=True, habits=Habits(patience_ms=500))
    talk.hear(200, Answer("a"))
    talk.until(500)
    assert talk.heard() == "send quit"
    talk.hear(600, *said)
    talk.until(3000)
    assert talk.heard() == "finish and close"
    assert talk.end == (Outcome.ABANDONED, Cause.PATIENCE)
    assert talk.row["ended_ms"] == 500
    assert talk.row["notices"] == {noted: 1}
    assert talk.record.chunks == 1, "what came after it is not heard any more"
    talk.ask(5000, "t2")
    talk.interrupt(5001)
    assert talk.record.late_events == 0


# what the protocol says by the way


def test_what_the_protocol_wants_said_is_said_at_once():
    talk = ticketed()
    assert talk.hear(200, Say("credentials")) == "send credentials"
    talk.hear(300, *DONE)
    assert talk.row.get("prompts") is None


def test_a_message_of_ours_that_was_not_taken_does_not_spoil_a_turn_that_completes():
    talk = ticketed()
    talk.hear(200, Rejected("Unexpected message from user"), *DONE)
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.row["notices"] == {"message_rejected": 1}


def test_a_message_of_ours_that_was_not_taken_explains_a_turn_that_stalls():
    talk = ticketed()
    talk.hear(200, Rejected("Invalid request payload"))
    talk.until(10**6)
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert talk.record.detail == "Invalid request payload"


def test_what_the_server_says_of_its_work_and_its_answer_is_kept():
    talk = ticketed()
    talk.hear(200, Progress("step", "a", Work("rephrase", 0.5, 10, 2)))
    talk.hear(210, Progress("step", "b", Work("rephrase", 0.25, 5, 1)), Progress("context"))
    talk.hear(300, Answer("a"), Reviewed(False, 3, 1, 2), Completed())
    row = talk.row
    assert row["work"] == {
        "rephrase": {"steps": 2, "seconds": 0.75, "input_tokens": 15, "output_tokens": 3}
    }
    assert (row["chunks_match"], row["citations"], row["unresolved_citations"]) == (False, 3, 1)
    assert row["visualizations"] == 2


@pytest.mark.parametrize("reopens", [True, False])
def test_a_login_elsewhere_may_cost_the_socket(reopens):
    talk = ticketed(reopens=reopens, habits=Habits(consents=ConsentPlan("follow", 0)))
    talk.hear(200, CONSENT)
    talk.until(200)
    assert talk.heard() == ("drop, " if reopens else "") + f"visit {CONSENT.key}"
    assert talk.visited(300) == ("post token" if reopens else "")
    if reopens:
        talk.posted(310, 200)
        talk.open(320)
    talk.hear(400, *DONE)
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.dialect.been == [""]


def test_a_failure_before_the_connection_is_only_the_tokens():
    talk = Talk(SOCKET, manner=TICKETS)
    talk.ask(0)
    talk.hear(5, AGENT_FAILED)
    assert talk.heard() == "post token"
