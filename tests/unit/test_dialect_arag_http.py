"""Progress Agentic RAG over HTTP: one frame a line."""

from __future__ import annotations

import json

import pytest
from arag_replay import AGENT, frame
from hypothesis import given
from hypothesis import strategies as st
from replay import answer_events, story
from test_dialect_arag import ANY_FRAME, DONE, KEY, SOURCE, START, chunk, error, opening, whole

from loadgen.dialects.arag_http import AragHttp
from loadgen.dialects.contract import Ask, Identity, Reply
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Failed, Prompt, PromptKind
from loadgen.wire.frame import End, Frame, Garbage, Head

HEAD = Head(200, {"content-type": "application/x-ndjson"})
END, CUT = End(True), End(False)


def heard(*frames):
    decode = AragHttp(options=AGENT).decoder()
    decode.begin("t1")
    lines = [Frame("line", one) if type(one) is str else one for one in frames]
    return [event for one in lines for event in decode(one)]


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ([HEAD, START, SOURCE, chunk("a"), whole("a"), DONE, END],
         "(headers) (start) (source) answer reviewed completed"),
        ([HEAD, START, whole("a"), DONE, chunk("b"), END],
         "(headers) (start) answer reviewed completed (late)"),
        ([HEAD, START, whole("a"), END], "(headers) (start) answer reviewed (no DONE) completed"),
        ([HEAD, START, chunk("a"), END], "(headers) (start) answer incomplete/stream_cut"),
        ([HEAD, START, chunk("a"), whole("a"), CUT],
         "(headers) (start) answer reviewed incomplete/stream_cut"),
        ([HEAD, END], "(headers) incomplete/stream_cut"),
        ([HEAD, START, error("boom"), DONE, END],
         "(headers) (start) failed/agent_error? failed/agent_error"),
        ([HEAD, START, error("boom"), END],
         "(headers) (start) failed/agent_error? failed/agent_error"),
        ([HEAD, START, error("boom"), CUT],
         "(headers) (start) failed/agent_error? failed/agent_error"),
        ([HEAD, error("no model"), DONE, END],
         "(headers) failed/agent_error? failed/agent_error"),
        ([HEAD, START, error("Agent requires OAuth which is only supported via websocket"), END],
         "(headers) (start) failed/agent_error? failed/agent_error"),
        ([HEAD, START, frame(5, feedback={"request_id": "r"}), END],
         "(headers) (start) failed/protocol_violation"),
        ([HEAD, START, frame(), DONE], "(headers) (start) (no answer) failed/empty_answer"),
        ([Head(200, {"content-type": "text/html"}), Frame("body", "<p>"), END],
         "(headers) (body) failed/protocol_violation"),
        ([Head(422, {}), Frame("body", "{}"), END],
         "(headers) (body) refused/protocol_violation"),
        ([Head(401, {}), END], "(headers) refused/auth_rejected"),
        ([Head(429, {}), END], "(headers) refused/rate_limited"),
        ([Head(200, {"content-type": "application/jsonl; charset=utf-8",
                     "content-encoding": "gzip"}), DONE],
         "(headers) (encoding) failed/empty_answer"),
        ([HEAD, Garbage("bad chunk"), END], "(headers) failed/protocol_violation"),
    ],
)  # fmt: skip
def test_what_an_answer_means(frames, told):
    assert story(heard(*frames)) == told


def test_the_servers_word_for_what_http_cannot_do_is_the_turns_detail():
    words = "Agent requires elicitation which is only supported via websocket"
    failure = heard(HEAD, START, error(words), END)[-1]
    assert type(failure) is Failed
    assert failure.detail == words


@pytest.mark.parametrize("size", [1, 7, 1 << 30])
def test_a_last_line_without_its_end_counts(size):
    body = "\n".join([START, whole("a"), DONE]).encode()
    data = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n" + body
    dialect = AragHttp(options=AGENT)
    events = answer_events(data, dialect, dialect.decoder(), size)
    assert story(events) == "(headers) (start) answer reviewed completed"


@given(st.lists(ANY_FRAME, max_size=8))
def test_no_frame_raises_and_none_but_the_last_is_without_an_event(frames):
    decode = AragHttp(options=AGENT).decoder()
    for one in [HEAD, *frames]:
        assert decode(one) or type(one) is End


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/session/ephemeral"),
        ({"workflow": "ask"}, "/session/ephemeral?workflow_id=ask"),
        ({"workflow": "ask", "workflow_in": "path"}, "/workflow/ask/session/ephemeral"),
        ({"session": "named"}, "/session/c1"),
    ],
)
def test_a_question_is_a_post_in_the_analysts_name(options, path):
    request = AragHttp(options=AGENT | options).ask(Ask("t1", "c1", "hello"), KEY)
    assert (request.method, request.path) == ("POST", f"/api/v1/agent/agent-0001{path}")
    assert request.headers["x-nuclia-serviceaccount"] == "Bearer KEY"
    assert json.loads(request.body)["question"] == "hello"


def test_a_managed_session_is_asked_in_once_it_is_granted():
    dialect = AragHttp(options=AGENT | {"session": "managed"})
    assert [n.name for n in dialect.preparations(opening())] == ["sessions", "session"]
    assert dialect.granted("session", 201, '{"uuid": "u1"}') == "u1"
    assert dialect.preparations(opening(session="u1")) == ()
    path = dialect.ask(Ask("t1", "c1", "hello"), Identity(query={"k": "v"})).path
    assert path == "/api/v1/agent/agent-0001/session/u1?k=v"
    assert dialect.farewell(opening(session="u1")).path.endswith("/session/u1")


def test_no_token_is_needed_and_no_option_of_sockets_known():
    assert AragHttp(options=AGENT).preparations(opening()) == ()
    with pytest.raises(ConfigError, match=r"options\.token of arag-http"):
        AragHttp(options=AGENT | {"token": "agent"})


def test_nothing_is_replied_and_nothing_polled():
    dialect = AragHttp(options=AGENT)
    prompt = Prompt(PromptKind.FEEDBACK, "r")
    with pytest.raises(GeneratorError, match="arag-http does not reply"):
        dialect.reply(Reply(prompt, "1"), Ask("t1", "c1", "hello"), KEY)
    with pytest.raises(GeneratorError):
        dialect.decoder().polled(200, "")
