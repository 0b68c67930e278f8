"""Whatever a server says and the network does, a conversation ends each turn once and in order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talk import (
    AGENT_FAILED,
    AGENT_FAILS,
    CONSENT,
    CUT,
    HTTP,
    PATIENT,
    PENDING,
    SOCKET,
    TEXT,
    Habits,
    Talk,
    beside,
)

from loadgen.conversation import Conversation
from loadgen.dialects.contract import Shape
from loadgen.errors import GeneratorError
from loadgen.events import (
    Answer,
    Completed,
    Failed,
    Login,
    Lost,
    Notice,
    Opened,
    Progress,
    Prompt,
    PromptKind,
    Rejected,
    Reviewed,
    Say,
    Started,
)
from loadgen.persona import PRESENT, Absence, ConsentPlan
from loadgen.phase import MOVES, Phase
from loadgen.plan import Reconnect
from loadgen.turn import Cause, Outcome

DEAF = (Phase.AWAY, Phase.PREPARING, Phase.CONNECTING, Phase.LOGGING_IN, Phase.BACKING_OFF)
BOTH = pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])

EVENTS = [
    Started("x"),
    Progress("tool"),
    Answer("a"),
    Answer("tag=other"),
    TEXT,
    replace(TEXT, key="p2"),
    Prompt(PromptKind.NOTIFICATION, "n"),
    Login(True),
    Login(False, "no"),
    Opened(),
    Completed(),
    AGENT_FAILED,
    AGENT_FAILS,
    CUT,
    Say("ack"),
    Rejected("unexpected"),
    Reviewed(True, 2, 1),
    Prompt(PromptKind.FEEDBACK, "f", timeout_ns=500_000_000),
    Failed(Outcome.FAILED, Cause.EMPTY_ANSWER, "nothing said"),
    Failed(Outcome.REFUSED, Cause.AUTH_REJECTED, "HTTP 401"),
    replace(TEXT, execution="e1"),
    CONSENT,
    PENDING,
    Lost("gone", 1006),
    Lost("refused", 1008, Cause.AUTH_REJECTED),
    Notice("headers", "200"),
    Notice("usage"),
]

DEADLINES = PATIENT.model_copy(
    update={
        "connect_s": 2, "auth_s": 2, "first_event_s": 3, "silence_s": 2, "resume_s": 1, "turn_s": 9,
    }
)  # fmt: skip

talks = st.builds(
    Talk,
    st.sampled_from([HTTP, SOCKET]),
    login=st.booleans(),
    habits=st.builds(
        Habits,
        reply_ms=st.sampled_from([0, 1, 700]),
        drop_ms=st.sampled_from([None, 0, 300]),
        patience_ms=st.sampled_from([None, 1, 4000]),
        interrupt_ms=st.sampled_from([None, None, 2000]),
        away=st.sampled_from([PRESENT, PRESENT, Absence(1), Absence(2, 300_000_000, 900_000_000)]),
        consents=st.sampled_from(["follow", "deny", "skip", "fail"]).map(
            lambda do: ConsentPlan(do, 300_000_000)
        ),
        manner=st.sampled_from(
            [{}, {"delay_ns": None}, {"insist": True}, {"twice": True}, {"shape": Shape.MALFORMED}]
        ),
    ),
    deadlines=st.just(DEADLINES),
    reconnect=st.builds(
        Reconnect,
        policy=st.sampled_from(["exponential", "fixed", "none"]),
        base_s=st.sampled_from([0, 0.5]),
        attempts=st.integers(1, 3),
    ),
    seed=st.integers(0, 3),
    manner=st.fixed_dictionaries(
        {},
        optional={
            "needs": st.sampled_from([("token",), ("session", "token")]),
            "reasks": st.just(2),
            "one_turn": st.just(True),
            "one_conversation": st.just(True),
            "quits": st.just(True),
            "reopens": st.just(True),
            "resumes": st.just(False),
        },
    ),
    slow=st.booleans(),
    lawless=st.booleans(),
)

saying = st.tuples(
    st.just("hear"), st.lists(st.sampled_from(EVENTS), max_size=4), st.sampled_from([0, 0, 0, 40])
)
happening = st.sampled_from(
    ["ask", "ask", "dial", "dial", "open", "open", "flush", "lose", "stale", "no connection",
     "posted", "refused reply", "post failed", "visited", "not visited", "interrupt", "restart"]
).map(lambda what: (what, None, 0))  # fmt: skip
steps = st.lists(
    st.tuples(st.sampled_from([0, 1, 50, 400, 1500, 4000]), st.one_of(saying, happening)),
    max_size=40,
)


class _World:
    """Does to a talk what may happen at a time; unless it is lawless, only that."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.at = 0.0
        self.stamp = 0.0
        self.fresh = True
        self.heard_since_ask = False

    def happen(self, after: float, what: str, events: list | None, lag: float) -> None:
        talk = self.talk
        self.at += after
        talk.until(self.at)
        lawless = talk.lawless
        if what == "ask" and talk.phase is Phase.IDLE:
            at_hand = talk.wire is HTTP and talk.connected
            self.fresh, self.heard_since_ask = not at_hand, False
            talk.ask(self.at, f"t{talk.asked}", at_hand=at_hand, tag="mine")
        elif what in ("dial", "open") and (lawless or talk.dialling):
            self.stamp = self.at
            (talk.dial if what == "dial" else talk.open)(self.at)
        elif what == "hear" and (lawless or talk.connected):
            self.heard_since_ask = True
            self.stamp = max(self.stamp, self.at - lag)
            talk.hear(self.stamp, *events, kernel=lag > 0)
        elif what == "lose" and (lawless or talk.connected):
            talk.lose(self.at)
        elif what == "stale" and (
            lawless or (talk.connected and not self.fresh and not self.heard_since_ask)
        ):
            talk.lose(self.at, answered=talk.wire is SOCKET)
        elif what == "no connection" and (lawless or talk.dialling):
            talk.no_connection(self.at)
        elif what == "flush":
            talk.flush(self.at)
        elif what in ("posted", "refused reply") and (lawless or talk.posting):
            talk.flush(self.at)
            talk.posted(self.at, 204 if what == "posted" else 422)
        elif what == "post failed" and (lawless or talk.posting):
            talk.post_failed(self.at)
        elif what in ("visited", "not visited"):
            talk.visited(self.at, 200, "" if what == "visited" else "HTTP 400")
        elif what == "interrupt":
            talk.interrupt(self.at, Outcome.ABANDONED)
        elif what == "restart" and talk.phase is Phase.IDLE:
            talk.conversation.restart(f"c{self.at}")


@settings(max_examples=400, deadline=None)
@given(talk=talks, steps=steps)
def test_every_turn_ends_exactly_once_whatever_happens(talk, steps):
    """`Talk` checks after each happening: no exception, commands that can be carried out, a timer
    that is set in time, and no record in which something ends before it began.
    """
    world = _World(talk)
    world.happen(0, "ask", None, 0)
    for after, (what, events, lag) in steps:
        world.happen(after, what, events, lag)
    talk.until(world.at + 10**6)
    talk.interrupt(world.at + 10**6)
    assert len(talk.records) == talk.asked
    for record in talk.records:
        if record.outcome is not Outcome.ABANDONED:
            assert (record.cause is None) == record.ok
        assert record.answer_chars == len(record.answer or "")


@settings(max_examples=150, deadline=None)
@given(talk=talks, steps=steps)
def test_without_interruptions_time_alone_ends_every_turn(talk, steps):
    world = _World(talk)
    world.happen(0, "ask", None, 0)
    for after, (what, events, lag) in steps:
        if what != "interrupt":
            world.happen(after, what, events, lag)
    talk.until(world.at + 10**6)
    assert talk.phase is Phase.IDLE


def _stand_in(phase: Phase) -> Talk:
    """A conversation in ``phase``, 1 s after the question; a socket's where the phase has one."""
    if phase in (Phase.POLLING, Phase.SETTLING):
        return beside(phase)
    manner = {"needs": ("token",)} if phase is Phase.PREPARING else {}
    manner |= {"reopens": True} if phase is Phase.AWAY else {}
    habits = Habits(reply_ms=50_000, consents=ConsentPlan("follow", 0))
    talk = Talk(SOCKET, login=phase is Phase.LOGGING_IN, habits=habits, manner=manner)
    if phase is Phase.IDLE:
        talk.ask_at_hand(0)
        talk.hear(10, Answer("a"), Completed())
        return talk
    talk.ask(0)
    if phase in (Phase.PREPARING, Phase.CONNECTING):
        return talk
    talk.open(10)
    if phase in (Phase.WORKING, Phase.HUMAN):
        talk.hear(100, Answer("a"), *([TEXT] if phase is Phase.HUMAN else []))
    elif phase is Phase.AWAY:
        talk.hear(100, CONSENT)
        talk.until(100)
    elif phase in (Phase.BACKING_OFF, Phase.RESUMING):
        talk.lose(900)
        if phase is Phase.RESUMING:
            talk.until(1000)
            talk.open(1000)
    return talk


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_that_nobody_waits_for_in_a_phase_is_survived(phase, event):
    talk = _stand_in(phase)
    assert talk.phase is phase
    talk.hear(1001, event, event)
    talk.lose(1002)
    talk.lose(1003)
    talk.hear(1004, event)
    talk.until(10**6)
    assert talk.phase is Phase.IDLE


@pytest.mark.parametrize("phase", DEAF)
@pytest.mark.parametrize(
    "event", [Started("x"), Progress("t"), Answer("a"), TEXT, Completed()], ids=repr
)
def test_what_is_said_where_no_turn_can_be_heard_is_stray_and_moves_nothing(phase, event):
    talk = _stand_in(phase)
    talk.hear(1001, event)
    assert talk.phase is phase
    talk.interrupt(2000)
    late = talk.record.late_events
    talk.ask(3000, "t2")
    talk.interrupt(3001)
    expected = 1 if phase is Phase.LOGGING_IN else 0
    assert (late, talk.record.late_events) == (0, expected)
    assert talk.records[-2].answer == ""


def test_a_malicious_prompt_before_the_login_is_answered_stops_nothing():
    talk = Talk(SOCKET, login=True)
    talk.ask(0)
    talk.open(10)
    talk.login(20)
    talk.lose(100)
    talk.until(200)
    talk.open(210)
    talk.hear(220, TEXT, Answer("leaked"), Completed())
    assert talk.phase is Phase.LOGGING_IN
    talk.login(230)
    talk.hear(300, Answer("mine"), Completed())
    assert talk.record.answer == "mine"


# the table


def test_the_table_of_moves_names_every_phase_and_leaves_none_for_good():
    assert set(MOVES) == set(Phase)
    for phase, following in MOVES.items():
        assert phase not in following
        assert phase is Phase.IDLE or Phase.IDLE in following


def test_a_move_that_is_not_in_the_table_is_the_generators_fault():
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    with pytest.raises(GeneratorError, match="illegal move from 'waiting for the first event'"):
        talk.conversation._enter(Phase.LOGGING_IN, 10**12)


def _lose_everywhere(needs):
    """Turns of dialects that ask again, that resume, and whose analysts say that they quit."""
    again = {"needs": needs, "reasks": 9, "resumes": False, "quits": True, "reopens": True}
    patient = Habits(reply_ms=50_000)

    def granted(talk, at):
        return [talk.posted(at) for _ in needs]

    def started(login=False, habits=patient, **manner):
        talk = Talk(SOCKET, login=login, habits=habits, manner=again | manner)
        talk.ask(0)
        granted(talk, 1)
        if not login:
            talk.open(2)
        return talk

    for events in ([], [Answer("a")], [TEXT]):
        talk = started()
        talk.hear(10, *events)
        talk.lose(20)
    talk = started(login=True)
    talk.open(2)
    talk.lose(3)
    talk = started()
    talk.lose(20)
    granted(talk, 21)
    talk.no_connection(30)
    quick = Habits(consents=ConsentPlan("follow", 0), patience_ms=700)
    for lost in (True, False):
        talk = started(habits=quick)
        talk.hear(10, CONSENT)
        talk.until(11)
        talk.visited(12)
        granted(talk, 13)
        talk.open(14)
        if lost:
            talk.lose(15)
        talk.until(10**5)
    talk = started(habits=Habits(patience_ms=700))
    talk.until(10**5)
    resuming = Talk(SOCKET, manner={"needs": needs})
    resuming.ask(0)
    granted(resuming, 1)
    resuming.open(2)
    resuming.lose(10)
    resuming.until(1000)
    if needs:
        resuming.posted(1001, 429)
    resuming.interrupt(2000)


def test_every_move_of_the_table_is_made_by_some_conversation(monkeypatch):
    """The table holds no move that cannot happen: a run of the happenings above makes them all."""
    made = set()
    enter = Conversation._enter

    def watch(self, phase, at_ns):
        if phase is not self.phase:
            made.add((self.phase, phase))
        enter(self, phase, at_ns)

    monkeypatch.setattr(Conversation, "_enter", watch)
    for phase in Phase:
        for event in (*EVENTS, None):
            talk = _stand_in(phase)
            if event is not None:
                talk.hear(1001, event)
            else:
                talk.lose(1001)
            talk.until(10**6)
    for login in (False, True):
        talk = Talk(SOCKET, login=login)
        talk.ask(0)
        talk.open(1)
        talk.login(2)
        talk.lose(100)
        talk.until(200)
        if login:
            talk.open(210)
            talk.login(220)
        else:
            talk.no_connection(250)
        talk.interrupt(10**5)
    talk = Talk(SOCKET, login=True)
    talk.ask(0)
    talk.open(1)
    talk.login(2)
    talk.lose(100)
    talk.until(200)
    talk.open(210)
    talk.lose(220)
    talk.interrupt(230)
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.lose(1, answered=False)
    talk.open(2)
    talk.hear(3, TEXT)
    talk.until(10**6)
    talk = Talk(HTTP)
    talk.ask_at_hand(0)
    talk.hear(1, replace(TEXT, execution="e1"))
    talk.until(1001)
    talk.hear(1002, CUT)
    talk.posted(1003)
    talk.posted(1004)
    talk = Talk(HTTP, habits=Habits(manner={"twice": True}), deadlines=DEADLINES)
    talk.ask_at_hand(0)
    talk.hear(1, PENDING, TEXT)
    talk.until(1001)
    talk.posted(1003)
    talk.until(10**6)
    for needs in ((), ("token",)):
        _lose_everywhere(needs)

    table = {(phase, to) for phase, following in MOVES.items() for to in following}
    assert made == table
