"""Progress Agentic RAG in a conversation: tokens, sockets, logins, and what ends a turn."""

from __future__ import annotations

import json
from random import Random

import pytest
from arag_replay import AGENT, frame
from talk import AT_ONCE, PATIENT, Habits
from test_dialect_arag import (
    DONE,
    HANDED,
    KEY,
    START,
    URI,
    WANTED,
    chunk,
    context,
    error,
    whole,
)

from loadgen.clock import NS_PER_MS
from loadgen.commands import Finish, Post, Reconnect, Send, Visit
from loadgen.conversation import Conversation
from loadgen.dialects.arag_ws import AragWs
from loadgen.dialogue import Labels
from loadgen.plan import REDACTED
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import Close, Frame, Open, Refused

NORMAL, CUT = Close(1000, ""), Close(1006, "")
ASKED = "which year?"


class Table:
    """A conversation whose network is a script: what it wants done is noted as words."""

    def __init__(self, **options):
        self.said = []
        self.record = self.parting = None
        self.now_ns = 10**12
        self.tokens = 0
        self.conversation = Conversation(
            AragWs(options=AGENT | options),
            KEY,
            PATIENT,
            AT_ONCE,
            Habits(),
            Random(1),
            Labels("u1", "s", "w", "g"),
            "c1",
            keep_answers=True,
        )

    def ask(self):
        self.record = None
        self.conversation.ask("t1", ASKED, self.now_ns)
        return self.go_on()

    def hear(self, *frames):
        """One read."""
        self.now_ns += NS_PER_MS
        read = [Frame("text", one) if type(one) is str else one for one in frames]
        self.conversation.receive(read, self.now_ns, 10, True)
        return self.go_on()

    def wait(self, seconds):
        self.now_ns += int(seconds * 10**9)
        self.conversation.tick(self.now_ns)
        return self.go_on()

    def go_on(self):
        """What was wanted since; tokens are granted and sockets connected at once."""
        while self.conversation.has_commands:
            for command in self.conversation.take_commands():
                self.do(command)
        said, self.said = self.said, []
        return said

    def do(self, command):
        match command:
            case Post(errand, request):
                self.said.append(f"{request.method} {request.path.rpartition('/')[2]}")
                self.tokens += 1
                body = json.dumps({"token": f"eph-{self.tokens}"})
                self.conversation.posted(errand, 200, body, self.now_ns)
            case Reconnect(upgrade):
                self.said.append(upgrade.path.rpartition("?")[2])
                self.conversation.connected(self.now_ns)
            case Send(text):
                self.conversation.flushed(self.now_ns)
                message = json.loads(text)
                self.said.append(message if message.get("question") != ASKED else "question")
            case Visit(url):
                self.said.append(url)
            case Finish(record, parting):
                self.record, self.parting = record, parting.value


FIRST = ["POST ephemeral_token", "eph-token=eph-1"]


def test_a_turn_is_a_token_a_socket_and_a_question():
    table = Table()
    assert table.ask() == FIRST
    assert table.hear(Open()) == ["question"]
    table.hear(START, context("c1"), chunk("a"), whole("a", "c1"), DONE, NORMAL)
    record = table.record
    assert (record.outcome, table.parting, record.losses) == (Outcome.COMPLETED, "close", [])
    assert [(p.name, p.status) for p in record.preparations] == [("token", 200)]
    assert (record.chunks_match, record.citations, record.unresolved_citations) == (True, 1, 0)
    assert table.ask() == ["POST ephemeral_token", "eph-token=eph-2"]


def test_an_open_socket_carries_the_next_question_without_a_token():
    table = Table(keep_open=True)
    assert table.ask() == [FIRST[0], "eph-token=eph-1&keep_open=true"]
    table.hear(Open())
    table.hear(START, whole("a"), DONE)
    assert table.parting == "keep"
    assert table.ask() == ["question"]


@pytest.mark.parametrize(
    ("frames", "outcome", "cause"),
    [
        ([START, whole("a"), NORMAL], Outcome.COMPLETED, None),
        ([START, chunk("a"), NORMAL], Outcome.INCOMPLETE, Cause.STREAM_CUT),
        ([START, chunk("a"), CUT], Outcome.INCOMPLETE, Cause.STREAM_CUT),
        ([START, Close(1008, "")], Outcome.REFUSED, Cause.AUTH_REJECTED),
        ([START, error("boom"), DONE], Outcome.FAILED, Cause.AGENT_ERROR),
        ([START, error("boom"), NORMAL], Outcome.FAILED, Cause.AGENT_ERROR),
        ([START, error("boom"), CUT], Outcome.FAILED, Cause.AGENT_ERROR),
        ([error("Agent has stopped responding. Please, try again."), NORMAL],
         Outcome.FAILED, Cause.AGENT_ERROR),
        ([START, frame(), DONE], Outcome.FAILED, Cause.EMPTY_ANSWER),
    ],
)  # fmt: skip
def test_what_ends_a_turn(frames, outcome, cause):
    table = Table()
    table.ask()
    table.hear(Open())
    table.hear(*frames)
    assert (table.record.outcome, table.record.cause) == (outcome, cause)


def test_an_error_without_done_or_close_is_the_cause_when_silence_ends_the_turn():
    table = Table()
    table.ask()
    table.hear(Open())
    table.hear(START, error("boom"))
    assert table.record is None
    table.wait(PATIENT.silence_s)
    assert (table.record.cause, table.record.detail) == (Cause.AGENT_ERROR, "boom")


def test_the_sdk_asks_at_once_and_with_a_new_token_until_three_runs_are_lost():
    table = Table(reconnect="sdk")
    table.ask()
    for run in (2, 3):
        table.hear(Open())
        said = table.hear(START, chunk("a"), CUT)
        assert said == ["POST ephemeral_token", f"eph-token=eph-{run}"]
    table.hear(Open())
    table.hear(START, CUT)
    assert (table.record.outcome, table.record.asked_again) == (Outcome.INCOMPLETE, 2)
    assert table.tokens == 3


def test_the_answer_of_a_second_run_is_held_against_its_own_chunks():
    table = Table(reconnect="sdk")
    table.ask()
    table.hear(Open())
    table.hear(START, chunk("a"), CUT)
    table.hear(Open())
    table.hear(START, chunk("a"), chunk("b"), whole("ab"), DONE)
    assert (table.record.outcome, table.record.chunks_match) == (Outcome.COMPLETED, True)


def test_a_refused_upgrade_is_asked_for_again_only_by_the_sdk():
    for reconnect, tokens in (("none", 1), ("sdk", 3)):
        table = Table(reconnect=reconnect)
        table.ask()
        for _ in range(tokens):
            assert table.record is None
            table.hear(Refused(403, {}, "bad token eph-1"))
        assert table.tokens == tokens
        assert table.record.cause is Cause.AUTH_REJECTED
        assert table.record.detail == f"handshake refused with HTTP 403: bad token {REDACTED}"


def test_released_credentials_travel_without_the_analyst():
    table = Table()
    table.ask()
    table.hear(Open())
    none = {"request_id": "r1", "response": '{"existing_credentials":{}}'}
    assert table.hear(START, frame(5, feedback=WANTED)) == [none]
    table.hear(frame(5, oauth={"oauth_url": "https://login/authorize"}))
    assert table.wait(3) == ["https://login/authorize"]
    table.conversation.visited(200, "", table.now_ns, "https://app/callback?code=1")
    assert table.go_on() == []
    assert table.hear(frame(5, feedback=HANDED)) == [{"request_id": "r1", "response": "{}"}]
    table.hear(whole("done"), DONE, NORMAL)
    assert table.record.outcome is Outcome.COMPLETED


def test_documented_credentials_come_back_over_another_socket():
    table = Table(edition="documented")
    table.ask()
    table.hear(Open())
    table.hear(START, context("c1"), frame(5, oauth={"oauth_url": "https://login/authorize"}))
    assert table.wait(3) == ["https://login/authorize"]
    table.conversation.visited(200, "", table.now_ns, "https://app/?code=s3cr3t-3")
    assert table.go_on() == ["POST ephemeral_token", "eph-token=eph-2"]
    assert table.hear(Open()) == []
    reply = {"request_id": "r1", "existing_credentials": {URI: "s3cr3t-3"}}
    assert table.hear(frame(5, feedback=WANTED)) == [reply]
    table.hear(whole("s3cr3t-3", "c1"), DONE, NORMAL)
    assert table.record.outcome is Outcome.COMPLETED
    assert table.record.unresolved_citations == 0
    assert table.record.answer == REDACTED


def test_who_loses_patience_says_quit_and_hears_what_becomes_of_it():
    table = Table()
    table.conversation._habits.patience_ms = 5000
    table.ask()
    table.hear(Open())
    table.hear(START)
    assert table.wait(5) == [{"question": "", "operation": 1}]
    table.hear(error("Unexpected message from user"))
    assert table.record.outcome is Outcome.ABANDONED
    assert table.record.notices["quit_refused"] == 1


def test_no_record_holds_a_token_or_the_key():
    table = Table()
    table.ask()
    table.hear(Open())
    table.hear(START, error("bad eph-1 of Bearer KEY"), DONE)
    assert table.record.detail == f"bad {REDACTED} of {REDACTED}"


@pytest.mark.parametrize("silent_s", [20, 59])
def test_a_long_silence_inside_a_turn_is_only_a_gap(silent_s):
    table = Table()
    table.ask()
    table.hear(Open())
    table.hear(START, chunk("a"))
    table.wait(silent_s)
    table.hear(chunk("b"), whole("ab"), DONE)
    assert table.record.outcome is Outcome.COMPLETED
    assert table.record.max_gap_ns == silent_s * 1000 * NS_PER_MS + NS_PER_MS
