"""The load server: NAT's frames, pre-rendered, on an absolute schedule, with a log of its writes.

``python -m tests.bench.server`` speaks ``/v1/chat/stream`` and ``/websocket`` well enough for every
client of the benchmarks, at a cost far below theirs (the bundled mock renders each frame and runs
an ASGI stack, so it would be the limit).  Words of the question: ``events=N`` (a synthetic first
step, one tool step, N-2 answer chunks) and ``rate=R`` (events a second).  The first event of the
k-th turn is due a golden-ratio share of the interval after the question, so that streams have
phases of their own.

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
from array import array
from bisect import bisect_left
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import uvloop
from websockets.frames import Close, Opcode
from websockets.frames import Frame as WsFrame
from websockets.http11 import Request
from websockets.server import ServerProtocol

from loadgen.clock import NS_PER_S, cpu_ns, now_ns, wall_ns
from mockagent.deadlines import Deadlines
from mockagent.frames import Timestamp, WsFrames, sse_chunk, sse_step
from mockagent.ids import new_id
from mockagent.words import read_words
from mockagent.workflow import Step

_GOLDEN = 0.6180339887498949
_ROUND = 256
"""Writes before the event loop gets a turn to read requests."""
_WATCH_S = 0.05

_SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: bench\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_SSE_END = b"0\r\n\r\n"


class Turn:
    """One answer being played; times in ns, 0 means not yet."""

    __slots__ = (
        "chunk", "door", "due_ns", "ended_ns", "ending", "events", "first_answer_ns",
        "first_progress_ns", "id", "interval_ns", "openings", "played",
    )  # fmt: skip

    def __init__(self, door: Door, id_: str, events: int, rate: float) -> None:
        self.door = door
        self.id = id_
        self.events = events
        self.interval_ns = int(NS_PER_S / rate)
        self.due_ns = self.played = 0
        self.first_progress_ns = self.first_answer_ns = self.ended_ns = 0
        root = new_id()
        first = Step(root, "root", "Function Start: <workflow>", "**Function Input:**")
        second = Step(new_id(), root, "Tool: search", "**Input:** query 0")
        self.openings, self.chunk, self.ending = door.render(id_, (first, second), "w123 ")

    def play(self, at_ns: int) -> bool:
        """Write the next event; False after the last one."""
        played = self.played
        if played >= self.events:
            self.ended_ns = at_ns
            self.door.write(self.ending)
            return False
        self.played = played + 1
        if played > 1:
            if played == 2:
                self.first_answer_ns = at_ns
            self.door.write(self.chunk)
        else:
            if played == 1:
                self.first_progress_ns = at_ns
            self.door.write(self.openings[played])
        return True

    def line(self) -> bytes:
        """The truth about this turn."""
        row = {
            "id": self.id,
            "first_progress_ns": self.first_progress_ns,
            "first_answer_ns": self.first_answer_ns,
            "ended_ns": self.ended_ns,
            "chunks": self.events - 2,
            "outcome": "completed",
        }
        return orjson.dumps(row) + b"\n"


class Stage:
    """All turns under way, in the order of their next events, and what was written when."""

    def __init__(self) -> None:
        self.sent_ns = array("q")
        self.late_ns = array("q")
        self.ended: list[bytes] = []
        self.cpu: list[tuple[int, int]] = []
        self._heap: list[tuple[int, int, Turn]] = []
        self._order = count()
        self._deadlines = Deadlines()
        self._tasks: set[asyncio.Task[None]] = set()
        self._playing: object | None = None

    def begin(self, turn: Turn, at_ns: int) -> None:
        """Play ``turn`` from now on."""
        number = next(self._order)
        turn.due_ns = at_ns + int(turn.interval_ns * (number * _GOLDEN % 1))
        heappush(self._heap, (turn.due_ns, number, turn))
        if self._playing is None or self._heap[0][2] is turn:
            task = asyncio.get_running_loop().create_task(self._play())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _play(self) -> None:
        """Play until nothing is left, or a task for an earlier turn has taken over."""
        me = self._playing = object()
        heap = self._heap
        while heap and self._playing is me:
            await self._deadlines.until(heap[0][0])
            if self._playing is me:
                self._round()
        if self._playing is me:
            self._playing = None

    def _round(self) -> None:
        heap, sent, late = self._heap, self.sent_ns, self.late_ns
        for _ in range(_ROUND):
            if not heap:
                return
            due_ns, number, turn = heap[0]
            at_ns = now_ns()
            if due_ns > at_ns:
                return
            if not turn.door.open:
                heappop(heap)
            elif turn.play(at_ns):
                sent.append(at_ns)
                late.append(at_ns - due_ns)
                heapreplace(heap, (due_ns + turn.interval_ns, number, turn))
            else:
                heappop(heap)
                self.ended.append(turn.line())

    def report(self, from_ns: int, to_ns: int) -> dict[str, Any]:
        """What was written in a window, and how busy this process was."""
        low, high = bisect_left(self.sent_ns, from_ns), bisect_left(self.sent_ns, to_ns)
        late = sorted(self.late_ns[low:high])
        return {
            "events": high - low,
            "late_p50_ns": late[len(late) // 2] if late else None,
            "late_p99_ns": late[len(late) * 99 // 100] if late else None,
            "cpu": self._busy(from_ns, to_ns),
        }

    async def watch(self) -> None:
        """Note this process's CPU time every now and then."""
        while True:
            self.cpu.append((now_ns(), cpu_ns()))
            await asyncio.sleep(_WATCH_S)

    def _busy(self, from_ns: int, to_ns: int) -> float | None:
        """The share of a processor used, between the first and the last note of a window."""
        notes = [note for note in self.cpu if from_ns <= note[0] <= to_ns]
        if len(notes) < 2:
            return None
        (began_ns, before), (ended_ns, after) = notes[0], notes[-1]
        return (after - before) / (ended_ns - began_ns)


class Door(asyncio.Protocol):
    """One connection: HTTP until it asks to be a WebSocket."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._buffer = b""
        self._socket: ServerProtocol | None = None
        self.open = False

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

    def render(self, turn: str, steps: tuple[Step, Step], text: str) -> tuple[Any, bytes, bytes]:
        """The two opening events, an answer chunk and the ending as bytes."""
        if self._socket is None:
            openings = tuple(_chunked(sse_step(step)) for step in steps)
            chunk = sse_chunk(new_id(), text, wall_ns() // NS_PER_S)
            return openings, _chunked(chunk), _SSE_END
        frames = WsFrames(turn, "bench", Timestamp())
        openings = tuple(_message(frames.step(step, wall_ns())) for step in steps)
        chunk = _message(frames.chunk(new_id(), text, wall_ns()))
        return openings, chunk, _message(frames.complete(wall_ns()))

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
        words = dict(read_words(text))
        turn = Turn(self, id_, int(words["events"]), float(words["rate"]))
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


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def _message(text: str) -> bytes:
    return WsFrame(Opcode.TEXT, text.encode()).serialize(mask=False)


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
