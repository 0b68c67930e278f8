"""nat-ws: what each message means over many turns, and the exact messages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay import answer, socket_events, story

from loadgen.dialects.contract import Ask, Identity, Opening, Reply
from loadgen.dialects.nat_ws import NatWs
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Failed, Login, Lost, Option, Prompt, PromptKind
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import Close, End, Frame, Garbage, Head, Open, Refused

ROOT = "root"


def message(kind, **fields):
    return Frame("text", json.dumps({"type": kind, "id": "x", **fields}, separators=(",", ":")))


def say(text, turn="t1", status="in_progress"):
    return message("system_response_message", parent_id=turn, content={"text": text}, status=status)


def step(name, step_id="s1", parent=ROOT, payload="p"):
    body = {
        "type": "system_intermediate_message", "id": step_id, "parent_id": parent,
        "content": {"name": name, "payload": payload}, "status": "in_progress",
        "timestamp": "2026-11-29 20:00:48.863144+00:00",
    }  # fmt: skip
    return Frame("text", json.dumps(body, separators=(",", ":")))


def error(code="workflow_error", turn="t1"):
    content = {"code": code, "message": "ValueError", "details": "boom"}
    return message("error_message", parent_id=turn, content=content, status="in_progress")


def ask_human(turn="t1", **content):
    fields = {"input_type": "text", "text": "Year?", "timeout": None, **content}
    return message("system_interaction_message", parent_id=turn, content=fields)


def end(turn="t1", status="complete"):
    return say(None, turn, status)


START = step("Function Start: <workflow>")
ECHO = step("Function Complete: <workflow>")
TRACE = message("observability_trace_message", parent_id="t1", content={})
HI = say("Hi")


def decode(*frames):
    """Events of one socket; a string begins the turn of that name."""
    decoder = NatWs().decoder()
    events = []
    for frame in frames:
        if isinstance(frame, str):
            decoder.begin(frame)
        else:
            events += decoder(frame)
    return events


def tell(*frames):
    return story(decode(*frames))


# cases from the field


@pytest.mark.case("D-03")
def test_steps_never_enter_the_answer():
    events = decode("t1", START, step("Tool: search", "s2", "s1"), HI, ECHO, end(), TRACE)
    assert story(events) == "started tool answer (echo) completed (trace)"
    assert answer(events) == "Hi"


@pytest.mark.case("D-01")
def test_empty_and_null_text_is_neither_progress_nor_answer():
    assert tell("t1", say(""), say(None), HI, end()) == "(empty delta)*2 answer completed"


@pytest.mark.case("D-10")
def test_the_end_of_a_model_call_is_not_the_end_of_the_turn():
    call = step("gpt-x", "s2", "s1")
    assert tell("t1", START, call, call, step("Tool: t", "s3", "s1")) == "started llm*2 tool"


@pytest.mark.case("D-24")
@pytest.mark.parametrize("status", ["complete", "completed", "failed"])
def test_an_error_before_the_closing_message_fails_the_turn(status):
    events = decode("t1", HI, error(), end(status=status))
    assert story(events) == "answer failed/agent_error? failed/agent_error"
    assert events[-1].detail == "workflow_error: ValueError (boom)"


@pytest.mark.case("D-24")
@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("complete", "answer completed"),
        ("completed", "answer completed"),
        ("failed", "answer failed/agent_error"),
        ("in_progress", "answer (empty delta)"),
    ],
)
def test_both_spellings_of_the_end_are_understood(status, told):
    assert tell("t1", HI, end(status=status)) == told


@pytest.mark.case("D-24")
def test_a_failed_turn_does_not_taint_the_next():
    assert tell("t1", error(), end(), "t2", say("Hi", "t2"), end("t2")) == (
        "failed/agent_error? failed/agent_error answer completed"
    )


def test_a_turn_that_ends_without_a_word_has_an_empty_answer():
    assert tell("t1", START, ECHO, end()) == "started (echo) failed/empty_answer"
    assert tell("t1", HI, end(), "t2", end("t2")) == "answer completed failed/empty_answer"


def test_text_in_the_closing_message_is_answer():
    assert tell("t1", say("all", status="complete")) == "answer completed"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("invalid_user_message_content", "refused/protocol_violation"),
        ("invalid_message", "refused/protocol_violation"),
        ("user_auth_error", "refused/auth_rejected"),
        ("unknown_error", "failed/agent_error?"),
        (["odd"], "failed/agent_error?"),
    ],
)
def test_errors_that_no_closing_message_follows_end_the_turn(code, told):
    assert tell("t1", error(code)) == told


def test_a_bare_error_object_fails_with_its_code():
    bare = {"code": "user_auth_error", "message": "Preflight failed", "details": ""}
    (failed,) = decode("t1", Frame("text", json.dumps(bare)))
    assert failed == Failed(
        Outcome.REFUSED, Cause.AUTH_REJECTED, "user_auth_error: Preflight failed"
    )

    bare["code"] = "new_error"
    assert tell("t1", Frame("text", json.dumps(bare)), HI) == "failed/agent_error (late)"


# prompts


@pytest.mark.parametrize("kind", [k for k in PromptKind if k is not PromptKind.OAUTH_CONSENT])
def test_every_kind_of_prompt_is_understood(kind):
    options = [{"id": "y", "label": "Yes", "value": "yes"}]
    (event,) = decode("t1", ask_human(input_type=kind.value, options=options, timeout=1.5))
    assert event == Prompt(kind, "x", "Year?", (Option("y", "Yes", "yes"),), 1_500_000_000)


@pytest.mark.case("D-42")
def test_an_oauth_consent_is_a_prompt_whose_key_is_the_url_to_open():
    url = "http://login/authorize?state=s"
    asked = ask_human(input_type="oauth_consent", text=url)
    assert tell("t1", asked, HI, end()) == "prompt:oauth_consent answer completed"
    assert tell("t1", ask_human(input_type="oauth_consent", text=None)) == (
        "failed/protocol_violation"
    )


def test_a_prompt_of_an_unknown_kind_ends_the_turn():
    assert tell("t1", ask_human(input_type="drawing")) == "failed/protocol_violation"


# turns


def test_what_belongs_to_another_turn_is_stale_and_what_follows_the_end_is_late():
    old = (HI, end(), error(), ask_human())
    assert tell("t1", HI, "t2", *old, say("Ho", "t2"), end("t2")) == (
        "answer (stale)*4 answer completed"
    )
    assert tell("t1", HI, end(), HI, error(), ask_human()) == "answer completed (late)*3"
    assert tell(HI, end()) == "(stale)*2"


def test_steps_of_a_cancelled_turn_are_known_by_the_function_that_they_hang_below():
    assert tell(
        "t1", START, step("Function Start: inner", "s2", "s1"),
        "t2", step("Tool: old", "s8", "s2"), step("Function Start: old", "s9", "s2"),
        step("Tool: older", "s10", "s9"), ECHO,
        step("Function Start: <workflow>", "n1"), step("Tool: new", "n2", "n1"),
        step("Function Complete: <workflow>", "n1"),
    ) == "started function (stale)*4 started tool (echo)"  # fmt: skip


def test_the_published_schema_hangs_steps_below_the_turn():
    assert tell(
        "t1", step("Function Start: w", "s1", "t1"), step("Query rephrasal", "s2", "t1"),
        step("Function Start: f", "s3", "t1"), step("Function Complete: f", "s3", "t1"),
        step("Function Complete: w", "s1", "t1"),
        "t2", step("Query rephrasal", "s4", "t1"), step("Query rephrasal", "s5", "t2"),
    ) == "started step function*2 (echo) (stale) step"  # fmt: skip


def test_a_resumed_socket_knows_the_echo_although_it_never_saw_the_start():
    assert tell("t1", step("Tool: t", "s2", "s1"), HI, ECHO, end()) == (
        "tool answer (echo) completed"
    )


def test_a_function_inside_another_is_never_taken_for_the_synthetic_first_step():
    assert tell("t1", step("Function Start: inner", "s2", "s1")) == "function"


def test_beginning_the_same_turn_again_changes_nothing_about_its_steps():
    assert tell("t1", START, "t1", step("Tool: t", "s2", "s1"), ECHO) == "started tool (echo)"


def test_a_message_that_names_no_turn_belongs_to_the_current_one():
    for turn in (None, "", "default"):
        assert tell("t1", say("Hi", turn), end(turn)) == "answer completed"


def test_a_huge_step_is_read_like_a_small_one():
    tool = step("Tool: t", "s2", "s1", '","payload":"' + "y" * 100_000)
    assert tell("t1", START, tool) == "started tool"


# the socket itself


@pytest.mark.parametrize(
    ("frame", "event"),
    [
        (Close(1000, ""), Lost("1000 normal closure", 1000)),
        (Close(1006, ""), Lost("1006 no close frame", 1006)),
        (Close(1009, ""), Lost("1009 message too big", 1009, Cause.PROTOCOL_VIOLATION)),
        (Close(1011, "oops"), Lost("1011 internal error: oops", 1011)),
        (Close(1012, ""), Lost("1012 service restart", 1012)),
        (Close(4000, "x"), Lost("4000 of no known meaning: x", 4000)),
        (
            Close(1008, "Identity credential was rejected"),
            Lost("1008 policy violation: Identity credential was rejected", 1008,
                 Cause.AUTH_REJECTED),
        ),
        (Garbage("bad"), Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, "bad")),
        (
            Refused(403, {}, ""),
            Failed(Outcome.REFUSED, Cause.AUTH_REJECTED, "handshake refused with HTTP 403"),
        ),
        (
            Refused(429, {"retry-after": "3"}, "slow"),
            Failed(Outcome.REFUSED, Cause.RATE_LIMITED, "handshake refused with HTTP 429: slow",
                   retry_after_ns=3_000_000_000),
        ),
        (
            Refused(404, {}, ""),
            Failed(Outcome.REFUSED, Cause.CONNECT_FAILED, "handshake refused with HTTP 404"),
        ),
        (
            Refused(503, {"retry-after": "1"}, ""),
            Failed(Outcome.REFUSED, Cause.CONNECT_FAILED, "handshake refused with HTTP 503",
                   retry_after_ns=1_000_000_000),
        ),
    ],
)  # fmt: skip
def test_every_way_in_which_a_socket_ends_has_a_name(frame, event):
    assert decode(frame) == [event]


def test_a_login_is_told_with_the_servers_reason():
    assert decode(message("auth_response_message", status="success")) == [Login(True)]
    payload = {"code": "user_auth_error", "message": "Authentication failed", "details": "empty"}
    assert decode(message("auth_response_message", status="error", payload=payload)) == [
        Login(False, "user_auth_error: Authentication failed (empty)")
    ]


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (Frame("binary", "\x00"), "(undecodable)"), (Frame("text", "no"), "(undecodable)"),
        (Frame("text", "[]"), "(undecodable)"), (Frame("text", "{}"), "(unknown)"),
        (message("news"), "(unknown)"), (message(["x"]), "(unknown)"),
        (message("system_intermediate_message"), "(undecodable)"),
        (say({"a": 1}), "(undecodable)"), (Head(200, {}), "(unknown)"), (End(True), "(unknown)"),
    ],
)  # fmt: skip
def test_nonsense_is_counted_and_reading_goes_on(frame, told):
    assert tell("t1", frame, HI, end()) == f"{told} answer completed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats()
    | st.sampled_from(["t1", "t2", "s1", "root", "complete", "in_progress", "text", "", "é\u2028"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["id", "parent_id", "content", "text", "name", "status", "input_type",
                         "options", "timeout", "code", "message", "details", "payload"]),
        inner, max_size=6,
    ),
    max_leaves=15,
)  # fmt: skip
TYPES = st.sampled_from(
    ["system_intermediate_message", "system_response_message", "system_interaction_message",
     "error_message", "auth_response_message", "observability_trace_message", "x"]
) | JSON  # fmt: skip
MESSAGES = st.builds(
    lambda kind, rest: {"type": kind, **(rest if isinstance(rest, dict) else {})}, TYPES, JSON
)
FRAMES = st.one_of(
    st.builds(Frame, st.just("text"), MESSAGES.map(json.dumps) | st.text(max_size=20)),
    st.sampled_from(["t1", "t2"]),
    st.just(Open()),
    st.builds(Close, st.integers(0, 5000), st.text(max_size=5)),
)


@given(st.lists(FRAMES, max_size=10))
def test_no_frame_raises_none_is_silent_and_a_turn_ends_at_most_once(frames):
    decoder, ends = NatWs().decoder(), 0
    for frame in frames:
        if isinstance(frame, str):
            decoder.begin(frame)
            ends = 0
            continue
        events = decoder(frame)
        assert events
        ends += any(story([event]) == "completed" for event in events)
        assert ends <= 1


# what is sent


ASK = Ask("t7", "c3", "And now?", (("One?", "1."),))


@pytest.mark.parametrize(
    ("route", "identity", "resume", "path"),
    [
        (None, Identity(), None, "/websocket"),
        (None, Identity(), "c 1", "/websocket?conversation_id=c+1"),
        (None, Identity(query={"session": "ann"}), None, "/websocket?session=ann"),
        (
            "/ws?a=b", Identity(query={"session": "ann"}), "c1",
            "/ws?a=b&conversation_id=c1&session=ann",
        ),
    ],
)  # fmt: skip
def test_the_upgrade_names_a_conversation_only_to_resume_it(route, identity, resume, path):
    opening = Opening(identity, resume or "another", resume is not None)
    request = NatWs(route).upgrade(opening)
    assert (request.method, request.path, request.body) == ("GET", path, b"")


def test_the_upgrade_carries_the_identitys_headers():
    opening = Opening(Identity(headers={"x-api-key": "k"}), "c1")
    assert NatWs().upgrade(opening).headers == {"x-api-key": "k"}


def text_part(role, text):
    return {"role": role, "content": [{"type": "text", "text": text}]}


def test_a_question_carries_the_conversation_in_parts():
    assert json.loads(NatWs().ask(ASK, Identity())) == {
        "type": "user_message", "schema_type": "chat_stream", "id": "t7", "conversation_id": "c3",
        "content": {
            "messages": [
                text_part("user", "One?"), text_part("assistant", "1."),
                text_part("user", "And now?"),
            ]
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind", [k for k in PromptKind if k not in ("notification", "oauth_consent")]
)
def test_a_reply_is_text_for_every_kind_of_prompt(kind):
    reply = Reply(Prompt(kind, "p1", "", (Option("y", "Yes", "yes"),)), "yes")
    sent = json.loads(NatWs().reply(reply, ASK, Identity()))
    assert sent == {
        "type": "user_interaction_message", "id": "reply-p1", "thread_id": "default",
        "parent_id": "p1", "conversation_id": "c3",
        "content": {"messages": [text_part("user", "yes")]},
    }  # fmt: skip


def test_questions_and_replies_have_the_keys_of_recorded_ones_but_for_the_time():
    question, reply = map(json.loads, socket_events("ws_hitl_text")[0].sent)
    ours = json.loads(NatWs().ask(ASK, Identity()))
    answered = Reply(Prompt(PromptKind.TEXT, "p1"), "2024")
    assert question.keys() - ours.keys() == {"timestamp"}
    ours = json.loads(NatWs().reply(answered, ASK, Identity()))
    assert reply.keys() - ours.keys() == {"timestamp"}


@pytest.mark.parametrize(
    "login",
    [
        {"method": "jwt", "token": "a.b.c"},
        {"method": "api_key", "token": "k"},
        {"method": "basic", "username": "ann", "password": "pw"},
    ],
)
def test_a_login_has_exactly_the_fields_of_its_method(login):
    sent = NatWs().login(Identity(login=login))
    assert json.loads(sent) == {"type": "auth_message", "payload": login}


@pytest.mark.parametrize(
    "login",
    [
        {}, {"method": "magic", "token": "x"}, {"method": "jwt"}, {"method": "jwt", "token": ""},
        {"method": "api_key", "token": "k", "user": "x"}, {"method": "basic", "token": "k"},
    ],
)  # fmt: skip
def test_a_login_that_the_server_would_not_answer_is_a_mistake_of_the_plan(login):
    with pytest.raises(ConfigError, match="login"):
        NatWs().login(Identity(login=login))


def test_the_error_for_a_bad_login_does_not_tell_the_secret():
    with pytest.raises(ConfigError) as caught:
        NatWs().login(Identity(login={"method": "basic", "token": "s3cret"}))
    assert "s3cret" not in str(caught.value)


def test_there_is_no_login_without_one_and_no_reply_to_a_notification():
    assert NatWs().login(Identity()) is None
    with pytest.raises(GeneratorError):
        NatWs().reply(Reply(Prompt(PromptKind.NOTIFICATION, "p1"), ""), ASK, Identity())
    with pytest.raises(GeneratorError):
        NatWs().replied(204, "")
