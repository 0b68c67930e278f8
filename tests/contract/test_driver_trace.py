"""With traces, what a turn asks of the target says which trace it belongs to; without, nothing."""

from __future__ import annotations

import re
import socket

import pytest
from analyst import Analyst
from raw_server import (
    LAST_CHUNK,
    SSE,
    Peer,
    RawServer,
    delta,
    event,
    prompt,
    raw_server,
    read_request,
)

from loadgen.trace import span_id, trace_id, traceparent

TURN = "0123456789abcdef8123456789abcdef"


def said(request: bytes) -> list[str]:
    """The traceparent headers of ``request``."""
    head = request.partition(b"\r\n\r\n")[0].decode("latin-1")
    return re.findall(r"(?im)^traceparent: (.*?)\r?$", head)


def asks_something(stream: socket.socket, server: RawServer) -> None:
    """One connection: a question with a prompt, or the reply to it."""
    request = read_request(stream, server)
    if b"/interactions/" in request:
        stream.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        return
    stream.sendall(SSE + prompt())
    while len(server.requests) < 2:
        pass
    stream.sendall(delta("done") + event("[DONE]").replace(b'"[DONE]"', b"[DONE]") + LAST_CHUNK)


def test_the_header_is_that_of_the_trace_context_and_made_of_the_turns_id() -> None:
    assert traceparent(TURN) == f"00-{TURN}-8123456789abcdef-01"
    assert (trace_id(TURN), span_id(TURN)) == (int(TURN, 16), 0x8123456789ABCDEF)
    small = "0" * 31 + "1"
    assert traceparent(small) == f"00-{small}-0000000000000001-01"


@pytest.mark.parametrize("traced", [True, False])
def test_question_and_reply_over_http_join_the_trace(traced: bool) -> None:
    with raw_server(asks_something) as server:
        analyst = Analyst(server.url, "nat-sse", traced=traced)
        analyst.ask("what is new?", turn=TURN)
        analyst.close()
        assert len(server.requests) == 2
        wanted = [traceparent(TURN)] if traced else []
        assert [said(request) for request in server.requests] == [wanted, wanted]


@pytest.mark.parametrize("traced", [True, False])
def test_a_socket_is_opened_as_part_of_the_turn_that_opens_it(traced: bool) -> None:
    heads: list[bytes] = []

    def handle(stream: socket.socket, server: RawServer) -> None:
        heads.append(stream.recv(65_536, socket.MSG_PEEK))
        peer = Peer(stream)
        peer.accept()
        peer.receive()
        peer.say({"type": "auth_response_message", "status": "success"})
        for _ in range(2):
            peer.complete(peer.receive()["id"])

    with raw_server(handle) as server:
        analyst = Analyst(server.url, "nat-ws", traced=traced)
        for turn in (TURN, TURN[::-1]):
            analyst.ask("what is new?", turn=turn)
        analyst.close()
        assert [said(head) for head in heads] == [[traceparent(TURN)] if traced else []]
