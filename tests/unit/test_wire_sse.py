"""The event stream decoder: the published framing cases, every cut of them, NAT's own additions."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.wire.frame import Frame, Garbage
from loadgen.wire.sse import SseDecoder

RECORDINGS = Path(__file__).parents[1] / "recordings"
CASES = json.loads((RECORDINGS / "sse-cases.json").read_text())
EVERY_CUT_UP_TO = 400
STANDARD = ("data", "event", "id", "retry")


def expand(text: str) -> str:
    """``@x*1000`` in the cases stands for a thousand x."""
    letter, star, count = text[1:2], text[2:3], text[3:]
    return letter * int(count) if text.startswith("@") and star == "*" else text


def chunks_of(case: dict[str, Any]) -> list[bytes]:
    return [expand(chunk).encode("latin-1") for chunk in case["chunks"] if chunk != "PAUSE"]


def cuts_of(stream: bytes) -> list[list[bytes]]:
    """The stream byte by byte, and cut in two at every byte (a long one: at sixty of them)."""
    places = range(1, len(stream))
    if len(stream) > EVERY_CUT_UP_TO:
        places = sorted(random.Random(len(stream)).sample(places, 60))
    halves = [[stream[:at], stream[at:]] for at in places]
    if len(stream) > 100_000:
        return halves
    return [[stream[at : at + 1] for at in range(len(stream))], *halves]


def is_event(frame: Frame | Garbage) -> bool:
    return isinstance(frame, Frame) and not frame.kind.startswith("field:") and frame.kind != "line"


class Reading(NamedTuple):
    """All that a decoder makes of a stream."""

    frames: list[Frame | Garbage]
    pending: str
    comments: int
    unknown_fields: int
    replaced: int
    last_event_id: str
    retry_ms: int | None


def read(chunks: list[bytes], *, clean: bool = True) -> Reading:
    decoder = SseDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    given_at_end, pending = decoder.end(clean)
    assert decoder.bytes == sum(map(len, chunks))
    return Reading(
        [*frames, *given_at_end],
        pending,
        decoder.comments,
        decoder.unknown_fields,
        decoder.replaced,
        decoder.last_event_id,
        decoder.retry_ms,
    )


def reference(stream: bytes, *, clean: bool) -> Reading:
    """The standard's text, line by line, on the whole stream at once."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, tail = re.split("\r\n|\r|\n", text)
    frames: list[Frame | Garbage] = []
    data: list[str] = []
    kind = buffer = last_id = ""
    comments = unknown = 0
    retry = None
    tail_is_whole = clean and tail.partition(":")[0] not in STANDARD
    for line in [*lines, tail] if tail and tail_is_whole else lines:
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            last_id = buffer
            if data:
                frames.append(Frame(kind or "message", "\n".join(data)))
            data, kind = [], ""
        elif not name:
            comments += 1
        elif name == "data":
            data.append(value)
        elif name == "event":
            kind = value
        elif name == "id":
            buffer = buffer if "\0" in value else value
        elif name == "retry":
            retry = int(value) if re.fullmatch("[0-9]+", value) else retry
        else:
            unknown += 1
            known = colon and re.fullmatch("[A-Za-z0-9_-]+", name)
            frames.append(Frame(f"field:{name}", value) if known else Frame("line", line))
    pending = ([f"event: {kind}"] if kind else []) + [f"data: {value}" for value in data]
    replaced = text.count("\ufffd")
    if tail and not tail_is_whole:
        pending.append(tail)
        replaced -= tail.count("\ufffd")  # a character cut in two is nobody's fault
    return Reading(frames, "\n".join(pending), comments, unknown, replaced, last_id, retry)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_framing_case_gives_the_events_of_the_standard(case: dict[str, Any]) -> None:
    reading = read(chunks_of(case))
    assert [(frame.kind, frame.data) for frame in reading.frames if is_event(frame)] == [
        (kind, expand(data)) for kind, data, _ in case["events"]
    ]
    assert reading.retry_ms == case["retry"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_event_has_the_id_in_force_when_it_is_given(case: dict[str, Any]) -> None:
    decoder, ids = SseDecoder(), []
    stream = b"".join(chunks_of(case))
    step = 1 if len(stream) < 100_000 else len(stream)
    for at in range(0, len(stream), step):
        if any(is_event(frame) for frame in decoder.feed(stream[at : at + step])):
            ids.append(decoder.last_event_id)
    assert ids == [event_id for _, _, event_id in case["events"]]


@pytest.mark.case("D-13")
@pytest.mark.parametrize(
    "case", [c for c in CASES if "PAUSE" in c["chunks"]], ids=lambda case: case["name"]
)
def test_an_event_is_given_by_the_read_that_ends_it_not_by_the_next_one(
    case: dict[str, Any],
) -> None:
    decoder = SseDecoder()
    before = case["chunks"][: case["chunks"].index("PAUSE")]
    frames = [frame for chunk in before for frame in decoder.feed(chunk.encode("latin-1"))]
    assert frames == [Frame(*case["events"][0][:2])]


@pytest.mark.case("D-15")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_no_cut_of_a_stream_changes_what_is_read(case: dict[str, Any]) -> None:
    stream = b"".join(chunks_of(case))
    whole = read([stream])
    for chunks in cuts_of(stream):
        assert read(chunks) == whole


@pytest.mark.case("D-14")
@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\0"])
def test_no_unicode_line_separator_ends_a_line(separator: str) -> None:
    text = json.dumps({"t": f"a{separator}b"}, ensure_ascii=False)
    for name, kind in (("data", "message"), ("intermediate_data", "field:intermediate_data")):
        stream = f": hello\n\n{name}: {text}\n\n".encode()
        for chunks in ([stream], *cuts_of(stream)):
            assert read(chunks).frames == [Frame(kind, text)]


@pytest.mark.case("D-17")
def test_five_events_in_one_read_are_five_frames_of_that_read() -> None:
    decoder = SseDecoder()
    stream = b"".join(b"data: %d\n\n" % number for number in range(5))
    assert decoder.feed(stream) == [Frame("message", str(number)) for number in range(5)]
    assert decoder.feed(stream) == [Frame("message", str(number)) for number in range(5)]


ODD_LINES = [
    b"", b"data", b"data: a", b"data:b", b"data:  c", b"event: x", b"event", b"id: 7", b"id",
    b"id: x\0y", b"retry: 30", b"retry: \xc2\xb2", b": ping", b":", b" data: a", b"Data: a",
    b"intermediate_data: {}", b'{"code":"workflow_error"}', b"x y: z", b"foo", b"f-1:v",
    b"data: \xff", b"data: \xf0\x9f", b"data: \xe2\x80\xa8", b"data: \xef\xbf\xbd",
    b"data: caf\xc3\xa9 \xf0\x9f\x98\x80", b"\xef\xbb\xbfdata: b", b"data: a\x0b\x0c\x1cb",
]  # fmt: skip
LINES = st.one_of(st.sampled_from(ODD_LINES), st.binary(max_size=8))
ENDS = st.sampled_from([b"\n", b"\n", b"\n\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"\r\r", b""])
PIECES = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=12)


@given(PIECES, st.booleans(), st.booleans(), st.data())
def test_any_stream_in_any_pieces_reads_as_the_standard_says(
    pieces: list[bytes], bom: bool, clean: bool, data: st.DataObject
) -> None:
    pieces = [b"\xef\xbb\xbf"] * bom + pieces
    stream = b"".join(pieces)
    expected = reference(stream, clean=clean)
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    cut = [stream[a:b] for a, b in pairwise([0, *places, len(stream)])]
    for chunks in (pieces, cut, [stream], [bytes([byte]) for byte in stream]):
        assert read(chunks, clean=clean) == expected


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["data:", "data: ", "intermediate_data: ", "id: ", "event: ", ":", "data"]),
        st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])),
    ).map(lambda line: f"{line[0]}{line[1]}\n\n".encode()),
    max_size=8,
)


@given(EVENTS)
def test_whole_one_line_events_read_as_the_standard_says(events: list[bytes]) -> None:
    """The streams for which the decoder has a shortcut, one event a read."""
    stream = [b":\n\n", *events, *events]
    assert read(stream) == reference(b"".join(stream), clean=True)


def test_a_read_of_one_known_event_takes_the_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = SseDecoder()
    decoder.feed(b"intermediate_data: {}\n\ndata: first\n\n")
    monkeypatch.delattr(SseDecoder, "_lines")
    assert decoder.feed(b"data: {}\n\n") == [Frame("message", "{}")]
    assert decoder.feed(b"intermediate_data: {}\n\n") == [Frame("field:intermediate_data", "{}")]


@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        (b"data: a\rdata: b\n\n", [Frame("message", "a\nb")]),
        (b"data: a\r\n\n", [Frame("message", "a")]),
        (b"data: a\nx", []),
        (b"data: a\n\r", [Frame("message", "a")]),
        (b"data\n\n", [Frame("message", "")]),
        (b"\n\n", []),
    ],
)
def test_a_read_that_only_resembles_one_event_is_read_in_full(
    stream: bytes, frames: list[Frame]
) -> None:
    decoder = SseDecoder()
    decoder.feed(b"data: first\n\n")
    assert decoder.feed(stream) == frames


def test_an_unknown_field_is_given_at_the_end_of_its_line() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\nintermediate_data: {") == []
    assert decoder.feed(b"}\n") == [Frame("field:intermediate_data", "{}")]
    assert decoder.feed(b"\n") == [Frame("message", "a")]


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ("intermediate_data: {}", Frame("field:intermediate_data", "{}")),
        ("observability_trace:x", Frame("field:observability_trace", "x")),
        ("foo:", Frame("field:foo", "")),
        ("X-1: a: b", Frame("field:X-1", "a: b")),
        ("DATA: a", Frame("field:DATA", "a")),
        ('{"code":"x"}', Frame("line", '{"code":"x"}')),
        (" data: a", Frame("line", " data: a")),
        ("data : a", Frame("line", "data : a")),
        ("Internal Server Error", Frame("line", "Internal Server Error")),
        ("word", Frame("line", "word")),
    ],
)
def test_what_the_standard_ignores_is_a_frame_and_is_counted(line: str, frame: Frame) -> None:
    reading = read([f"{line}\n\n".encode()])
    assert reading.frames == [frame]
    assert reading.unknown_fields == 1


@pytest.mark.parametrize(
    ("stream", "clean", "frames", "pending"),
    [
        ('{"code":"e"}', True, [Frame("line", '{"code":"e"}')], ""),
        ('{"code":"e"}\n', True, [Frame("line", '{"code":"e"}')], ""),
        ('{"code":"e"}\n', False, [Frame("line", '{"code":"e"}')], ""),
        ('{"code":"e', False, [], '{"code":"e'),
        ("step: {}", True, [Frame("field:step", "{}")], ""),
        ("step: {", False, [], "step: {"),
        ("data: [DO", True, [], "data: [DO"),
        ("data: [DO", False, [], "data: [DO"),
        ("data: b\n", True, [], "data: b"),
        ("event: error\ndata: a\ndat", False, [], "event: error\ndata: a\ndat"),
        ("data", True, [], "data"),
        (": ping", True, [], ""),
        ("\ufeffdata: a", True, [], "data: a"),
    ],
)
def test_the_end_gives_bare_lines_and_tells_what_was_left_unfinished(
    stream: str, clean: bool, frames: list[Frame], pending: str
) -> None:
    reading = read([b"data: a\n\n" if not stream.startswith("\ufeff") else b"", stream.encode()],
                   clean=clean)  # fmt: skip
    assert [frame for frame in reading.frames if frame != Frame("message", "a")] == frames
    assert reading.pending == pending


def test_comments_and_replaced_characters_are_counted_not_given() -> None:
    reading = read([b": ping\n\n:\n\n", b"data: a\xffb\xc3\n\n", "data: \ufffd\n\n".encode()])
    assert reading.comments == 2
    assert reading.replaced == 3
    assert [frame.data for frame in reading.frames if isinstance(frame, Frame)] == [
        "a\ufffdb\ufffd",
        "\ufffd",
    ]


def test_retry_takes_digits_only_and_never_raises() -> None:
    assert read([b"retry: 3000\n"]).retry_ms == 3000
    for value in (b"-1", b"3.0", b"", b"\xd9\xa3", b"9" * 5000):
        assert read([b"retry: " + value + b"\n"]).retry_ms is None


@pytest.mark.parametrize(
    ("stream", "limit"),
    [
        (b"data: " + b"x" * 60, "line longer than 50 bytes"),
        (b"data: " + b"x" * 60 + b"\n\n", "line longer than 50 bytes"),
        (b"step: " + b"x" * 60 + b"\n\n", "line longer than 50 bytes"),
        (b"data: " + b"x" * 30 + b"\n" + b"data: " + b"x" * 30 + b"\n", "event larger than 40"),
        (b"data\n" * 41 + b"\n", "event larger than 40"),
    ],
)
def test_a_breach_of_a_limit_is_one_garbage_and_then_silence(stream: bytes, limit: str) -> None:
    stream = b"data: ok\n\n" + stream
    for chunks in ([stream], *cuts_of(stream)):
        decoder = SseDecoder(max_line=50, max_event=40)
        frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
        assert frames[0] == Frame("message", "ok")
        assert len(frames) == 2
        assert isinstance(frames[1], Garbage)
        assert limit in frames[1].detail
        assert decoder.broken
        assert decoder.feed(b"\n\ndata: more\n\n") == []
        assert decoder.end() == ([], "")


def test_a_line_and_an_event_of_exactly_the_limit_are_read() -> None:
    decoder = SseDecoder(max_line=50, max_event=45)
    for _ in range(2):
        assert decoder.feed(b"data: " + b"x" * 44 + b"\n\n") == [Frame("message", "x" * 44)]


def test_a_server_that_makes_up_field_names_is_read_to_the_end() -> None:
    stream = [b"name%d: v\n\n" % number for number in range(1000)]
    reading = read(stream + stream)
    assert reading.unknown_fields == 2000
    assert reading.frames[-1] == Frame("field:name999", "v")
