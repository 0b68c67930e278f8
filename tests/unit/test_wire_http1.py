"""The HTTP/1.1 link: what real servers sent, every framing of a body, all that is no HTTP."""

from __future__ import annotations

import gzip
import random
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from httptools import HttpParserCallbackError
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import GeneratorError
from loadgen.wire.frame import AnyFrame, End, Frame, Garbage, Head, Request
from loadgen.wire.http1 import MAX_HEAD, HttpLink
from loadgen.wire.request import USER_AGENT
from loadgen.wire.sse import SseDecoder

RECORDED = sorted((Path(__file__).parents[1] / "recordings" / "nat").glob("*.raw"))
EVERY_CUT_UP_TO = 800
ASK = Request("POST", "/v1/chat/stream", {"content-type": "application/json"}, b"{}")
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
CHUNKED = STREAM + b"transfer-encoding: chunked\r\n\r\n"
EVENT = b"data: a\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def asked(request: Request = ASK, *, max_body: int = 1 << 20) -> HttpLink:
    link = HttpLink("agent:8000", max_body=max_body)
    link.send(request)
    link.data_to_send()
    return link


def read(link: HttpLink, *chunks: bytes, eof: bool = False) -> list[AnyFrame]:
    frames = [frame for data in chunks for frame in link.receive_data(data)]
    return [*frames, *link.receive_eof()] if eof else frames


def cuts_of(stream: bytes) -> list[list[bytes]]:
    """Byte by byte, and in two at every byte; a long one at forty bytes, and in random pieces."""
    pieces = [[stream[at : at + 1] for at in range(len(stream))]]
    if len(stream) <= EVERY_CUT_UP_TO:
        return pieces + [[stream[:at], stream[at:]] for at in range(1, len(stream))]
    chance = random.Random(len(stream))
    for count in [1] * 40 + [10] * 10:
        places = sorted(chance.sample(range(1, len(stream)), count))
        pieces.append([stream[a:b] for a, b in pairwise([0, *places, len(stream)])])
    return pieces


def kinds(frames: list[AnyFrame]) -> list[str]:
    return [frame.kind if isinstance(frame, Frame) else type(frame).__name__ for frame in frames]


@pytest.mark.case("D-15")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_no_cut_of_a_recorded_answer_changes_what_is_read(path: Path) -> None:
    recorded = path.read_bytes()
    whole = read(asked(), recorded, eof=True)
    assert isinstance(whole[0], Head)
    assert isinstance(whole[-1], End)
    for chunks in cuts_of(recorded):
        assert read(asked(), *chunks, eof=True) == whole


STEP, ASKED = "field:intermediate_data", "interaction_required"


@pytest.mark.parametrize(
    ("name", "between", "clean"),
    [
        ("http_v1_chat_stream", [STEP] * 3 + ["message"] * 4 + [STEP], True),
        ("http_chat_stream", [STEP] * 3 + ["message"] * 4 + [STEP] + ["message"] * 2, True),
        ("http_disconnect_mid_stream", [STEP] * 3 + ["message"] * 4, False),
        ("http_fail_mid_chat_stream", [STEP] * 3 + ["message"] * 2 + ["line"], True),
        ("http_fail_mid_v1_chat_stream", [STEP] * 3 + ["message"] * 2 + ["error"], True),
        (
            "http_hitl_text_v1_chat_stream",
            [STEP] * 2 + [ASKED, STEP] + ["message"] * 5 + [STEP],
            True,
        ),
        ("http_no_such_path", ["body"], True),
    ],
)
def test_a_recorded_answer_gives_the_frames_that_the_server_sent(
    name: str, between: list[str], clean: bool
) -> None:
    (path,) = [path for path in RECORDED if path.stem == name]
    frames = read(asked(), path.read_bytes(), eof=True)
    assert kinds(frames) == ["Head", *between, "End"]
    assert frames[-1] == End(clean)


def test_a_bare_error_line_at_the_very_end_is_a_line() -> None:
    (path,) = [path for path in RECORDED if path.stem == "http_fail_mid_chat_stream"]
    frames = read(asked(), path.read_bytes())
    assert frames[-2] == Frame(
        "line",
        '{"code":"workflow_error","message":"scripted failure after 2 chunks",'
        '"details":"ScriptedFailure"}',
    )


@pytest.mark.case("D-13")
def test_an_event_is_given_by_the_read_that_ends_it() -> None:
    link = asked()
    assert kinds(link.receive_data(CHUNKED)) == ["Head"]
    first, second = chunk(b"data: 1\n\n"), chunk(b"data: 2\n\n")
    assert link.receive_data(first) == [Frame("message", "1")]
    # the line break behind a chunk's data may be late; the event may not
    assert link.receive_data(second[:-2]) == [Frame("message", "2")]
    assert link.receive_data(second[-2:]) == []


@pytest.mark.case("D-14")
def test_unicode_line_separators_stay_inside_their_event() -> None:
    text = '{"t":"a\u2028b\u2029c\u0085d\x0ce\x1cf"}'
    stream = CHUNKED + chunk(f"data: {text}\n\n".encode()) + b"0\r\n\r\n"
    for chunks in ([stream], *cuts_of(stream)):
        assert read(asked(), *chunks)[1:] == [Frame("message", text), End(True)]


@pytest.mark.case("D-17")
def test_many_events_in_a_read_and_an_event_over_many_reads() -> None:
    link = asked()
    burst = CHUNKED + b"".join(chunk(b"data: %d\n\n" % number) for number in range(5))
    assert kinds(link.receive_data(burst)) == ["Head"] + ["message"] * 5
    pieces = [chunk(part) for part in (b"da", b"ta: o", b"ne\n", b"\n")]
    assert [kinds(link.receive_data(piece)) for piece in pieces] == [[], [], [], ["message"]]


def ok(*headers: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


BODY = Frame("body", "abc")


@pytest.mark.parametrize(
    ("method", "answer", "eof", "after_head", "reusable"),
    [
        ("POST", ok("content-length: 3", body=b"abc"), False, [BODY, End(True)], True),
        ("POST", ok("content-length: 0"), False, [End(True)], True),
        ("POST", ok("content-length: 3", "connection: close", body=b"abc"), False,
         [BODY, End(True)], False),
        ("POST", ok("content-length: 3", "connection: Keep-Alive", body=b"abc"), False,
         [BODY, End(True)], True),
        ("POST", ok("transfer-encoding: chunked", body=b"1;x=y\r\na\r\n2\r\nbc\r\n0\r\n\r\n"),
         False, [BODY, End(True)], True),
        ("POST", ok("transfer-encoding: chunked", body=b"3\r\nabc\r\n0\r\nx-trailer: y\r\n\r\n"),
         False, [BODY, End(True)], True),
        ("POST", ok(body=b"abc"), True, [BODY, End(True)], False),
        ("POST", b"HTTP/1.0 200 OK\r\n\r\nabc", True, [BODY, End(True)], False),
        ("POST", b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc", False, [BODY, End(True)],
         False),
        ("POST", ok(status="204 No Content"), False, [End(True)], True),
        ("POST", ok("content-length: 9", "content-encoding: br", status="304 Not Modified"), False,
         [End(True)], True),
        ("HEAD", ok("content-length: 9"), False, [End(True)], True),
        ("POST", ok("content-length: 3", body=b"ab"), True, [End(False, "ab")], False),
        ("POST", ok("transfer-encoding: chunked", body=b"3\r\nabc\r\n"), True, [End(False, "abc")],
         False),
        ("POST", CHUNKED + chunk(EVENT) + chunk(b"data: [DO"), True,
         [Frame("message", "a"), End(False, "data: [DO")], False),
        ("POST", CHUNKED + chunk(EVENT) + chunk(b"data: [DO") + b"0\r\n\r\n", True,
         [Frame("message", "a"), End(True, "data: [DO")], False),
        ("POST", CHUNKED + chunk(b'{"code":"x"}') + b"0\r\n\r\n", False,
         [Frame("line", '{"code":"x"}'), End(True)], True),
        ("POST", CHUNKED + chunk(b'intermediate_data: {"id'), True,
         [End(False, 'intermediate_data: {"id')], False),
        ("POST", STREAM + b"\r\n" + EVENT, True, [Frame("message", "a"), End(True)], False),
        ("POST", STREAM + b"content-length: 9\r\n\r\n" + EVENT, False,
         [Frame("message", "a"), End(True)], True),
        ("POST", STREAM.replace(b"200 OK", b"500 Oops") + b"content-length: 9\r\n\r\n" + EVENT,
         False, [Frame("body", "data: a\n\n"), End(True)], True),
        ("POST", ok("content-type: Text/Event-Stream", "content-length: 9", body=EVENT), False,
         [Frame("message", "a"), End(True)], True),
        ("POST", ok("content-type: text/html", "content-length: 9", body=EVENT), False,
         [Frame("body", "data: a\n\n"), End(True)], True),
    ],
)  # fmt: skip
def test_each_framing_ends_an_answer_as_it_says(
    method: str, answer: bytes, eof: bool, after_head: list[AnyFrame], reusable: bool
) -> None:
    for chunks in ([answer], *cuts_of(answer)):
        link = asked(Request(method, "/"))
        frames = read(link, *chunks, eof=eof)
        assert isinstance(frames[0], Head)
        assert frames[1:] == after_head
        assert link.reusable is reusable


def test_informational_answers_are_skipped() -> None:
    early = ok("link: </style.css>", status="103 Early Hints")
    link = asked()
    frames = read(link, ok(status="100 Continue"), early + ok("content-length: 3", body=b"abc"))
    assert frames == [Head(200, {"content-length": "3"}), BODY, End(True)]
    assert link.reusable


def test_the_limit_on_headers_is_for_each_answer_not_for_all_that_precede_it() -> None:
    link = asked()
    early = ok("x: " + "y" * (MAX_HEAD // 8), status="103 Early Hints")
    frames = read(link, *[early] * 10, ok("content-length: 3", body=b"abc"))
    assert frames[1:] == [BODY, End(True)]


def test_a_trailer_is_no_header() -> None:
    answer = ok("transfer-encoding: chunked", body=b"3\r\nabc\r\n0\r\nx-trailer: y\r\n\r\n")
    assert read(asked(), answer)[0] == Head(200, {"transfer-encoding": "chunked"})


def test_header_names_are_lower_case_and_repeated_ones_are_joined() -> None:
    answer = ok("Content-Type: application/json", "X-A: 1 ", "x-a:2", "content-length: 0",
                status="202 Accepted")  # fmt: skip
    for chunks in ([answer], *cuts_of(answer)):
        head = read(asked(), *chunks)[0]
        assert head == Head(
            202, {"content-type": "application/json", "x-a": "1, 2", "content-length": "0"}
        )


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(b"data: one\n\ndata: two\n\n")),
        ("x-gzip", gzip.compress(b"data: one\n\n") + gzip.compress(b"data: two\n\n")),
        ("deflate", zlib.compress(b"data: one\n\ndata: two\n\n")),
        ("deflate", zlib.compress(b"data: one\n\ndata: two\n\n", wbits=-15)),
    ],
    ids=["gzip", "two gzip members", "deflate", "raw deflate"],
)
def test_a_compressed_stream_is_decoded_as_it_comes(coding: str, packed: bytes) -> None:
    head = CHUNKED.replace(b"\r\n\r\n", f"\r\ncontent-encoding: {coding}\r\n\r\n".encode())
    answer = head + chunk(packed) + b"0\r\n\r\n"
    for chunks in ([answer], *cuts_of(answer)):
        frames = read(asked(), *chunks)
        assert isinstance(frames[0], Head)
        assert frames[0].headers["content-encoding"] == coding
        assert frames[1:] == [Frame("message", "one"), Frame("message", "two"), End(True)]


def test_a_compressed_event_is_given_when_the_server_flushes_it() -> None:
    link = asked()
    packer = zlib.compressobj(wbits=31)
    link.receive_data(CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n"))
    for text in ("one", "two"):
        packed = packer.compress(f"data: {text}\n\n".encode()) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert link.receive_data(chunk(packed)) == [Frame("message", text)]
    # the chunks end in order, the compressed data does not: somebody upstream was cut off
    assert link.receive_data(b"0\r\n\r\n") == [End(False)]


def test_a_compressed_body_that_the_end_of_the_connection_cuts_is_not_clean() -> None:
    answer = ok("content-encoding: gzip", body=gzip.compress(b"abc")[:-1])
    assert read(asked(), answer, eof=True)[1:] == [End(False, "abc")]


def test_a_small_body_that_unpacks_to_a_large_one_is_cut_and_counted() -> None:
    packed = gzip.compress(b"x" * 5_000_000)
    answer = ok("content-encoding: gzip", f"content-length: {len(packed)}", body=packed)
    link = asked(max_body=100)
    assert read(link, answer)[1:] == [Frame("body", "x" * 100), End(True)]
    assert link.body_size == 5_000_000


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_no_byte_is_lost_where_a_body_fills_a_step_of_decompression(coding: str, size: int) -> None:
    pack = gzip.compress if coding == "gzip" else zlib.compress
    link = asked(max_body=100)
    frames = read(link, ok(f"content-encoding: {coding}", body=pack(b"x" * size)), eof=True)
    assert frames[-1] == End(True)
    assert link.body_size == size


def test_a_body_is_kept_up_to_its_limit_and_counted_to_its_end() -> None:
    link = asked(max_body=4)
    frames = read(link, ok("content-length: 6", body=b"abc"), b"def")
    assert frames[1:] == [Frame("body", "abcd"), End(True)]
    assert link.body_size == 6


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP: the answer begins b'SSH-2.0-OpenSSH_9.6\\r\\n'"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS, not HTTP: the answer begins b'\\x15\\x03"),
        (b"\x81\x05hello", "not HTTP: the answer begins b'\\x81\\x05hello'"),
        (b"<html>" + b"x" * 100, "not HTTP: the answer begins b'<html>" + "x" * 34 + "'"),
        (b"HTTP/2 200\r\n\r\n", "bad HTTP (Expected dot) in an answer that begins b'HTTP/2 200"),
        (ok("content-length: 1", "content-length: 2"), "bad HTTP (Duplicate Content-Length)"),
        (ok("x-bad: a\0b"), "bad HTTP (Invalid header value char)"),
        (CHUNKED + b"zz\r\n", "bad HTTP (Invalid character in chunk size)"),
        (ok("x-long: " + "x" * MAX_HEAD), "headers longer than 65536 bytes"),
        (ok(*["x-many: 1"] * 7000), "headers longer than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\nx-endless: " + b"x" * MAX_HEAD, "headers longer than 65536 bytes"),
        (ok("upgrade: h2c", "connection: upgrade", status="101 Switching"), "switched protocols"),
        (
            ok("content-encoding: br", "content-length: 3", body=b"abc"),
            "a body in br, which we did",
        ),
        (ok("content-encoding: gzip, gzip", "content-length: 3", body=b"abc"), "in gzip, gzip"),
        (ok("content-encoding: gzip", "content-length: 3", body=b"abc"), "cannot be decompressed"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_a_breach_of_http_is_one_garbage_that_says_what_came(answer: bytes, detail: str) -> None:
    link = asked()
    frames = read(link, answer)
    assert kinds(frames)[-1:] == ["Garbage"]
    assert kinds(frames).count("Garbage") == 1
    assert detail in frames[-1].detail  # type: ignore[union-attr]
    assert "\n" not in frames[-1].detail  # type: ignore[union-attr]
    assert not link.reusable
    assert read(link, answer, eof=True) == []


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-x\r\n", CHUNKED + chunk(EVENT) + b"zz\r\n", ok("x: " + "y" * MAX_HEAD)]
)
def test_a_breach_is_found_at_any_cut(answer: bytes) -> None:
    places = range(1, len(answer), 1 + len(answer) // 500)
    for chunks in ([answer], *([answer[:at], answer[at:]] for at in places)):
        frames = read(asked(), *chunks, eof=True)
        assert kinds(frames)[-1:] == ["Garbage"]
        assert kinds(frames).count("Garbage") == 1


def test_an_event_over_the_limit_ends_the_answer_and_the_connection() -> None:
    link = asked()
    link.receive_data(CHUNKED)
    frames = read(link, *[chunk(b"data: " + b"x" * (1 << 20)) for _ in range(18)])
    assert kinds(frames) == ["Garbage"]
    assert not link.reusable
    assert link.receive_eof() == []


@pytest.mark.parametrize("close", ["", "connection: close"])
@pytest.mark.parametrize("rest", [b"HTTP/1.1 200 OK\r\n\r\n", b"junk"])
def test_bytes_behind_an_answer_are_garbage_and_end_the_connection(close: str, rest: bytes) -> None:
    answer = ok(*[close] * bool(close), "content-length: 3", body=b"abc")
    for chunks in ([answer + rest], [answer, rest], *cuts_of(answer + rest)):
        link = asked()
        frames = read(link, *chunks)
        assert kinds(frames) == ["Head", "body", "End", "Garbage"]
        assert not link.reusable


def test_bytes_behind_the_answer_to_head_are_garbage() -> None:
    for chunks in ([ok("content-length: 3", body=b"abc")], [ok("content-length: 3"), b"abc"]):
        link = asked(Request("HEAD", "/"))
        assert kinds(read(link, *chunks)) == ["Head", "End", "Garbage"]
        assert not link.reusable


def test_a_stray_line_break_behind_an_answer_is_forgiven() -> None:
    for chunks in (
        [ok("content-length: 3", body=b"abc\r\n")],
        [ok("content-length: 3", body=b"abc"), b"\r\n"],
    ):
        link = asked()
        assert kinds(read(link, *chunks)) == ["Head", "body", "End"]
        assert link.reusable


def test_a_connection_carries_one_answer_after_another() -> None:
    link = asked()
    read(link, CHUNKED + chunk(b": ping\n\n" + EVENT) + b"0\r\n\r\n")
    assert (link.comments, link.body_size) == (1, 17)
    link.send(Request("GET", "/health"))
    assert not link.reusable
    assert (link.answered, link.body_size) == (False, 0)
    frames = read(link, ok("content-length: 3", body=b"abc"))
    assert frames == [Head(200, {"content-length": "3"}), BODY, End(True)]
    link.send(ASK)
    frames = read(link, CHUNKED + chunk(b": ping\n\n" + EVENT) + b"0\r\n\r\n")
    assert kinds(frames) == ["Head", "message", "End"]
    assert link.comments == 2
    assert link.reusable


def test_a_server_that_closes_an_idle_connection_can_be_told_from_one_that_cuts_an_answer() -> None:
    link = asked()
    read(link, ok("content-length: 0"))
    link.send(ASK)
    assert not link.answered
    assert link.receive_eof() == [End(False)]
    assert not link.answered
    cut = asked()
    cut.receive_data(b"H")
    assert cut.answered
    assert cut.receive_eof() == [End(False)]


def test_a_close_while_idle_gives_no_frame_and_ends_the_connection() -> None:
    link = asked()
    read(link, ok("content-length: 0"))
    assert link.reusable
    assert link.receive_eof() == []
    assert not link.reusable


def test_a_request_is_written_with_the_headers_that_http_needs() -> None:
    link = HttpLink("agent:8000")
    link.send(Request("POST", "/v1/chat?a=b", {"Authorization": "Bearer t"}, "é".encode()))
    assert link.data_to_send() == (
        b"POST /v1/chat?a=b HTTP/1.1\r\nhost: agent:8000\r\nuser-agent: "
        + USER_AGENT.encode()
        + b"\r\naccept-encoding: identity\r\nauthorization: Bearer t\r\ncontent-length: 2\r\n\r\n"
        + "é".encode()
    )
    assert link.data_to_send() == b""


@pytest.mark.parametrize(
    ("request_", "line", "present"),
    [
        (Request("GET", "/"), b"content-length", False),
        (Request("POST", "/"), b"content-length: 0\r\n", True),
        (Request("GET", "/", {"User-Agent": "x"}), b"user-agent: x\r\n", True),
        (Request("GET", "/", {"User-Agent": "x"}), b"loadgen", False),
        (Request("GET", "/", {"Accept-Encoding": "gzip"}), b"identity", False),
    ],
)
def test_a_request_can_replace_our_headers(request_: Request, line: bytes, present: bool) -> None:
    link = HttpLink("agent")
    link.send(request_)
    assert (line in link.data_to_send()) is present


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "/", {"x": "a\r\nx-evil: 1"}),
        Request("GET", "/", {"x": "a\nb"}),
        Request("GET", "/", {"x": "a\0b"}),
        Request("GET", "/", {"x": "\u20ac"}),
        Request("GET", "/", {"x\r\n": "a"}),
        Request("GET", "/", {"x y": "a"}),
        Request("GET", "/", {"": "a"}),
        Request("GET", "/", {"Content-Length": "3"}),
        Request("GET", "/", {"Transfer-Encoding": "chunked"}),
        Request("GET", "/a b"),
        Request("GET", "/a\r\nx: 1"),
        Request("GET", "a"),
        Request("GET", "/\u00e9"),
        Request("GET\r\n", "/"),
    ],
)
def test_a_request_that_would_be_read_as_something_else_is_refused(request_: Request) -> None:
    link = HttpLink("agent")
    with pytest.raises(ValueError, match=r"header|path|method"):
        link.send(request_)
    assert link.data_to_send() == b""
    assert link.reusable


def test_a_refused_header_is_named_but_its_value_is_not_shown() -> None:
    with pytest.raises(ValueError, match="authorization") as caught:
        HttpLink("agent").send(Request("GET", "/", {"authorization": "Bearer s3cret\n"}))
    assert "s3cret" not in str(caught.value)


def test_a_fault_of_ours_is_raised_and_not_laid_to_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(SseDecoder, "feed")
    with pytest.raises(HttpParserCallbackError):
        asked().receive_data(CHUNKED + chunk(EVENT))


def test_a_second_request_before_the_answer_is_our_own_fault() -> None:
    link = asked()
    with pytest.raises(GeneratorError):
        link.send(ASK)
    link.receive_eof()
    with pytest.raises(GeneratorError):
        link.send(ASK)


def test_a_request_that_asks_to_close_is_the_last_of_its_connection() -> None:
    link = asked(Request("GET", "/", {"Connection": "close"}))
    assert kinds(read(link, ok("content-length: 0"))) == ["Head", "End"]
    assert not link.reusable


def test_a_closed_link_sends_nothing_more() -> None:
    link = HttpLink("agent")
    link.close()
    assert link.data_to_send() == b""
    assert not link.reusable


def test_garbage_on_an_idle_connection_names_its_first_bytes() -> None:
    link = asked()
    read(link, ok("content-length: 0"))
    timeout = ok(status="408 Request Timeout")
    (garbage,) = link.receive_data(timeout)
    assert garbage == Garbage(f"bytes that answer no request: {timeout[:40]!r}")
    assert not link.reusable


_PARTS = st.sampled_from(
    [
        EVENT, b"data: two\n\ndata: three\n\n", b"data: ha", b"lf\n\n", b"\n", b": ping\n\n",
        b"data: \r\n\r\n", b"5\r\n", b"data: " + b"x" * 300 + b"\n\n", b"x_y: z\n",
    ]
)  # fmt: skip
_CHUNKS = st.one_of(
    _PARTS.map(chunk),
    _PARTS.map(lambda part: b"%X\r\n%b\r\n" % (len(part), part)),
    _PARTS.map(lambda part: b"%x;name=value\r\n%b\r\n" % (len(part), part)),
    st.sampled_from([b"000a\r\ndata: 00\n\n\r\n", b"0xa\r\ndata: 00\n\n\r\n"]),
    st.sampled_from([b"1_0\r\ndata: 0123456789\r\n", b"+5\r\ndata:\r\n", b" 5\r\ndata:\r\n"]),
    st.sampled_from([b"6\r\ndata:\r\n", b"4\r\ndata:\r\n", b"\r\n", b"0\r\n\r\n"]),
)


@pytest.mark.case("D-15")
@settings(max_examples=300, deadline=None)
@given(chunks=st.lists(_CHUNKS, max_size=8), cut=st.integers(0, 400))
def test_reads_of_whole_chunks_are_read_like_single_bytes(chunks: list[bytes], cut: int) -> None:
    stream = b"".join(chunks)
    wanted = read_in([CHUNKED, *(stream[at : at + 1] for at in range(len(stream)))])
    assert read_in([CHUNKED, *chunks]) == wanted
    assert read_in([CHUNKED, stream[:cut], stream[cut:]]) == wanted
    assert read_in([CHUNKED[:cut], CHUNKED[cut:], *chunks]) == wanted


def read_in(pieces: list[bytes]) -> tuple[list[AnyFrame], int, int]:
    """Frames and counters of an answer that comes in ``pieces``; what garbage says is left out."""
    link = HttpLink("agent:8000")
    link.send(Request("POST", "/"))
    frames: list[AnyFrame] = []
    for piece in pieces:
        if piece:
            frames += link.receive_data(piece)
    frames += link.receive_eof()
    seen: list[AnyFrame] = [Garbage("") if isinstance(f, Garbage) else f for f in frames]
    return seen, link.comments, link.body_size
