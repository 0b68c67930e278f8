"""Progress Agentic RAG over a WebSocket: what is asked, and what the frames mean."""

from __future__ import annotations

import json
from dataclasses import replace

import orjson
import pytest
from arag_replay import AGENT, BIG, KEYS, cases, frame, post_events, socket_events
from hypothesis import given
from hypothesis import strategies as st
from replay import CUTS, answer, story

from loadgen.dialects.arag_ws import AragWs
from loadgen.dialects.contract import Ask, Identity, Opening, Reply, Shape
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Failed, Lost, Progress, Prompt, PromptKind, Rejected, Reviewed, Say, Work
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import Close, End, Frame, Garbage, Head, Open, Refused

ASK = Ask("t1", "c1", "which year?")
KEY = Identity(headers={"x-nuclia-serviceaccount": "Bearer KEY"}, secrets=("Bearer KEY",))
PARIS = "Paris is the capital of France [1].\n\n[1]: block-AA"
PLAIN = "(start) step context possible_answer step answer reviewed completed"
CHUNKS = "(start) step context (source) answer*6 (last chunk) possible_answer step reviewed"
SILENT = "(No response received)"
CITED, UNCITED = Reviewed(citations=1), Reviewed()
NORMAL = "1000 normal closure"

# case of the recording: what happens, the answer of its last turn, the last review, the last
# words of a failure, a complaint or a loss
RECORDED = {
    "plain": (f"opened {PLAIN} lost:1000", PARIS, CITED, NORMAL),
    "stream": (f"opened {CHUNKS} completed lost:1000", PARIS, replace(CITED, chunks_match=True),
               NORMAL),
    "error": ("opened (start) step failed/agent_error? failed/agent_error lost:1000", "", None,
              NORMAL),
    "keep_open: second question after DONE": (f"opened {PLAIN} {PLAIN}", PARIS * 2, CITED, ""),
    "quit as the first message": (f"opened {PLAIN} lost:1000", PARIS, CITED, NORMAL),
    "quit after DONE with keep_open": (f"opened {PLAIN} {PLAIN}", PARIS * 2, CITED, ""),
    "second question while the turn runs": (
        "opened (start) step rejected context possible_answer step answer reviewed completed "
        "lost:1000", PARIS, CITED, NORMAL,
    ),
    "no `question` key, then a good one": (f"opened rejected {PLAIN} lost:1000", PARIS, CITED,
                                           NORMAL),
    "binary frame": ("opened lost:1000", "", None, NORMAL),
    "unknown workflow_id": ("opened refused/protocol_violation lost:1000", "", None, NORMAL),
    "from_cursor=3": (f"opened {PLAIN} lost:1000", PARIS, CITED, NORMAL),
    "named session, history": (f"opened {PLAIN} lost:1000", PARIS, CITED, NORMAL),
    "client chat_history on ephemeral": (f"opened {PLAIN} lost:1000", "history entries: 1", CITED,
                                         NORMAL),
    "feedback answered (request_id+response)": (
        "opened (start) step prompt:feedback step possible_answer answer reviewed completed "
        "lost:1000", 'feedback was: {"response": "2024"}', UNCITED, NORMAL,
    ),
    "feedback response is an object, then a string": (
        "opened (start) step prompt:feedback rejected step possible_answer answer reviewed "
        "completed lost:1000", "feedback was: 2024", UNCITED, NORMAL,
    ),
    "documented form: top-level existing_credentials": (
        "opened (start) step say rejected", "", None,
        "Invalid request payload; response: Field required",
    ),
    "feedback times out after 1.5 s, client stays silent": (
        "opened (start) step prompt:feedback", "", None, "",
    ),
    "feedback times out after 1.5 s, client answers after 3 s": (
        "opened (start) step prompt:feedback step possible_answer answer reviewed completed "
        "lost:1000", f"feedback was: {SILENT}", UNCITED, NORMAL,
    ),
    "oauth: no cached credentials": (
        "opened (start) step say prompt:oauth_consent", "", None, "",
    ),
    "client closes while the turn runs": ("opened (start)", "", None, ""),
    "1.5 MB context frame, client limit 1 MiB": ("opened (start) step", "", None, ""),
    "1.5 MB context frame, client limit 4 MiB": (f"opened {PLAIN} lost:1000", PARIS, CITED, NORMAL),
    "post_plain": (f"(headers) {CHUNKS} completed", PARIS, replace(CITED, chunks_match=True), ""),
    "post_oauth": (
        "(headers) (start) step failed/agent_error? failed/agent_error", "", None,
        "Agent requires elicitation which is only supported via websocket",
    ),
    "post_no_question": (
        "(headers) (body) refused/protocol_violation", "", None,
        'HTTP 422: {"detail": [{"type": "missing", "loc": ["body", "question"], '
        '"msg": "Field required", "input": {"operation": 0}}]}',
    ),
    "post_unknown_agent": (
        "(headers) refused/protocol_violation? refused/protocol_violation", "", None,
        "Agent 'nope' not found",
    ),
}  # fmt: skip


def test_every_recorded_case_is_in_the_table():
    assert list(cases()) == list(RECORDED)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_case_means_the_same_however_it_is_cut(name, cut):
    rows = cases()[name]
    if "1.5 MB" in name and cut in ("byte by byte", "by 7"):
        cut = "by 1024"
    play = post_events if "post" in rows[0] else socket_events
    events = play(rows, CUTS[cut])
    told, text, review, detail = RECORDED[name]
    details = [e.detail for e in events if type(e) in (Failed, Lost, Rejected)]
    assert story(events) == told
    assert answer(events) == text
    assert ([None] + [e for e in events if type(e) is Reviewed])[-1] == review
    assert (["", *details])[-1] == detail


def test_a_recorded_prompt_has_its_id_its_time_and_its_schema():
    events = socket_events(cases()["feedback answered (request_id+response)"])
    (prompt,) = (event for event in events if type(event) is Prompt)
    schema = {
        "type": "object", "properties": {"response": {"type": "string"}}, "required": ["response"],
    }  # fmt: skip
    assert prompt == Prompt(
        PromptKind.FEEDBACK, "ephemeral", "Which policy year?", (), 10 * 10**9, None, schema
    )


def test_a_recorded_step_tells_what_it_cost():
    steps = [e for e in socket_events(cases()["plain"]) if type(e) is Progress and e.work]
    assert steps == [
        Progress("step", "Rephrase: Rephrase", Work("rephrase", 0.01, 0.1, 0.2)),
        Progress("step", "Summarize: Summarize", Work("summarize", 0.01, 0.1, 0.2)),
    ]


# frames in the making


def heard(*frames, begun=True, options=None, decode=None):
    """The events of a socket on which a question was put."""
    decode = decode or AragWs(options=AGENT | (options or {})).decoder()
    if begun:
        decode.begin("t1")
    events = []
    for one in frames:
        events += decode(Frame("text", one) if type(one) is str else one)
    return events


def chunk(text, last=False):
    return frame(6, streaming_response_chunk={"text": text, "last": last})


def error(detail, answer=None, **extra):
    exception = {"detail": detail, "extra": extra or None}
    return frame(4, exception=exception, answer=answer)


def whole(text, *sources, charts=None):
    cited = {f"block-{n}": {"context_id": source} for n, source in enumerate(sources)}
    citations = {"metadata": cited} if sources else None
    return frame(answer=text, answer_citations=citations, data_visualizations=charts)


def context(source):
    return frame(context={"id": source, "agent": "mock"})


START, DONE, QUIT = frame(2), frame(3), frame(1)
SOURCE = frame(6, agent_request="summarize@/generation/default")
LAST = chunk("", last=True)
NORMAL_CLOSE, CUT = Close(1000, ""), Close(1006, "")


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ([START, whole("a"), DONE], "(start) answer reviewed completed"),
        ([START, SOURCE, chunk("a"), LAST, whole("a"), DONE],
         "(start) (source) answer (last chunk) reviewed completed"),
        ([START, chunk("a", last=True), chunk("", last=False), DONE],
         "(start) answer (empty chunk) completed"),
        ([START, frame(), DONE], "(start) (no answer) failed/empty_answer"),
        ([START, whole(""), DONE], "(start) reviewed failed/empty_answer"),
        ([START, whole("a"), whole("b"), DONE], "(start) answer reviewed*2 completed"),
        ([START, frame(generated_text="x"), frame(possible_answer={"module": "m"})],
         "(start) generated_text possible_answer"),
        ([START, frame(7, reasoning={"text": "hm", "last": False}), frame(7)],
         "(start) reasoning (empty chunk)"),
        ([START, error("boom"), DONE], "(start) failed/agent_error? failed/agent_error"),
        ([START, error("boom", "Error in context"), DONE],
         "(start) failed/agent_error? failed/agent_error"),
        ([START, error("boom"), NORMAL_CLOSE], "(start) failed/agent_error? failed/agent_error"),
        ([START, error("boom"), CUT], "(start) failed/agent_error? lost:1006"),
        ([START, chunk("a"), error("boom"), whole("a"), DONE],
         "(start) answer failed/agent_error? reviewed failed/agent_error"),
        ([START, chunk("a"), whole("a"), NORMAL_CLOSE],
         "(start) answer reviewed (no DONE) completed"),
        ([START, chunk("a"), NORMAL_CLOSE], "(start) answer lost:1000"),
        ([START, chunk("a"), whole("a"), CUT], "(start) answer reviewed lost:1006"),
        ([START, CUT], "(start) lost:1006"),
        ([START, Close(1008, "token")], "(start) lost:1008"),
        ([NORMAL_CLOSE], "lost:1000"),
        ([error("Unexpected message from user"), START, whole("a"), DONE],
         "rejected (start) answer reviewed completed"),
        ([START, error("Invalid request payload"), whole("a"), DONE],
         "(start) rejected answer reviewed completed"),
        ([error("Failed to verify agent configuration: Workflow not found"), NORMAL_CLOSE],
         "refused/protocol_violation lost:1000"),
        ([error("Session 's1' does not exist"), NORMAL_CLOSE],
         "refused/protocol_violation lost:1000"),
        ([error("Agent has stopped responding. Please, try again."), NORMAL_CLOSE],
         "failed/agent_error lost:1000"),
        ([error("no model"), DONE], "failed/agent_error (late)"),
        ([START, error("Agent has stopped responding. Please, try again."), NORMAL_CLOSE],
         "(start) failed/agent_error? failed/agent_error"),
        ([START, QUIT], "(start) incomplete/agent_error"),
        ([START, error("boom"), QUIT, DONE],
         "(start) failed/agent_error? failed/agent_error (late)"),
        ([START, whole("a"), DONE, chunk("b"), DONE],
         "(start) answer reviewed completed (late)*2"),
        ([START, frame(5), frame(5, oauth={"oauth_url": 5})], "(start) (undecodable)*2"),
        ([START, frame(6), frame(step=[]), frame(answer={})], "(start) (undecodable)*3"),
        ([frame(8), frame(True), frame(None), frame("3")], "(unknown)*4"),
        (["", "[]", "{", '{"operation": 3}x'], "(undecodable)*4"),
        ([Frame("binary", frame(3))], "(undecodable)"),
        ([Garbage("bad frame")], "failed/protocol_violation"),
        ([Refused(403, {}, "")], "refused/auth_rejected"),
        ([Refused(401, {}, "")], "refused/auth_rejected"),
        ([Refused(503, {"retry-after": "2"}, "busy")], "refused/connect_failed"),
        ([Refused(429, {}, "")], "refused/rate_limited"),
        ([Refused(404, {}, "")], "refused/connect_failed"),
        ([Refused(502, {}, "")], "refused/connect_failed"),
        ([Head(200, {}), End(True)], "(unknown)*2"),
    ],
)  # fmt: skip
def test_what_frames_mean(frames, told):
    assert story(heard(*frames)) == told


@pytest.mark.parametrize(
    ("frames", "match"),
    [
        ([chunk("a"), chunk("b"), LAST, whole("ab")], True),
        ([chunk("a"), LAST, whole("ab")], False),
        ([whole("ab")], None),
        ([SOURCE, chunk("draft"), LAST, SOURCE, chunk("ab"), LAST, whole("ab")], True),
        ([SOURCE, SOURCE, chunk("a"), chunk("b"), LAST, LAST, whole("ab")], None),
        ([chunk("ab"), LAST, START, chunk("ab"), LAST, whole("ab")], True),
    ],
    ids=["equal", "lost", "no chunks", "second draft", "two agents at once", "run again"],
)
def test_the_whole_answer_is_held_against_the_chunks(frames, match):
    (review,) = (event for event in heard(START, *frames) if type(event) is Reviewed)
    assert review.chunks_match is match


def test_citations_are_looked_for_among_the_contexts_that_were_shown():
    charts = [{"type": "vega_lite", "vega_lite_obj": {}}] * 2
    frames = [START, context("c1"), context("c2"), whole("a", "c1", "c2", "c9", charts=charts)]
    assert heard(*frames)[-1] == Reviewed(None, 3, 1, 2)


def test_contexts_of_an_earlier_turn_do_not_count():
    decode = AragWs(options=AGENT).decoder()
    heard(START, context("c1"), whole("a", "c1"), DONE, decode=decode)
    decode.begin("t2")
    assert heard(START, whole("a", "c1"), begun=False, decode=decode)[-1].unresolved == 1


def test_a_turn_that_goes_on_over_another_socket_remembers_what_was_shown():
    dialect = AragWs(options=AGENT)
    heard(START, context("c1"), chunk("a"), decode=dialect.decoder())
    events = heard(chunk("b"), whole("ab", "c1"), error("boom"), decode=dialect.decoder())
    assert events[1] == Reviewed(True, 1, 0, 0)
    assert story(events) == "answer reviewed failed/agent_error?"


def test_the_belated_done_of_a_refused_turn_does_not_end_the_next():
    decode = AragWs(options=AGENT | {"keep_open": True}).decoder()
    assert story(heard(error("no model"), decode=decode)) == "failed/agent_error"
    decode.begin("t2")
    events = heard(DONE, START, whole("a"), DONE, begun=False, decode=decode)
    assert story(events) == "(stale) (start) answer reviewed completed"


def test_of_a_complaint_only_the_place_is_shown_because_it_repeats_the_message():
    errors = [{"loc": ["chat_history", 0], "msg": "bad", "input": {"access_token": "s3cr3t"}}] * 9
    (event,) = heard(error("Invalid request payload", validation_errors=errors))
    assert event.detail.startswith("Invalid request payload; chat_history.0: bad; ")
    assert "s3cr3t" not in event.detail
    assert len(event.detail) < 120


def test_work_is_what_the_server_says_and_nothing_where_it_says_no_number():
    step = {"module": "m", "title": "M: t", "timeit": 2, "input_nuclia_tokens": None,
            "output_nuclia_tokens": -1}  # fmt: skip
    assert heard(frame(step=step)) == [Progress("step", "M: t", Work("m", 2.0, 0.0, 0.0))]
    assert heard(frame(step={})) == [Progress("step", "", Work(""))]


def test_a_large_frame_is_parsed_once(monkeypatch):
    parsed = []
    loads = orjson.loads
    monkeypatch.setattr("orjson.loads", lambda text: parsed.append(len(text)) or loads(text))
    text = frame(context={"id": "c1", "agent": "mock", "chunks": [{"text": "x" * BIG}]})
    assert story(heard(text)) == "context"
    assert parsed == [len(text)]


@pytest.mark.parametrize(
    ("timeout_ms", "timeout_ns"),
    [(1500, 1_500_000_000), (0, None), (None, None), ("5", None), (-3, None), (10**18, None)],
)
def test_a_prompt_has_the_timeout_of_its_frame(timeout_ms, timeout_ns):
    feedback = {"request_id": "r", "question": "q", "timeout_ms": timeout_ms}
    (prompt,) = heard(frame(5, feedback=feedback))
    assert prompt == Prompt(PromptKind.FEEDBACK, "r", "q", timeout_ns=timeout_ns)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.dictionaries(
    st.sampled_from(
        [
            "id", "agent", "text", "last", "detail", "extra", "validation_errors", "loc", "msg",
            "metadata", "context_id", "request_id", "question", "credentials", "get_credentials",
            "timeout_ms", "response_schema", "oauth_url", "timeit", "module", "title",
        ]
    ),
    st.sampled_from(["Get credentials", "Send credentials", "Invalid request payload"]) | JSON,
)  # fmt: skip
FRAMES = st.builds(
    lambda operation, parts: json.dumps({**parts, "operation": operation}),
    st.integers(-1, 8) | JSON,
    st.dictionaries(st.sampled_from(KEYS), JSON | PARTS | st.lists(PARTS, max_size=2)),
)
ANY_FRAME = st.one_of(
    st.builds(Frame, st.sampled_from(["text", "binary", "line", "body"]), FRAMES | st.text()),
    st.builds(Close, st.integers(0, 65535), st.text()),
    st.builds(Refused, st.integers(0, 999), st.just({}), st.text()),
    st.builds(Garbage, st.text()),
    st.builds(End, st.booleans(), st.text()),
    st.just(Open()),
)


@given(st.lists(ANY_FRAME, max_size=8), st.sampled_from(["released", "documented"]))
def test_no_frame_is_without_an_event_or_raises(frames, edition):
    decode = AragWs(options=AGENT | {"edition": edition}).decoder()
    for number, one in enumerate(frames):
        if number % 3 == 0:
            decode.begin(f"t{number}")
        assert decode(one)


# what is asked


def dialect(**options):
    return AragWs(options=AGENT | options)


def opening(conversation="c1", identity=KEY, **grants):
    return Opening(identity, conversation, grants=grants)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/api/v1/agent/agent-0001/ephemeral_token"),
        ({"token": "agent"}, "/api/v1/agent/agent-0001/ephemeral_token"),
        ({"token": "plain"}, "/api/v1/ephemeral_token"),
        ({"account": "a/1"}, "/api/v1/account/a%2F1/kb/agent-0001/ephemeral_tokens"),
        ({"account": "a", "token": "account"},
         "/api/v1/account/a/kb/agent-0001/ephemeral_tokens"),
    ],
)  # fmt: skip
def test_a_token_is_asked_for_in_the_analysts_name_before_each_socket(options, path):
    (needed,) = dialect(**options).preparations(opening())
    assert (needed.name, needed.lasting, needed.secret) == ("token", False, True)
    assert (needed.request.method, needed.request.path) == ("POST", path)
    assert needed.request.headers["x-nuclia-serviceaccount"] == "Bearer KEY"
    assert json.loads(needed.request.body) == {"agent_session": "ephemeral"}
    assert dialect(**options).preparations(opening(token="t")) == ()


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/session/ephemeral/ws?eph-token=tok"),
        ({"workflow": "ask"}, "/session/ephemeral/ws?eph-token=tok&workflow_id=ask"),
        ({"workflow": "a b", "workflow_in": "path"},
         "/workflow/a%20b/session/ephemeral/ws?eph-token=tok"),
        ({"keep_open": True}, "/session/ephemeral/ws?eph-token=tok&keep_open=true"),
        ({"session": "named"}, "/session/c1/ws?eph-token=tok"),
        ({"create_session": False, "session": "named"},
         "/session/c1/ws?eph-token=tok&create_session_if_not_exists=false"),
    ],
)  # fmt: skip
def test_a_socket_is_opened_with_its_token_and_no_header_of_the_analyst(options, path):
    request = dialect(**options).upgrade(opening(token="tok"))
    assert request.path == f"/api/v1/agent/agent-0001{path}"
    assert request.headers == {}


def test_without_tokens_identity_goes_on_the_socket():
    plain = dialect(token="none")
    assert plain.preparations(opening()) == ()
    request = plain.upgrade(opening(identity=Identity({"x-user": "u1"}, {"key": "k 1"})))
    assert request.headers == {"x-user": "u1"}
    assert request.path == "/api/v1/agent/agent-0001/session/ephemeral/ws?key=k+1"


def test_a_route_of_the_plan_stands_before_all_paths():
    there = AragWs("/gw/api/v1/", options=AGENT)
    assert there.route == "/gw/api/v1/agent/agent-0001"
    (needed,) = there.preparations(opening())
    assert needed.request.path == "/gw/api/v1/agent/agent-0001/ephemeral_token"
    assert there.upgrade(opening(token="t")).path.startswith(f"{there.route}/session/")


def test_a_managed_session_is_listed_created_used_and_deleted():
    managed = dialect(session="managed")
    listing, creation = managed.preparations(opening())
    assert [n.name for n in (listing, creation)] == ["sessions", "session"]
    assert listing.lasting
    assert creation.lasting
    assert listing.request.method == "GET"
    assert listing.request.path == "/api/v1/agent/agent-0001/sessions?page=0&size=20"
    assert creation.request.path == "/api/v1/agent/agent-0001/sessions"
    assert json.loads(creation.request.body) == {
        "slug": "loadgen-c1", "name": "loadgen-c1", "summary": "load test", "data": "",
        "format": "PLAIN",
    }  # fmt: skip
    assert managed.granted("sessions", 200, '{"resources": []}') == "listed"
    assert managed.preparations(opening(sessions="listed")) == (creation,)
    assert managed.granted("session", 200, '{"uuid": "u/1", "seqid": 1}') == "u/1"
    held = {"sessions": "listed", "session": "u/1"}
    (token,) = managed.preparations(opening(**held))
    assert json.loads(token.request.body) == {"agent_session": "u/1"}
    assert "/session/u%2F1/ws?" in managed.upgrade(opening(**held, token="t")).path
    farewell = managed.farewell(opening(**held))
    assert (farewell.method, farewell.path) == (
        "DELETE",
        "/api/v1/agent/agent-0001/session/u%2F1",
    )
    assert managed.farewell(opening()) is None
    assert dialect(session="named").farewell(opening()) is None


AUTH, LIMIT = Cause.AUTH_REJECTED, Cause.RATE_LIMITED
BROKEN, WRONG = Cause.CONNECT_FAILED, Cause.PROTOCOL_VIOLATION


@pytest.mark.parametrize(
    ("status", "body", "cause", "detail"),
    [
        (401, '{"detail": "no key"}', AUTH, 'token refused with HTTP 401: {"detail": "no key"}'),
        (403, "", AUTH, "token refused with HTTP 403"),
        (429, "", LIMIT, "token refused with HTTP 429"),
        (503, "busy", LIMIT, "token refused with HTTP 503: busy"),
        (500, "", BROKEN, "token refused with HTTP 500"),
        (404, "", WRONG, "token refused with HTTP 404"),
        (202, '{"token": "s3cr3t"}', WRONG, "token refused with HTTP 202"),
        (200, "<html>", WRONG, "token: the answer (HTTP 200) has no token"),
        (200, '{"token": 5, "x": "s3cr3t"}', WRONG, "token: the answer (HTTP 200) has no token"),
        (200, '["s3cr3t"]', WRONG, "token: the answer (HTTP 200) has no token"),
        (201, '{"token": ""}', WRONG, "token: the answer (HTTP 201) has no token"),
    ],
)
def test_a_token_that_is_not_granted_has_a_cause_and_is_never_shown(status, body, cause, detail):
    refusal = dialect().granted("token", status, body)
    assert refusal == Failed(Outcome.REFUSED, cause, detail)


@pytest.mark.parametrize("status", [200, 201])
def test_a_token_is_a_secret_from_the_moment_it_is_granted(status):
    asking = dialect()
    assert asking.secrets == ()
    assert asking.granted("token", status, '{"token": "eph-1"}') == "eph-1"
    assert asking.secrets == ("eph-1",)
    for number in range(2, 9):
        asking.granted("token", status, f'{{"token": "eph-{number}"}}')
    assert asking.secrets == ("eph-6", "eph-7", "eph-8")


HISTORY = (("q1", "a1"), ("q2", "a2"))
TOLD = [{"question": "q1", "answer": "a1"}, {"question": "q2", "answer": "a2"}]


@pytest.mark.parametrize(
    ("options", "history", "told"),
    [
        ({}, (), {"chat_history": [], "streaming": True}),
        ({}, HISTORY, {"chat_history": TOLD, "streaming": True}),
        ({"session": "named"}, HISTORY, {"streaming": True}),
        ({"session": "managed", "streaming": False}, HISTORY, {"streaming": False}),
        (
            {"headers": "X-Org=acme, X-B=a=b", "arguments": " year = 2024 "}, (),
            {"headers": {"X-Org": "acme", "X-B": "a=b"}, "arguments": {"year": "2024"},
             "chat_history": [], "streaming": True},
        ),
    ],
)  # fmt: skip
def test_a_question_brings_its_history_where_the_server_keeps_none(options, history, told):
    said = json.loads(dialect(**options).ask(replace(ASK, history=history), KEY))
    assert said == {"question": "which year?", "operation": 0} | told


PROMPT = Prompt(PromptKind.FEEDBACK, "r1", schema={"type": "object"})


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Shape.RIGHT, {"request_id": "r1", "response": '{"a": 1}'}),
        (Shape.WRONG_ID, {"request_id": "not-r1", "response": '{"a": 1}'}),
        (Shape.MALFORMED, {"request_id": "r1", "response": {"value": {"a": 1}}}),
        (Shape.OTHER_TYPE, {"request_id": "r1", "response": "0.5"}),
    ],
)
def test_a_reply_is_a_json_text_in_a_string(shape, message):
    reply = Reply(PROMPT, '{"a": 1}', shape)
    assert json.loads(dialect().reply(reply, ASK, KEY)) == message


def test_a_reply_that_is_no_json_is_sent_as_it_stands():
    assert json.loads(dialect().reply(Reply(PROMPT, "2024 or so"), ASK, KEY)) == {
        "request_id": "r1",
        "response": "2024 or so",
    }


def test_a_login_elsewhere_wants_no_reply():
    consent = Prompt(PromptKind.OAUTH_CONSENT, "https://login")
    with pytest.raises(GeneratorError, match="oauth_consent wants no reply"):
        dialect().reply(Reply(consent, ""), ASK, KEY)


def test_who_gives_up_says_quit():
    assert json.loads(dialect().quit()) == {"question": "", "operation": 1}


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({}, (False, 0, True, False, False)),
        ({"keep_open": True}, (False, 0, False, False, False)),
        ({"session": "named"}, (False, 0, True, True, False)),
        ({"reconnect": "sdk"}, (False, 2, True, False, False)),
        ({"edition": "documented"}, (False, 0, True, False, True)),
    ],
)
def test_what_options_make_of_sockets(options, facts):
    made = dialect(**options)
    assert facts == (
        made.resumes, made.reasks, made.one_turn, made.one_conversation, made.reopens,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("route", "options", "words"),
    [
        (None, {}, "options.agent of arag-ws is missing"),
        (None, {"agent": ""}, "options.agent of arag-ws is not usable: string should have at"),
        (None, AGENT | {"workflow_in": "path"}, "options.workflow is not given"),
        (None, AGENT | {"token": "account"}, "give options.account"),
        (None, AGENT | {"token": "plain", "account": "a"}, "options.account of arag-ws has no use"),
        (None, AGENT | {"headers": "X-Org"}, "options.headers of arag-ws .* not 'X-Org'"),
        (None, AGENT | {"session": "s1"}, "options.session of arag-ws"),
        ("api", AGENT, "a route begins with /, got 'api'"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(route, options, words):
    with pytest.raises(ConfigError, match=words):
        AragWs(route, options=options)


def test_a_socket_is_never_polled():
    with pytest.raises(GeneratorError):
        dialect().decoder().polled(200, "")


# credentials

URI = "https://mcp.example.com/mcp"
WANTED = {"request_id": "r1", "question": "Get credentials", "get_credentials": {URI: "mcp_oauth"}}
HANDED = {
    "request_id": "r1", "question": "Send credentials", "credentials": {
        URI: {"access_token": "s3cr3t-1", "token_type": "Bearer", "expires_in": 3600},
    },
}  # fmt: skip


def said(decode, feedback):
    """What is said at once to ``feedback``."""
    (event,) = heard(frame(5, feedback=feedback), decode=decode)
    assert type(event) is Say
    return json.loads(event.message)


def test_released_credentials_are_kept_and_given_back_as_a_json_text():
    asking = dialect()
    first, later = asking.decoder(), asking.decoder()
    assert said(first, WANTED) == {"request_id": "r1", "response": '{"existing_credentials":{}}'}
    url = "https://login.example.com/authorize?state=1"
    (consent,) = heard(frame(5, oauth={"oauth_url": url}), decode=first)
    assert consent == Prompt(PromptKind.OAUTH_CONSENT, url)
    asking.visited("https://app.example.com/callback?code=c0de")
    assert said(first, HANDED) == {"request_id": "r1", "response": "{}"}
    assert asking.secrets == ("s3cr3t-1",)
    again = said(later, WANTED)
    assert json.loads(again["response"]) == {
        "existing_credentials": {URI: {"access_token": "s3cr3t-1", "token_type": "Bearer"}}
    }


@pytest.mark.parametrize("name", ["code", "access_token"])
def test_documented_credentials_come_from_the_url_where_the_login_ended(name):
    asking = dialect(edition="documented")
    asking.visited(f"https://app.example.com/back?state=s&{name}=s3cr3t-2")
    assert asking.secrets == ("s3cr3t-2",)
    reply = {"request_id": "r1", "existing_credentials": {URI: "s3cr3t-2"}}
    assert said(asking.decoder(), WANTED) == reply
    assert said(asking.decoder(), WANTED) == reply
    assert asking.secrets == ("s3cr3t-2",)


@pytest.mark.parametrize("location", ["", "http://[bad", "https://app/back?error=access_denied"])
def test_a_login_that_gave_nothing_leaves_nothing_to_give(location):
    asking = dialect(edition="documented")
    asking.visited(location)
    assert said(asking.decoder(), WANTED) == {"request_id": "r1", "existing_credentials": {}}


def test_credentials_of_one_analyst_are_not_another_ones():
    one, other = dialect(), dialect()
    said(one.decoder(), HANDED)
    assert said(other.decoder(), WANTED)["response"] == '{"existing_credentials":{}}'


def test_what_tells_nothing_is_no_secret():
    asking = dialect()
    credential = {
        "token_type": "Bearer",
        "scope": "all of it",
        "id": "abc",
        "access_token": "tok-1",
    }
    said(asking.decoder(), HANDED | {"credentials": {URI: credential, "odd": 5}})
    assert asking.secrets == ("tok-1",)
