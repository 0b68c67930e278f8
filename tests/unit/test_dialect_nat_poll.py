"""nat-poll: what an answer and the polls after it mean, and the exact requests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay import answer, story

from loadgen.dialects.contract import Ask, Identity, Opening, Reply, Site
from loadgen.dialects.nat_poll import SINGLES, NatPoll
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Completed, Failed, Notice, Option, Pending, Prompt, PromptKind
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import Close, End, Frame, Garbage, Head

ORIGIN = "http://agents.test:8000"
ELSEWHERE = "http://other.test:9000"
JSON = {"content-type": "application/json, application/json"}
END = End(True)
CUT = End(False)

RUN = {"execution_id": "e", "status_url": "/executions/e"}
RUNNING = {**RUN, "status": "running"}
PENDING = Pending("/executions/e", 500_000_000, "e")
COMPLETION = {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}


def asks(interaction="i", url=None, **prompt):
    """The state of a run that waits for the human."""
    return {
        **RUN, "status": "interaction_required", "interaction_id": interaction,
        "prompt": {"input_type": "text", "text": "Year?", "timeout": None, **prompt},
        "response_url": url or f"/executions/e/interactions/{interaction}/response",
    }  # fmt: skip


def wants_login(state="s", url="http://login.test/a"):
    return {**RUN, "status": "oauth_required", "auth_url": url, "oauth_state": state}


def text_of(body):
    return body if isinstance(body, str) else json.dumps(body)


def answered(body, status=200, headers=JSON, *, route="/v1/chat", end=END, **options):
    """A decoder that was given one answer, and the events of it."""
    decoder = NatPoll(route, Site(ORIGIN, (ELSEWHERE,)), options).decoder()
    frames = (Head(status, headers), Frame("body", text_of(body)), end)
    return decoder, [event for frame in frames for event in decoder(frame)]


def tell(body, status=200, headers=JSON, **where):
    return story(answered(body, status, headers, **where)[1])


def polled(*bodies, first=RUNNING, route="/v1/chat"):
    """The events of polls that answer 200, behind a 202."""
    decoder, _ = answered(first, 202, route=route)
    return [event for body in bodies for event in decoder.polled(200, text_of(body))]


# an answer at once


@pytest.mark.parametrize(
    ("route", "body", "text"),
    [
        ("/v1/chat", COMPLETION, "Hi"),
        ("/chat", COMPLETION, "Hi"),
        ("/v1/chat/completions", COMPLETION, "Hi"),
        ("/v1/chat", {"value": "Hi"}, "Hi"),
        ("/v1/chat", '"Hi"', "Hi"),
        ("/v1/workflow", {"value": "Hi"}, "Hi"),
        ("/v1/workflow", {"value": {"a": [1]}}, '{"a":[1]}'),
        ("/v1/workflow", {"value": 0}, "0"),
        ("/v1/workflow", COMPLETION, "Hi"),
        ("/v1/workflow", '"Hi"', "Hi"),
        ("/generate", {"rows": [1, 2]}, '{"rows":[1,2]}'),
        ("/generate", [1, 2], "[1,2]"),
        ("/generate", "false", "false"),
        ("/generate", {"error": "a word of the workflow's own"},
         '{"error":"a word of the workflow\'s own"}'),
    ],
)  # fmt: skip
def test_an_answer_comes_whole_and_shows_no_progress(route, body, text):
    _, events = answered(body, route=route)
    assert story(events) == "(headers) (body) answer completed"
    assert answer(events) == text


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/chat", {"choices": [{"message": {"content": ""}}]}),
        ("/v1/chat", {"choices": [{"message": {"content": None}}]}),
        ("/v1/chat", {"choices": [{"message": None}]}),
        ("/v1/chat", {"choices": [7]}),
        ("/v1/chat", {"choices": []}),
        ("/v1/chat", "null"),
        ("/v1/workflow", {"value": ""}),
        ("/v1/workflow", {"value": None}),
        ("/v1/workflow", '""'),
        ("/v1/workflow", "null"),
    ],
)
def test_an_answer_without_text_fails_the_turn(route, body):
    assert tell(body, route=route) == "(headers) (body) failed/empty_answer"


@pytest.mark.case("D-23")
@pytest.mark.parametrize("route", SINGLES)
def test_an_error_of_the_run_is_an_error_whatever_the_status(route):
    error = {"code": "workflow_error", "message": "boom", "details": "ValueError"}
    for status in (200, 422):
        _, events = answered(error, status, route=route)
        detail = "workflow_error: boom (ValueError)"
        assert events[-1] == Failed(Outcome.FAILED, Cause.AGENT_ERROR, detail)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": {"message": "boom"}}, "failed/agent_error"),
        ({"detail": "odd"}, "failed/protocol_violation"),
        ({"choices": [{"message": {"content": [{"text": "Hi"}]}}]}, "failed/protocol_violation"),
        ([COMPLETION], "failed/protocol_violation"),
        ("7", "failed/protocol_violation"),
    ],
)
def test_on_a_chat_route_other_json_is_no_answer(body, told):
    assert tell(body) == f"(headers) (body) {told}"


@pytest.mark.parametrize(
    ("status", "headers", "body", "outcome", "cause", "detail"),
    [
        (401, JSON, "", Outcome.REFUSED, Cause.AUTH_REJECTED, "HTTP 401"),
        (429, JSON, "slow", Outcome.REFUSED, Cause.RATE_LIMITED, "HTTP 429: slow"),
        (503, {}, "full", Outcome.REFUSED, Cause.AGENT_ERROR, "HTTP 503: full"),
        (404, JSON, "{}", Outcome.REFUSED, Cause.PROTOCOL_VIOLATION, "HTTP 404: {}"),
        (422, JSON, '{"detail":[]}', Outcome.REFUSED, Cause.PROTOCOL_VIOLATION,
         'HTTP 422: {"detail":[]}'),
        (422, {}, "no json", Outcome.REFUSED, Cause.PROTOCOL_VIOLATION, "HTTP 422: no json"),
        (500, {"content-type": "text/plain"}, "Internal Server Error", Outcome.FAILED,
         Cause.AGENT_ERROR, "HTTP 500: Internal Server Error"),
        (500, JSON, '{"code":"workflow_error"}', Outcome.FAILED, Cause.AGENT_ERROR,
         'HTTP 500: {"code":"workflow_error"}'),
        (204, {}, "", Outcome.FAILED, Cause.PROTOCOL_VIOLATION,
         "HTTP 204, answer is of no content type, not JSON"),
        (200, {"content-type": "text/html"}, "<html>\n <p>", Outcome.FAILED,
         Cause.PROTOCOL_VIOLATION, "answer is text/html, not JSON: <html> <p>"),
        (202, {"content-type": "text/html"}, "<p>", Outcome.FAILED,
         Cause.PROTOCOL_VIOLATION, "HTTP 202, answer is text/html, not JSON: <p>"),
        (200, {"content-type": "text/event-stream"}, "w0", Outcome.FAILED,
         Cause.PROTOCOL_VIOLATION, "answer is text/event-stream, not JSON: w0"),
        (200, JSON, "<html>", Outcome.FAILED, Cause.PROTOCOL_VIOLATION,
         "the answer is no JSON: <html>"),
        (200, JSON, '{"choices":[', Outcome.FAILED, Cause.PROTOCOL_VIOLATION,
         'the answer is no JSON: {"choices":['),
        (202, JSON, "[]", Outcome.FAILED, Cause.PROTOCOL_VIOLATION,
         "HTTP 202 without a JSON object: []"),
    ],
)  # fmt: skip
def test_another_answer_is_judged_by_its_status_and_kind(
    status, headers, body, outcome, cause, detail
):
    _, events = answered(body, status, headers)
    assert events[0] == Notice("headers", str(status))
    assert events[-1] == Failed(outcome, cause, detail)


@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "application/vnd.x+json"])
def test_json_is_json_under_any_of_its_names(media):
    assert tell(COMPLETION, 200, {"content-type": media}) == "(headers) (body) answer completed"


def test_how_long_to_stay_away_is_kept():
    _, events = answered("", 503, {"retry-after": "7"})
    assert events[-1].retry_after_ns == 7_000_000_000


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ((CUT,), "incomplete/stream_cut"),
        ((Head(200, JSON), CUT), "(headers) incomplete/stream_cut"),
        ((Head(200, JSON), End(False, '{"choices"')), "(headers) incomplete/stream_cut"),
        ((Head(202, JSON), End(False, '{"status"')), "(headers) incomplete/stream_cut"),
        ((Head(500, {}), End(False, "Intern")), "(headers) failed/agent_error"),
        ((Head(200, JSON), END), "(headers) failed/protocol_violation"),
        ((Garbage("not HTTP"),), "failed/protocol_violation"),
        ((Head(200, {**JSON, "content-encoding": "gzip"}),), "(headers) (encoding)"),
        ((Head(200, JSON), Close(1006, "")), "(headers) (unknown)"),
    ],
)
def test_an_answer_may_be_cut_or_be_none(frames, told):
    decoder = NatPoll().decoder()
    assert story(event for frame in frames for event in decoder(frame)) == told


# a run out of sight


@pytest.mark.case("D-42")
def test_a_prompt_comes_behind_the_place_to_ask_how_the_run_stands():
    options = [{"id": "y", "label": "Yes", "value": "yes", "description": "d"}]
    _, events = answered(asks(input_type="radio", options=options, timeout=30), 202)
    assert events[2:] == [
        PENDING,
        Prompt(
            PromptKind.RADIO, "/executions/e/interactions/i/response", "Year?",
            (Option("y", "Yes", "yes"),), 30_000_000_000, "e",
        ),
    ]  # fmt: skip


@pytest.mark.case("D-42")
def test_a_consent_comes_behind_the_place_to_ask_how_the_run_stands():
    _, events = answered(wants_login(), 202)
    wish = Prompt(PromptKind.OAUTH_CONSENT, "http://login.test/a", execution="e")
    assert events[2:] == [PENDING, wish]


def test_the_end_of_the_answer_does_not_end_a_turn_that_is_pending():
    decoder, events = answered(RUNNING, 202)
    assert events[2:] == [PENDING]
    assert decoder(END) == ()
    assert decoder(Garbage("bytes that answer no request")) == (Notice("late"),)
    assert decoder.polled(200, text_of(RUNNING)) == (PENDING,)


def test_how_soon_a_run_is_looked_at_again_is_the_plans():
    _, events = answered(RUNNING, 202, poll_s=2.5)
    assert events[-1].after_ns == 2_500_000_000


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ([RUNNING] * 3, "pending*3"),
        ([RUNNING, asks("j")], "pending*2 prompt:text"),
        ([asks("i")] * 3, "pending*3"),
        ([asks("i"), RUNNING, asks("j"), asks("j")], "pending*3 prompt:text pending"),
        ([wants_login("s")] * 2, "pending prompt:oauth_consent pending"),
        ([wants_login("s"), wants_login("t")], "pending prompt:oauth_consent pending "
         "prompt:oauth_consent"),
        ([{**RUN, "status": "completed", "result": COMPLETION}], "answer completed"),
        ([{**RUN, "status": "completed", "result": None}], "failed/empty_answer"),
        ([{**RUN, "status": "completed", "result": 7}], "failed/protocol_violation"),
        ([{**RUN, "status": "failed", "error": "boom"}], "failed/agent_error"),
        ([{**RUN, "status": "completed", "result": COMPLETION}, RUNNING],
         "answer completed (late)"),
        ([{**RUN, "status": "asleep"}], "failed/protocol_violation"),
        ([{**RUN, "status": ["running"]}], "failed/protocol_violation"),
        ([{}], "failed/protocol_violation"),
        (["no json"], "failed/protocol_violation"), ([""], "failed/protocol_violation"),
        (["[]"], "failed/protocol_violation"),
    ],
)  # fmt: skip
def test_each_poll_tells_where_the_run_stands_and_a_wish_is_told_once(states, told):
    assert story(polled(*states, first=asks("i"))) == told


def test_wishes_without_a_name_are_told_apart_by_where_they_are_answered():
    nameless = [{**asks(url=f"/r/{n}"), "interaction_id": None} for n in (1, 1, 2)]
    assert story(polled(*nameless)) == "pending prompt:text pending*2 prompt:text"


@pytest.mark.parametrize(
    ("route", "result", "text"),
    [
        ("/v1/chat", COMPLETION, "Hi"),
        ("/v1/workflow", {"value": "Hi"}, "Hi"),
        ("/v1/workflow", "Hi", "Hi"),
        ("/v1/workflow", [1], "[1]"),
    ],
)
def test_the_result_of_a_run_is_what_the_route_would_have_answered(route, result, text):
    events = polled({**RUN, "status": "completed", "result": result}, route=route)
    assert (answer(events), events[-1]) == (text, Completed())


def test_a_failed_run_says_why():
    events = polled({**RUN, "status": "failed", "error": "HITL prompt timed out after 1s"})
    detail = "HITL prompt timed out after 1s"
    assert events == [Failed(Outcome.FAILED, Cause.AGENT_ERROR, detail)]


@pytest.mark.parametrize(
    ("status", "outcome", "cause", "detail"),
    [
        (404, Outcome.FAILED, Cause.AGENT_ERROR, "the server does not know the execution: why"),
        (401, Outcome.REFUSED, Cause.AUTH_REJECTED, "poll got HTTP 401: why"),
        (429, Outcome.REFUSED, Cause.RATE_LIMITED, "poll got HTTP 429: why"),
        (422, Outcome.REFUSED, Cause.PROTOCOL_VIOLATION, "poll got HTTP 422: why"),
        (500, Outcome.FAILED, Cause.AGENT_ERROR, "poll got HTTP 500: why"),
        (302, Outcome.REFUSED, Cause.PROTOCOL_VIOLATION, "poll got HTTP 302: why"),
    ],
)
def test_a_poll_that_is_refused_ends_the_turn(status, outcome, cause, detail):
    decoder, _ = answered(RUNNING, 202)
    assert decoder.polled(status, "why") == (Failed(outcome, cause, detail),)
    assert decoder.polled(200, text_of(RUNNING)) == (Notice("late"),)


# where the server sends us


@pytest.mark.parametrize(
    ("route", "url", "key"),
    [
        ("/v1/chat", f"{ORIGIN}/executions/e", "/executions/e"),
        ("/v1/chat", f"{ELSEWHERE}/executions/e?a=b", f"{ELSEWHERE}/executions/e?a=b"),
        ("/agents/v1/chat", "/executions/e", "/agents/executions/e"),
        ("/agents/v1/chat", "/agents/executions/e", "/agents/executions/e"),
    ],
)
def test_a_run_is_looked_at_where_the_server_says(route, url, key):
    _, events = answered({**RUNNING, "status_url": url}, 202, route=route)
    assert events[-1] == Pending(key, 500_000_000, "e")


@pytest.mark.parametrize(
    "url", ["http://evil.test/e", "//evil.test/e", "/e\r\nx: y", "/e e", "", None, 7, ["/e"]]
)
def test_a_place_that_the_plan_does_not_allow_is_a_breach_and_ends_the_turn(url):
    told = "(headers) (body) failed/protocol_violation"
    assert tell({**RUNNING, "status_url": url}, 202) == told
    assert tell({**asks(), "response_url": url}, 202) == told
    assert story(polled({**asks(), "response_url": url})) == "failed/protocol_violation"


@pytest.mark.parametrize("kind", ["drawing", None, ["text"]])
def test_a_prompt_of_a_kind_that_we_cannot_answer_ends_the_turn(kind):
    assert story(polled(asks(input_type=kind))) == "failed/protocol_violation"


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_run_that_is_accepted_when_it_is_over_is_over(status):
    body = {**RUN, "status": status, "result": COMPLETION, "error": "boom"}
    told = {"completed": "answer completed", "failed": "failed/agent_error"}[status]
    assert tell(body, 202) == f"(headers) (body) {told}"


# what a decoder does with nonsense


DEEP = "[" * 1000 + "]" * 1000


@pytest.mark.parametrize("route", ["/v1/chat", "/v1/workflow"])
@pytest.mark.parametrize(
    "body",
    [
        "%s", '{"value":%s}', '{"choices":[{"message":{"content":%s}}]}',
        '{"code":"workflow_error","message":%s}', '{"status_url":%s}',
        '{"status_url":"/e","status":%s}', '{"status_url":"/e","status":"failed","error":%s}',
        '{"status_url":"/e","status":"completed","result":%s}',
        '{"status_url":"/e","status":"oauth_required","auth_url":%s}',
        '{"status_url":"/e","status":"interaction_required","response_url":%s}',
    ],
)  # fmt: skip
def test_json_may_nest_deeper_than_it_can_be_shown(route, body):
    for status in (200, 202, 422):
        assert len(answered(body % DEEP, status, route=route)[1]) >= 3
    assert polled(body % DEEP, route=route)


WORDS = st.sampled_from(
    ["running", "interaction_required", "oauth_required", "completed", "failed", "/e", "text", ""]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["status", "status_url", "execution_id", "interaction_id", "response_url", "prompt",
             "input_type", "auth_url", "oauth_state", "result", "error", "code", "message",
             "value", "choices", "content", "x"]
        ),
        inner, max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip
BODIES = VALUES.map(json.dumps) | st.text(max_size=20)
STATUSES = st.sampled_from([200, 202, 204, 302, 404, 422, 500])
FRAMES = st.one_of(
    st.builds(Frame, st.sampled_from(["body", "message", "text"]), BODIES),
    st.builds(Head, STATUSES, st.sampled_from([JSON, {}, {"content-type": "text/html"}])),
    st.builds(End, st.booleans(), st.text(max_size=20)),
    st.just(Close(1006, "")), st.builds(Garbage, st.text(max_size=5)),
)  # fmt: skip


@given(
    st.lists(FRAMES, max_size=6),
    st.lists(st.tuples(STATUSES, BODIES), max_size=4),
    st.sampled_from(list(SINGLES)),
)
def test_nothing_raises_no_frame_is_silent_and_a_turn_ends_at_most_once(frames, polls, route):
    decoder = NatPoll(route).decoder()
    each = [decoder(frame) for frame in frames]
    ended = any(type(frame) is End for frame in frames)
    silent = [frame for frame, told in zip(frames, each, strict=True) if not told]
    looked = [decoder.polled(status, body) for status, body in polls]
    assert all(looked)
    assert all(type(frame) is End for frame in silent)
    events = [event for told in [*each, *looked] for event in told]
    ends = [e for e in events if type(e) is Completed or (type(e) is Failed and e.final)]
    assert len(ends) <= 1
    assert not ended or ends or any(type(event) is Pending for event in events)


# what is sent


ASK = Ask("t7", "c3", "And now?", (("One?", "1."),))
SAID = [
    {"role": "user", "content": "One?"}, {"role": "assistant", "content": "1."},
    {"role": "user", "content": "And now?"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("route", "options", "body"),
    [
        ("/v1/chat", {}, {"messages": SAID, "stream": False}),
        ("/chat", {}, {"messages": SAID, "stream": False}),
        ("/v1/chat/completions", {}, {"messages": SAID, "stream": False}),
        ("/v1/workflow", {}, {"input_message": "And now?"}),
        ("/generate", {"input": "query"}, {"query": "And now?"}),
        ("/p/generate?a=b", {"input": "messages"}, {"messages": SAID}),
    ],
)
def test_each_route_gets_the_body_that_it_takes(route, options, body):
    request = NatPoll(route, None, options).ask(ASK, Identity(headers={"x-api-key": "k"}))
    assert (request.method, request.path, json.loads(request.body)) == ("POST", route, body)
    assert request.headers == {
        "content-type": "application/json", "accept": "application/json",
        "user-message-id": "t7", "conversation-id": "c3", "x-api-key": "k",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "origin", "path"),
    [
        ("/executions/e", None, "/executions/e?a=b"),
        ("/executions/e?x=y", None, "/executions/e?x=y&a=b"),
        (f"{ELSEWHERE}/executions/e", ELSEWHERE, "/executions/e?a=b"),
        ("https://[::1]:8443/e", "https://[::1]:8443", "/e?a=b"),
    ],
)
def test_a_poll_goes_to_its_key_in_the_analysts_name(key, origin, path):
    identity = Identity({"x-api-key": "k"}, {"session": "ann", "a": "b"})
    request = NatPoll().poll(key, ASK, identity)
    assert (request.method, request.origin, request.path) == ("GET", origin, path)
    assert request.body == b""
    assert request.headers == {
        "conversation-id": "c3", "x-api-key": "k", "cookie": "nat-session=ann",
    }  # fmt: skip


def test_a_reply_goes_to_the_key_of_its_prompt():
    decoder, events = answered(asks(url=f"{ELSEWHERE}/r"), 202)
    request = NatPoll().reply(Reply(events[-1], "2024"), ASK, Identity())
    assert (request.method, request.origin, request.path) == ("POST", ELSEWHERE, "/r")
    assert json.loads(request.body) == {"response": {"type": "text", "text": "2024"}}
    assert decoder.polled(200, text_of(asks())) != ()


def test_a_run_that_was_given_up_can_be_asked_for():
    request = NatPoll("/p/v1/workflow").reconcile("e-1", ASK, Identity())
    assert request is not None
    assert (request.method, request.path) == ("GET", "/p/executions/e-1")
    assert NatPoll().reconcile("e/1", ASK, Identity()) is None
    assert NatPoll().state(200, text_of(RUNNING)) == "running"


@pytest.mark.parametrize(
    ("route", "options", "complaint"),
    [
        ("/v1/chat/stream", {}, "known are /v1/chat, /chat, /v1/chat/completions, /v1/workflow"),
        ("/executions", {}, "'/executions'; known are"),
        ("/v1/chat", {"input": "query"}, "input of nat-poll works on /v1/workflow, /generate; the"),
        ("/v1/chat", {"poll_s": 0}, "greater than 0, got 0"),
        ("/v1/chat", {"poll_s": float("nan")}, "poll_s of nat-poll"),
        ("/v1/chat", {"poll_s": float("inf")}, "poll_s of nat-poll"),
        ("/v1/workflow", {"input": ""}, "at least 1 character"),
        ("/v1/workflow", {"filter_steps": "none"}, "its options are input, poll_s"),
    ],
)
def test_a_mistake_of_the_plan_is_told_before_anything_is_sent(route, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        NatPoll(route, None, options)


def test_what_only_a_socket_can_do_is_our_own_fault():
    with pytest.raises(GeneratorError):
        NatPoll().upgrade(Opening(Identity(), "c1"))
    assert NatPoll().login(Identity(login={"method": "api_key", "token": "k"})) is None
    assert NatPoll().greetings() == ()
