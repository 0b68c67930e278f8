"""Recordings of real servers, played through the wire codecs into a decoder, cut as one likes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from websockets.server import ServerProtocol

from loadgen.dialects.contract import Decoder, Dialect, Identity, Opening
from loadgen.dialects.nat_ws import NatWs
from loadgen.events import Answer, Event, Failed, Login, Lost, Notice, Pending, Progress, Prompt
from loadgen.wire.frame import AnyFrame, Request
from loadgen.wire.http1 import HttpLink
from loadgen.wire.websocket import SocketLink

RECORDINGS = Path(__file__).parents[1] / "recordings" / "nat"

CUTS = {"whole": 1 << 30, "byte by byte": 1, "by 7": 7, "by 1024": 1024}
"""Sizes of the pieces in which bytes reach a codec."""


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """``data`` in pieces of ``size`` bytes."""
    return (data[at : at + size] for at in range(0, len(data), size))


def http_events(name: str, dialect: Dialect, size: int = 1 << 30) -> list[Event]:
    """The events of the recording ``name``: its first answer, and the polls of a pending turn.

    What follows a stream is not asked of its decoder, and neither are the answers to replies.
    """
    decode = dialect.decoder()
    events = answer_events((RECORDINGS / f"{name}.raw").read_bytes(), dialect, decode, size)
    if any(type(event) is Pending for event in events):
        for status, body in looks(name):
            events += decode.polled(status, body)
    return events


def answer_events(data: bytes, dialect: Dialect, decode: Decoder, size: int) -> list[Event]:
    """The events of one HTTP answer, its connection closed behind it."""
    link = HttpLink("127.0.0.1:8000")
    link.send(Request("POST", dialect.route))
    frames: list[AnyFrame] = []
    for piece in pieces(data, size):
        frames += link.receive_data(piece)
    frames += link.receive_eof()
    return [event for frame in frames for event in decode(frame)]


def looks(name: str) -> list[tuple[int, str]]:
    """Status and body of each answer to ``GET /executions/{id}`` in the recording ``name``."""
    return _answers(name, "GET /executions/")


def replies(name: str) -> list[tuple[int, str]]:
    """Status and body of each answer to a reply in the recording ``name``."""
    return _answers(name, "POST /executions/")


def _answers(name: str, wanted: str) -> list[tuple[int, str]]:
    """The answers to requests that begin as ``wanted``; a stream may go on between them."""
    found: list[tuple[int, str]] = []
    asked = answering = False
    for line in (RECORDINGS / f"{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["dir"] != "<":
            asked, answering = row["dir"] == ">" and row["text"].startswith(wanted), False
        elif asked and row["text"].startswith("HTTP/1.1 "):
            head, _, body = row["text"].partition("\r\n\r\n")
            found.append((int(head.split()[1]), body))
            asked, answering = False, not body
        elif answering and row["text"].startswith("{"):
            found[-1] = (found[-1][0], row["text"])
            answering = False
    return found


@dataclass
class Socket:
    """One connection of a recording: what was sent, and the events of what came."""

    sent: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def socket_events(name: str, size: int = 1 << 30) -> list[Socket]:
    """The sockets of the recording ``name``.

    Each message of the server is framed by the websockets package and read by our codec; a turn
    begins where the recording sends a question that is well formed, or connects to resume one.
    """
    sockets: list[Socket] = []
    link = server = decode = turn = None
    for line in (RECORDINGS / f"{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        way, text = row["dir"], row["text"]
        if text.startswith("connect ws:"):
            upgrade = NatWs().upgrade(Opening(Identity(), "c"))
            link = SocketLink("ws://127.0.0.1:8000/websocket", upgrade)
            server, decode = ServerProtocol(), NatWs().decoder()
            sockets.append(Socket())
            server.receive_data(link.data_to_send())
            (request,) = server.events_received()
            response = server.accept(request)
            if text.endswith("/nothing"):
                response = server.reject(403, "")
            server.send_response(response)
            _feed(link, decode, server, size, sockets[-1])
            if turn is not None and "conversation_id" in text:
                decode.begin(turn)
        elif way == ">" and text.startswith('{"type": "user_message"'):
            sockets[-1].sent.append(text)
            turn = json.loads(text).get("id", "default")
            decode.begin(turn)
        elif way == ">":
            sockets[-1].sent.append(text)
        elif way == "<" and text.startswith('{"type"'):
            server.send_text(text.encode())
            _feed(link, decode, server, size, sockets[-1])
        elif text.startswith("closed by the server: code 1008"):
            server.send_close(1008, text.partition("reason ")[2].strip("'"))
            _feed(link, decode, server, size, sockets[-1])
        elif text.startswith("closed by the server"):
            _decode(link.receive_eof(), decode, sockets[-1])
    return sockets


def _feed(
    link: SocketLink, decode: Decoder, server: ServerProtocol, size: int, socket: Socket
) -> None:
    for piece in pieces(b"".join(server.data_to_send()), size):
        _decode(link.receive_data(piece), decode, socket)


def _decode(frames: Iterable[AnyFrame], decode: Decoder, socket: Socket) -> None:
    socket.events += [event for frame in frames for event in decode(frame)]


def story(events: Iterable[Event]) -> str:
    """Events as words in order, repeats counted: ``opened started tool*2 answer*4 completed``.

    Progress and notices show their kind, failures their outcome and cause.
    """
    words = (_word(event) for event in events)
    counted = ((word, len(list(group))) for word, group in groupby(words))
    return " ".join(word if n == 1 else f"{word}*{n}" for word, n in counted)


def _word(event: Event) -> str:
    match event:
        case Progress(kind=kind):
            return kind
        case Notice(kind=kind):
            return f"({kind})"
        case Prompt(kind=kind):
            return f"prompt:{kind.value}"
        case Failed(outcome=outcome, cause=cause, final=final):
            return f"{outcome.value}/{cause.value}" + ("" if final else "?")
        case Login(ok=ok):
            return "login" if ok else "login-refused"
        case Lost(code=code):
            return f"lost:{code}"
    return type(event).__name__.lower()


def answer(events: Iterable[Event]) -> str:
    """The answer text of ``events``."""
    return "".join(event.text for event in events if type(event) is Answer)
