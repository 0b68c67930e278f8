"""Lost connections: before, during and at a prompt, between turns; logging in; coming back."""

from __future__ import annotations

import pytest
from talk import (
    AGENT_FAILS,
    AT_ONCE,
    CUT,
    HTTP,
    SECRET,
    SOCKET,
    TEXT,
    Habits,
    Talk,
    clocks,
    happenings,
)

from loadgen.events import Answer, Completed, Failed, Login, Lost, Progress
from loadgen.phase import Phase
from loadgen.plan import Reconnect
from loadgen.turn import Cause, Outcome

BOTH = pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])
REJECTED = (Outcome.REFUSED, Cause.AUTH_REJECTED)
LOST = (Outcome.INCOMPLETE, Cause.LOST_RESUME)
NO_SERVICE = Failed(Outcome.REFUSED, Cause.CONNECT_FAILED, "handshake refused with HTTP 503")


# before the question is out


@BOTH
def test_a_connection_that_cannot_be_made_refuses_the_turn_and_is_not_tried_again(wire):
    talk = Talk(wire)
    talk.ask(0)
    talk.heard()
    assert talk.no_connection(30) == "finish and break"
    assert talk.end == (Outcome.REFUSED, Cause.CONNECT_FAILED)
    assert talk.record.detail == "connection refused"
    assert talk.row["connections"] == [{"begun_ms": 0, "failure": "connect_failed"}]
    assert happenings(talk.record) == [("connect", None)]


def test_being_out_of_sockets_is_our_own_cause():
    talk = Talk(HTTP)
    talk.ask(0)
    talk.no_connection(1, Cause.CLIENT_RESOURCE)
    assert talk.end == (Outcome.REFUSED, Cause.CLIENT_RESOURCE)


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ((NO_SERVICE,), (Outcome.REFUSED, Cause.CONNECT_FAILED)),
        ((Failed(Outcome.REFUSED, Cause.AUTH_REJECTED, "HTTP 403"),), REJECTED),
        ((Lost("1006", 1006),), (Outcome.REFUSED, Cause.CONNECT_FAILED)),
        ((Lost("1008", 1008, Cause.AUTH_REJECTED),), REJECTED),
    ],
)
@pytest.mark.parametrize("stage", ["handshake", "login"])
def test_a_socket_that_is_refused_or_lost_before_the_question_refuses_the_turn(events, end, stage):
    talk = Talk(SOCKET, login=True)
    talk.ask(0)
    if stage == "login":
        talk.open(10)
    else:
        talk.dial(5)
    talk.hear(20, *events)
    assert talk.end == end
    assert "ask" not in talk.heard()


def test_the_byte_stream_ending_in_the_handshake_refuses_the_turn():
    talk = Talk(SOCKET)
    talk.ask(0)
    talk.dial(5)
    talk.lose(20)
    assert talk.end == (Outcome.REFUSED, Cause.CONNECT_FAILED)
    assert talk.record.detail == "connection closed"


# logging in


@pytest.mark.case("D-34")
def test_the_login_is_answered_before_the_question_is_asked():
    talk = Talk(SOCKET, login=True)
    assert talk.ask(0) == "connect /toy"
    talk.heard()
    assert talk.open(10) == "send login"
    talk.heard()
    assert talk.until(5000) == ""
    assert talk.login(5010) == "send ask t1"
    talk.hear(6000, Answer("a"), Completed())

    assert (talk.row["connected_ms"], talk.row["authenticated_ms"]) == (10, 5010)
    assert happenings(talk.record) == [("connect", 10), ("auth", 5000)]
    assert clocks(talk.record)["setup"] == 5010


@pytest.mark.case("D-34")
@pytest.mark.parametrize("how", ["byte stream", "close frame"])
def test_after_a_loss_between_turns_the_next_turn_logs_in_before_it_asks(how):
    talk = Talk(SOCKET, login=True)
    talk.ask(0)
    talk.open(10)
    talk.login(20)
    talk.hear(100, Answer("a"), Completed())
    talk.heard()
    if how == "close frame":
        talk.hear(5000, Lost("going away", 1001))
    assert talk.lose(5000) == ""

    assert talk.ask(9000, "t2") == "connect /toy"
    talk.heard()
    assert talk.open(9010) == "send login"
    talk.heard()
    assert talk.login(9020) == "send ask t2"
    talk.hear(9100, Answer("b"), Completed())
    (loss,) = talk.row["losses"]
    assert (loss["lost_ms"], loss["during"]) == (-4000, "idle")
    assert loss.get("code") == (1001 if how == "close frame" else None)
    assert not talk.record.recovered
    assert ("recovery", None) not in happenings(talk.record)


@pytest.mark.case("D-35")
def test_a_rejected_login_asks_nothing_and_is_not_tried_again():
    talk = Talk(SOCKET, login=True)
    talk.ask(0)
    talk.open(10)
    talk.heard()
    assert talk.login(20, ok=False, detail=f"token {SECRET} is unknown") == "finish and break"
    assert talk.until(100_000) == "finish and break"
    assert talk.end == REJECTED
    assert talk.record.detail == "token [redacted] is unknown"
    assert talk.dialect.asked == []
    assert talk.row["connections"][0]["failure"] == "auth_rejected"
    assert "authenticated_ms" not in talk.row


@pytest.mark.case("D-35")
def test_a_login_rejected_on_the_way_back_ends_the_turn():
    talk = Talk(SOCKET, login=True)
    talk.ask(0)
    talk.open(10)
    talk.login(20)
    talk.hear(100, Answer("a"))
    talk.lose(200)
    talk.until(300)
    talk.open(310)
    talk.heard()
    assert talk.login(320, ok=False, detail="expired") == "finish and break"
    assert talk.end == (Outcome.INCOMPLETE, Cause.AUTH_REJECTED)
    assert talk.until(100_000) == "finish and break"


def test_a_credential_refused_at_the_handshake_shows_when_the_server_closes_with_1008():
    talk = Talk(SOCKET)
    talk.ask(0)
    talk.open(10)
    talk.hear(20, Login(False, "refused"), Lost("1008", 1008, Cause.AUTH_REJECTED))
    assert talk.end == REJECTED


# in mid-turn


@BOTH
@pytest.mark.parametrize("heard", [(), (Answer("half"),)], ids=["unanswered", "half answered"])
def test_a_stream_that_is_cut_with_no_way_back_is_an_incomplete_turn(wire, heard):
    talk = Talk(wire, reconnect=Reconnect(policy="none"))
    talk.ask_at_hand(0)
    talk.hear(100, *heard)
    talk.heard()
    if wire is HTTP:
        assert talk.hear(200, CUT) == "finish and break"
    else:
        assert talk.lose(200) == "finish and break"
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert talk.row["losses"] == [{"lost_ms": 200, "during": "turn"}]
    assert happenings(talk.record) == [("recovery", None)]
    assert "ttc" not in clocks(talk.record)


@pytest.mark.case("D-34")
def test_a_lost_turn_is_taken_up_by_its_conversation_after_logging_in():
    talk = Talk(SOCKET, login=True)
    talk.ask(0)
    talk.open(10)
    talk.login(20)
    talk.hear(500, Answer("a "))
    talk.heard()
    assert talk.lose(1000) == "drop"
    talk.heard()
    assert talk.until(1099) == ""
    assert talk.until(1100) == "connect /toy?conversation_id=c1"
    talk.heard()
    assert talk.open(1150) == "send login"
    talk.heard()
    assert talk.login(1200) == ""
    assert talk.phase is Phase.RESUMING
    talk.hear(1500, Answer("b"), Completed())

    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.answer == "a b"
    assert talk.record.recovered
    assert talk.row["losses"] == [{"lost_ms": 1000, "during": "turn", "recovered_ms": 1500}]
    assert happenings(talk.record) == [
        ("connect", 10),
        ("auth", 10),
        ("connect", 50),
        ("auth", 50),
        ("recovery", 500),
    ]
    assert [c.get("resumes") for c in talk.row["connections"]] == [None, True]
    assert (talk.row["connected_ms"], talk.row["authenticated_ms"]) == (10, 20)
    assert [decoder.turns for decoder in talk.dialect.decoders] == [["t1"], ["t1"]]
    assert len(talk.dialect.asked) == 1


def test_a_recovered_socket_carries_the_next_turn():
    talk = Talk(SOCKET, login=True)
    talk.ask(0, "t0")
    talk.open(0)
    talk.login(0)
    talk.hear(0, Answer("a"), Completed())
    talk.ask(50)
    talk.lose(100)
    talk.until(200)
    talk.open(210)
    talk.login(220)
    talk.hear(300, Answer("a"), Completed())
    assert "connected_ms" not in talk.row, "the turn began on a socket that stood"
    assert "authenticated_ms" not in talk.row
    talk.heard()
    assert talk.ask(1000, "t2") == "send ask t2"


@pytest.mark.parametrize("phase", [Phase.CONNECTING, Phase.LOGGING_IN, Phase.RESUMING])
def test_a_loss_on_the_way_back_is_the_same_loss_and_the_next_attempt(phase):
    talk = Talk(SOCKET, login=True)
    talk.ask(0)
    talk.open(1)
    talk.login(2)
    talk.hear(3, Answer("a"))
    talk.lose(100)
    talk.until(200)
    if phase is not Phase.CONNECTING:
        talk.open(210)
    if phase is Phase.RESUMING:
        talk.login(220)
    assert talk.phase is phase
    talk.heard()
    if phase is Phase.CONNECTING:
        assert talk.no_connection(250) == "drop"
    else:
        assert talk.lose(250) == "drop"
    talk.until(350)
    talk.open(360)
    talk.login(370)
    talk.hear(500, Completed())
    assert talk.record.recovered
    assert talk.row["losses"] == [{"lost_ms": 100, "during": "turn", "recovered_ms": 500}]
    assert len(talk.row["connections"]) == 3


def test_two_losses_of_one_turn_are_two_and_each_has_its_own_attempts():
    talk = Talk(SOCKET, reconnect=AT_ONCE.model_copy(update={"attempts": 1}))
    talk.ask_at_hand(0)
    for at in (1000, 2000):
        talk.lose(at)
        talk.until(at + 100)
        talk.open(at + 110)
        talk.hear(at + 200, Answer("a"))
    talk.hear(3000, Completed())
    assert [loss["recovered_ms"] for loss in talk.row["losses"]] == [1200, 2200]
    assert talk.record.recovered


def test_a_turn_that_never_comes_back_is_lost_after_the_last_attempt():
    talk = Talk(SOCKET)
    talk.ask_at_hand(0)
    talk.lose(0)
    for attempt in range(1, 4):
        talk.until(1000 * attempt)
        assert talk.phase is Phase.CONNECTING
        talk.no_connection(1000 * attempt)
    assert talk.end == LOST
    assert talk.record.detail == "not reconnected after 3 attempts: connection refused"
    assert talk.heard().count("connect /toy?conversation_id=c1") == 3


def test_a_socket_that_is_dropped_again_and_again_unheard_was_never_a_connection():
    talk = Talk(SOCKET)
    talk.ask_at_hand(0)
    talk.lose(0)
    for attempt in range(1, 4):
        talk.until(1000 * attempt)
        talk.open(1000 * attempt + 10)
        talk.lose(1000 * attempt + 20)
    assert talk.end == (Outcome.INCOMPLETE, Cause.CONNECT_FAILED)
    assert talk.record.detail.startswith("dropped 4 times, unheard: ")


def test_a_handshake_refused_on_the_way_back_is_one_attempt():
    talk = Talk(SOCKET)
    talk.ask_at_hand(0)
    talk.lose(100)
    talk.until(200)
    talk.dial(5)
    talk.heard()
    assert talk.hear(250, NO_SERVICE) == "drop"
    assert talk.phase is Phase.BACKING_OFF


def test_a_turn_that_had_failed_before_its_loss_is_failed_and_not_taken_up():
    talk = Talk(SOCKET)
    talk.ask_at_hand(0)
    talk.hear(100, AGENT_FAILS)
    talk.heard()
    assert talk.lose(200) == "finish and break"
    assert talk.end == (Outcome.FAILED, Cause.AGENT_ERROR)


def test_a_socket_closed_for_a_breach_of_protocol_is_not_taken_up():
    talk = Talk(SOCKET)
    talk.ask_at_hand(0)
    talk.hear(100, Lost("1002 protocol error", 1002, Cause.PROTOCOL_VIOLATION))
    assert talk.end == (Outcome.INCOMPLETE, Cause.PROTOCOL_VIOLATION)


def test_a_close_frame_and_the_end_of_the_bytes_are_one_loss():
    talk = Talk(SOCKET)
    talk.ask_at_hand(0)
    talk.heard()
    assert talk.hear(100, Lost("service restart", 1012)) == "drop"
    assert talk.lose(101) == "drop"
    talk.until(200)
    talk.open(210)
    talk.hear(300, Completed())
    assert talk.row["losses"] == [
        {"lost_ms": 100, "during": "turn", "recovered_ms": 300, "code": 1012}
    ]


# at a prompt


@pytest.mark.case("D-36")
def test_a_prompt_is_asked_once_more_after_a_loss_answered_once_and_the_turn_recovers():
    talk = Talk(SOCKET, login=True, habits=Habits(reply_ms=3000, drop_ms=500))
    talk.ask(0)
    talk.open(10)
    talk.login(20)
    talk.hear(800, TEXT)
    talk.heard()
    assert talk.until(1300) == "drop"
    assert talk.until(1400) == "drop, connect /toy?conversation_id=c1"
    talk.open(1410)
    talk.login(1420)
    talk.hear(1500, TEXT)
    assert talk.phase is Phase.HUMAN
    talk.heard()
    assert talk.until(60_000) == "send reply p1 2024"
    talk.hear(60_100, Answer("a"), Completed())

    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.recovered
    assert talk.record.notices == {"dropped_at_prompt": 1}
    assert talk.row["losses"] == [{"lost_ms": 1300, "during": "prompt", "recovered_ms": 1500}]
    assert [(p["paused_ms"], p["resumed_ms"], p["replied"]) for p in talk.row["prompts"]] == [
        (800, 1300, False),
        (1500, 4500, True),
    ]
    assert clocks(talk.record)["human"] == 3500
    assert talk.habits.deliveries == [1, 2]


@pytest.mark.case("D-36")
def test_a_prompt_that_does_not_come_back_is_lost_and_nothing_is_answered():
    talk = Talk(SOCKET, habits=Habits(reply_ms=3000, drop_ms=500))
    talk.ask_at_hand(0)
    talk.hear(800, TEXT)
    talk.until(1400)
    talk.open(1410)
    talk.until(100_000)
    assert talk.end == LOST
    assert "reply" not in talk.heard()
    assert clocks(talk.record)["human"] == 500


def test_a_connection_the_network_loses_at_the_prompt_ends_the_pause_there():
    talk = Talk(SOCKET, habits=Habits(reply_ms=3000))
    talk.ask_at_hand(0)
    talk.hear(1000, TEXT)
    talk.lose(1700)
    talk.until(1800)
    talk.open(1810)
    talk.hear(2000, Progress("tool"), Answer("a"), Completed())
    assert talk.row["losses"][0]["during"] == "prompt"
    assert clocks(talk.record)["human"] == 700
    assert "reply" not in talk.heard()


def test_a_reply_lost_with_its_connection_is_given_again_and_has_no_resume_time():
    talk = Talk(SOCKET, habits=Habits(reply_ms=1000, drop_ms=None))
    talk.ask_at_hand(0)
    talk.hear(1000, TEXT)
    talk.until(2000)
    talk.lose(2001)
    talk.until(2101)
    talk.open(2110)
    talk.hear(2200, TEXT)
    talk.until(3200)
    talk.hear(3300, Answer("a"), Completed())
    assert talk.heard().count("send reply p1 2024") == 2
    assert talk.habits.deliveries == [1, 2]
    resumes = [ms for clock, ms in happenings(talk.record) if clock == "resume"]
    assert resumes == [None, 100]


def test_a_stream_cut_at_a_prompt_is_lost_at_the_prompt_over_http():
    talk = Talk(HTTP, habits=Habits(reply_ms=3000))
    talk.ask_at_hand(0)
    talk.hear(1000, TEXT)
    talk.hear(1700, CUT)
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert talk.row["losses"] == [{"lost_ms": 1700, "during": "prompt"}]
    assert clocks(talk.record)["human"] == 700
    assert talk.until(100_000).count("post") == 0


def test_an_analyst_over_http_who_drops_at_a_prompt_has_lost_the_turn():
    talk = Talk(HTTP, habits=Habits(drop_ms=500))
    talk.ask_at_hand(0)
    talk.hear(1000, TEXT)
    assert talk.until(1500).endswith("finish and break")
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)


# back-off


def _delays(plan: Reconnect, seeds: range, attempts: int = 1) -> list[float]:
    """The wait before attempt number ``attempts`` for many analysts, in ms."""
    delays = []
    for seed in seeds:
        talk = Talk(SOCKET, reconnect=plan, seed=seed)
        talk.ask_at_hand(0)
        talk.lose(0)
        for _ in range(attempts - 1):
            talk.until((talk.alarm_ns - 10**12) / 10**6)
            talk.no_connection(0)
        delays.append((talk.alarm_ns - 10**12) / 10**6)
    return delays


@pytest.mark.parametrize(
    ("attempt", "window_ms"), [(1, 2000), (2, 4000), (3, 8000), (4, 10_000), (5, 10_000)]
)
def test_an_exponential_retry_spreads_over_its_own_window_the_first_one_too(attempt, window_ms):
    plan = Reconnect(policy="exponential", base_s=2, cap_s=10, attempts=5)
    delays = _delays(plan, range(200), attempt)
    assert 0 <= min(delays) < 0.05 * window_ms
    assert 0.95 * window_ms < max(delays) <= window_ms
    lower = sum(delay < window_ms / 2 for delay in delays)
    assert 70 <= lower <= 130


def test_a_storm_of_reconnects_is_flat_over_the_window():
    plan = Reconnect(policy="exponential", base_s=8, cap_s=60)
    bins = [0] * 8
    for delay in _delays(plan, range(200)):
        bins[int(delay // 1000)] += 1
    assert max(bins) <= 50


def test_fixed_retries_come_after_the_same_wait_for_everybody():
    assert _delays(Reconnect(policy="fixed", base_s=1.5), range(5), 3) == [1500] * 5


# the connection was dead when the question went out


def test_a_kept_connection_that_had_expired_is_replaced_and_the_question_asked_once_more():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.heard()
    assert talk.lose(5, answered=False) == "connect"
    talk.heard()
    assert talk.open(20) == "send ask t1"
    talk.hear(100, Answer("a"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.notices == {"stale_connection": 1}
    assert "losses" not in talk.row
    assert (talk.row["connected_ms"], talk.row["sent_ms"]) == (20, 20)


def test_a_question_is_asked_anew_once_only():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.lose(5, answered=False)
    talk.open(10)
    talk.heard()
    assert talk.lose(20, answered=False) == "finish and break"
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)


@pytest.mark.parametrize("event", [Answer("a"), TEXT], ids=["working", "at a prompt"])
def test_a_question_that_was_answered_is_not_asked_anew(event):
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(3, event)
    talk.heard()
    assert talk.lose(5, answered=False) == "finish and break"
    assert talk.end == (Outcome.INCOMPLETE, Cause.STREAM_CUT)


def test_a_socket_that_had_closed_before_the_question_never_carried_it():
    talk = Talk(SOCKET)
    talk.ask_at_hand(0, "t0")
    talk.hear(10, Answer("a"), Completed())
    talk.ask_at_hand(1000, "t1")
    talk.heard()
    assert talk.hear(990, Lost("service restart", 1012)) == "connect /toy"
    talk.heard()
    assert talk.open(1020) == "send ask t1"
    talk.hear(1100, Answer("b"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.row["losses"] == [{"lost_ms": -10, "during": "idle", "code": 1012}]
    assert not talk.record.recovered
    assert talk.row["sent_ms"] == 20
