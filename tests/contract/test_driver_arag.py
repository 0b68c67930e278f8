"""Our client and the mock agent over real sockets: Progress Agentic RAG, on good days and bad."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest
from analyst import Analyst, Habits, by_kernel, clocks, end

from loadgen.clock import NS_PER_MS
from loadgen.dialects.contract import Identity, Shape
from loadgen.errors import ConfigError
from loadgen.plan import Deadlines
from loadgen.turn import Cause, Milestone, Outcome

OK = (Outcome.COMPLETED, None)
FAST = "steps=2 step_ms=5 think_ms=5 tokens=4 token_ms=5"
AGENT = {"agent": "agent-0001"}
KEY = Identity(headers={"x-nuclia-serviceaccount": "Bearer k"})
QUICK = Deadlines(
    connect_s=5, auth_s=2, first_event_s=2, silence_s=1, resume_s=1, prompt_grace_s=1, turn_s=20
)


def turn(agent, text=FAST, *, dialect="arag-ws", options=None, deadlines=QUICK, habits=None):
    """The record of one turn."""
    analyst = Analyst(
        agent.url, dialect, identity=KEY, options=AGENT | (options or {}), deadlines=deadlines,
        habits=habits,
    )  # fmt: skip
    try:
        return analyst.ask(f"{text} n={uuid4().hex}")
    finally:
        analyst.close()


def got(agent, path):
    """What the mock answers to a GET."""
    return httpx.get(agent.url + path, trust_env=False).json()


# good days


@pytest.mark.parametrize(
    "options",
    [
        {"token": "account", "account": "local"}, {"token": "agent"}, {"token": "plain"},
        {"token": "none"}, {"workflow": "ask"}, {"workflow": "ask", "workflow_in": "path"},
        {"session": "named"}, {"streaming": False}, {"keep_open": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_turn_completes_on_every_path(shared_mock_agent, options):
    record = turn(shared_mock_agent(), f"{FAST} tag=t1", options=options)
    assert end(record) == OK
    assert "tag=t1" in record.answer
    assert by_kernel(record)
    assert record.chunks_match is (None if options == {"streaming": False} else True)
    assert (record.citations, record.unresolved_citations) == (1, 0)
    assert [p.name for p in record.preparations] == (
        [] if options.get("token") == "none" else ["token"]
    )
    assert record.work["rephrase"].steps == 1
    at = record.timeline
    assert at[Milestone.FIRST_PROGRESS] < at[Milestone.FIRST_ANSWER] <= at[Milestone.LAST_ANSWER]
    assert at[Milestone.LAST_ANSWER] <= at[Milestone.ENDED]


def test_over_http_the_same_lines_mean_the_same(shared_mock_agent):
    record = turn(shared_mock_agent(), f"{FAST} tag=t1", dialect="arag-http")
    assert end(record) == OK
    assert "tag=t1" in record.answer
    assert record.chunks_match is True
    assert record.preparations == []


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_socket_for_each_question_or_one_for_all(shared_mock_agent, keep_open):
    analyst = Analyst(
        shared_mock_agent().url, "arag-ws", identity=KEY, options=AGENT | {"keep_open": keep_open}
    )
    records = [analyst.ask(FAST) for _ in range(3)]
    analyst.close()
    assert [end(record) for record in records] == [OK] * 3
    connections = [len(record.connections) for record in records]
    assert connections == ([1, 0, 0] if keep_open else [1, 1, 1])
    assert [len(record.preparations) for record in records] == connections
    assert all(record.losses == [] for record in records)


def test_a_managed_session_is_created_used_and_deleted(mock_agent):
    agent = mock_agent("--arag-memory")
    analyst = Analyst(agent.url, "arag-ws", identity=KEY, options=AGENT | {"session": "managed"})
    first, second = analyst.ask(FAST), analyst.ask(FAST)
    analyst.driver.conversation.restart(uuid4().hex)
    third = analyst.ask(FAST)
    analyst.close()
    names = [[p.name for p in record.preparations] for record in (first, second, third)]
    assert names == [["sessions", "session", "token"], ["token"], ["sessions", "session", "token"]]
    assert [end(record) for record in (first, second, third)] == [OK] * 3
    assert got(agent, "/api/v1/agent/agent-0001/sessions")["resources"] == []


# feedback


@pytest.mark.parametrize(
    "kind",
    ["string", "enum", "number", "integer", "boolean", "array", "object", "tool", "free"],
)
def test_feedback_is_answered_from_its_schema(shared_mock_agent, kind):
    from random import Random

    from loadgen.feedback import reply_for

    class Asked(Habits):
        def reply(self, prompt, deliveries):
            self.manner = {"value": reply_for(prompt.schema or {}, Random(1))}
            return super().reply(prompt, deliveries)

    record = turn(shared_mock_agent(), f"{FAST} feedback={kind}", habits=Asked())
    assert end(record) == OK
    assert record.prompts[0].replied
    assert "message_rejected" not in record.notices


@pytest.mark.case("D-37")
@pytest.mark.parametrize("edition", ["server", "documented"])
def test_a_reply_before_the_timeout_is_used(shared_mock_agent, edition):
    agent = shared_mock_agent("--edition", edition)
    habits = Habits(reply_ms=1400, manner={"value": '{"response": "before"}'})
    record = turn(agent, "#feedback-timeout", habits=habits)
    assert end(record) == OK
    assert record.answer == 'feedback was: {"response": "before"}'
    assert record.notices.get("hitl_late") is None


@pytest.mark.case("D-37")
@pytest.mark.parametrize(
    ("edition", "text", "human_ms"),
    [
        ("server", "#feedback-timeout", 1600),
        ("documented", f"{FAST} feedback=1 feedback_timeout=1.5 think_ms=400", 1500),
    ],
)
def test_an_agent_goes_on_without_a_reply_that_comes_after_the_timeout(
    shared_mock_agent, edition, text, human_ms
):
    agent = shared_mock_agent("--edition", edition)
    habits = Habits(reply_ms=1600, manner={"value": '{"response": "after"}'})
    record = turn(agent, text, habits=habits)
    assert end(record) == OK
    assert "after" not in record.answer
    assert record.notices["hitl_late"] == 1
    assert ("prompt_expired" in record.notices) == (edition == "documented")
    assert human_ms - 5 <= clocks(record)["human"] < human_ms + 1000
    if edition == "server":
        assert record.answer == "feedback was: (No response received)"


def test_a_silent_analyst_is_told_from_a_silent_server(shared_mock_agent):
    habits = Habits(manner={"delay_ns": None})
    text = f"{FAST} feedback=1 feedback_timeout=0.5"
    withheld = turn(shared_mock_agent(), text, habits=habits)
    assert end(withheld) == (Outcome.TIMED_OUT, Cause.WITHHELD)
    went_on = turn(shared_mock_agent("--edition", "documented"), text, habits=habits)
    assert end(went_on) == OK
    assert went_on.notices["prompt_expired"] == 1


@pytest.mark.parametrize(
    ("shape", "ended"),
    [
        (Shape.WRONG_ID, OK),
        (Shape.MALFORMED, (Outcome.TIMED_OUT, Cause.STALLED)),
    ],
)
def test_a_reply_that_is_not_as_it_should_be(shared_mock_agent, shape, ended):
    habits = Habits(manner={"value": '{"response": "x"}', "shape": shape})
    record = turn(shared_mock_agent(), f"{FAST} feedback=1 feedback_timeout=9", habits=habits)
    if ended == OK:
        assert end(record) == OK
    else:
        assert end(record) == (Outcome.FAILED, Cause.AGENT_ERROR)
        assert record.detail.startswith("Invalid request payload")
        assert record.notices["message_rejected"] == 1


# logins elsewhere


@pytest.mark.parametrize("edition", ["released", "documented"])
def test_a_login_elsewhere_is_made_once(shared_mock_agent, edition):
    server = "server" if edition == "released" else edition
    agent = shared_mock_agent("--edition", server)
    options = AGENT | {"edition": edition, "session": "named"}
    analyst = Analyst(agent.url, "arag-ws", identity=KEY, options=options, deadlines=QUICK)
    first, second = analyst.ask(f"{FAST} oauth=1"), analyst.ask(f"{FAST} oauth=1")
    analyst.close()
    assert [end(record) for record in (first, second)] == [OK, OK]
    assert [[p.kind for p in record.prompts] for record in (first, second)] == [
        ["oauth_consent"], []
    ]  # fmt: skip
    assert len(first.connections) == (1 if edition == "released" else 2)
    for secret in analyst.conversation.dialect.secrets:
        assert secret not in str(first.to_row())


@pytest.mark.parametrize("wanted", ["feedback=1", "oauth=1"])
def test_over_http_nobody_can_be_asked(shared_mock_agent, wanted):
    record = turn(shared_mock_agent(), f"{FAST} {wanted}", dialect="arag-http")
    assert end(record) == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert "only supported via websocket" in record.detail


# tokens


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (401, Cause.AUTH_REJECTED), (403, Cause.AUTH_REJECTED), (429, Cause.RATE_LIMITED),
        (503, Cause.RATE_LIMITED), (500, Cause.CONNECT_FAILED),
    ],
)  # fmt: skip
def test_a_token_that_is_refused_is_not_asked_for_again(mock_agent, status, cause):
    agent = mock_agent("--arag-token-failure", str(status))
    record = turn(agent, options={"reconnect": "sdk"})
    assert end(record) == (Outcome.REFUSED, cause)
    assert [(p.name, p.status, p.done_ns) for p in record.preparations] == [("token", status, None)]
    assert [row["event"] for row in agent.sockets()] == ["token"]


def test_a_slow_token_is_the_tokens_time(mock_agent):
    record = turn(mock_agent("--arag-token-delay", "150"))
    assert end(record) == OK
    (token,) = record.preparations
    assert token.done_ns - token.begun_ns >= 148 * NS_PER_MS
    assert clocks(record)["setup"] >= 148


def test_sockets_that_need_a_token_get_one_and_refuse_without(mock_agent):
    agent = mock_agent("--arag-require-token", "--arag-single-use-token", "--arag-service-key", "k")
    assert end(turn(agent)) == OK
    refused = turn(agent, options={"token": "none"})
    assert end(refused) == (Outcome.REFUSED, Cause.AUTH_REJECTED)


# bad days

ANSWERED = f"{FAST} tokens=6"


@pytest.mark.parametrize(
    ("words", "ended"),
    [
        ("cut=0 break_at=open reset=1", (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
        ("cut=0 break_at=start reset=1", (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
        ("cut=3 reset=1", (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
        ("drop_ws=3", (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
        ("eof=3", (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
        ("eof=3 close_code=1011", (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
        ("eof=3 close_code=1012", (Outcome.INCOMPLETE, Cause.STREAM_CUT)),
        ("eof=0 break_at=done", OK),
        ("stall=0 break_at=close", OK),
        ("fail=answer", (Outcome.FAILED, Cause.AGENT_ERROR)),
        ("fail=answer eof=0 break_at=done", (Outcome.FAILED, Cause.AGENT_ERROR)),
        ("fail=answer stall=0 break_at=done", (Outcome.FAILED, Cause.AGENT_ERROR)),
        ("fail=activation", (Outcome.FAILED, Cause.AGENT_ERROR)),
        ("fail=timeout", (Outcome.FAILED, Cause.AGENT_ERROR)),
        ("fail=silent hang_ms=50", (Outcome.FAILED, Cause.AGENT_ERROR)),
        ("stall=3", (Outcome.TIMED_OUT, Cause.STALLED)),
        ("stall=0 break_at=open", (Outcome.TIMED_OUT, Cause.STALLED)),
        ("hang_ms=700", OK),
        ("agents=3", OK),
        ("restarts=2", OK),
        ("visualizations=2", OK),
    ],
)
def test_a_bad_day_ends_in_the_right_outcome(shared_mock_agent, words, ended):
    record = turn(shared_mock_agent(), f"{ANSWERED} {words}")
    assert end(record) == ended, record.detail


def test_a_frame_of_a_megabyte_and_a_half_is_read(shared_mock_agent):
    record = turn(shared_mock_agent(), f"{FAST} big_kb=1500")
    assert end(record) == OK
    assert record.bytes > 1_500_000


def test_three_hundred_chunks_in_a_burst_are_all_read(shared_mock_agent):
    record = turn(shared_mock_agent(), "#burst")
    assert end(record) == OK
    assert record.chunks == 300
    assert record.chunks_match is True
    assert record.merged_reads > 0


def test_lost_chunks_are_flagged_and_fail_nothing(shared_mock_agent):
    record = turn(shared_mock_agent(), f"{FAST} drop_chunks=2")
    assert end(record) == OK
    assert record.chunks_match is False
    assert record.chunks == 3


def test_citations_of_a_context_that_nobody_saw_are_counted(shared_mock_agent):
    record = turn(shared_mock_agent(), f"{FAST} lost_context=1")
    assert end(record) == OK
    assert (record.citations, record.unresolved_citations) == (1, 1)


@pytest.mark.parametrize("unknown", [{"agent": "nope"}, {"workflow": "nope"}], ids=str)
@pytest.mark.parametrize("dialect", ["arag-ws", "arag-http"])
def test_an_agent_or_workflow_that_nobody_knows_refuses_the_turn(
    shared_mock_agent, unknown, dialect
):
    record = turn(shared_mock_agent(), dialect=dialect, options=unknown)
    assert end(record) == (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION), record.detail


# the published client's manners


def test_as_the_sdk_does_a_lost_question_is_run_again_with_a_new_token(shared_mock_agent):
    record = turn(shared_mock_agent(), f"{FAST} cut=2 once=1", options={"reconnect": "sdk"})
    assert end(record) == OK
    assert (record.asked_again, len(record.preparations), len(record.connections)) == (1, 2, 2)
    assert record.recovered


def test_as_the_sdk_does_it_gives_up_after_three_runs(shared_mock_agent):
    record = turn(shared_mock_agent(), f"{FAST} cut=2", options={"reconnect": "sdk"})
    assert end(record) == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert (record.asked_again, len(record.connections)) == (2, 3)


def test_by_default_a_lost_question_is_not_run_again(shared_mock_agent):
    record = turn(shared_mock_agent(), f"{FAST} cut=2 once=1")
    assert end(record) == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert len(record.connections) == 1


@pytest.mark.parametrize(
    ("edition", "noted"), [("released", "quit_refused"), ("documented", "quit_heeded")]
)
def test_an_analyst_that_gives_up_says_so_and_a_released_server_works_on(
    mock_agent, edition, noted
):
    agent = mock_agent("--edition", "server" if edition == "released" else edition)

    class Hurried(Habits):
        def patience_ns(self):
            return 300 * NS_PER_MS

    text = "steps=2 step_ms=50 tokens=40 token_ms=50"
    record = turn(agent, text, options={"edition": edition}, habits=Hurried())
    assert end(record) == (Outcome.ABANDONED, Cause.PATIENCE)
    assert record.notices == {"start": 1, "source": 1, noted: 1} or noted in record.notices
    running = got(agent, "/_truth/summary")["running"]
    assert running == (1 if edition == "released" else 0)


def test_options_that_do_not_go_together_are_said():
    with pytest.raises(ConfigError, match="account"):
        Analyst("http://127.0.0.1:1", "arag-ws", identity=KEY, options=AGENT | {"token": "account"})
