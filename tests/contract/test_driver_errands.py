"""Requests beside the turn's stream, over loopback: polls, reconciliation, odd replies, logins."""

from __future__ import annotations

import json

import pytest
from analyst import QUICK, Analyst, Habits, answer, clocks, end
from raw_server import SSE, prompt, raw_server, read_request

from loadgen import metrics
from loadgen.dialects.contract import Identity, Shape
from loadgen.persona import ConsentPlan
from loadgen.plan import identity_plan
from loadgen.probe import Probe
from loadgen.probe import run as run_probe
from loadgen.turn import Cause, Outcome

OK = (Outcome.COMPLETED, None)
FAST = "steps=1 step_ms=5 tokens=3 token_ms=2"
SOON = {"poll_s": 0.05}
POLLED = ["/v1/chat", "/v1/workflow"]
PLAIN = [*POLLED, "/chat", "/generate", "/v1/chat/completions"]
KINDS = ["text", "binary_choice", "radio", "checkbox", "dropdown"]
LATE = {"insist": True}


def ask(url, dialect, words, **options):
    analyst = Analyst(url, dialect, **options)
    try:
        return analyst.ask(words, tag="t1")
    finally:
        analyst.close()


@pytest.mark.parametrize("route", PLAIN)
def test_a_single_route_gives_its_answer_whole(shared_mock_agent, route):
    record = ask(shared_mock_agent().url, "nat-poll", FAST, route=route, options=SOON)
    assert end(record) == OK, record.detail
    assert record.answer == answer(3, "tag=t1")
    assert (record.polls, record.status) == (0, 200)
    assert "ttfp" not in clocks(record)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("route", POLLED)
def test_a_prompt_on_a_single_route_is_answered_and_the_run_polled(shared_mock_agent, route, kind):
    words = f"{FAST} hitl={kind} think_ms=500"
    record = ask(shared_mock_agent().url, "nat-poll", words, route=route, options=SOON)
    assert end(record) == OK, record.detail
    assert record.answer.startswith(f"[hitl {kind}:")
    assert [p.reply_status for p in record.prompts] == [204]
    assert record.polls >= 2
    assert record.execution


def test_two_prompts_of_one_polled_run_are_two(shared_mock_agent):
    words = f"{FAST} hitl=text,radio"
    record = ask(shared_mock_agent().url, "nat-poll", words, options=SOON)
    assert end(record) == OK, record.detail
    assert [p.kind for p in record.prompts] == ["text", "radio"]


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        ("fail=start", "workflow_error: scripted failure at start"),
        ("hitl=text fail=end", "scripted failure at end"),
    ],
)
def test_a_run_that_fails_says_so_at_once_or_by_poll(shared_mock_agent, words, detail):
    record = ask(shared_mock_agent().url, "nat-poll", f"{FAST} {words}", options=SOON)
    assert end(record) == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert record.detail.startswith(detail)


def test_a_kept_connection_that_the_server_closed_is_no_loss_between_polls(mock_agent):
    agent = mock_agent("--keep-alive", "1")
    options = {"poll_s": 1.3}
    record = ask(agent.url, "nat-poll", f"{FAST} hitl=text think_ms=1500", options=options)
    assert end(record) == OK, record.detail
    assert record.losses == []


# replies that provoke the server


@pytest.mark.parametrize(
    ("manner", "status", "again"),
    [
        ({"value": "never offered"}, 204, None),
        ({"shape": Shape.OTHER_TYPE}, 204, None),
        ({"twice": True}, 204, 404),
    ],
)
def test_what_the_server_takes_although_it_is_odd(shared_mock_agent, manner, status, again):
    habits = Habits(manner=manner)
    words = f"{FAST} hitl=radio think_ms=500"
    record = ask(shared_mock_agent().url, "nat-sse", words, habits=habits)
    assert end(record) == OK, record.detail
    assert record.prompts[0].reply_status == status
    assert record.prompts[0].again_status == again


def test_a_malformed_reply_leaves_the_prompt_open(mock_agent):
    agent = mock_agent("--prompt-grace", "0.1")
    habits = Habits(manner={"shape": Shape.MALFORMED})
    words = f"{FAST} hitl=text hitl_timeout=1"
    record = ask(agent.url, "nat-sse", words, habits=habits)
    assert record.prompts[0].reply_status == 422
    assert end(record) == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert "TimeoutError" in record.detail


@pytest.mark.case("D-37")
@pytest.mark.parametrize("dialect", ["nat-sse", "nat-poll"])
@pytest.mark.parametrize(
    ("reply_ms", "status", "outcome"),
    [(700, 204, Outcome.COMPLETED), (1900, 400, Outcome.FAILED)],
)
def test_a_reply_before_the_timeout_counts_and_one_after_it_does_not(
    mock_agent, dialect, reply_ms, status, outcome
):
    agent = mock_agent("--prompt-grace", "0.3")
    habits = Habits(reply_ms=reply_ms, manner=LATE)
    words = f"{FAST} hitl=text hitl_timeout=1"
    record = ask(agent.url, dialect, words, habits=habits, deadlines=QUICK)
    assert record.prompts[0].reply_status == status
    assert record.outcome is outcome
    if outcome is Outcome.COMPLETED:
        assert "[hitl text:2024]" in record.answer
    elif dialect == "nat-sse":
        assert clocks(record)["wall"] < reply_ms, "the turn had ended before the reply"


def test_a_prompt_that_is_left_alone_fails_the_run(mock_agent):
    agent = mock_agent("--prompt-grace", "0.1")
    habits = Habits(manner={"delay_ns": None})
    record = ask(agent.url, "nat-poll", f"{FAST} hitl=text hitl_timeout=1", habits=habits,
                 options=SOON)  # fmt: skip
    assert end(record) == (Outcome.FAILED, Cause.AGENT_ERROR)
    assert record.notices["prompt_ignored"] == 1


def test_on_a_socket_a_second_reply_kills_the_connection(shared_mock_agent):
    habits = Habits(manner={"twice": True})
    record = ask(shared_mock_agent().url, "nat-ws", f"{FAST} hitl=text think_ms=50", habits=habits)
    assert record.losses[0].code == 1006
    assert record.prompts[0].replied


# what the server says of a run whose stream broke off


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, {"execution_id": "e", "status": "running"}, "running"),
        (200, {"execution_id": "e", "status": "completed", "result": {}}, "completed"),
        (200, {"execution_id": "e", "status": "failed", "error": "broke"}, "failed"),
        (404, {"detail": "not found"}, "HTTP 404"),
    ],
)
def test_a_stream_cut_after_a_prompt_is_asked_after_once(status, body, said):
    asked = []

    def handle(stream, server):
        request = read_request(stream, server)
        if request.startswith(b"GET"):
            asked.append(request.split(b" ")[1])
            text = json.dumps(body).encode()
            stream.sendall(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(text)))
            stream.sendall(text)
            stream.recv(1)
        else:
            stream.sendall(SSE + prompt())

    with raw_server(handle) as server:
        record = ask(server.url, "nat-sse", "hi", habits=Habits(reply_ms=3000))
    assert end(record) == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert len(asked) == 1
    assert asked[0].startswith(b"/executions/")
    assert record.execution_state == said


def test_a_stream_cut_in_the_middle_of_the_mocks_answer_is_reconciled(shared_mock_agent):
    record = ask(shared_mock_agent().url, "nat-sse", f"{FAST} hitl=text cut=2")
    assert end(record) == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert record.execution_state


# logging in elsewhere


def login(name):
    return Identity(headers={"cookie": f"nat-session={name}"})


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws", "nat-poll"])
def test_an_analyst_logs_in_elsewhere_once_and_the_run_goes_on(mock_agent, dialect):
    agent = mock_agent()
    options = SOON if dialect == "nat-poll" else {}
    analyst = Analyst(agent.url, dialect, identity=login("ann"), options=options,
                      habits=Habits(consents=ConsentPlan("follow", 50_000_000)))  # fmt: skip
    # The run outlasts the answer of the page that set it going.
    first = analyst.ask(f"{FAST} oauth=1".replace("step_ms=5", "step_ms=1500"))
    second = analyst.ask(f"{FAST} oauth=1")
    analyst.close()
    assert end(first) == end(second) == OK, (first.detail, second.detail)
    assert first.answer.startswith("[oauth ok] ")
    assert [p.kind for p in first.prompts] == ["oauth_consent"]
    assert first.prompts[0].reply_status == 200
    found = [h.clock.value for h in metrics.happenings(first.to_row())]
    assert "consent" in found
    assert second.prompts == []


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
def test_a_consent_that_is_refused_fails_the_run(mock_agent, dialect):
    habits = Habits(consents=ConsentPlan("deny", 0))
    record = ask(mock_agent().url, dialect, f"{FAST} oauth=1", identity=login("bob"), habits=habits)
    assert record.outcome is Outcome.FAILED
    assert record.prompts[0].kind == "oauth_consent"


def test_a_login_on_another_origin_is_not_followed_unless_allowed(mock_agent):
    agent = mock_agent()
    elsewhere = agent.url.replace("127.0.0.1", "localhost")
    habits = Habits(consents=ConsentPlan("follow", 0))
    words = f"{FAST} oauth=1".replace("step_ms=5", "step_ms=1500")

    def handle(stream, server):
        read_request(stream, server)
        event = {"event_type": "oauth_required", "execution_id": "e1",
                 "auth_url": f"{elsewhere}/health", "oauth_state": "s"}  # fmt: skip
        data = f"event: oauth_required\ndata: {json.dumps(event)}\n\n".encode()
        stream.sendall(SSE + b"%x\r\n%s\r\n" % (len(data), data))
        stream.recv(1)

    with raw_server(handle) as server:
        refused = ask(server.url, "nat-sse", words, habits=habits)
        allowed = ask(
            server.url, "nat-sse", words, habits=habits, allow_origins=(elsewhere,),
            deadlines=QUICK.model_copy(update={"silence_s": 0.5}),
        )  # fmt: skip
    assert end(refused) == (Outcome.FAILED, Cause.AUTH_REJECTED)
    assert "is not this target; see target.allow_origins" in refused.detail
    assert refused.prompts[0].reply_status is None
    assert allowed.prompts[0].reply_status == 200


def test_a_reply_goes_to_another_origin_only_where_that_is_allowed(shared_mock_agent):
    other = shared_mock_agent().url
    seen = []

    def handle(stream, server):
        seen.append(read_request(stream, server))
        stream.sendall(SSE + prompt(url=f"{other}/executions/e1/interactions/i1/response"))
        stream.recv(1)

    quick = QUICK.model_copy(update={"silence_s": 0.5})
    with raw_server(handle) as server:
        refused = ask(server.url, "nat-sse", "hi", deadlines=quick)
        allowed = ask(server.url, "nat-sse", "hi", deadlines=quick, allow_origins=(other,))
    assert end(refused) == (Outcome.FAILED, Cause.PROTOCOL_VIOLATION)
    assert allowed.prompts[0].reply_status == 404, "the mock does not know that execution"


# another question while one runs


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
def test_an_analyst_that_asks_something_else_gets_the_answer_to_that(mock_agent, dialect):
    agent = mock_agent()
    habits = Interrupting()
    analyst = Analyst(agent.url, dialect, habits=habits)
    first = analyst.ask("steps=1 step_ms=10 tokens=200 token_ms=20", tag="one")
    habits.after_ns = None
    second = analyst.ask(FAST, tag="two")
    analyst.close()
    assert end(first) == (Outcome.ABANDONED, Cause.PATIENCE)
    assert end(second) == OK, second.detail
    assert second.answer == answer(3, "tag=two")
    if dialect == "nat-ws":
        assert second.connections == [], "the socket is kept"
        outcomes = {line["tag"]: line["outcome"] for line in agent.await_turns(2)}
        assert outcomes["one"] == "cancelled"


class Interrupting(Habits):
    after_ns: int | None = 150_000_000

    def interrupt_ns(self) -> int | None:
        return self.after_ns


def test_hundreds_of_turns_on_one_socket_are_all_its_own(shared_mock_agent):
    analyst = Analyst(shared_mock_agent().url, "nat-ws")
    records = [
        analyst.ask("steps=1 step_ms=0 tokens=1 token_ms=0", tag=f"t{n}") for n in range(300)
    ]
    analyst.close()
    assert {end(record) for record in records} == {OK}
    assert [record.tag_seen for record in records] == [f"t{n}" for n in range(300)]
    assert sum(len(record.connections) for record in records) == 1
    assert {record.late_events for record in records} == {0}


# the documented edition of the server


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws", "nat-poll"])
@pytest.mark.parametrize("words", ["", "hitl=radio", "hitl=text,notification"])
def test_what_the_documents_describe_is_understood_as_well(shared_mock_agent, dialect, words):
    agent = shared_mock_agent("--edition", "documented")
    options = SOON if dialect == "nat-poll" else {}
    record = ask(agent.url, dialect, f"{FAST} {words}", options=options)
    assert end(record) == OK, record.detail
    assert record.answer.endswith(answer(3, "tag=t1"))


def test_a_failure_in_the_documents_words_is_a_failure(shared_mock_agent):
    agent = shared_mock_agent("--edition", "documented")
    record = ask(agent.url, "nat-ws", f"{FAST} fail=mid")
    assert end(record) == (Outcome.FAILED, Cause.AGENT_ERROR)


@pytest.mark.parametrize(
    "given", ["/executions/e1/r", "/agents/executions/e1/r", "{own}/agents/executions/e1/r"]
)
def test_behind_a_proxys_prefix_a_reply_carries_it_once(given):
    paths = []

    def handle(stream, server):
        request = read_request(stream, server)
        paths.append(request.split(b" ")[1].decode())
        if len(paths) == 1:
            stream.sendall(SSE + prompt(url=given.format(own=server.url)))
            stream.recv(1)
        else:
            stream.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            stream.recv(1)

    quick = QUICK.model_copy(update={"silence_s": 0.3})
    with raw_server(handle) as server:
        ask(f"{server.url}/agents", "nat-sse", "hi", deadlines=quick)
    assert paths[:2] == ["/agents/v1/chat/stream", "/agents/executions/e1/r"]


def test_a_login_writes_no_url_into_a_log(mock_agent, caplog):
    caplog.set_level("INFO")
    habits = Habits(consents=ConsentPlan("follow", 0))
    record = ask(
        mock_agent().url, "nat-sse", f"{FAST} oauth=1", identity=login("eve"), habits=habits
    )
    assert end(record) == OK, record.detail
    assert "state=" not in caplog.text
    assert "code=" not in caplog.text


def test_the_probe_shows_no_credential_that_a_server_echoes(monkeypatch):
    monkeypatch.setenv("PROBE_TOKEN", "s3cr3t-token-of-mine")

    def handle(stream, server):
        request = read_request(stream, server)
        line = next(h for h in request.split(b"\r\n") if h.lower().startswith(b"authorization"))
        stream.sendall(b"HTTP/1.1 401 No\r\ncontent-length: %d\r\n\r\n%s" % (len(line), line))
        stream.recv(1)

    told = []
    with raw_server(handle) as server:
        asked = Probe(
            server.url, "hi", "nat-sse", identity=identity_plan("bearer", "PROBE_TOKEN", None)
        )
        record = run_probe(asked, lambda *event: told.append(event))
    assert record.outcome is Outcome.REFUSED
    assert "[redacted]" in str(told)
    assert "s3cr3t" not in str(told) + str(record.to_row())
