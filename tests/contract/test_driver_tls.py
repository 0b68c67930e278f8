"""TLS over memory: who is trusted, what a mistake looks like, and that stamps survive it."""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import replace

import gevent
import pytest
import trustme
from analyst import QUICK, Analyst, by_kernel, descriptors, end, watchers
from raw_server import LAST_CHUNK, SSE, Peer, chunk, delta, raw_server, read_request

from loadgen.clock import now_ns
from loadgen.errors import ConfigError
from loadgen.net.endpoint import resolve
from loadgen.net.tls import client_context
from loadgen.turn import Cause, Milestone, Outcome

BOTH = pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
OK = (Outcome.COMPLETED, None)
UNREACHED = (Outcome.REFUSED, Cause.CONNECT_FAILED)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def server_side(authority):
    """The context of a server that calls itself 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def ca_file(authority, tmp_path_factory):
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def _sse(stream, server):
    while True:
        read_request(stream, server)
        stream.sendall(SSE + delta("one "))
        threading.Event().wait(0.05)
        stream.sendall(delta("two") + LAST_CHUNK)


def _socket(stream, server):
    peer = Peer(stream, server)
    peer.accept()
    while True:
        message = peer.receive()
        if message["type"] == "auth_message":
            peer.say({"type": "auth_response_message", "status": "success"})
        else:
            turn = message["id"]
            peer.say(peer.answer(turn, "one "))
            threading.Event().wait(0.05)
            peer.say(peer.answer(turn, "two"), peer.answer(turn, None, "complete"))


HANDLERS = {"nat-sse": _sse, "nat-ws": _socket}


@BOTH
def test_a_trusted_server_answers_with_kernel_stamps_on_a_connection_that_is_kept(
    dialect, server_side, ca_file
):
    before = watchers(), descriptors()
    with raw_server(HANDLERS[dialect], tls=server_side) as server:
        analyst = Analyst(server.url, dialect, tls=client_context(ca_file=ca_file))
        records = [analyst.ask("q") for _ in range(2)]
        analyst.close()
    assert [end(record) for record in records] == [OK] * 2
    assert [record.answer for record in records] == ["one two"] * 2
    assert all(map(by_kernel, records))
    assert [len(record.connections) for record in records] == [1, 0]
    at = records[0].timeline.at
    assert at[Milestone.LAST_ANSWER] - at[Milestone.FIRST_ANSWER] >= 45_000_000
    assert watchers() <= before[0] + 1  # the resolver's thread pool
    assert descriptors() <= before[1] + 2


def test_stamps_survive_a_hub_that_lags(server_side, ca_file):
    """The answer arrives while the hub stands still: its stamp is of the arrival."""

    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE)
        stream.sendall(delta("one "))
        wrote.append(now_ns())
        threading.Event().wait(0.4)
        stream.sendall(LAST_CHUNK)

    wrote: list[int] = []
    with raw_server(handle, tls=server_side) as server:
        analyst = Analyst(server.url, "nat-sse", tls=client_context(ca_file=ca_file))
        conversation = analyst.conversation
        flushed = conversation.flushed

        def flushed_then_stand_still(at_ns):
            flushed(at_ns)
            threading.Event().wait(0.2)

        conversation.flushed = flushed_then_stand_still
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == OK
    assert by_kernel(record)
    assert record.timeline.at[Milestone.FIRST_ANSWER] <= wrote[0]


@BOTH
def test_a_server_that_nobody_vouches_for_is_refused_in_one_line(dialect, server_side):
    with raw_server(HANDLERS[dialect], tls=server_side) as server:
        analyst = Analyst(server.url, dialect, tls=client_context())
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == UNREACHED
    assert record.detail.startswith(f"{server.url}: certificate not trusted (")
    assert record.detail.endswith("); give ca_file, or --insecure to accept any")
    assert "\n" not in record.detail
    assert server.requests == []


@BOTH
def test_without_verification_it_is_accepted(dialect, server_side):
    with raw_server(HANDLERS[dialect], tls=server_side) as server:
        analyst = Analyst(server.url, dialect, tls=client_context(verify=False))
        assert end(analyst.ask("q")) == OK
        analyst.close()


def test_a_certificate_of_another_name_is_refused(authority, ca_file):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("elsewhere.example").configure_cert(context)
    with raw_server(_sse, tls=context) as server:
        analyst = Analyst(server.url, "nat-sse", tls=client_context(ca_file=ca_file))
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == UNREACHED
    assert "certificate not trusted (IP address mismatch" in record.detail


@BOTH
def test_tls_to_a_plain_port_asks_whether_it_is_http(dialect, shared_mock_agent):
    url = shared_mock_agent().url.replace("http:", "https:")
    analyst = Analyst(url, dialect, tls=client_context())
    record = analyst.ask("q")
    analyst.close()
    assert end(record) == UNREACHED
    assert record.detail.startswith(f"{url}: TLS failed (")
    assert record.detail.endswith("does this port speak TLS, or is it http://?")


@BOTH
def test_plain_http_to_a_tls_port_ends_in_one_line(dialect, server_side):
    """OpenSSL leaves without a word: there is no more to tell than that it did."""
    with raw_server(HANDLERS[dialect], tls=server_side, scheme="http") as server:
        analyst = Analyst(server.url, dialect)
        record = analyst.ask("q")
        analyst.close()
    assert record.cause in (Cause.STREAM_CUT, Cause.CONNECT_FAILED, Cause.PROTOCOL_VIOLATION)
    assert record.detail
    assert "\n" not in record.detail


def test_a_tls_alert_in_answer_to_plain_http_is_named_as_that():
    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(b"\x15\x03\x01\x00\x02\x02\x46")

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-sse")
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == (Outcome.FAILED, Cause.PROTOCOL_VIOLATION)
    assert record.detail.startswith("TLS, not HTTP")


def test_a_server_that_is_not_trusted_is_not_tried_at_its_other_addresses(server_side):
    with raw_server(_sse, tls=server_side) as server:
        found = resolve(server.url, client_context())
        endpoint = replace(found, addresses=found.addresses * 3)
        analyst = Analyst(server.url, "nat-sse", endpoint=endpoint)
        assert end(analyst.ask("q")) == UNREACHED
        analyst.close()
        gevent.sleep(0.1)
        assert server.taken == 1


@pytest.mark.parametrize("leave", ["at once", "in the handshake"])
def test_a_server_that_leaves_in_the_handshake_is_not_reached(leave):
    def handle(stream, server):
        if leave == "in the handshake":
            stream.recv(65_536)

    with raw_server(handle, scheme="https") as server:
        analyst = Analyst(server.url, "nat-sse", tls=client_context())
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == UNREACHED
    assert "\n" not in record.detail
    assert record.detail.startswith(server.url)


def test_a_handshake_that_hangs_meets_the_connect_deadline():
    with raw_server(lambda stream, server: stream.recv(9) and stream.recv(1 << 16) and
                    threading.Event().wait(1), scheme="https") as server:  # fmt: skip
        limits = QUICK.model_copy(update={"connect_s": 0.2})
        analyst = Analyst(server.url, "nat-sse", tls=client_context(), deadlines=limits)
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == UNREACHED
    assert record.detail == "no connection within connect_s = 0.2 s"


def test_a_stream_cut_under_tls_is_cut(server_side, ca_file):
    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE + delta("half"))
        if len(server.requests) > 1:
            stream.unwrap()

    for _ in ("torn", "with close_notify"):
        with raw_server(handle, tls=server_side) as server:
            analyst = Analyst(server.url, "nat-sse", tls=client_context(ca_file=ca_file))
            record = analyst.ask("q")
            analyst.close()
        assert end(record) == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
        assert record.chunks == 1


def test_what_came_before_a_broken_record_is_kept(server_side, ca_file):
    def handle(stream, server):
        read_request(stream, server)
        stream.sendall(SSE + delta("whole"))
        with socket.socket(fileno=stream.detach()) as bare:
            bare.sendall(b"\x17\x03\x03\x00\x20" + b"?" * 32)
            bare.recv(64)

    with raw_server(handle, tls=server_side) as server:
        analyst = Analyst(server.url, "nat-sse", tls=client_context(ca_file=ca_file))
        record = analyst.ask("q")
        analyst.close()
    assert end(record) == (Outcome.INCOMPLETE, Cause.STREAM_CUT)
    assert record.answer == "whole"


def test_a_big_question_and_a_big_frame_go_through_tls(server_side, ca_file):
    def handle(stream, server):
        threading.Event().wait(0.1)
        read_request(stream, server)
        filler = b"intermediate_data: " + b"z" * 1_500_000 + b"\n\n"
        stream.sendall(SSE + chunk(filler) + delta("done") + LAST_CHUNK)

    text = "x" * 4_000_000
    with raw_server(handle, tls=server_side) as server:
        analyst = Analyst(server.url, "nat-sse", tls=client_context(ca_file=ca_file))
        record = analyst.ask(text)
        analyst.close()
    assert end(record) == OK
    assert text.encode() in server.requests[0]
    assert record.bytes > 1_500_000


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_ca_file_that_cannot_be_used_is_one_line(tmp_path, content):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"^target\.ca_file: cannot use .*ca\.pem: ") as caught:
        client_context(ca_file=str(path))
    assert "\n" not in str(caught.value)
