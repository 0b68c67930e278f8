"""The WebSocket link against websockets' own server protocol, in memory."""

from __future__ import annotations

import gc
import logging
import random
import tracemalloc
from itertools import pairwise

import pytest
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import CONT, TEXT, Close, Opcode
from websockets.frames import Frame as WireFrame
from websockets.server import ServerProtocol

from loadgen.errors import GeneratorError
from loadgen.wire import frame as wire
from loadgen.wire.frame import Frame, Garbage, Open, Refused, Request
from loadgen.wire.request import USER_AGENT
from loadgen.wire.websocket import MAX_REFUSAL, SocketLink

URI = "ws://agent:8000/websocket"
UPGRADE = Request("GET", "/websocket?conversation_id=c1", {"Cookie": "nat-session=ann"})
SEPARATED = '{"t":"a\u2028b\u2029c\u0085d\\u000ce"}'


class Peer:
    """A server in memory; ``link`` is our end of the same connection."""

    def __init__(self, *, deflate: bool = False, compression: bool = False, max_size: int = 1000):
        factories = [ServerPerMessageDeflateFactory()] if deflate else None
        self.protocol = ServerProtocol(extensions=factories)
        self.link = SocketLink(URI, UPGRADE, compression=compression, max_size=max_size)
        self.protocol.receive_data(self.link.data_to_send())
        (self.request,) = self.protocol.events_received()
        self.protocol.send_response(self.protocol.accept(self.request))
        self.handshake = self.written()

    def written(self) -> bytes:
        return b"".join(self.protocol.data_to_send())

    def raw(self, opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
        return WireFrame(opcode, data, fin).serialize(mask=False)

    def seen(self) -> list[WireFrame]:
        """What our end has sent since."""
        self.protocol.receive_data(self.link.data_to_send())
        return self.protocol.events_received()


def opened(**options: bool | int) -> Peer:
    peer = Peer(**options)  # type: ignore[arg-type]
    assert peer.link.receive_data(peer.handshake) == [Open()]
    return peer


def cuts_of(stream: bytes) -> list[list[bytes]]:
    """Byte by byte, in two at every byte, and in random pieces."""
    pieces = [[stream[at : at + 1] for at in range(len(stream))]]
    pieces += [[stream[:at], stream[at:]] for at in range(1, len(stream))]
    chance = random.Random(len(stream))
    for _ in range(20):
        places = sorted(chance.sample(range(1, len(stream)), 4))
        pieces.append([stream[a:b] for a, b in pairwise([0, *places, len(stream)])])
    return pieces


def texts(*messages: str) -> list[Frame]:
    return [Frame("text", message) for message in messages]


def test_the_handshake_carries_the_path_the_headers_and_our_name() -> None:
    request = Peer().request
    assert request.path == "/websocket?conversation_id=c1"
    assert request.headers["Host"] == "agent:8000"
    assert request.headers["Cookie"] == "nat-session=ann"
    assert request.headers["User-Agent"] == USER_AGENT
    assert "Sec-WebSocket-Extensions" not in request.headers


def test_a_header_of_the_request_replaces_the_one_of_the_handshake() -> None:
    link = SocketLink(URI, Request("GET", "/", {"HOST": "other", "User-Agent": "x"}))
    lines = link.data_to_send().lower().split(b"\r\n")
    replaced = sorted(line for line in lines if line.startswith((b"host", b"user-agent")))
    assert replaced == [b"host: other", b"user-agent: x"]


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "/a b"),
        Request("GET", "/\r\nx: 1"),
        Request("GET", "/", {"x": "a\r\nb: c"}),
        Request("GET", "/", {"x\n": "a"}),
        Request("GET", "/", {"x": "\u20ac"}),
    ],
)
def test_a_request_that_would_be_read_as_something_else_is_refused(request_: Request) -> None:
    with pytest.raises(ValueError, match=r"path|header"):
        SocketLink(URI, request_)


def test_a_socket_is_open_after_the_handshake_and_not_before() -> None:
    peer = Peer()
    assert not peer.link.reusable
    with pytest.raises(GeneratorError):
        peer.link.send("early")
    assert peer.link.receive_data(peer.handshake) == [Open()]
    assert peer.link.reusable
    peer.link.send("h\u00e9llo")
    (frame,) = peer.seen()
    assert (frame.opcode, bytes(frame.data)) == (TEXT, "h\u00e9llo".encode())


@pytest.mark.case("D-13")
def test_a_message_is_given_by_the_read_that_ends_it() -> None:
    peer = opened()
    first, second = peer.raw(TEXT, b"one"), peer.raw(TEXT, b"two")
    assert peer.link.receive_data(first + second[:-1]) == texts("one")
    assert peer.link.receive_data(second[-1:]) == texts("two")


@pytest.mark.case("D-14")
def test_unicode_line_separators_stay_inside_their_message() -> None:
    peer = opened()
    assert peer.link.receive_data(peer.raw(TEXT, SEPARATED.encode())) == texts(SEPARATED)


@pytest.mark.case("D-15")
@pytest.mark.parametrize("deflate", [False, True])
def test_no_cut_of_the_bytes_changes_what_is_read(deflate: bool) -> None:
    cut, cuts = 0, 1
    while cut < cuts:
        peer = Peer(deflate=deflate, compression=deflate)
        stream = peer.handshake + conversation(peer)
        pieces = [[stream], *cuts_of(stream)]
        # the key of the handshake differs from socket to socket, its length does not
        frames = [frame for data in pieces[cut] for frame in peer.link.receive_data(data)]
        assert [*frames, *peer.link.receive_eof()] == [
            Open(),
            Frame("text", SEPARATED),
            Frame("text", "caf\u00e9 \U0001f600"),
            Frame("binary", "\xff\x00"),
            Frame("text", ""),
            wire.Close(1000, "bye"),
        ]
        assert peer.link.comments == 2
        cut, cuts = cut + 1, len(pieces)


def conversation(peer: Peer) -> bytes:
    """Every kind of frame, a character cut by fragments, a ping between fragments."""
    protocol, smile = peer.protocol, "caf\u00e9 \U0001f600".encode()
    protocol.send_text(SEPARATED.encode())
    protocol.send_ping(b"x")
    protocol.send_text(smile[:7], fin=False)
    protocol.send_ping(b"between")
    protocol.send_continuation(smile[7:], fin=True)
    protocol.send_binary(b"\xff\x00")
    protocol.send_text(b"")
    protocol.send_close(1000, "bye")
    return peer.written()


@pytest.mark.case("D-17")
def test_many_messages_in_a_read_and_a_message_over_many_reads() -> None:
    peer = opened()
    burst = b"".join(peer.raw(TEXT, b"%d" % number) for number in range(5))
    assert peer.link.receive_data(burst) == texts("0", "1", "2", "3", "4")
    pieces = [burst[at : at + 1] for at in range(len(burst))]
    assert [frame for data in pieces for frame in peer.link.receive_data(data)] == texts(*"01234")


def test_fragments_are_one_message_also_where_they_cut_a_character() -> None:
    peer = opened()
    word = "caf\u00e9".encode()
    assert peer.link.receive_data(peer.raw(TEXT, word[:4], fin=False)) == []
    assert peer.link.receive_data(peer.raw(Opcode.PING, b"")) == []
    assert peer.link.receive_data(peer.raw(CONT, b"", fin=False)) == []
    assert peer.link.receive_data(peer.raw(CONT, word[4:])) == texts("caf\u00e9")
    assert peer.link.receive_data(peer.raw(TEXT, b"next")) == texts("next")


def test_binary_messages_are_given_byte_for_byte() -> None:
    peer = opened()
    data = bytes(range(256))
    frames = peer.link.receive_data(
        peer.raw(Opcode.BINARY, data[:100], fin=False) + peer.raw(CONT, data[100:])
    )
    assert frames == [Frame("binary", data.decode("latin-1"))]


def test_pings_are_answered_and_counted() -> None:
    peer = opened()
    assert peer.link.receive_data(peer.raw(Opcode.PING, b"42")) == []
    (pong,) = peer.seen()
    assert (pong.opcode, bytes(pong.data)) == (Opcode.PONG, b"42")
    assert peer.link.receive_data(peer.raw(Opcode.PONG, b"")) == []
    assert (peer.link.comments, peer.link.pongs) == (1, 1)


@pytest.mark.parametrize(
    ("payload", "close"),
    [
        (Close(1000, "").serialize(), wire.Close(1000, "")),
        (Close(1008, "Identity credential was rejected").serialize(),
         wire.Close(1008, "Identity credential was rejected")),
        (Close(1012, "restart").serialize(), wire.Close(1012, "restart")),
        (Close(4321, "own").serialize(), wire.Close(4321, "own")),
        (b"", wire.Close(1005, "")),
    ],
)  # fmt: skip
def test_the_close_frame_of_the_server_is_answered_and_is_the_last_frame(
    payload: bytes, close: wire.Close
) -> None:
    peer = opened()
    stream = peer.raw(TEXT, b"last") + peer.raw(Opcode.CLOSE, payload) + peer.raw(TEXT, b"late")
    assert peer.link.receive_data(stream) == [Frame("text", "last"), close]
    assert peer.link.data_to_send()[0] == 0x88
    assert not peer.link.reusable
    assert peer.link.breach == ""
    assert peer.link.receive_data(b"\xff" * 10) == []
    assert peer.link.receive_eof() == []


def test_an_end_without_close_frame_is_1006() -> None:
    for last in (b"", b"\x81"):
        peer = opened()
        assert peer.link.receive_data(peer.raw(TEXT, b"one") + last) == texts("one")
        assert peer.link.receive_eof() == [wire.Close(1006, "")]
        assert peer.link.receive_eof() == []
        assert not peer.link.reusable


def test_our_close_is_answered_by_the_server_and_messages_on_the_way_are_given() -> None:
    peer = opened()
    peer.protocol.send_text(b"crossing")
    peer.link.close(1001, "\u00e9" * 100)
    assert not peer.link.reusable
    crossing = peer.written()
    (close,) = peer.seen()
    assert Close.parse(close.data) == Close(1001, "\u00e9" * 61)
    assert peer.link.receive_data(crossing) == texts("crossing")
    assert peer.link.receive_data(peer.written()) == [wire.Close(1001, "\u00e9" * 61)]
    peer.link.close()
    assert peer.link.data_to_send() == b""


def test_our_close_without_an_answer_is_1006() -> None:
    peer = opened()
    peer.link.close()
    assert peer.link.data_to_send()
    assert peer.link.receive_eof() == [wire.Close(1006, "")]


def test_a_close_before_the_handshake_is_answered_ends_the_link() -> None:
    peer = Peer()
    peer.link.close()
    assert peer.link.receive_data(peer.handshake) == []
    assert not peer.link.reusable


@pytest.mark.parametrize(
    ("frames", "code", "breach"),
    [
        ([(TEXT, b"\xff", True)], 1007, "invalid UTF-8: invalid start byte at position 0"),
        ([(TEXT, b"a", False), (CONT, b"\xc3", True)], 1007, "invalid UTF-8: unexpected end"),
        ([(Opcode.CLOSE, b"\x03\xe8\xff", True)], 1007, "invalid start byte"),
        ([(TEXT, b"x" * 1001, True)], 1009, "1001"),
        ([(TEXT, b"x" * 600, False), (CONT, b"x" * 401, True)], 1009, "1000"),
        ([(CONT, b"x", True)], 1002, "unexpected continuation frame"),
        ([(TEXT, b"x", False), (TEXT, b"x", True)], 1002, "expected a continuation frame"),
        ([(Opcode.CLOSE, b"\x03", True)], 1002, "close frame too short"),
    ],
)  # fmt: skip
def test_a_breach_of_the_protocol_is_closed_by_us_with_its_code(
    frames: list[tuple[Opcode, bytes, bool]], code: int, breach: str
) -> None:
    peer = opened(max_size=1000)
    stream = peer.raw(TEXT, b"good") + b"".join(
        peer.raw(opcode, data, fin=fin) for opcode, data, fin in frames
    )
    good, close = peer.link.receive_data(stream + peer.raw(TEXT, b"late"))
    assert good == Frame("text", "good")
    assert isinstance(close, wire.Close)
    assert close.code == code
    assert breach in peer.link.breach
    assert close.reason == peer.link.breach
    sent = peer.link.data_to_send()
    assert sent[0] == 0x88
    mask, coded = sent[2:6], sent[6:8]
    assert int.from_bytes(bytes(a ^ b for a, b in zip(coded, mask, strict=False)), "big") == code
    assert not peer.link.reusable
    assert peer.link.receive_data(peer.raw(TEXT, b"later")) == []
    assert peer.link.receive_eof() == []


@pytest.mark.parametrize(
    ("stream", "breach"),
    [
        (b"\x83\x01x", "invalid opcode"),
        (b"\xf1\x01x", "reserved bits must be 0"),
        (b"\x81\x81abcdx", "incorrect masking"),
        (b"\x89\x7e\x00\x7e" + b"x" * 126, "control frame too long"),
    ],
)
def test_a_frame_that_no_server_may_send_is_a_breach(stream: bytes, breach: str) -> None:
    peer = opened()
    assert peer.link.receive_data(stream) == [wire.Close(1002, breach)]
    assert peer.link.breach == breach


def test_a_breach_after_our_close_keeps_its_own_code() -> None:
    peer = opened()
    peer.link.close(1000)
    assert peer.link.receive_data(b"\x83\x01x") == [wire.Close(1002, "invalid opcode")]


@pytest.mark.parametrize("compression", [False, True])
def test_compression_is_offered_only_when_asked_for(compression: bool) -> None:
    peer = opened(deflate=True, compression=compression)
    offered = "permessage-deflate" in peer.request.headers.get("Sec-WebSocket-Extensions", "")
    assert offered is compression
    text = "to be compressed " * 50
    peer.protocol.send_text(text.encode())
    stream = peer.written()
    assert (len(stream) < len(text) / 4) is compression
    assert peer.link.receive_data(stream) == texts(text)
    peer.link.send(text)
    assert bytes(peer.seen()[0].data) == text.encode()


def test_the_limit_is_on_the_size_after_decompression() -> None:
    peer = opened(deflate=True, compression=True, max_size=1000)
    peer.protocol.send_text(b"x" * 1001)
    stream = peer.written()
    assert len(stream) < 100
    (close,) = peer.link.receive_data(stream)
    assert isinstance(close, wire.Close)
    assert close.code == 1009


def test_compression_that_was_not_offered_is_a_bad_handshake() -> None:
    peer = Peer()
    accepted = peer.handshake.replace(
        b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    )
    (garbage,) = peer.link.receive_data(accepted)
    assert garbage == Garbage("bad WebSocket handshake: no extensions supported")


REFUSAL = b'{"detail":"no"}'


@pytest.mark.parametrize(
    ("head", "body", "eof"),
    [
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 15", REFUSAL, False),
        ("HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked",
         b"f\r\n" + REFUSAL + b"\r\n0\r\n\r\n", False),
        ("HTTP/1.1 403 Forbidden\r\nX: 1", REFUSAL, True),
    ],
)  # fmt: skip
def test_a_refused_handshake_tells_status_headers_and_body(
    head: str, body: bytes, eof: bool
) -> None:
    stream = f"{head}\r\nRetry-After: 3\r\nX-A: 1\r\nx-a: 2\r\n\r\n".encode() + body
    for chunks in ([stream], *cuts_of(stream)):
        link = SocketLink(URI, UPGRADE)
        frames = [frame for data in chunks for frame in link.receive_data(data)]
        if eof:
            frames += link.receive_eof()
        (refused,) = frames
        assert isinstance(refused, Refused)
        assert (refused.status, refused.body) == (403, REFUSAL.decode())
        assert refused.headers["retry-after"] == "3"
        assert refused.headers["x-a"] == "1, 2"
        assert not link.reusable
        assert link.receive_data(b"more") == []
        assert link.receive_eof() == []


def test_a_long_refusal_is_cut() -> None:
    link = SocketLink(URI, UPGRADE)
    head = b"HTTP/1.1 503 Busy\r\nContent-Length: 5000\r\n\r\n"
    (refused,) = link.receive_data(head + b"x" * 5000)
    assert refused == Refused(503, {"content-length": "5000"}, "x" * MAX_REFUSAL)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "begins b'SSH-2.0-OpenSSH_9.6\\r\\n'"),
        (b"\x15\x03\x01\x00\x02\x02\x46\r\n", "begins b'\\x15\\x03\\x01"),
        (b"HTTP/1.1 abc\r\n\r\n", "not HTTP"),
        (b"one\rtwo\r\n", "invalid HTTP status line: one two"),
        (b"x" * 10_000, "begins b'" + "x" * 40 + "'"),
        (b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
         b"Sec-WebSocket-Accept: bad\r\n\r\n", "bad WebSocket handshake: invalid Sec-WebSocket-"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "bad WebSocket handshake: missing Connection header"),
    ],
)  # fmt: skip
def test_what_is_no_answer_to_a_handshake_is_one_garbage(answer: bytes, detail: str) -> None:
    link = SocketLink(URI, UPGRADE)
    (garbage,) = [*link.receive_data(answer), *link.receive_eof()]
    assert isinstance(garbage, Garbage)
    assert detail in garbage.detail
    assert garbage.detail.splitlines() == [garbage.detail]
    assert not link.reusable
    assert link.receive_data(answer) == []


@pytest.mark.parametrize(
    "begun", [b"", b"HTTP/1.1 1", b"HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\n"]
)
def test_a_connection_lost_during_the_handshake_is_1006(begun: bytes) -> None:
    link = SocketLink(URI, UPGRADE)
    (close,) = [*link.receive_data(begun), *link.receive_eof()]
    assert isinstance(close, wire.Close)
    assert close.code == 1006
    assert close.reason


def test_no_level_of_logging_makes_frames_appear_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "websockets.client"):
        peer = opened()
        peer.link.send('{"token":"s3cret"}')
        peer.link.receive_data(peer.raw(TEXT, b"s3cret") + b"\x83\x01x")
    assert "s3cret" not in caplog.text
    assert not [record for record in caplog.records if "client" in record.name]


def test_an_idle_socket_takes_a_few_kilobytes() -> None:
    opened()
    gc.collect()
    tracemalloc.start()
    try:
        links = [opened().link for _ in range(50)]
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # a whole idle analyst may take 100 KiB; compression would take more than that for itself
    assert size / len(links) < 8 * 1024
