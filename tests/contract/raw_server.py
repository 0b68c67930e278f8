"""Small servers of plain sockets, in threads: they do what no real server would, on purpose."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from websockets.frames import Opcode
from websockets.server import ServerProtocol

SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
_LIMIT_S = 20


@dataclass
class RawServer:
    """Where it listens, and what it has seen: the sockets taken, and what its handler raised."""

    port: int
    scheme: str
    host: str = "127.0.0.1"
    requests: list[bytes] = field(default_factory=list)
    taken: int = 0
    troubles: list[BaseException] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


Handler = Callable[[socket.socket, RawServer], None]


@contextmanager
def raw_server(
    handler: Handler, *, tls: ssl.SSLContext | None = None, scheme: str | None = None
) -> Iterator[RawServer]:
    """Serve each connection by ``handler`` in a thread; it is closed when the handler returns."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    listener.settimeout(0.05)
    server = RawServer(listener.getsockname()[1], scheme or ("https" if tls else "http"))
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def serve(peer: socket.socket) -> None:
        try:
            peer.settimeout(_LIMIT_S)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = tls.wrap_socket(peer, server_side=True) if tls else peer
            with stream:
                handler(stream, server)
        except (OSError, EOFError):
            pass
        except Exception as error:  # noqa: BLE001 - shown by the test that owns the server
            server.troubles.append(error)

    def accept() -> None:
        while not stopping.is_set():
            with suppress(TimeoutError):
                peer, _ = listener.accept()
                server.taken += 1
                threads.append(threading.Thread(target=serve, args=(peer,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield server
    finally:
        stopping.set()
        accepting.join()
        listener.close()
        for thread in threads:
            thread.join(2)
    assert not server.troubles, server.troubles


def read_request(stream: socket.socket, server: RawServer | None = None) -> bytes:
    """The next HTTP request, head and body.  Raises EOFError when there is none."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(stream)
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += _more(stream)
    if server is not None:
        server.requests.append(head + b"\r\n\r\n" + body)
    return head + b"\r\n\r\n" + body


def _more(stream: socket.socket) -> bytes:
    data = stream.recv(65_536)
    if not data:
        raise EOFError
    return data


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value: object, kind: str | None = None) -> bytes:
    """One server-sent event in a chunk of its own."""
    name = f"event: {kind}\n" if kind else ""
    return chunk(f"{name}data: {json.dumps(value)}\n\n".encode())


def delta(text: str) -> bytes:
    """An answer chunk."""
    return event({"choices": [{"index": 0, "delta": {"content": text}}]})


def prompt(key: str = "p1", url: str | None = None) -> bytes:
    """A prompt over SSE."""
    asked = {
        "event_type": "interaction_required",
        "execution_id": "e1",
        "interaction_id": key,
        "prompt": {"text": "year?", "input_type": "text", "timeout": None},
        "response_url": url or f"/executions/e1/interactions/{key}/response",
    }
    return event(asked, "interaction_required")


def reset(stream: socket.socket) -> None:
    """Close with RST instead of FIN."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


class Peer:
    """The server's end of a WebSocket."""

    def __init__(self, stream: socket.socket, server: RawServer | None = None) -> None:
        self._stream = stream
        self._protocol = ServerProtocol()
        self._events: list = []
        self.path = ""
        self._server = server

    def accept(self, close: int | None = None) -> None:
        """Take the handshake; with ``close`` say goodbye in the same write."""
        request = self._next()
        self.path = request.path
        if self._server is not None:
            self._server.requests.append(request.path.encode())
        self._protocol.send_response(self._protocol.accept(request))
        if close is not None:
            self._protocol.send_close(close)
        self._flush()

    def receive(self) -> dict:
        """The next message.  Raises EOFError when the client has left."""
        while True:
            frame = self._next()
            if frame.opcode is Opcode.TEXT:
                return json.loads(frame.data)
            if frame.opcode is Opcode.CLOSE:
                raise EOFError

    def say(self, *messages: dict) -> None:
        """Send messages in one write."""
        for message in messages:
            self._protocol.send_text(json.dumps(message, separators=(",", ":")).encode())
        self._flush()

    def answer(self, turn: str, text: str | None, status: str = "in_progress") -> dict:
        """A response message of ``turn``."""
        return {
            "type": "system_response_message",
            "parent_id": turn,
            "content": {"text": text},
            "status": status,
        }

    def complete(self, turn: str) -> None:
        """A whole good answer."""
        self.say(self.answer(turn, "done"), self.answer(turn, None, "complete"))

    def close(self, code: int) -> None:
        """Say goodbye."""
        self._protocol.send_close(code)
        self._flush()

    def raw(self, data: bytes) -> None:
        """Bytes that are no frame of ours."""
        self._flush()
        self._stream.sendall(data)

    def _next(self):
        while not self._events:
            self._protocol.receive_data(_more(self._stream))
            self._events += self._protocol.events_received()
            self._flush()
        return self._events.pop(0)

    def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            self._stream.sendall(data)
