"""The load server: NAT's frames, pre-rendered, on an absolute schedule, with a log of its writes.

``python -m tests.bench.server`` speaks ``/v1/chat/stream`` and ``/websocket`` well enough for every
client of the benchmarks, at a cost far below theirs (the bundled mock renders each frame and runs
an ASGI stack, so it would be the limit).  Words of the question: ``events=N`` (a synthetic first
step, one tool step, N-2 answer chunks) and ``rate=R`` (events a second).  The first event of the
k-th turn is due a golden-ratio share of the interval after the question, so that streams have
phases of their own; the first turn of a connection waits for such a share of a whole turn, so that
turns do not begin and end in step either.

``GET /_truth`` has a line for each ended turn, in the mock's words; ``GET /_sent?from=NS&to=NS``
tells how many events were written in that window, how late against their schedule, and how busy
this process was; ``GET /_forget`` begins both anew.  All times are monotonic ns, taken right
*before* the write.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import uvloop
from websockets.frames import Close, Opcode
from websockets.frames import Frame as WsFrame
from websockets.http11 import Request
from websockets.server import ServerProtocol

from loadgen.clock import now_ns
from tests.bench.frames import SseFrames, WsFrames
from tests.bench.stage import Stage, Turn

_SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: bench\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Door(asyncio.Protocol):
    """One connection: HTTP until it asks to be a WebSocket."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._buffer = b""
        self._socket: ServerProtocol | None = None
        self.open = False
        self.begun = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._fd = transport.get_extra_info("socket").fileno()
        self.open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False

    def write(self, data: bytes) -> None:
        """To the kernel at once, unless it has not yet taken what went before."""
        if self._transport.get_write_buffer_size():
            self._transport.write(data)
            return
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.open = False
            return
        if sent < len(data):
            self._transport.write(data[sent:])

    def data_received(self, data: bytes) -> None:
        at_ns = now_ns()
        if self._socket is not None:
            self._messages(self._socket, data, at_ns)
            return
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        request, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = request.split(" ", 2)
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        if len(rest) < int(headers.get("content-length", 0)):
            return
        self._buffer = b""
        if "upgrade" in headers:
            self._socket = ServerProtocol()
            self._messages(self._socket, head + found, at_ns)
        elif method == "POST":
            self._transport.write(_SSE_HEAD)
            text = orjson.loads(rest)["messages"][-1]["content"]
            self._begin(headers.get("user-message-id", ""), text, at_ns)
        else:
            self._tell(path)

    def _messages(self, socket: ServerProtocol, data: bytes, at_ns: int) -> None:
        socket.receive_data(data)
        for event in socket.events_received():
            if isinstance(event, Request):
                socket.send_response(socket.accept(event))
            elif not isinstance(event, WsFrame):
                continue
            elif event.opcode is Opcode.TEXT:
                message = orjson.loads(bytes(event.data))
                text = message["content"]["messages"][-1]["content"][0]["text"]
                self._begin(message["id"], text, at_ns)
            elif event.opcode is Opcode.CLOSE:
                socket.send_close(int(Close.parse(bytes(event.data)).code))
        for out in socket.data_to_send():
            if out:
                self._transport.write(out)
            else:
                self._transport.close()

    def _begin(self, id_: str, text: str, at_ns: int) -> None:
        words = dict(word.split("=") for word in text.split() if "=" in word)
        frames = SseFrames(id_) if self._socket is None else WsFrames(id_)
        turn = Turn(self, id_, frames, int(words["events"]), float(words["rate"]))
        self._stage.begin(turn, at_ns)

    def _tell(self, path: str) -> None:
        parts = urlsplit(path)
        if parts.path == "/_truth":
            body = b"".join(self._stage.ended)
        elif parts.path == "/_forget":
            # So that one probe does not pay for the memory of those before it.
            self._stage.ended.clear()
            self._stage.cpu.clear()
            del self._stage.sent_ns[:], self._stage.late_ns[:]
            body = b"{}"
        else:
            window = parse_qs(parts.query)
            low, high = (int(window[name][0]) for name in ("from", "to"))
            body = orjson.dumps(self._stage.report(low, high))
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self._transport.write(head + body)
        self._transport.close()


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    stage = Stage()
    watching = loop.create_task(stage.watch())
    server = await loop.create_server(lambda: Door(stage), "127.0.0.1", 0, backlog=4096)
    print(f"load server on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stop.wait()
    server.close()
    watching.cancel()


def main() -> None:
    """Serve until SIGTERM."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.disable()  # its pauses would be the clients' errors
    uvloop.run(_serve())


if __name__ == "__main__":
    main()
