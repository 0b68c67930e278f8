"""Socket dialogues of Progress Agentic RAG written down by shape: what a row of the
`arag_socketbook` makes a server say.

The client is websockets' own, not our product's.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from socket import SHUT_RDWR
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
from arag_frames import frame_line, kind_of_line, meaning, page_shape
from counterparts import Server
from exchange import Answer
from shapes import masked, text_shape
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from loadgen.clock import NS_PER_S, now_ns

AGENT = "/api/v1/agent/agent-0001"
EPHEMERAL = f"{AGENT}/session/ephemeral/ws"
_TIMEOUT_S = 30
_UNSEEN = ("date", "content-length", "sec-websocket-accept")


@dataclass(frozen=True)
class Open:
    """Open a socket at ``path``; ``{me}`` in it is unique to the playing.  ``limit``: the client
    takes no message of more bytes.
    """

    path: str = EPHEMERAL
    on: str = "a"
    limit: int | None = None


@dataclass(frozen=True)
class Say:
    """Send a message: JSON, or a text or bytes as they are; texts of a tuple are its fragments."""

    message: Any
    on: str = "a"


@dataclass(frozen=True)
class Reply:
    """Answer the request that came last, whatever ``response`` is; ``{me}`` in ``request`` as in
    `Open`, None is the right one.
    """

    response: Any
    request: Any = None
    on: str = "a"


@dataclass(frozen=True)
class Remind:
    """Answer the wish for credentials with those that were sent before."""

    on: str = "a"


@dataclass(frozen=True)
class Until:
    """Listen until a frame of this `arag_frames.meaning` has come ``times`` times."""

    word: str = "done"
    times: int = 1
    on: str = "a"


@dataclass(frozen=True)
class Quiet:
    """Listen for so long, whatever comes."""

    seconds: float = 0.3
    on: str = "a"


@dataclass(frozen=True)
class Wait:
    """Do nothing for so long."""

    seconds: float = 0.3


@dataclass(frozen=True)
class Ended:
    """Listen until the socket ends, at most ``_TIMEOUT_S``."""

    on: str = "a"


@dataclass(frozen=True)
class Consent:
    """Open the URL of the login that is wanted, and go where it sends its user; ``blindly``: go
    there without a look at the provider.
    """

    blindly: bool = False


@dataclass(frozen=True)
class Close:
    """Close the socket, and do not look at what comes in return."""

    on: str = "a"


@dataclass(frozen=True)
class Drop:
    """Lose the connection as a network would."""

    on: str = "a"


Step = Open | Say | Reply | Remind | Until | Quiet | Wait | Ended | Consent | Close | Drop


@dataclass(frozen=True)
class Row:
    """One dialogue; unless it begins with `Open`, the ephemeral session's socket is opened first.

    ``racing``: only the order inside each kind of frame is compared.
    """

    name: str
    does: Sequence[Step]
    racing: bool = False


def play(server: Server, row: Row) -> list[str]:
    """What ``row`` makes ``server`` say, by shape."""
    talk = _Talk(server)
    steps = row.does if isinstance(row.does[0], Open) else [Open(), *row.does]
    try:
        for step in steps:
            talk.act(step)
    finally:
        talk.leave()
    return sorted(talk.lines, key=kind_of_line) if row.racing else talk.lines


class _Talk:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._me = uuid4().hex
        self._opened = contextlib.ExitStack()
        self._sockets: dict[str, ClientConnection] = {}
        self._request: Any = "nothing"
        self._login = ""
        self._credentials: Any = {}
        self.lines: list[str] = []

    def act(self, step: Step) -> None:
        """Do what a row says; on a socket that has ended nothing can be done."""
        match step:
            case Open():
                self._open(step)
            case Wait():
                time.sleep(step.seconds)
            case Consent():
                self._consent(blindly=step.blindly)
            case _ if step.on in self._sockets:
                self._on(self._sockets[step.on], step)
            case _:
                self.lines.append(f"{step.on}: not open for {type(step).__name__}")

    def leave(self) -> None:
        """Lose all connections."""
        for name in list(self._sockets):
            self._drop(name)
        self._opened.close()

    def _on(self, socket: ClientConnection, step: Any) -> None:
        match step:
            case Say():
                self._send(socket, step.message, step.on)
            case Reply():
                request = self._request if step.request is None else step.request
                self._send(socket, {"request_id": request, "response": step.response}, step.on)
            case Remind():
                cached = json.dumps({"existing_credentials": self._credentials})
                said = {"request_id": self._request, "response": cached}
                self._send(socket, said, step.on)
            case Until():
                missing = step.times
                while missing and (told := self._listen(socket, step.on, _TIMEOUT_S)) is not None:
                    missing -= meaning(told) == step.word
                if missing:
                    self.lines.append(f"{step.on}: no {step.word}")
            case Quiet():
                end = now_ns() + step.seconds * NS_PER_S
                while (left := (end - now_ns()) / NS_PER_S) > 0:
                    if self._listen(socket, step.on, left) is None:
                        break
            case Ended():
                while self._listen(socket, step.on, _TIMEOUT_S) is not None:
                    pass
                if step.on in self._sockets:
                    self.lines.append(f"{step.on}: stays open")
            case Close():
                socket.close()
                del self._sockets[step.on]
                self.lines.append(f"{step.on}: left")
            case Drop():
                self._drop(step.on)

    def _open(self, step: Open) -> None:
        uri = self._server.origin.replace("http", "ws", 1) + step.path.replace("{me}", self._me)
        try:
            socket = self._opened.enter_context(
                connect(uri, max_size=step.limit, ping_interval=None, close_timeout=1, proxy=None)
            )
        except InvalidStatus as refusal:
            answer = refusal.response
            self._head(step.on, answer.status_code, answer.headers.raw_items())
            self.lines.append(f"{step.on}: {text_shape((answer.body or b'').decode())}")
            return
        assert socket.response is not None
        self._head(step.on, socket.response.status_code, socket.response.headers.raw_items())
        self._sockets[step.on] = socket

    def _head(self, name: str, status: int, headers: Iterable[tuple[str, str]]) -> None:
        self.lines.append(f"{name}: status {status}")
        self.lines += sorted(
            f"{name}: {header.lower()} = {masked(value)}"
            for header, value in headers
            if header.lower() not in _UNSEEN
        )

    def _send(self, socket: ClientConnection, message: Any, name: str) -> None:
        raw = message if isinstance(message, str | bytes | tuple) else json.dumps(message)
        if isinstance(raw, str):
            raw = raw.replace("{me}", self._me)
        with contextlib.suppress(ConnectionClosed):
            socket.send(raw)
        self.lines.append(f"{name}: said")

    def _listen(self, socket: ClientConnection, name: str, seconds: float) -> Any:
        """The next frame, written down; None if none came."""
        try:
            raw = socket.recv(seconds)
        except TimeoutError:
            return None
        except ConnectionClosed as end:
            heard = "nothing" if end.rcvd is None else f"{end.rcvd.code} {end.rcvd.reason}"
            # What we sent is worth a line where we said it first: a frame was too big for us.
            ours = f", we {end.sent.code}" if end.sent and not end.rcvd_then_sent else ""
            self.lines.append(f"{name}: closed by {heard}{ours}")
            del self._sockets[name]
            return None
        if isinstance(raw, bytes):
            self.lines.append(f"{name}: {len(raw)} bytes")
            return {}
        told = json.loads(raw)
        self.lines.append(f"{name}: {frame_line(raw.replace(self._me, '<me>'))}")
        if meaning(told) == "feedback":
            self._request = told["feedback"]["request_id"]
            self._credentials = told["feedback"]["credentials"] or self._credentials
        if meaning(told) == "oauth":
            self._login = told["oauth"]["oauth_url"]
        return told

    def _consent(self, *, blindly: bool) -> None:
        place = urlsplit(self._login)
        query = parse_qs(place.query)
        self._note(f"login asks with: {' '.join(sorted(query))}")
        if blindly:
            back = urlsplit(f"{query['redirect_uri'][0]}&state={query['state'][0]}")
        else:
            trusted = ssl.create_default_context(cafile=self._server.trust)
            page = httpx.get(self._login, verify=trusted, trust_env=False)
            back = urlsplit(page.headers["location"])
            self.lines.append(f"login by {place.scheme}: {page.status_code}")
        self._note(f"back to {back.path} with {' '.join(sorted(parse_qs(back.query)))}")
        answer = Answer(self._server, "GET", f"{back.path}?{back.query}", None, {})
        kind = dict(answer.headers)["content-type"]
        self.lines.append(f"callback: {answer.status} {kind}")
        self._note(page_shape("".join(answer.frames())))

    def _note(self, line: str) -> None:
        self.lines.append(masked(line.replace(self._me, "<me>")))

    def _drop(self, name: str) -> None:
        """Without a close frame."""
        self._sockets.pop(name).socket.shutdown(SHUT_RDWR)
