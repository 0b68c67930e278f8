"""Any stream of WebSocket frames, in any cut, is read as websockets' own protocol reads it."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from loadgen.wire import frame as wire
from loadgen.wire.frame import AnyFrame, Request
from loadgen.wire.websocket import SocketLink

URI = "ws://agent:8000/websocket"
MAX_SIZE = 700

_TEXTS = st.sampled_from(
    [b"", b"x", b"ab", "caf\u00e9 \u6f22".encode(), b"line\r\n\r\n" * 9]
    + [b"z" * size for size in (125, 126, 127, 699, 700, 701)]
)


def raw(opcode: int, payload: bytes, *, fin: bool = True, rsv: int = 0, mask: bool = False,
        form: int = 0) -> bytes:  # fmt: skip
    """A frame as no library would write it; ``form`` 126 or 127 forces a longer length."""
    form = form or (len(payload) if len(payload) < 126 else 126)
    head = bytes([(0x80 if fin else 0) | rsv | opcode, form | (0x80 if mask else 0)])
    if form == 126:
        head += struct.pack("!H", len(payload))
    elif form == 127:
        head += struct.pack("!Q", len(payload))
    return head + (b"\0\0\0\0" if mask else b"") + payload


_GOOD = st.one_of(
    _TEXTS.map(lambda text: raw(1, text)),
    _TEXTS.map(lambda text: raw(2, text)),
    _TEXTS.map(lambda text: raw(9, text[:125])),
    st.just(raw(10, b"")),
    st.tuples(_TEXTS, _TEXTS).map(lambda two: raw(1, two[0], fin=False) + raw(0, two[1])),
    _TEXTS.map(lambda text: raw(1, text, fin=False) + raw(9, b"now") + raw(0, text)),
    st.sampled_from([126, 127]).map(lambda form: raw(1, b"short", form=form)),
)
_BAD = st.one_of(
    st.just(raw(1, b"\xff\xfe")),
    st.sampled_from([1000, 1008, 1011]).map(lambda code: raw(8, struct.pack("!H", code) + b"bye")),
    st.just(raw(8, b"")),
    _TEXTS.map(lambda text: raw(1, text, mask=True)),
    st.sampled_from([0x40, 0x20, 0x10]).map(lambda rsv: raw(1, b"text", rsv=rsv)),
    st.just(raw(3, b"unknown opcode")),
    st.just(raw(0, b"nothing to continue")),
    st.just(raw(1, b"begun", fin=False) + raw(1, b"begun again")),
    st.just(raw(9, b"in two", fin=False)),
    st.just(b"\x81\x7f" + b"\xff" * 8),
    st.binary(max_size=9),
)
_STREAMS = st.tuples(
    st.lists(_GOOD, max_size=6), st.one_of(st.just(b""), _BAD), st.lists(_GOOD, max_size=2),
    st.integers(0, 12),
).map(lambda parts: b"".join([*parts[0], parts[1], *parts[2]])[: -parts[3] or None])  # fmt: skip


def answer_to(handshake: bytes) -> bytes:
    server = ServerProtocol()
    server.receive_data(handshake)
    (request,) = server.events_received()
    server.send_response(server.accept(request))
    return b"".join(server.data_to_send())


def as_we_read(stream: bytes, cuts: list[int]) -> list[tuple[str, str] | int]:
    """Messages, then the close code; ``cuts`` are places in the answer and the stream."""
    link = SocketLink(URI, Request("GET", "/websocket", {}), max_size=MAX_SIZE)
    data = answer_to(link.data_to_send()) + stream
    places = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    found: list[AnyFrame] = []
    for begin, end in pairwise(places):
        if begin < end:
            found += link.receive_data(data[begin:end])
    found += link.receive_eof()
    seen: list[tuple[str, str] | int] = []
    for frame in found[1:]:
        if isinstance(frame, wire.Frame):
            seen.append((frame.kind, frame.data))
        else:
            assert isinstance(frame, wire.Close)
            seen.append(frame.code)
    return seen


def as_websockets_reads(stream: bytes) -> list[tuple[str, str] | int]:
    client = ClientProtocol(parse_uri(URI), max_size=MAX_SIZE)
    client.send_request(client.connect())
    client.receive_data(answer_to(b"".join(client.data_to_send())) + stream)
    client.receive_eof()
    seen: list[tuple[str, str] | int] = []
    opcode, parts = Opcode.TEXT, b""
    for frame in client.events_received():
        if isinstance(frame, Response):
            continue
        assert isinstance(frame, Frame)
        if frame.opcode is Opcode.CLOSE:
            assert client.close_rcvd is not None
            return [*seen, int(client.close_rcvd.code)]
        if frame.opcode in (Opcode.PING, Opcode.PONG):
            continue
        opcode = opcode if frame.opcode is Opcode.CONT else frame.opcode
        parts += bytes(frame.data)
        if not frame.fin:
            continue
        whole, parts = parts, b""
        try:
            text = whole.decode() if opcode is Opcode.TEXT else whole.decode("latin-1")
        except UnicodeDecodeError:
            return [*seen, 1007]
        seen.append(("text" if opcode is Opcode.TEXT else "binary", text))
    codes: dict[type, int] = {ProtocolError: 1002, PayloadTooBig: 1009, UnicodeDecodeError: 1007,
                              EOFError: 1006}  # fmt: skip
    return [*seen, codes[type(client.parser_exc)]]


@pytest.mark.case("D-15")
@settings(max_examples=400, deadline=None)
@given(stream=_STREAMS, cuts=st.lists(st.integers(0, 10_000), max_size=12))
@example(stream=raw(1, b"a" * 300) + raw(9, b"") + raw(1, b"b"), cuts=[])
def test_a_stream_is_read_as_websockets_reads_it(stream: bytes, cuts: list[int]) -> None:
    wanted = as_websockets_reads(stream)
    assert as_we_read(stream, []) == wanted
    assert as_we_read(stream, cuts) == wanted
    assert as_we_read(stream, list(range(len(stream) + 200))) == wanted


def test_a_long_message_in_many_reads_is_joined_once() -> None:
    link = SocketLink(URI, Request("GET", "/websocket", {}))
    text = "0123456789abcdef" * 4096
    data = raw(1, text.encode(), form=127)
    (opened,) = link.receive_data(answer_to(link.data_to_send()) + data[:1])
    assert isinstance(opened, wire.Open)
    pieces = [data[at : at + 1000] for at in range(1, len(data), 1000)]
    for piece in pieces[:-1]:
        assert link.receive_data(piece) == []
    assert link.receive_data(pieces[-1]) == [wire.Frame("text", text)]
