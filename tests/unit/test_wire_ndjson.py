"""NDJSON: lines as they arrive, alone and inside an HTTP answer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.wire.frame import End, Frame, Garbage, Head, Request
from loadgen.wire.http1 import HttpLink
from loadgen.wire.ndjson import NdjsonDecoder, media_type
from loadgen.wire.sse import SseDecoder

LINES = st.lists(
    st.one_of(
        st.just(b""),
        st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"")),
        st.text(max_size=8).map(lambda text: text.replace("\n", "").encode()),
    ),
    max_size=8,
)


def read(chunks, *, clean=True, **limits):
    """Frames and what was left unfinished."""
    decoder = NdjsonDecoder(**limits)
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    last, pending = decoder.end(clean)
    return [*frames, *last], pending


def lines(*texts):
    return [Frame("line", text) for text in texts]


@pytest.mark.parametrize(
    ("stream", "clean", "frames", "pending"),
    [
        (b'{"a":1}\n{"b":2}\n', True, lines('{"a":1}', '{"b":2}'), ""),
        (b'{"a":1}\r\n{"b":2}\r\n', True, lines('{"a":1}', '{"b":2}'), ""),
        (b'\n\r\n{"a":1}\n\n', True, lines('{"a":1}'), ""),
        (b'{"a":1}\n{"b":2}', True, lines('{"a":1}', '{"b":2}'), ""),
        (b'{"a":1}\n{"b":', False, lines('{"a":1}'), '{"b":'),
        (b'{"a":1}\n', False, lines('{"a":1}'), ""),
        (b"", True, [], ""),
        ("a\u2028b\x85c\x0bd\re\n".encode(), True, lines("a\u2028b\x85c\x0bd\re"), ""),
        (b"\xff\n", True, lines("\ufffd"), ""),
    ],
)
def test_a_line_ends_at_its_line_feed_and_nowhere_else(stream, clean, frames, pending):
    assert read([stream], clean=clean) == (frames, pending)
    assert read([bytes([byte]) for byte in stream], clean=clean) == (frames, pending)


@given(LINES, st.booleans(), st.booleans(), st.data())
def test_no_cut_of_a_stream_changes_what_is_read(parts, ended, clean, data):
    stream = b"\n".join(parts) + b"\n" * ended
    *whole, last = stream.split(b"\n")
    told = [part.removesuffix(b"\r").decode("utf-8", "replace") for part in [*whole, last]]
    pending = "" if clean else told.pop()
    expected = lines(*filter(None, told)), pending
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    cut = [stream[a:b] for a, b in pairwise([0, *places, len(stream)])]
    for chunks in ([stream], cut, [bytes([byte]) for byte in stream]):
        assert read(chunks, clean=clean) == expected


def test_a_line_is_given_by_the_read_that_ends_it():
    decoder = NdjsonDecoder()
    assert decoder.feed(b'{"a"') == []
    assert decoder.feed(b":1}\n") == lines('{"a":1}')


@pytest.mark.parametrize(
    "chunks", [[b"a\n123456\nb\n"], [b"a\n1234", b"56"], [b"a\n12345678"]], ids=str
)
def test_a_line_over_the_limit_breaks_the_stream_once(chunks):
    frames, pending = read([*chunks, b"more\n", b"and more"], max_line=5)
    assert frames == [*lines("a"), Garbage("NDJSON: a line longer than 5 bytes")]
    assert pending == ""


def test_a_line_at_the_limit_is_a_line():
    assert read([b"12345\n"], max_line=5) == (lines("12345"), "")


# inside an HTTP answer


def answered(media, body, *, size=1 << 30, chunked=True, status=200):
    """Frames of an answer that arrives in pieces of ``size`` bytes."""
    head = f"HTTP/1.1 {status} OK\r\ncontent-type: {media}\r\n".encode()
    if chunked:
        parts = (b"%x\r\n%b\r\n" % (len(part), part) for part in body)
        data = head + b"transfer-encoding: chunked\r\n\r\n" + b"".join(parts) + b"0\r\n\r\n"
    else:
        data = head + b"\r\n" + b"".join(body)
    link = HttpLink("127.0.0.1")
    link.send(Request("POST", "/"))
    frames = [
        frame
        for at in range(0, len(data), size)
        for frame in link.receive_data(data[at : at + size])
    ]
    return [frame for frame in [*frames, *link.receive_eof()] if type(frame) is not Head], link


MEDIA = ["application/x-ndjson", "application/ndjson", "Application/JSONL; charset=utf-8"]


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("size", [1, 3, 1 << 30])
@pytest.mark.parametrize("media", MEDIA)
def test_an_answer_in_ndjson_is_given_line_by_line(media, size, chunked):
    body = [b'{"a":', b"1}\n", b'{"b":2}\n{"c":3}']
    frames, link = answered(media, body, size=size, chunked=chunked)
    assert frames == [*lines('{"a":1}', '{"b":2}', '{"c":3}'), End(True)]
    assert link.body_size == len(b"".join(body))


def test_a_line_is_given_before_the_answer_has_ended():
    link = HttpLink("127.0.0.1")
    link.send(Request("POST", "/"))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n"
    link.receive_data(head + b"transfer-encoding: chunked\r\n\r\n")
    assert link.receive_data(b'8\r\n{"a":1}\n\r\n') == lines('{"a":1}')
    assert link.receive_data(b'8\r\n{"b":2}\n\r\n') == lines('{"b":2}')
    assert link.receive_data(b"0\r\n\r\n") == [End(True)]
    assert link.reusable


def test_a_cut_line_is_pending():
    link = HttpLink("127.0.0.1")
    link.send(Request("POST", "/"))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: 99\r\n\r\n"
    assert link.receive_data(head + b'{"a":1}\n{"b"')[1:] == lines('{"a":1}')
    assert link.receive_eof() == [End(False, '{"b"')]


@pytest.mark.parametrize("chunked", [True, False])
def test_a_line_over_the_limit_breaks_the_connection(monkeypatch, chunked):
    monkeypatch.setattr("loadgen.wire.http1.NdjsonDecoder", lambda: NdjsonDecoder(max_line=5))
    frames, link = answered("application/x-ndjson", [b"a\n", b"123456", b"7\n"], chunked=chunked)
    assert frames == [*lines("a"), Garbage("NDJSON: a line longer than 5 bytes")]
    assert not link.reusable


@pytest.mark.parametrize(("media", "status"), [("application/json", 200), (MEDIA[0], 500)])
def test_an_answer_of_another_kind_is_one_body(media, status):
    frames, _ = answered(media, [b'{"a":1}\n{"b":2}\n'], status=status)
    assert frames == [Frame("body", '{"a":1}\n{"b":2}\n'), End(True)]


def test_an_event_stream_is_still_read_as_one():
    frames, link = answered("text/event-stream", [b'data: {"a":1}\n\n'])
    assert frames == [Frame("message", '{"a":1}'), End(True)]
    assert type(link.events) is SseDecoder


@pytest.mark.parametrize(
    ("value", "media"),
    [
        ("application/x-ndjson", "application/x-ndjson"),
        (" TEXT/Event-Stream ;charset=utf-8", "text/event-stream"),
        ("text/event-stream, text/event-stream", "text/event-stream"),
        ("", ""),
    ],
)
def test_a_media_type_has_no_parameters(value, media):
    assert media_type({"content-type": value}) == media
