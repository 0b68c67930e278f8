"""nat-sse: what each frame of an answer means, and the exact requests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay import answer, story

from loadgen.dialects.chunk import Chunks
from loadgen.dialects.contract import Ask, Identity, Opening, Reply, Shape, Site
from loadgen.dialects.nat_sse import STREAMS, NatSse
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Failed, Notice, Option, Progress, Prompt, PromptKind
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import Close, End, Frame, Garbage, Head

SSE = {"content-type": "text/event-stream; charset=utf-8"}
HEAD = Head(200, SSE)
END = End(True)
CUT = End(False)
ORIGIN = "http://agents.test:8000"


def data(value):
    return Frame("message", value if isinstance(value, str) else json.dumps(value))


def delta(**fields):
    return data({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


def value(what):
    return data({"value": what})


def step(name, step_id="s1", parent="root"):
    text = {"id": step_id, "parent_id": parent, "type": "markdown", "name": name, "payload": "p"}
    return Frame("field:intermediate_data", json.dumps(text))


def raw(kind, name="f", step_id="s1", parent="root"):
    text = {"id": step_id, "parent_id": parent, "type": kind, "name": name, "payload": "{}"}
    return Frame("field:intermediate_data", json.dumps(text))


def asking(url="/executions/e/interactions/i/response", **prompt):
    fields = {"input_type": "text", "text": "Year?", "timeout": None, **prompt}
    body = {"execution_id": "e", "interaction_id": "i", "prompt": fields, "response_url": url}
    return Frame("interaction_required", json.dumps(body))


HI = delta(content="Hi")
DONE = data("[DONE]")
FINISH = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
USAGE = data({"choices": [], "usage": {"total_tokens": 3}})
ERROR = Frame("error", '{"code":"workflow_error","message":"boom","details":"ValueError"}')
BARE = Frame("line", ERROR.data)


def decode(*frames, route="/v1/chat/stream", origin=None, allowed=(), **options):
    """Events of a whole answer, and of each frame."""
    decoder = NatSse(route, Site(origin, allowed), options).decoder()
    each = [decoder(frame) for frame in frames]
    return [event for events in each for event in events], each


def tell(*frames, **where):
    return story(decode(*frames, **where)[0])


# cases from the field


@pytest.mark.case("D-01")
def test_role_empty_and_null_deltas_are_neither_progress_nor_answer():
    frames = (
        HEAD, delta(role="assistant"), delta(role="assistant", content=""), delta(content=None),
        delta(content="H"), delta(content="i"), FINISH, USAGE, DONE, END,
    )  # fmt: skip
    assert tell(*frames, route="/chat/stream") == (
        "(headers) (empty delta)*3 answer*2 (finish) (usage) completed"
    )


@pytest.mark.case("D-02")
@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_progress_and_content_is_answer(name):
    events, _ = decode(HEAD, *[delta(**{name: "hm", "content": ""})] * 50, HI, END)
    assert story(events) == "(headers) reasoning*50 answer completed"
    assert answer(events) == "Hi"


@pytest.mark.case("D-02")
def test_reasoning_and_content_in_one_delta_are_both_seen_reasoning_first():
    assert tell(HEAD, delta(reasoning="hm", content="Hi"), END) == (
        "(headers) reasoning answer completed"
    )


@pytest.mark.case("D-03")
def test_steps_and_trace_ids_never_enter_the_answer():
    events, _ = decode(
        HEAD, step("Function Start: <workflow>"), step("Tool: search", "s2", "s1"),
        Frame("field:observability_trace", '{"observability_trace_id":"x"}'),
        HI, step("Function Complete: <workflow>"), END,
    )  # fmt: skip
    assert story(events) == "(headers) started tool (trace) answer (echo) completed"
    assert answer(events) == "Hi"


@pytest.mark.case("D-04")
def test_an_answer_that_is_all_in_one_chunk_with_finish_and_usage_is_one_answer():
    chunk = {"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}], "usage": {"n": 1}}
    assert tell(HEAD, data(chunk), DONE, END, route="/chat/stream") == "(headers) answer completed"


@pytest.mark.case("D-06")
def test_a_tool_call_is_progress_once_it_has_arguments():
    def call(**function):
        return delta(tool_calls=[{"index": 0, "id": "c1", "function": function}])

    events, _ = decode(
        HEAD, call(name="search", arguments=""), call(arguments='{"q'), call(arguments='":1}'),
        HI, END,
    )  # fmt: skip
    assert story(events) == "(headers) (empty tool call) tool_call*2 answer completed"
    assert events[2] == Progress("tool_call", "search")


@pytest.mark.case("D-06")
def test_one_call_with_arguments_among_several_is_progress():
    calls = [{"function": {"arguments": "{}"}}, {"function": {"name": "b", "arguments": ""}}, 7]
    assert tell(delta(tool_calls=calls)) == "tool_call"


@pytest.mark.case("D-10")
def test_the_end_of_a_model_call_is_not_the_end_of_the_turn():
    frames = (
        HEAD, step("Function Start: <workflow>"), step("gpt-x", "s2", "s1"),
        step("gpt-x", "s2", "s1"), FINISH, step("Tool: search", "s3", "s1"), HI,
    )  # fmt: skip
    assert tell(*frames) == "(headers) started llm*2 (finish) tool answer"
    assert tell(*frames, END) == "(headers) started llm*2 (finish) tool answer completed"


@pytest.mark.case("D-11")
def test_pings_are_counted_and_mean_nothing():
    assert tell(HEAD, *[Frame("ping", "{}")] * 3, HI, END) == (
        "(headers) (unknown)*3 answer completed"
    )


@pytest.mark.case("D-23")
@pytest.mark.parametrize("route", STREAMS)
@pytest.mark.parametrize("last", [(DONE, END), (END,), (CUT,)])
@pytest.mark.parametrize(
    ("frame", "detail"),
    [
        (data({"error": {"message": "boom", "code": 500}}), "in-band error 500: boom"),
        (data({"error": "boom"}), "in-band error boom"),
        (data({"code": 500, "message": "boom"}), "500: boom"),
        (ERROR, "workflow_error: boom (ValueError)"),
        (BARE, "workflow_error: boom (ValueError)"),
        (Frame("line", '{"error":{"message":"boom"}}'), "boom"),
        (Frame("error", "no json"), "no json"),
    ],
)
def test_an_error_in_the_stream_fails_the_turn_whatever_ends_it(frame, detail, last, route):
    events, _ = decode(HEAD, HI, frame, *last, route=route)
    failed = [event for event in events if type(event) is Failed]
    assert [(f.cause, f.detail, f.final) for f in failed] == [
        (Cause.AGENT_ERROR, detail, False),
        (Cause.AGENT_ERROR, detail, True),
    ]


@pytest.mark.case("D-42")
def test_a_prompt_is_never_answer_text_and_its_key_is_the_path_to_reply_to():
    options = [{"id": "y", "label": "Yes", "value": "yes", "description": "d"}, "junk"]
    events, _ = decode(
        HEAD, asking(input_type="binary_choice", options=options, timeout=30), HI, END
    )
    assert story(events) == "(headers) prompt:binary_choice answer completed"
    assert answer(events) == "Hi"
    assert events[1] == Prompt(
        PromptKind.BINARY_CHOICE, "/executions/e/interactions/i/response", "Year?",
        (Option("y", "Yes", "yes"),), 30_000_000_000, "e",
    )  # fmt: skip


@pytest.mark.case("D-42")
def test_an_oauth_request_is_a_prompt_whose_key_is_the_url_to_open():
    body = '{"execution_id":"e","auth_url":"http://login.test/a?b=c","oauth_state":"s"}'
    events, _ = decode(HEAD, Frame("oauth_required", body), HI, END)
    assert story(events) == "(headers) prompt:oauth_consent answer completed"
    assert events[1] == Prompt(PromptKind.OAUTH_CONSENT, "http://login.test/a?b=c", execution="e")


@pytest.mark.parametrize("url", ["null", "7", '""', '["x"]'])
def test_an_oauth_request_without_a_url_ends_the_turn_since_the_server_would_wait(url):
    frame = Frame("oauth_required", f'{{"auth_url":{url}}}')
    assert tell(HEAD, frame, HI, END) == "(headers) failed/protocol_violation (late)"


# where the reply goes


@pytest.mark.parametrize(
    ("origin", "url", "key"),
    [
        (None, "/executions/e/r", "/executions/e/r"),
        (None, "/executions/e/r?a=b#c", "/executions/e/r?a=b"),
        (None, "replies/r", "/v1/chat/replies/r"),
        (ORIGIN, "/executions/e/r", "/executions/e/r"),
        (ORIGIN, f"{ORIGIN}/executions/e/r", "/executions/e/r"),
        ("http://agents.test", "http://AGENTS.test:80/r", "/r"),
        ("https://[::1]:8443", "https://[::1]:8443/r", "/r"),
    ],
)
def test_a_response_url_of_our_own_target_becomes_the_key(origin, url, key):
    events, _ = decode(asking(url), origin=origin)
    assert [event.key for event in events if type(event) is Prompt] == [key]


@pytest.mark.parametrize("origin", [None, ORIGIN])
@pytest.mark.parametrize(
    "url",
    [
        "http://evil.test/r", "//evil.test/r", "https://agents.test:8000/r",
        "http://agents.test:8001/r", "http://target.invalid/r", "http://[broken/r",
        "http://agents.test:x/r", "file:///r",
        "/r\r\nx: y", "/r r", "/r\x00", "/\u00e9", "", None, 7, ["/r"],
    ],
)  # fmt: skip
def test_a_response_url_that_leads_elsewhere_is_a_breach_and_ends_the_turn(origin, url):
    assert tell(HEAD, asking(url), HI, END, origin=origin) == (
        "(headers) failed/protocol_violation (late)"
    )


ELSEWHERE = "http://other.test:9000"


@pytest.mark.parametrize("url", [f"{ELSEWHERE}/r", f"{ELSEWHERE}/r?a=b", "//other.test:9000/r"])
def test_a_reply_goes_to_another_origin_only_if_the_plan_allows_it(url):
    assert tell(HEAD, asking(url), origin=ORIGIN) == "(headers) failed/protocol_violation"
    events, _ = decode(HEAD, asking(url), origin=ORIGIN, allowed=(ELSEWHERE,))
    request = NatSse().reply(Reply(events[1], "2024"), ASK, Identity(query={"c": "d"}))
    assert story(events) == "(headers) prompt:text"
    assert events[1].key.startswith(f"{ELSEWHERE}/r")
    assert (request.origin, request.path.partition("?")[0]) == (ELSEWHERE, "/r")
    assert request.path.endswith("c=d")


@pytest.mark.parametrize(
    ("route", "url", "key"),
    [
        ("/agents/v1/chat/stream", "/executions/e/r", "/agents/executions/e/r"),
        ("/agents/v1/chat/stream", "/agents/executions/e/r", "/agents/executions/e/r"),
        ("/agents/v1/chat/stream", f"{ORIGIN}/executions/e/r", "/executions/e/r"),
        ("/agents/v1/chat/stream", "r", "/agents/v1/chat/r"),
    ],
)
def test_a_path_of_the_server_gets_the_prefix_that_a_proxy_wants_before_it(route, url, key):
    events, _ = decode(asking(url), route=route, origin=ORIGIN)
    assert [event.key for event in events] == [key]


def test_a_prompt_of_a_kind_that_we_cannot_answer_ends_the_turn():
    assert tell(asking(input_type="drawing")) == "failed/protocol_violation"
    assert tell(asking(input_type=["text"])) == "failed/protocol_violation"


# how a turn ends


@pytest.mark.parametrize(
    ("route", "frames", "told"),
    [
        ("/v1/chat/stream", (HI, END), "answer completed"),
        ("/v1/chat/stream", (HI, DONE, END), "answer (done) completed"),
        ("/v1/chat/stream", (HI, CUT), "answer incomplete/stream_cut"),
        ("/v1/chat/stream", (END,), "failed/empty_answer"),
        ("/v1/chat/stream", (CUT,), "incomplete/stream_cut"),
        ("/v1/chat/stream", (FINISH, END), "(finish) failed/empty_answer"),
        ("/v1/chat/stream", (HI, Garbage("bad chunk")), "answer failed/protocol_violation"),
        ("/v1/chat/stream", (HI, END, HI, END), "answer completed (late)"),
        ("/chat/stream", (HI, DONE, END), "answer completed"),
        ("/chat/stream", (HI, DONE, CUT), "answer completed"),
        ("/chat/stream", (DONE, END), "failed/empty_answer"),
        ("/chat/stream", (HI, END), "answer incomplete/stream_cut"),
        ("/chat/stream", (HI, FINISH, END), "answer (finish) incomplete/stream_cut"),
        ("/chat/stream", (END,), "incomplete/stream_cut"),
        ("/v1/chat/completions", (HI, FINISH, DONE, END), "answer (finish) completed"),
        ("/v1/chat/completions", (HI, END), "answer incomplete/stream_cut"),
        ("/v1/workflow/stream", (value("Hi"), END), "answer completed"),
        ("/v1/workflow/stream", (value("Hi"), CUT), "answer incomplete/stream_cut"),
        ("/v1/workflow/stream", (value("Hi"), DONE, END), "answer (done) completed"),
        ("/v1/workflow/stream", (END,), "failed/empty_answer"),
        ("/generate/stream", (value("Hi"), END), "answer completed"),
        ("/v1/workflow/full", (value("Hi"), END), "answer completed"),
        ("/generate/full", (value("Hi"), END), "answer completed"),
        ("/generate/full", (value(""), END), "(empty delta) failed/empty_answer"),
        ("/proxy/chat/stream?x=1", (HI, END), "answer incomplete/stream_cut"),
        ("/proxy/v1/chat/stream?x=1", (HI, END), "answer completed"),
    ],
)
def test_a_turn_ends_as_its_route_ends(route, frames, told):
    assert tell(HEAD, *frames, route=route) == f"(headers) {told}"


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ((HI, END), "answer completed"),
        ((HI, FINISH, DONE, END), "answer (finish) (done) completed"),
        ((HI, CUT), "answer incomplete/stream_cut"),
        ((HI, ERROR, END), "answer failed/agent_error? failed/agent_error"),
    ],
)
def test_completions_end_with_the_connection_once_the_server_has_the_extensions(frames, told):
    where = {"route": "/v1/chat/completions", "extensions": True}
    assert tell(HEAD, *frames, **where) == f"(headers) {told}"


def test_completions_that_lack_their_terminator_name_the_option_that_would_not_miss_it():
    events, _ = decode(HEAD, HI, END, route="/v1/chat/completions")
    assert events[-1].detail.startswith("no [DONE]")
    assert events[-1].detail.endswith("options.extensions")


@pytest.mark.parametrize(
    ("route", "pending", "clean", "told"),
    [
        ("/chat/stream", "data: [DONE]", True, "(unterminated) completed"),
        ("/chat/stream", "data: [DONE]", False, "(unterminated) completed"),
        ("/chat/stream", "data: [DO", True, "(unterminated) incomplete/stream_cut"),
        ("/v1/chat/stream", HI.data.join(["data: ", ""]), True, "(unterminated) answer completed"),
        ("/v1/chat/stream", 'data: {"choices":[{', True, "(unterminated) incomplete/stream_cut"),
        ("/v1/chat/stream", 'data: {"choices":[{', False, "(unterminated) incomplete/stream_cut"),
        ("/v1/chat/stream", "event: error", True, "(unterminated) incomplete/stream_cut"),
        (
            "/v1/chat/stream", f"event: error\ndata: {ERROR.data}", False,
            "(unterminated) failed/agent_error? failed/agent_error",
        ),
        (
            "/chat/stream", BARE.data, False,
            "(unterminated) failed/agent_error? failed/agent_error",
        ),
    ],
)  # fmt: skip
def test_an_event_without_its_blank_line_counts_with_a_flag_if_it_is_whole(
    route, pending, clean, told
):
    assert tell(HEAD, HI, End(clean, pending), route=route) == f"(headers) answer {told}"


@pytest.mark.parametrize(
    ("status", "headers", "body", "outcome", "cause", "detail", "retry_s"),
    [
        (401, {}, "", Outcome.REFUSED, Cause.AUTH_REJECTED, "HTTP 401", None),
        (403, {}, "no", Outcome.REFUSED, Cause.AUTH_REJECTED, "HTTP 403: no", None),
        (429, {"retry-after": "7"}, "", Outcome.REFUSED, Cause.RATE_LIMITED, "HTTP 429", 7),
        (429, {"retry-after": "Fri, 1 Jan"}, "", Outcome.REFUSED, Cause.RATE_LIMITED, "HTTP 429",
         None),
        (503, {"retry-after": "2"}, "full", Outcome.REFUSED, Cause.AGENT_ERROR, "HTTP 503: full",
         2),
        (404, {}, "", Outcome.REFUSED, Cause.PROTOCOL_VIOLATION, "HTTP 404", None),
        (422, {}, "{}", Outcome.REFUSED, Cause.PROTOCOL_VIOLATION, "HTTP 422: {}", None),
        (302, {"location": "/login"}, "", Outcome.REFUSED, Cause.PROTOCOL_VIOLATION,
         "HTTP 302, redirected to /login", None),
        (500, SSE, "", Outcome.FAILED, Cause.AGENT_ERROR, "HTTP 500", None),
        (502, {}, "", Outcome.FAILED, Cause.AGENT_ERROR, "HTTP 502", None),
        (200, {"content-type": "text/html"}, "<html>\n <p>", Outcome.FAILED,
         Cause.PROTOCOL_VIOLATION, "answer is text/html, not an event stream: <html> <p>", None),
        (200, {}, "", Outcome.FAILED, Cause.PROTOCOL_VIOLATION,
         "answer is of no content type, not an event stream", None),
        (202, {"content-type": "application/json"}, "{}", Outcome.FAILED,
         Cause.PROTOCOL_VIOLATION,
         "HTTP 202, answer is application/json, not an event stream: {}", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("clean", [True, False])
def test_an_answer_that_is_no_event_stream_is_judged_by_its_status(
    status, headers, body, outcome, cause, detail, retry_s, clean
):
    frames = (Frame("body", body), End(clean)) if clean and body else (End(clean, body),)
    events, _ = decode(Head(status, headers), *frames)
    retry_ns = None if retry_s is None else retry_s * 1_000_000_000
    assert events[0] == Notice("headers", str(status))
    assert events[-1] == Failed(outcome, cause, detail, retry_after_ns=retry_ns)


def test_a_long_body_is_kept_short():
    events, _ = decode(Head(500, {}), Frame("body", "x" * 100_000), END)
    assert len(events[-1].detail) < 400


def test_a_content_coding_is_told():
    events, _ = decode(Head(200, {**SSE, "content-encoding": "gzip"}))
    assert events == [Notice("headers", "200"), Notice("encoding", "gzip")]


# what a decoder does with nonsense


@pytest.mark.parametrize(
    "text", ["", "no", "[]", "7", '"x"', "{", '{"choices":[{"delta":{"content":']
)
def test_data_that_is_no_json_object_is_counted_and_reading_goes_on(text):
    assert tell(HEAD, data(text), HI, END) == "(headers) (undecodable) answer completed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "content", "tool_calls", "function", "arguments", "name", "id",
             "parent_id", "error", "code", "message", "details", "prompt", "options", "timeout",
             "input_type", "response_url", "finish_reason", "usage", "reasoning", "value", "type",
             "auth_url", "execution_id", "x"]
        ),
        inner, max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip
KINDS = st.sampled_from(
    ["message", "error", "line", "body", "interaction_required", "oauth_required", "text", "ping",
     "field:intermediate_data", "field:observability_trace", "field:x"]
)  # fmt: skip
FRAMES = st.one_of(
    st.builds(Frame, KINDS, JSON.map(json.dumps) | st.text(max_size=20)),
    st.just(HEAD), st.just(Head(418, {})), st.builds(End, st.booleans(), st.text(max_size=20)),
    st.just(Close(1006, "")), st.builds(Garbage, st.text(max_size=5)),
)  # fmt: skip


@given(st.lists(FRAMES, max_size=8), st.sampled_from(list(STREAMS)))
def test_no_frame_raises_none_is_silent_and_a_turn_ends_at_most_once(frames, route):
    events, each = decode(*frames, route=route)
    ends = [e for e in events if story([e]) == "completed" or (type(e) is Failed and e.final)]
    assert len(ends) <= 1
    silent = [frame for frame, told in zip(frames, each, strict=True) if not told]
    assert all(type(frame) is End for frame in silent)
    if any(type(frame) is End for frame in frames):
        assert len(ends) == 1


DEEP = "[" * 1000 + "]" * 1000


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("message", '{"choices":[{"delta":{"content":%s}}]}'),
        ("message", '{"choices":[{"delta":{"tool_calls":%s}}]}'),
        ("message", '{"choices":[{"finish_reason":%s}]}'),
        ("message", '{"error":%s}'),
        ("message", '{"value":%s}'),
        ("error", '{"code":%s,"message":1}'),
        ("line", '{"code":1,"message":%s}'),
        ("interaction_required", '{"response_url":%s}'),
        ("interaction_required", '{"response_url":"/r","prompt":{"input_type":%s}}'),
        ("interaction_required", '{"response_url":"/r","prompt":{"input_type":"text","text":%s}}'),
        ("oauth_required", '{"auth_url":%s}'),
        ("field:intermediate_data", '{"name":%s,"id":"x","type":"y"}'),
    ],
)
@pytest.mark.parametrize("route", ["/v1/chat/stream", "/v1/workflow/full"])
def test_json_may_nest_deeper_than_it_can_be_shown(route, kind, text):
    events, _ = decode(HEAD, Frame(kind, text % DEEP), route=route)
    assert len(events) == 2


def test_the_first_of_several_errors_is_the_turns():
    other = data({"error": "later"})
    assert decode(HEAD, ERROR, other, END)[0][-1].detail == "workflow_error: boom (ValueError)"


@pytest.mark.parametrize(
    ("timeout", "ns"),
    [
        (30, 30_000_000_000), (0.5, 500_000_000), (None, None), (-1, None), (1e300, None),
        ("30", None), ([1], None),
    ],
)  # fmt: skip
def test_a_prompts_timeout_is_read_as_seconds_or_not_at_all(timeout, ns):
    (event,), _ = decode(asking(timeout=timeout))
    assert event.timeout_ns == ns


# steps


def test_the_first_step_may_have_any_name_and_its_echo_is_told_by_its_id():
    assert tell(
        step("Function Start: research"), step("Function Start: inner", "s2", "s1"),
        step("Function Complete: inner", "s2", "s1"), step("Function Complete: research"),
    ) == "started function*2 (echo)"  # fmt: skip


def test_the_closing_step_of_a_function_that_never_began_is_another_runs():
    assert tell(
        step("Function Start: <workflow>"), step("Function Complete: other", "s9", "s8"),
        step("Function Complete: <workflow>", "s7"), step("Function Complete: <workflow>"),
    ) == "started (stale)*2 (echo)"  # fmt: skip


@pytest.mark.parametrize(
    ("name", "progress"),
    [
        ("Tool: web: search", Progress("tool", "web: search")),
        ("Function Start: f", Progress("function", "f")),
        ("meta/llama-3.1-70b", Progress("llm", "meta/llama-3.1-70b")),
        ("CUSTOM_START", Progress("step", "CUSTOM_START")),
        ("Query rephrasal", Progress("step", "Query rephrasal")),
    ],
)
def test_a_step_is_progress_of_a_few_kinds(name, progress):
    events, _ = decode(step("Function Start: <workflow>"), step(name, "s2", "s1"))
    assert events[1] == progress


@pytest.mark.parametrize(
    "text",
    [
        '{"id":"s2","parent_id":"s1","type":"markdown","name":"Tool: t","payload":"%s"}',
        '{"payload":"%s","id":"s2","parent_id":"s1","name":"Tool: t"}',
        '{"id":"s2","parent_id":"s1","payload":"%s","name":"Tool: t"}',
        '{"x":{"payload":"%s"},"id":"s2","parent_id":"s1","name":"Tool: t"}',
        '{"id":"s2","name":"Tool: t","x":{"payload":"%s"},"parent_id":"s1"}',
        '{"id":"s2","parent_id":"s1","name":"Tool: t","x":"\\",\\"payload\\":\\"","payload":"%s"}',
    ],
)
def test_a_huge_step_is_read_like_a_small_one_wherever_its_payload_stands(text):
    whole = Frame("field:intermediate_data", text % ("y" * 100_000))
    assert decode(whole)[0] == [Progress("tool", "t")]


def test_a_huge_step_keeps_the_parent_that_stands_behind_its_payload():
    text = '{"id":"s2","name":"Function Start: f","payload":"%s","parent_id":"s1"}'
    whole = Frame("field:intermediate_data", text % ("y" * 100_000))
    assert decode(whole)[0] == [Progress("function", "f")]


# raw steps


FULL = "/v1/workflow/full"
WORKFLOW = raw("WORKFLOW_START", "sim", "w")
ENTRY = raw("FUNCTION_START", "<workflow>", "f", "w")


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ((WORKFLOW, ENTRY), "started (echo)"),
        ((WORKFLOW, raw("FUNCTION_START", "sim", "f", "w")), "started (echo)"),
        ((WORKFLOW, raw("FUNCTION_START", "other", "f", "w")), "started function"),
        ((WORKFLOW, ENTRY, raw("FUNCTION_START", "<workflow>", "g", "f")),
         "started (echo) function"),
        ((WORKFLOW, ENTRY, raw("FUNCTION_END", "<workflow>", "f", "w"),
          raw("WORKFLOW_END", "sim", "w")), "started (echo)*3"),
        ((WORKFLOW, ENTRY, raw("WORKFLOW_START", "inner", "x", "f"),
          raw("WORKFLOW_END", "inner", "x", "f")), "started (echo) function*2"),
        # parts of it, as filter_steps leaves them
        ((ENTRY, raw("FUNCTION_START", "inner", "g", "f")), "started function"),
        ((raw("FUNCTION_START", "named", "f"), raw("FUNCTION_END", "named", "f")),
         "started (echo)"),
        ((raw("FUNCTION_END", "<workflow>", "f", "w"), raw("WORKFLOW_END", "sim", "w")),
         "(echo)*2"),
        ((raw("FUNCTION_END", "inner", "g", "f"),), "function"),
        ((WORKFLOW, WORKFLOW), "started (echo)"),
    ],
)  # fmt: skip
def test_the_workflow_itself_starts_once_and_is_no_work(frames, told):
    assert tell(HEAD, *frames, route=FULL) == f"(headers) {told}"


@pytest.mark.case("D-10")
@pytest.mark.parametrize(
    ("kind", "progress"),
    [
        ("LLM_START", "llm"), ("LLM_NEW_TOKEN", "llm"), ("LLM_END", "llm"),
        ("TOOL_START", "tool"), ("TOOL_END", "tool"),
        ("FUNCTION_START", "function"), ("FUNCTION_END", "function"),
        ("TASK_START", "step"), ("TASK_END", "step"), ("TTC_START", "step"), ("TTC_END", "step"),
        ("CUSTOM_START", "step"), ("CUSTOM_END", "step"),
        ("SPAN_START", "step"), ("SPAN_CHUNK", "step"), ("SPAN_END", "step"),
        ("NEWS", "step"),
    ],
)  # fmt: skip
def test_a_raw_step_is_progress_of_a_few_kinds_and_its_end_ends_nothing(kind, progress):
    frames = (HEAD, WORKFLOW, ENTRY, raw(kind, "n", "s", "f"))
    events, _ = decode(*frames, value("Hi"), END, route=FULL)
    assert story(events) == f"(headers) started (echo) {progress} answer completed"
    assert events[3] == Progress(progress, "n")


@pytest.mark.parametrize("missing", ["id", "type", "name"])
def test_a_raw_step_that_does_not_say_what_it_is_is_undecodable(missing):
    step = {"id": "s", "parent_id": "f", "type": "TOOL_END", "name": "t", "payload": "{}"}
    del step[missing]
    frame = Frame("field:intermediate_data", json.dumps(step))
    assert tell(HEAD, frame, route=FULL) == "(headers) (undecodable)"


@pytest.mark.parametrize(
    "text",
    [
        '{"id":"s","parent_id":"f","type":"TOOL_END","name":"t","payload":"%s"}',
        '{"id":"s","parent_id":"f","name":"t","payload":"%s","type":"TOOL_END"}',
        '{"payload":"%s","id":"s","parent_id":"f","name":"t","type":"TOOL_END"}',
    ],
)
def test_a_huge_raw_step_is_read_like_a_small_one_wherever_its_payload_stands(text):
    payload = json.dumps(json.dumps({"event_type": "TOOL_END", "payload": "y" * 400_000}))[1:-1]
    assert decode(Frame("field:intermediate_data", text % payload), route=FULL)[0] == [
        Progress("tool", "t")
    ]


def test_the_payload_of_a_huge_raw_step_is_not_even_parsed():
    opening = '{"id":"s","parent_id":"f","type":"LLM_END","name":"m","payload":"'
    no_json = opening + "\\x" * 100_000
    events, _ = decode(Frame("field:intermediate_data", no_json), route=FULL)
    assert events == [Progress("llm", "m")]


# values


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("Hi", "Hi"),
        (" ", " "),
        (0, "0"),
        (False, "false"),
        (1.5, "1.5"),
        ([], "[]"),
        ({"a": "caf\u00e9"}, '{"a":"caf\u00e9"}'),
        ("null", "null"),
        ("[DONE]", "[DONE]"),
    ],
)
@pytest.mark.parametrize("route", ["/v1/workflow/stream", FULL])
def test_a_value_of_any_kind_is_answer(route, what, text):
    events, _ = decode(HEAD, value(what), END, route=route)
    assert story(events) == "(headers) answer completed"
    assert answer(events) == text


@pytest.mark.parametrize("what", ["", None])
def test_a_value_without_text_is_no_answer(what):
    assert tell(HEAD, value(what), value("Hi"), END, route=FULL) == (
        "(headers) (empty delta) answer completed"
    )


@pytest.mark.parametrize(
    ("route", "text", "told"),
    [
        (FULL, '{"observability_trace_id":"x"}', "(trace)"),
        (FULL, '{"observability_trace_id":"x","a":1}', "answer"),
        (FULL, '{"observability_trace_id"', "answer"),
        ("/v1/workflow/stream", '{"observability_trace_id":"x"}', "answer"),
    ],
)
def test_a_trace_id_comes_as_a_value_where_steps_are_raw(route, text, told):
    assert tell(HEAD, value(text), route=route) == f"(headers) {told}"


# what is sent


ASK = Ask("t7", "c3", "And now?", (("One?", "1."), ("Two?", "2.")))


def test_a_question_carries_the_conversation_and_its_ids():
    request = NatSse().ask(ASK, Identity())
    assert (request.method, request.path) == ("POST", "/v1/chat/stream")
    assert request.headers == {
        "content-type": "application/json", "accept": "text/event-stream",
        "user-message-id": "t7", "conversation-id": "c3",
    }  # fmt: skip
    assert json.loads(request.body) == {
        "messages": [
            {"role": "user", "content": "One?"}, {"role": "assistant", "content": "1."},
            {"role": "user", "content": "Two?"}, {"role": "assistant", "content": "2."},
            {"role": "user", "content": "And now?"},
        ],
        "stream": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("identity", "path", "headers"),
    [
        (Identity(headers={"x-api-key": "k"}), "", {"x-api-key": "k"}),
        (Identity(query={"a": "b c"}), "?a=b+c", {}),
        (Identity(query={"session": "ann"}), "", {"cookie": "nat-session=ann"}),
        (
            Identity(headers={"Cookie": "x=y"}, query={"session": "ann", "a": "b"}), "?a=b",
            {"Cookie": "x=y; nat-session=ann"},
        ),
        (
            Identity(headers={"cookie": "nat-session=bo"}, query={"session": "ann"}), "",
            {"cookie": "nat-session=bo"},
        ),
    ],
)  # fmt: skip
def test_identity_rides_on_questions_and_replies(identity, path, headers):
    dialect = NatSse("/chat/stream")
    asked = dialect.ask(ASK, identity)
    replied = dialect.reply(Reply(Prompt(PromptKind.TEXT, "/r"), "x"), ASK, identity)
    assert (asked.path, replied.path) == (f"/chat/stream{path}", f"/r{path}")
    assert headers.items() <= asked.headers.items()
    assert headers.items() <= replied.headers.items()


SAID = [
    {"role": "user", "content": "One?"}, {"role": "assistant", "content": "1."},
    {"role": "user", "content": "Two?"}, {"role": "assistant", "content": "2."},
    {"role": "user", "content": "And now?"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("route", "options", "path", "body"),
    [
        ("/chat/stream", {}, "/chat/stream", {"messages": SAID, "stream": True}),
        ("/v1/chat/completions", {}, "/v1/chat/completions", {"messages": SAID, "stream": True}),
        ("/v1/workflow/stream", {}, "/v1/workflow/stream", {"input_message": "And now?"}),
        ("/generate/stream", {"input": "query"}, "/generate/stream", {"query": "And now?"}),
        ("/generate/stream", {"input": "messages"}, "/generate/stream", {"messages": SAID}),
        ("/v1/workflow/full", {}, "/v1/workflow/full", {"input_message": "And now?"}),
        (
            "/v1/workflow/full", {"filter_steps": "LLM_END,TOOL_END"},
            "/v1/workflow/full?filter_steps=LLM_END,TOOL_END", {"input_message": "And now?"},
        ),
        (
            "/p/generate/full?a=b", {"filter_steps": "None", "input": "query"},
            "/p/generate/full?a=b&filter_steps=None", {"query": "And now?"},
        ),
    ],
)  # fmt: skip
def test_each_route_gets_the_body_that_it_takes_and_nothing_else(route, options, path, body):
    dialect = NatSse(route, None, options)
    request = dialect.ask(ASK, Identity())
    assert (request.method, request.path, json.loads(request.body)) == ("POST", path, body)
    assert dialect.route == route


@pytest.mark.parametrize(
    ("route", "options", "complaint"),
    [
        ("/v1/chat/stream", {"filter_steps": "LLM_END"}, "works on /v1/workflow/full, /gen"),
        ("/v1/workflow/stream", {"filter_steps": "none"}, "works on /v1/workflow/full, /gen"),
        ("/v1/workflow/full", {"filter_steps": "LLM_END, TOOL_END"}, "without blanks"),
        ("/v1/workflow/full", {"filter_steps": "llm_end"}, "types like LLM_END,TOOL_END"),
        ("/v1/workflow/full", {"filter_steps": ""}, "types like LLM_END,TOOL_END"),
        ("/v1/chat/stream", {"input": "query"}, "works on /v1/workflow/stream, /generate/stream"),
        ("/v1/workflow/stream", {"input": ""}, "at least 1 character"),
        ("/v1/chat/stream", {"extensions": True}, "works on /v1/chat/completions; the route is"),
        ("/v1/chat/stream", {"poll_s": 1}, "its options are input, filter_steps, extensions"),
    ],
)  # fmt: skip
def test_an_option_that_would_do_nothing_is_a_mistake_of_the_plan(route, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        NatSse(route, None, options)


OFFERED = (Option("sms", "Sms", "sms"), Option("email", "Email", "mail"))
MAIL = {"id": "email", "label": "Email", "value": "mail"}
PIGEON = {"id": "pigeon", "label": "pigeon", "value": "pigeon"}


@pytest.mark.parametrize(
    ("kind", "value", "response"),
    [
        (PromptKind.TEXT, "2024", {"type": "text", "text": "2024"}),
        (PromptKind.BINARY_CHOICE, "mail", {"type": "binary_choice", "selected_option": MAIL}),
        (PromptKind.RADIO, "mail", {"type": "radio", "selected_option": MAIL}),
        (PromptKind.DROPDOWN, "mail", {"type": "dropdown", "selected_option": MAIL}),
        (PromptKind.CHECKBOX, "mail", {"type": "checkbox", "selected_option": MAIL}),
        (PromptKind.RADIO, "pigeon", {"type": "radio", "selected_option": PIGEON}),
    ],
)
def test_a_reply_has_the_servers_own_shape_for_each_kind(kind, value, response):
    request = NatSse().reply(Reply(Prompt(kind, "/r", "", OFFERED), value), ASK, Identity())
    assert (request.method, request.path) == ("POST", "/r")
    assert json.loads(request.body) == {"response": response}


@pytest.mark.parametrize(
    ("status", "means"),
    [
        (204, "(reply accepted)"), (200, "(reply accepted)"), (422, "refused/protocol_violation?"),
        (404, "failed/agent_error?"), (400, "failed/agent_error?"), (500, "failed/agent_error?"),
        (401, "refused/auth_rejected?"), (429, "refused/rate_limited?"),
    ],
)  # fmt: skip
def test_the_answer_to_a_reply_leaves_the_last_word_to_the_stream(status, means):
    assert story([NatSse().replied(status, "why")]) == means


@pytest.mark.parametrize(
    ("kind", "shape", "response"),
    [
        (PromptKind.TEXT, Shape.MALFORMED, {"input_type": "text", "text": "mail"}),
        (PromptKind.RADIO, Shape.MALFORMED, {"input_type": "radio", "selected_option": MAIL}),
        (
            PromptKind.TEXT, Shape.OTHER_TYPE,
            {"type": "binary_choice", "selected_option": MAIL},
        ),
        (PromptKind.BINARY_CHOICE, Shape.OTHER_TYPE, {"type": "text", "text": "mail"}),
        (PromptKind.CHECKBOX, Shape.OTHER_TYPE, {"type": "text", "text": "mail"}),
    ],
)  # fmt: skip
def test_a_reply_can_be_written_so_that_it_provokes_the_server(kind, shape, response):
    reply = Reply(Prompt(kind, "/r", "", OFFERED), "mail", shape)
    assert json.loads(NatSse().reply(reply, ASK, Identity()).body) == {"response": response}


# what became of a run


@pytest.mark.parametrize(
    ("route", "options", "execution", "path"),
    [
        ("/v1/chat/stream", {}, "a1-b2", "/executions/a1-b2"),
        ("/p/v1/workflow/full?x=y", {}, "a1-b2", "/p/executions/a1-b2"),
        ("/v1/chat/completions", {"extensions": True}, "a1-b2", "/executions/a1-b2"),
        ("/v1/chat/completions", {}, "a1-b2", None),
        ("/chat/stream", {}, "a1-b2", None),
        ("/v1/chat/stream", {}, "../health", None),
        ("/v1/chat/stream", {}, "a\n", None),
        ("/v1/chat/stream", {}, "", None),
        ("/v1/chat/stream", {}, "a" * 65, None),
    ],
)
def test_what_became_of_a_run_is_asked_where_runs_have_an_id_and_the_id_is_harmless(
    route, options, execution, path
):
    dialect = NatSse(route, None, options)
    request = dialect.reconcile(execution, ASK, Identity(headers={"x-api-key": "k"}))
    assert (request and request.path) == path
    if request is not None:
        assert (request.method, request.body, request.origin) == ("GET", b"", None)
        assert request.headers == {"conversation-id": "c3", "x-api-key": "k"}


@pytest.mark.parametrize(
    ("status", "body", "state"),
    [
        (200, '{"status":"running"}', "running"),
        (200, '{"status":"interaction_required"}', "interaction_required"),
        (200, '{"status":"oauth_required"}', "oauth_required"),
        (200, '{"status":"completed","result":1}', "completed"),
        (200, '{"status":"failed","error":"boom"}', "failed"),
        (200, '{"status":"asleep"}', "HTTP 200"), (200, '{"status":["running"]}', "HTTP 200"),
        (200, "running", "HTTP 200"), (200, "", "HTTP 200"),
        (404, '{"detail":"Not found"}', "HTTP 404"), (502, '{"status":"running"}', "HTTP 502"),
    ],
)  # fmt: skip
def test_the_state_of_a_run_is_a_word_or_the_status_that_came_instead(status, body, state):
    assert NatSse().state(status, body) == state


@pytest.mark.parametrize(
    "route", ["/v1/chat", "/v1/workflow/atif", "/v1/chat/stream/", "chat/stream"]
)
def test_a_route_whose_end_is_unknown_is_a_mistake_of_the_plan(route):
    with pytest.raises(ConfigError, match="known are /v1/chat/stream, /chat/stream, /v1/chat/com"):
        NatSse(route)


def test_what_only_a_socket_can_do_is_our_own_fault():
    with pytest.raises(GeneratorError):
        NatSse().upgrade(Opening(Identity(), "c1"))
    with pytest.raises(GeneratorError):
        NatSse().reply(Reply(Prompt(PromptKind.NOTIFICATION, "/r"), ""), ASK, Identity())
    with pytest.raises(GeneratorError):
        NatSse().reply(Reply(Prompt(PromptKind.OAUTH_CONSENT, "http://a/"), ""), ASK, Identity())
    assert NatSse().login(Identity(login={"method": "api_key", "token": "k"})) is None
    assert NatSse().greetings() == ()


def test_a_stream_is_never_polled():
    with pytest.raises(GeneratorError):
        NatSse().poll("/executions/e", ASK, Identity())
    with pytest.raises(GeneratorError):
        NatSse().decoder().polled(200, "{}")


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"completion_tokens": 40, "total_tokens": 99}, "40"),
        ({"completion_tokens": 0}, ""),
        ({"completion_tokens": "40"}, ""),
        ({"completion_tokens": True}, ""),
        ({"total_tokens": 99}, ""),
        ("many", ""),
    ],
)
@pytest.mark.parametrize("finish", [None, "stop"])
def test_tokens_are_those_that_the_server_counts_as_the_answers(usage, tokens, finish):
    choices = [] if finish is None else [{"delta": {}, "finish_reason": finish}]
    events = Chunks().events({"choices": choices, "usage": usage})
    assert events[-1] == Notice("usage", tokens)
