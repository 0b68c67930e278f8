"""The shorter way of nearly all reads: where it is taken it says what the long way would say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talk import HTTP, SOCKET, Habits, Talk
from websockets.server import ServerProtocol

from loadgen.dialects.contract import Identity, Opening
from loadgen.dialects.nat_sse import NatSse
from loadgen.dialects.nat_ws import NatWs
from loadgen.events import Answer
from loadgen.openturn import OpenTurn
from loadgen.wire.frame import Frame, Request
from loadgen.wire.http1 import HttpLink
from loadgen.wire.websocket import SocketLink

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TURN = "t1"


def chunked(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream(*parts):
    """A link in mid-answer, after ``parts``."""
    link = HttpLink("h")
    link.send(Request("POST", "/", {}, b""))
    for data in (HEAD, *map(chunked, (b"data: {}\n\n", *parts))):
        link.receive_data(data)
    return link


def socket():
    """An open socket and the server's side of it."""
    link = SocketLink("ws://h/", NatWs().upgrade(Opening(Identity(), "c")))
    server = ServerProtocol()
    server.receive_data(link.data_to_send())
    (request,) = server.events_received()
    server.send_response(server.accept(request))
    link.receive_data(b"".join(server.data_to_send()))
    return link, server


# the wire

EVENTS = [
    b'data: {"a":1}\n\n',
    b"data: [DONE]\n\n",
    b"data:x\n\n",
    b"data: \n\n",
    b"data: a\ndata: b\n\n",
    b"data: a\r\n\r\n",
    b"data: a\r\n\n",
    b"data: a\n",
    b"event: x\ndata: a\n\n",
    b"intermediate_data: {}\n\n",
    b": ping\n\n",
    b"data: a\n\ndata: b\n\n",
    "data: \u00fc\u2028\n\n".encode(),
    b"data: \xff\n\n",
    b"",
]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("before", [b"", b"data: half", b"id: 7\n", b"event: x\n"])
def test_a_lone_event_in_a_chunk_is_its_value_and_nothing_else_is(event, before):
    data = chunked(event) if event else b"0\r\n\r\n"
    stream().receive_data(data)  # its size has been seen before
    link = stream(*filter(None, [before]))
    found = link.usual(data)
    frames = link.receive_data(data)
    if found is not None:
        assert frames == [Frame("message", found.decode("utf-8", "replace"))]
    else:
        assert event[:6] != b"data: " or before or event.count(b"\n") != 2 or b"\r" in event


@pytest.mark.parametrize("cut", range(1, 20))
def test_no_part_of_a_chunk_is_a_message(cut):
    data = chunked(b'data: {"a":1}\n\n')
    link = stream(b'data: {"a":1}\n\n')
    assert link.usual(data) == b'{"a":1}'
    assert link.usual(data[:cut]) is None
    frames = link.receive_data(data[:cut])
    assert link.usual(data[cut:]) is None
    assert frames + link.receive_data(data[cut:]) == [Frame("message", '{"a":1}')]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 65535, 65536])
def test_a_whole_text_message_is_its_payload(size):
    link, server = socket()
    server.send_text(b"x" * size)
    data = b"".join(server.data_to_send())
    found = link.usual(data)
    assert found == (b"x" * size if 1 < size < 65536 else None)
    assert link.receive_data(data) == [Frame("text", "x" * size)]


def test_other_frames_and_parts_of_frames_are_no_message():
    link, server = socket()
    for send in (
        lambda: server.send_binary(b"abc"),
        lambda: server.send_ping(b"abc"),
        lambda: server.send_text(b"abc", fin=False),
        lambda: server.send_continuation(b"abc", fin=True),
    ):
        send()
        data = b"".join(server.data_to_send())
        assert link.usual(data) is None
        link.receive_data(data)
    server.send_text(b"abc")
    data = b"".join(server.data_to_send())
    assert link.usual(data) == b"abc"
    assert link.usual(data + data) is None
    assert link.usual(data[:-1]) is None
    link.receive_data(data[:-1])
    assert link.usual(data[-1:]) is None
    link.close()


# the dialects

scalars = st.sampled_from([None, True, False, 0, 3, "", "a", "\u00fc"])


def maybe(**members):
    return st.fixed_dictionaries({}, optional=members)


deltas = maybe(
    content=scalars, role=scalars, tool_calls=st.sampled_from([None, [], [{"function": {}}]]),
    reasoning=scalars, reasoning_content=scalars,
)  # fmt: skip
choices = maybe(delta=st.one_of(deltas, scalars), finish_reason=scalars)
chunks = st.one_of(
    maybe(
        choices=st.one_of(st.lists(choices, max_size=2), scalars), error=scalars, value=scalars,
        usage=scalars, code=scalars, message=scalars, id=scalars,
    ),
    scalars,
)  # fmt: skip
KINDS = ["system_response_message", "error_message", "system_intermediate_message", None, 3]
responses = st.one_of(
    maybe(
        type=st.sampled_from(KINDS), parent_id=st.sampled_from([TURN, "t2", "", None, "default"]),
        status=st.sampled_from(["in_progress", "complete", "completed", "failed", None, 1]),
        content=st.one_of(maybe(text=scalars), scalars), id=scalars,
    ),
    scalars,
)  # fmt: skip


def twins(dialect):
    decoders = dialect.decoder(), dialect.decoder()
    for decoder in decoders:
        decoder.begin(TURN)
    return decoders


@settings(max_examples=1500, deadline=None)
@given(st.lists(chunks, max_size=4))
def test_an_event_stream_means_the_same_both_ways(told):
    short, long = twins(NatSse())
    for chunk in told:
        text = json.dumps(chunk)
        _compare(short, long, text, Frame("message", text))


@settings(max_examples=1500, deadline=None)
@given(st.lists(responses, max_size=4))
def test_a_socket_means_the_same_both_ways(told):
    short, long = twins(NatWs())
    for message in told:
        text = json.dumps(message)
        _compare(short, long, text, Frame("text", text))


def _compare(short, long, text, frame):
    events = long(frame)
    found = short.usual(text.encode())
    assert ((Answer(found),) if found is not None else short(frame)) == events


BROKEN = [b"{", b"\xff", b'{"choices":[{"delta":{"content":"\xff"}}]}', b""]


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("dialect", [NatSse, NatWs])
def test_what_is_no_json_goes_the_long_way(dialect, broken):
    short, _ = twins(dialect())
    assert short.usual(broken) is None


def test_the_usual_answer_does_go_the_shorter_way():
    sse, _ = twins(NatSse())
    ws, _ = twins(NatWs())
    assert sse.usual(b'{"choices":[{"delta":{"content":"a","role":"assistant"}}],"id":"1"}') == "a"
    assert (
        ws.usual(
            b'{"type":"system_response_message","id":"1","parent_id":"t1","content":{"text":"a"},'
            b'"status":"in_progress"}'
        )
        == "a"
    )


# the brain


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("times", [[300], [300, 450, 400], [50, 60]])
def test_a_turn_keeps_the_same_books_both_ways(times, kernel):
    books = []
    for usual in (True, False):
        talk = Talk(HTTP)
        talk.ask_at_hand(0)
        talk.hear(40, Answer("first"))
        turn = talk.conversation._turn
        for at in times:
            at_ns = 10**12 + at * 10**6
            if usual:
                turn.usual_chunk("more", at_ns, 7, kernel)
            else:
                turn.read(at_ns, 7, kernel)
                turn.hear(at_ns)
                turn.chunk("more", at_ns)
                turn.burst(1)
        kept = {
            name: getattr(turn, name) for name in OpenTurn.__slots__ if name not in ("_at", "ask")
        }
        record = kept.pop("record")
        books.append((kept, record, record.timeline.at))
        record.timeline = None
    assert books[0] == books[1]


def test_the_shorter_way_is_closed_where_a_read_means_more():
    class Usual:
        def usual(self, message):
            return "text"

    for told in ("idle", "waiting", "paused", "early", "lost"):
        talk = Talk(SOCKET, habits=Habits(reply_ms=50))
        conversation = talk.conversation
        at_ns = 10**12 + 10**9
        if told != "idle":
            talk.ask_at_hand(0)
        if told in ("paused", "early"):
            talk.hear(10, Answer("a"))
        if told == "paused":
            from talk import TEXT

            talk.hear(20, TEXT)
            talk.until(100)
        if told == "lost":
            talk.hear(10, Answer("a"))
            talk.lose(20)
        if told == "early":
            at_ns = 10**12 - 1
        conversation._decoder = Usual()
        assert not conversation.receive_usual(b"", at_ns, 1, True), told
