"""The body where the other side fails: it refuses, lies, leaves in the middle, or says nothing."""

from __future__ import annotations

import os
import resource
import signal
import threading

import gevent
import pytest
from analyst import (
    COOKIE,
    LOGIN,
    QUICK,
    SOON,
    Analyst,
    Habits,
    answer,
    clocks,
    descriptors,
    end,
)
from raw_server import (
    LAST_CHUNK,
    NO_CONTENT,
    SSE,
    Peer,
    chunk,
    delta,
    event,
    prompt,
    raw_server,
    read_request,
    reset,
)

from loadgen.commands import Send
from loadgen.dialects.contract import Identity
from loadgen.net import driver
from loadgen.net.posting import Poster
from loadgen.phase import Phase
from loadgen.plan import Reconnect
from loadgen.turn import Cause, Milestone, Outcome

BOTH = pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
OK = (Outcome.COMPLETED, None)
UNREACHED = (Outcome.REFUSED, Cause.CONNECT_FAILED)
NO_HTTP = (Outcome.FAILED, Cause.PROTOCOL_VIOLATION)
CUT = (Outcome.INCOMPLETE, Cause.STREAM_CUT)
LOST = (Outcome.INCOMPLETE, Cause.LOST_RESUME)
STALLED = (Outcome.TIMED_OUT, Cause.STALLED)
FAST = "steps=1 step_ms=5 tokens=3 token_ms=2"
NEVER = Reconnect(policy="none")


def _deadlines(**changes):
    return QUICK.model_copy(update=changes)


def _ask(url, dialect, **options):
    analyst = Analyst(url, dialect, **options)
    record = analyst.ask("q")
    analyst.close()
    return record


# not reached


@BOTH
def test_a_port_where_nobody_listens_refuses_the_turn_in_one_line(dialect):
    record = _ask("http://127.0.0.1:1", dialect)
    assert end(record) == UNREACHED
    assert record.detail == ("http://127.0.0.1:1: connection refused; is the service running?")
    assert record.connections[0].failure == "connect_failed"
    assert Milestone.SENT not in [mark for mark in Milestone if record.timeline.at[mark]]


@BOTH
def test_an_analyst_who_was_refused_asks_again_when_the_service_is_back(dialect, mock_agent):
    agent = mock_agent()
    port = agent.port
    agent.stop()
    analyst = Analyst(agent.url, dialect)
    assert end(analyst.ask("q")) == UNREACHED
    mock_agent("--port", str(port))
    assert end(analyst.ask(FAST)) == OK
    analyst.close()


@pytest.mark.case("D-29")
@BOTH
def test_running_out_of_descriptors_is_our_own_fault_and_passes(shared_mock_agent, dialect):
    analyst = Analyst(shared_mock_agent().url, dialect)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.open(os.devnull, os.O_RDONLY)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(spare) + 1, hard))
        while True:
            try:
                spare.append(os.dup(0))
            except OSError:
                break
        record = analyst.ask("q")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in spare:
            os.close(number)
    assert end(record) == (Outcome.REFUSED, Cause.CLIENT_RESOURCE)
    assert "Too many open files" in record.detail
    assert "raise ulimit -n" in record.detail
    assert end(analyst.ask(FAST)) == OK
    analyst.close()


# something else answers


def _says(words: bytes):
    def handle(stream, server):
        stream.recv(65_536)
        stream.sendall(words)
        threading.Event().wait(0.05)

    return handle


@BOTH
@pytest.mark.parametrize(
    "words",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"220 mail.example ESMTP\r\n", b"\x00\x01\x02\x03\r\n" * 9, b"\n"],
    ids=["ssh", "smtp", "binary", "line"],
)
def test_a_service_that_speaks_no_http_is_named_as_that(dialect, words):
    with raw_server(_says(words)) as server:
        record = _ask(server.url, dialect)
    if words == b"\n":
        assert record.outcome in (Outcome.INCOMPLETE, Outcome.REFUSED)
        return
    assert end(record) == (
        NO_HTTP if dialect == "nat-sse" else (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION)
    )
    assert "not HTTP" in record.detail
    assert "\n" not in record.detail


def test_a_page_of_html_is_no_answer(shared_mock_agent):
    analyst = Analyst(shared_mock_agent().url, "nat-sse")
    record = analyst.ask("html=1")
    assert end(record) == NO_HTTP
    assert "text/html" in record.detail
    assert "not an event stream" in record.detail
    assert end(analyst.ask(FAST)) == OK
    assert len(analyst.records[1].connections) == 0
    analyst.close()


def test_a_page_of_html_is_no_socket():
    page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"
    with raw_server(_says(page)) as server:
        record = _ask(server.url, "nat-ws")
    assert end(record) == UNREACHED
    assert "handshake refused with HTTP 200: <html>" in record.detail


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, (Outcome.REFUSED, Cause.AUTH_REJECTED)),
        (404, (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION)),
        (429, (Outcome.REFUSED, Cause.RATE_LIMITED)),
        (500, (Outcome.FAILED, Cause.AGENT_ERROR)),
        (503, (Outcome.REFUSED, Cause.AGENT_ERROR)),
    ],
)
def test_a_status_is_an_outcome_and_the_connection_goes_on(shared_mock_agent, status, expected):
    analyst = Analyst(shared_mock_agent().url, "nat-sse")
    record = analyst.ask(f"status={status}")
    assert end(record) == expected
    assert record.status == status
    assert end(analyst.ask(FAST)) == OK
    assert len(analyst.records[1].connections) == 0
    analyst.close()


def test_a_socket_on_an_unknown_path_is_refused_with_its_status(shared_mock_agent):
    record = _ask(shared_mock_agent().url, "nat-ws", route="/nowhere")
    assert record.outcome is Outcome.REFUSED
    assert "handshake refused with HTTP 40" in record.detail


# the server leaves


def _leave(after: bytes, how: str):
    def handle(stream, server):
        if after != b"at once":
            read_request(stream, server)
            stream.sendall(after)
            threading.Event().wait(0.02)
        if how == "reset":
            reset(stream)

    return handle


@pytest.mark.case("D-22")
@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize(
    ("after", "chunks"),
    [
        (b"at once", 0),
        (b"", 0),
        (b"HTTP/1.1 20", 0),
        (SSE, 0),
        (SSE + b"1a\r\ndata: {", 0),
        (SSE + delta("half"), 1),
        (SSE + delta("half") + event({"ends": "in"})[:9], 1),
    ],
    ids=["accept", "request", "status line", "headers", "event", "answer", "later event"],
)
def test_a_server_that_leaves_in_mid_answer_has_cut_the_stream(how, after, chunks):
    with raw_server(_leave(after, how)) as server:
        analyst = Analyst(server.url, "nat-sse")
        record = analyst.ask("q")
        if after == b"at once" and record.outcome is Outcome.REFUSED:
            assert end(record) == UNREACHED, "the reset may come before we know we are connected"
            return
        assert end(record) == CUT
        assert record.chunks == chunks
        assert [loss.during for loss in record.losses] == ["turn"]
        analyst.close()


def test_a_clean_end_of_the_transport_is_no_end_of_the_answer_where_done_is_due(
    shared_mock_agent,
):
    analyst = Analyst(shared_mock_agent().url, "nat-sse", route="/chat/stream")
    record = analyst.ask("steps=0 tokens=9 token_ms=1 eof=3")
    assert end(record) == CUT
    assert record.chunks == 3
    assert record.answer == "w0 w1 w2 "
    analyst.close()


SWITCH = b"HTTP/1.1 101 Switching Protocols\r\n"


def _leave_socket(stage: str, how: str):
    def handle(stream, server):
        if stage == "accept":
            pass
        elif stage == "handshake":
            stream.recv(65_536)
            stream.sendall(SWITCH)
        else:
            peer = Peer(stream, server)
            peer.accept()
            if stage != "open":
                assert peer.receive()["type"] == "auth_message"
            if stage not in ("open", "login"):
                peer.say({"type": "auth_response_message", "status": "success"})
                turn = peer.receive()["id"]
                if stage == "answer":
                    peer.say(peer.answer(turn, "half"))
            if how == "goodbye":
                peer.close(1012)
                with threading.Lock():
                    stream.recv(1)
        threading.Event().wait(0.02)
        if how == "reset":
            reset(stream)

    return handle


@pytest.mark.parametrize("how", ["close", "reset", "goodbye"])
@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("accept", UNREACHED),
        ("handshake", UNREACHED),
        ("open", UNREACHED),
        ("login", UNREACHED),
        ("question", CUT),
        ("answer", CUT),
    ],
)
def test_a_server_that_leaves_a_socket_at_any_stage_is_an_outcome(stage, expected, how):
    if how == "goodbye" and stage in ("accept", "handshake"):
        pytest.skip("there is no goodbye before the handshake")
    with raw_server(_leave_socket(stage, how)) as server:
        analyst = Analyst(server.url, "nat-ws", reconnect=NEVER)
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == expected
    assert record.chunks == int(stage == "answer")
    if expected == CUT:
        code = 1012 if how == "goodbye" else 1006
        assert [(loss.during, loss.code) for loss in record.losses] == [("turn", code)]


def _open_and_close(stream, server):
    Peer(stream).accept(close=1013)
    stream.recv(64)


def test_a_socket_that_opens_and_closes_in_one_write_refuses_the_turn(caplog):
    with raw_server(_open_and_close) as server:
        record = _ask(server.url, "nat-ws")
    assert end(record) == UNREACHED
    assert record.detail == "1013 try again later"
    assert caplog.text == ""


def test_a_fault_in_one_command_does_not_lose_the_commands_behind_it(monkeypatch):
    """The login cannot be sent; behind it waits the end of the turn."""

    def broken(self, command):
        raise RuntimeError("a bug of ours")

    with raw_server(_open_and_close) as server:
        analyst = Analyst(server.url, "nat-ws")
        monkeypatch.setitem(driver._ACTIONS, Send, broken)
        assert end(analyst.ask("q")) == UNREACHED
        assert analyst.conversation.phase is Phase.IDLE


# silence


@pytest.mark.case("D-28")
@BOTH
def test_a_stream_that_stalls_is_given_up_and_the_analyst_goes_on(shared_mock_agent, dialect):
    analyst = Analyst(shared_mock_agent().url, dialect, deadlines=_deadlines(silence_s=0.3))
    record = analyst.ask("steps=0 tokens=9 token_ms=1 stall=3")
    assert end(record) == STALLED
    assert record.chunks == 3
    last, ended = record.timeline.at[Milestone.LAST_ANSWER], record.timeline.at[Milestone.ENDED]
    assert ended - last >= 300_000_000
    assert end(analyst.ask(FAST)) == OK
    assert len(analyst.records[1].connections) == 1
    analyst.close()


@pytest.mark.case("D-33")
@BOTH
def test_a_half_open_connection_is_stalled_and_the_analyst_recovers(mock_agent, dialect):
    agent = mock_agent()
    analyst = Analyst(agent.url, dialect, deadlines=_deadlines(silence_s=0.4, first_event_s=0.4))
    asking = analyst.begin("steps=0 tokens=500 token_ms=10")
    while not (analyst.conversation._turn and analyst.conversation._turn.record.chunks):
        gevent.sleep(0.005)
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        asking.join(5)
        assert end(asking.value) == STALLED
        # The kernel of a stopped server still takes connections: the next turn waits in vain too.
        frozen = Analyst(agent.url, dialect, deadlines=_deadlines(connect_s=0.3, first_event_s=0.3))
        assert frozen.ask("q").outcome in (Outcome.TIMED_OUT, Outcome.REFUSED)
        frozen.close()
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    assert end(analyst.ask(FAST)) == OK
    analyst.close()


@BOTH
def test_a_server_that_takes_connections_and_says_nothing_meets_the_deadlines(dialect):
    with raw_server(lambda stream, server: threading.Event().wait(1)) as server:
        limits = _deadlines(connect_s=0.2, first_event_s=0.2)
        record = _ask(server.url, dialect, deadlines=limits)
    assert end(record) == (STALLED if dialect == "nat-sse" else UNREACHED)


@pytest.mark.parametrize(("bad", "how"), [(True, "reset"), (False, "goodbye")])
def test_a_turn_that_went_wrong_resets_its_connection_and_an_analyst_who_leaves_does_not(bad, how):
    def handle(stream, server):
        read_request(stream, server)
        if not bad:
            stream.sendall(SSE + delta("a") + LAST_CHUNK)
        try:
            seen.append("goodbye" if stream.recv(1) == b"" else "more")
        except ConnectionResetError:
            seen.append("reset")

    seen: list[str] = []
    with raw_server(handle) as server:
        _ask(server.url, "nat-sse", deadlines=_deadlines(first_event_s=0.1))
    assert seen == [how]


# logging in


@pytest.mark.case("D-34")
@pytest.mark.parametrize("how", ["analyst", "server"])
def test_after_a_loss_between_turns_the_server_sees_the_login_before_the_question(mock_agent, how):
    agent = mock_agent("--require-auth")
    analyst = Analyst(agent.url, "nat-ws")
    assert end(analyst.ask(FAST, turn="one")) == OK
    if how == "analyst":
        assert analyst.driver.drop()
    else:
        for stream in (analyst.driver._stream,):
            stream.connection._socket.shutdown(2)
    gevent.sleep(0.05)
    record = analyst.ask(FAST, turn="two")
    analyst.close()

    assert end(record) == OK
    assert [loss.during for loss in record.losses] == ["idle"]
    happened = [line for line in agent.sockets() if line["event"] != "close"]
    assert [(line["event"], line["socket"]) for line in happened] == [
        (what, socket) for socket in (1, 2) for what in ("connect", "auth_message", "user_message")
    ]
    assert all(line["authenticated"] for line in happened if line["event"] == "user_message")
    times = [connection.authenticated_ns for connection in record.connections]
    assert times[0] >= record.connections[0].login_ns


@pytest.mark.case("D-35")
def test_a_rejected_login_is_followed_by_no_question_and_no_retry(mock_agent):
    agent = mock_agent("--reject-auth")
    token = "s3cr3t-token-of-analyst"
    identity = Identity(login={"method": "api_key", "token": token}, secrets=(token,))
    analyst = Analyst(agent.url, "nat-ws", identity=identity)
    record = analyst.ask(FAST)
    gevent.sleep(0.3)
    assert end(record) == (Outcome.REFUSED, Cause.AUTH_REJECTED)
    assert [line["event"] for line in agent.sockets()] == ["connect", "auth_message", "close"]
    assert token not in str(record.to_row())
    analyst.close()


@pytest.mark.parametrize(("dialect", "identity"), [("nat-sse", Identity()), ("nat-ws", Identity())])
def test_a_server_that_wants_to_know_who_asks_refuses_who_does_not_say(
    shared_mock_agent, dialect, identity
):
    record = _ask(shared_mock_agent("--require-auth").url, dialect, identity=identity)
    assert end(record) == (Outcome.REFUSED, Cause.AUTH_REJECTED)


# coming back


@pytest.mark.case("D-36")
@pytest.mark.parametrize("identity", [LOGIN, COOKIE], ids=["auth_message", "cookie"])
def test_a_prompt_comes_again_on_the_new_socket_and_is_answered_once(mock_agent, identity):
    agent = mock_agent()
    habits = Habits(reply_ms=50, drop_ms=150)
    analyst = Analyst(agent.url, "nat-ws", identity=identity, habits=habits)
    record = analyst.ask("steps=1 step_ms=5 tokens=3 token_ms=2 hitl=radio", tag="t")
    analyst.close()

    assert end(record) == OK
    assert record.recovered
    assert record.answer.endswith(answer(3, "tag=t"))
    assert [deliveries for _, deliveries in habits.seen] == [1, 2]
    assert [loss.during for loss in record.losses] == ["prompt"]
    assert [asked.replied for asked in record.prompts] == [False, True]
    happened = agent.sockets()
    second = [line["event"] for line in happened if line["socket"] == 2]
    login = ["auth_message"] if identity is LOGIN else []
    assert second == ["connect", *login, "prompt_again", "reply", "close"]
    assert [line["wanted"] for line in happened if line["event"] == "reply"] == [True]
    resumed = next(line for line in happened if line["socket"] == 2)
    assert resumed["conversation"] == record.conversation


@pytest.mark.case("D-36")
def test_the_connection_is_gone_from_the_moment_the_analyst_loses_it(mock_agent):
    agent = mock_agent()
    slow = Reconnect(policy="fixed", base_s=0.4, attempts=1)
    habits = Habits(drop_ms=100)
    analyst = Analyst(agent.url, "nat-ws", habits=habits, reconnect=slow)
    record = analyst.ask(f"{FAST} hitl=text")
    analyst.close()
    closed = next(line["ns"] for line in agent.sockets() if line["event"] == "close")
    assert end(record) == OK
    assert closed < record.connections[1].begun_ns


@pytest.mark.case("D-36")
def test_another_identity_gets_no_prompt_and_the_turn_is_lost(mock_agent):
    agent = mock_agent()

    def become_another(prompt):
        analyst.conversation.identity = Identity(login={"method": "api_key", "token": "somebody"})

    habits = Habits(drop_ms=100, at_prompt=become_another)
    limits = _deadlines(resume_s=0.3)
    analyst = Analyst(agent.url, "nat-ws", habits=habits, deadlines=limits)
    record = analyst.ask(f"{FAST} hitl=text")
    assert end(record) == LOST
    assert len(habits.seen) == 1
    assert "prompt_again" not in [line["event"] for line in agent.sockets()]
    assert record.losses[0].recovered_ns is None
    analyst.close()


def test_an_answer_that_was_said_before_the_loss_is_not_missed_after_it(mock_agent):
    def handle(stream, server):
        peer = Peer(stream, server)
        peer.accept()
        peer.receive()
        peer.say({"type": "auth_response_message", "status": "success"})
        if len(server.requests) == 1:
            turn = peer.receive()["id"]
            server.requests.append(turn.encode())
            peer.say(peer.answer(turn, "all of it"))
            threading.Event().wait(0.02)
            return
        turn = server.requests[1].decode()
        peer.say(peer.answer(turn, None, "complete"))
        peer.receive()

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-ws")
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    assert record.answer == "all of it"
    assert record.recovered
    assert server.requests[2].startswith(b"/websocket?conversation_id=")


def test_a_server_that_refuses_every_return_loses_the_turn_after_the_attempts(mock_agent):
    def handle(stream, server):
        if server.taken > 1:
            return
        peer = Peer(stream, server)
        peer.accept()
        peer.receive()
        peer.say({"type": "auth_response_message", "status": "success"})
        peer.receive()

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-ws")
        record = analyst.ask("q")
        analyst.close()
        assert server.taken == 1 + SOON.attempts
    assert end(record) == LOST
    assert len(record.losses) == 1
    assert clocks(record)["wall"] >= 1000 * SOON.base_s * SOON.attempts


# replies that do not arrive


def _replies(respond):
    def handle(stream, server):
        if read_request(stream, server).startswith(b"POST /exec"):
            respond(stream)
            return
        stream.sendall(SSE + prompt())
        stream.recv(1)

    return handle


@pytest.mark.parametrize(
    ("name", "respond", "cause", "detail"),
    [
        ("cut", lambda stream: None, Cause.STREAM_CUT, "reply not delivered: "),
        ("reset", reset, Cause.STREAM_CUT, "reply not delivered: "),
        (
            "no http",
            lambda stream: stream.sendall(b"?!\r\n"),
            Cause.STREAM_CUT,
            "reply not delivered: ",
        ),
    ],
)
def test_a_reply_whose_connection_breaks_ends_the_turn(name, respond, cause, detail):
    with raw_server(_replies(respond)) as server:
        record = _ask(server.url, "nat-sse")
    assert end(record) == (Outcome.FAILED, cause)
    assert record.detail.startswith(detail)


@pytest.mark.parametrize(
    ("ending", "outcome", "cause"),
    [
        (LAST_CHUNK, Outcome.COMPLETED, None),
        (b"", Outcome.FAILED, Cause.AGENT_ERROR),
    ],
)
def test_a_reply_that_is_refused_explains_a_turn_that_breaks_off(ending, outcome, cause):
    def handle(stream, server):
        if read_request(stream, server).startswith(b"POST /exec"):
            body = b'{"detail":"gone"}'
            head = b"HTTP/1.1 404 Not Found\r\ncontent-length: %d\r\n\r\n" % len(body)
            stream.sendall(head + body)
            refused.release()
            stream.recv(1)
            return
        stream.sendall(SSE + prompt())
        refused.acquire()
        threading.Event().wait(0.05)
        stream.sendall(delta("never mind") + ending)

    refused = threading.Semaphore(0)
    with raw_server(handle) as server:
        record = _ask(server.url, "nat-sse")
    assert end(record) == (outcome, cause)
    assert record.prompts[0].reply_status == 404
    assert ("reply got HTTP 404" in record.detail) is (cause is not None)


def test_the_answer_to_a_reply_of_the_turn_before_does_not_end_the_next():
    def handle(stream, server):
        request = read_request(stream, server)
        if request.startswith(b"POST /exec"):
            replied.release()
            asked_again.acquire()
            return
        if b'"second"' not in request:
            stream.sendall(SSE + prompt())
            replied.acquire()
            stream.sendall(delta("done") + LAST_CHUNK)
            request = read_request(stream, server)
        stream.sendall(SSE)
        asked_again.release()
        threading.Event().wait(0.1)
        stream.sendall(delta("done") + LAST_CHUNK)

    replied, asked_again = threading.Semaphore(0), threading.Semaphore(0)
    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        first, second = analyst.ask("first"), analyst.ask("second")
        analyst.close()
    assert (end(first), end(second)) == (OK, OK)
    assert first.prompts[0].reply_status is None


@pytest.mark.parametrize("blocked", [False, True], ids=["noticed", "unnoticed"])
def test_a_reply_connection_that_expired_is_replaced_once(blocked, monkeypatch):
    post = Poster.post

    def post_when_it_has_expired(self, request):
        # The hub stands still, so the server's FIN is read after the reply is out.
        threading.Event().wait(0.1)
        post(self, request)

    if blocked:
        monkeypatch.setattr(Poster, "post", post_when_it_has_expired)

    def handle(stream, server):
        if read_request(stream, server).startswith(b"POST /exec"):
            stream.sendall(NO_CONTENT)
            replied.release()
            threading.Event().wait(0.05 if blocked else 0)
            return
        stream.sendall(SSE)
        for key in ("p1", "p2"):
            stream.sendall(prompt(key))
            replied.acquire()
            threading.Event().wait(0 if blocked else 0.05)
        threading.Event().wait(0.05)
        stream.sendall(delta("done") + LAST_CHUNK)

    replied = threading.Semaphore(0)
    with raw_server(handle) as server:
        record = _ask(server.url, "nat-sse")
    assert end(record) == OK
    assert [asked.reply_status for asked in record.prompts] == [204, 204]


# malicious words


@pytest.mark.parametrize(
    "words",
    [
        [{"type": "auth_response_message", "status": "success"}] * 3,
        [{"type": "system_response_message", "status": "complete", "content": {"text": None}}] * 2,
        [{"code": "user_auth_error", "message": "x"}],
        [[1, 2], "text", None, {"type": 7}],
    ],
    ids=["logins", "ends", "errors", "nonsense"],
)
@pytest.mark.parametrize("when", ["at once", "after the end"])
def test_what_a_server_says_unasked_breaks_nothing(words, when):
    def handle(stream, server):
        peer = Peer(stream, server)
        peer.accept()
        if when == "at once":
            peer.say(*words)
        while True:
            message = peer.receive()
            if message["type"] == "auth_message":
                peer.say({"type": "auth_response_message", "status": "success"})
            else:
                peer.complete(message["id"])
                if when == "after the end":
                    peer.say(*words)

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-ws")
        records = []
        for _ in range(3):
            records.append(analyst.ask("q"))
            gevent.sleep(0.03)
        analyst.close()
    if when == "after the end" or words[0] != {"code": "user_auth_error", "message": "x"}:
        assert [end(record) for record in records] == [OK] * 3
    else:
        assert [end(record) for record in records] == [(Outcome.REFUSED, Cause.AUTH_REJECTED)] * 3


def test_frames_in_the_same_read_as_the_end_and_a_goodbye_are_an_idle_loss():
    def handle(stream, server):
        peer = Peer(stream, server)
        peer.accept()
        peer.receive()
        peer.say({"type": "auth_response_message", "status": "success"})
        turn = peer.receive()["id"]
        peer._protocol.send_text(
            b'{"type":"system_response_message","status":"in_progress","content":{"text":"a"}}'
        )
        peer._protocol.send_text(
            b'{"type":"system_response_message","status":"complete","content":{"text":null}}'
        )
        server.requests.append(turn.encode())
        peer.close(1001)
        stream.recv(64)

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-ws")
        first = analyst.ask("q")
        second = analyst.ask("q")
        analyst.close()
    assert (end(first), end(second)) == (OK, OK)
    assert [(loss.during, loss.code) for loss in second.losses] == [("idle", 1001)]


def test_a_frame_that_breaks_the_protocol_ends_the_turn_and_not_the_analyst():
    def handle(stream, server):
        peer = Peer(stream, server)
        peer.accept()
        peer.receive()
        peer.say({"type": "auth_response_message", "status": "success"})
        peer.receive()
        peer.raw(b"\xff" * 20)
        stream.recv(64)

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-ws")
        records = [analyst.ask("q") for _ in range(2)]
        analyst.close()
    assert [end(record) for record in records] == [
        (Outcome.INCOMPLETE, Cause.PROTOCOL_VIOLATION)
    ] * 2


def test_an_endless_head_is_given_up_without_a_leak():
    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            stream.sendall(b"x-more: " + b"y" * 1000 + b"\r\n")

    before = descriptors()
    with raw_server(handle) as server:
        record = _ask(server.url, "nat-sse")
    assert end(record) == NO_HTTP
    assert descriptors() == before


def test_events_after_done_on_the_same_connection_are_late_and_close_it():
    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE + delta("a") + chunk(b"data: [DONE]\n\n") + delta("b"))
        threading.Event().wait(0.05)
        stream.sendall(LAST_CHUNK)
        stream.recv(1)

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse", route="/chat/stream")
        first = analyst.ask("q")
        second = analyst.ask("q")
        analyst.close()
    assert (end(first), end(second)) == (OK, OK)
    assert first.answer == "a"
    assert len(second.connections) == 1
