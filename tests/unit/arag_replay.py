"""The recording of a real Hyperforge, played through the wire codecs into a decoder.

The recording leaves out what is null; here every frame has all its keys again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from replay import pieces
from websockets.server import ServerProtocol

from loadgen.dialects.arag_http import AragHttp
from loadgen.dialects.arag_ws import AragWs
from loadgen.dialects.contract import Identity, Opening
from loadgen.events import Event
from loadgen.wire.frame import Request
from loadgen.wire.http1 import HttpLink
from loadgen.wire.websocket import SocketLink

RECORDING = Path(__file__).parents[1] / "recordings" / "hyperforge" / "probe.jsonl"
KEYS = (
    "exception", "answer", "answer_citations", "answer_urls", "agent_request", "generated_text",
    "step", "possible_answer", "context", "operation", "seqid", "original_question_uuid",
    "actual_question_uuid", "feedback", "oauth", "data_visualizations",
    "streaming_response_chunk", "reasoning",
)  # fmt: skip
BIG = 1_500_000
AGENT = {"agent": "agent-0001"}


def frame(operation: int = 0, **parts: Any) -> str:
    """A frame as the server writes it: compact, all keys, nulls included."""
    told = dict.fromkeys(KEYS) | parts | {"operation": operation}
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False)


def cases() -> dict[str, list[dict[str, Any]]]:
    """The rows of each case, its first among them, by its name."""
    rows = (json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines())
    found: dict[str, list[dict[str, Any]]] = {}
    name = ""
    for row in rows:
        name = row.get("case", name)
        found.setdefault(name, []).append(row)
    return found


def socket_events(rows: list[dict[str, Any]], size: int = 1 << 30) -> list[Event]:
    """The events of a socket; a turn begins with a question, while none is under way."""
    dialect = AragWs(options=AGENT)
    opening = Opening(Identity(), "c", grants={"token": "eph"})
    link = SocketLink("ws://127.0.0.1:8000", dialect.upgrade(opening))
    server, decode = ServerProtocol(), dialect.decoder()
    server.receive_data(link.data_to_send())
    (request,) = server.events_received()
    server.send_response(server.accept(request))
    events: list[Event] = []
    asked = 0

    def deliver() -> None:
        for piece in pieces(b"".join(server.data_to_send()), size):
            for one in link.receive_data(piece):
                events.extend(decode(one))

    deliver()
    for row in rows:
        if "send" in row and '"question"' in row["send"] and not decode._frames.open:
            asked += 1
            decode.begin(f"turn-{asked}")
        elif "recv" in row:
            server.send_text(_whole(row["recv"], rows).encode())
            deliver()
        elif (row.get("closed") or {}).get("rcvd"):
            server.send_close(*row["closed"]["rcvd"])
            deliver()
    return events


def post_events(rows: list[dict[str, Any]], size: int = 1 << 30) -> list[Event]:
    """The events of an answer to a POST."""
    decode = AragHttp(options=AGENT).decoder()
    link = HttpLink("127.0.0.1:8000")
    link.send(Request("POST", rows[0]["post"]))
    return [
        event
        for piece in pieces(b"".join(_answer(rows)), size)
        for one in link.receive_data(piece)
        for event in decode(one)
    ]


def _answer(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    head = next(row for row in rows if "status" in row)
    lines = [row["line"] for row in rows if "line" in row]
    yield f"HTTP/1.1 {head['status']} X\r\ncontent-type: {head['content_type']}\r\n".encode()
    if head["status"] != 200:
        body = json.dumps(lines[0]).encode()
        yield b"content-length: %d\r\n\r\n%b" % (len(body), body)
        return
    yield b"transfer-encoding: chunked\r\n\r\n"
    for line in lines:
        text = (_whole(line, rows) + "\n").encode()
        yield b"%x\r\n%b\r\n" % (len(text), text)
    yield b"0\r\n\r\n"


def _whole(told: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """A frame with what the recording left out: nulls, and a text of 1.5 MB."""
    if "note" not in told:
        return frame(**told)
    answer = next(row["recv"] for row in rows if row.get("recv", {}).get("answer"))
    (block,) = answer["answer_citations"]["metadata"].values()
    chunk = {"chunk_id": "rid-1/t/text/0-48", "text": "x" * BIG}
    return frame(context={"id": block["context_id"], "agent": "mock", "chunks": [chunk]})
