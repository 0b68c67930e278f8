"""WebSocket dialogues written down by shape: what a row of the `socketbook` makes a server say.

The client is websockets' own, not our product's.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from socket import SHUT_RDWR
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import exchange
from counterparts import Server
from shapes import masked, shape, text_shape
from tokens import filled
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from loadgen.clock import NS_PER_S, now_ns

_TIMEOUT_S = 30
_UNSEEN = ("date", "content-length", "sec-websocket-accept")
_KIND = re.compile(r"\w+: (\{type: '\w+'|\w+)")


@dataclass(frozen=True)
class Open:
    """Open a socket at ``path``; ``{me}`` in it and in the headers is the row's own word, and
    headers may name a token (`tokens.filled`).
    """

    path: str = "/websocket"
    headers: Sequence[tuple[str, str]] = ()
    on: str = "a"


@dataclass(frozen=True)
class Say:
    """Send a message: JSON, or a text or bytes as they are; ``{me}`` and tokens as in `Open`."""

    message: Any
    on: str = "a"


@dataclass(frozen=True)
class Reply:
    """Answer the prompt that came last, on whatever socket, with ``value``, or as is right."""

    value: str | None = None
    on: str = "a"


@dataclass(frozen=True)
class Until:
    """Listen until a message of this type or status has come ``times`` times."""

    word: str = "complete"
    times: int = 1
    on: str = "a"


@dataclass(frozen=True)
class Quiet:
    """Listen for so long, whatever comes."""

    seconds: float = 0.3
    on: str = "a"


@dataclass(frozen=True)
class Consent:
    """Open the URL of the login that is wanted, or refuse it."""

    deny: bool = False
    on: str = "a"


@dataclass(frozen=True)
class Drop:
    """Lose the connection as a network would."""

    on: str = "a"


Step = Open | Say | Reply | Until | Quiet | Consent | Drop


@dataclass(frozen=True)
class Row:
    """One dialogue; unless it begins with `Open`, socket ``a`` is opened first.

    ``kind``: of the servers, see `conftest.KINDS`.  ``racing``: only the order inside each kind of
    message is compared.
    """

    name: str
    does: Sequence[Step]
    kind: str = ""
    racing: bool = False
    who: Sequence[tuple[str, str]] = field(default=())


def play(server: Server, row: Row) -> list[str]:
    """What ``row`` makes ``server`` say, by shape."""
    talk = _Talk(server, uuid5(NAMESPACE_URL, repr(row)).hex)
    steps = row.does if isinstance(row.does[0], Open) else [Open(headers=row.who), *row.does]
    try:
        for step in steps:
            talk.act(step)
    finally:
        talk.leave()
    return sorted(talk.lines, key=_kind_of) if row.racing else talk.lines


class _Talk:
    def __init__(self, server: Server, me: str) -> None:
        self._server = server
        self._me = me
        self._opened = contextlib.ExitStack()
        self._sockets: dict[str, ClientConnection] = {}
        self._prompt: Mapping[str, Any] = {}
        self.lines: list[str] = []

    def act(self, step: Step) -> None:
        """Do what a row says; on a socket that has ended nothing can be done."""
        match step:
            case Open():
                self._open(step)
            case Consent():
                back = exchange.callback(self._prompt["content"]["text"], deny=step.deny)
                answer = exchange.Answer(self._server, "GET", back, None, {})
                self.lines.append(f"consent: {answer.status}")
                answer.leave()
            case _ if step.on in self._sockets:
                self._on(self._sockets[step.on], step)

    def leave(self) -> None:
        """Lose all connections."""
        for name in list(self._sockets):
            self._drop(name)
        self._opened.close()

    def _on(self, socket: ClientConnection, step: Step) -> None:
        match step:
            case Say():
                self._send(socket, step.message, step.on)
            case Reply():
                self._send(socket, _reply(self._prompt, step.value), step.on)
            case Until():
                missing = step.times
                while missing and (told := self._listen(socket, step.on, _TIMEOUT_S)) is not None:
                    missing -= step.word in (told.get("type"), told.get("status"))
                if missing and step.on in self._sockets:
                    self.lines.append(f"{step.on}: no {step.word}")
            case Quiet():
                end = now_ns() + step.seconds * NS_PER_S
                while (left := (end - now_ns()) / NS_PER_S) > 0:
                    if self._listen(socket, step.on, left) is None:
                        break
            case Drop():
                self._drop(step.on)

    def _open(self, step: Open) -> None:
        uri = self._server.origin.replace("http", "ws", 1) + step.path.format(me=self._me)
        headers = [(name, self._filled(value)) for name, value in step.headers]
        try:
            socket = self._opened.enter_context(
                connect(
                    uri,
                    additional_headers=headers,
                    max_size=None,
                    ping_interval=None,
                    close_timeout=1,
                    proxy=None,
                )
            )
        except InvalidStatus as refusal:
            answer = refusal.response
            self._head(step.on, answer.status_code, answer.headers.raw_items())
            self.lines.append(f"{step.on}: {text_shape((answer.body or b'').decode())}")
            return
        assert socket.response is not None
        self._head(step.on, socket.response.status_code, socket.response.headers.raw_items())
        self._sockets[step.on] = socket

    def _filled(self, text: str) -> str:
        return filled(text.replace("{me}", self._me))

    def _head(self, name: str, status: int, headers: Any) -> None:
        self.lines.append(f"{name}: status {status}")
        self.lines += sorted(
            f"{name}: {header.lower()} = {masked(value)}"
            for header, value in headers
            if header.lower() not in _UNSEEN
        )

    def _send(self, socket: ClientConnection, message: Any, name: str) -> None:
        text = message if isinstance(message, str | bytes) else json.dumps(message)
        with contextlib.suppress(ConnectionClosed):
            socket.send(self._filled(text) if isinstance(text, str) else text)
        self.lines.append(f"{name}: said")

    def _listen(self, socket: ClientConnection, name: str, seconds: float) -> Any:
        """The next message, written down; None if none came."""
        try:
            text = socket.recv(seconds)
        except TimeoutError:
            return None
        except ConnectionClosed as end:
            code = 1006 if end.rcvd is None else end.rcvd.code
            reason = "" if end.rcvd is None else end.rcvd.reason
            self.lines.append(f"{name}: closed {code} {reason}")
            del self._sockets[name]
            return None
        assert isinstance(text, str)
        told = json.loads(text)
        self.lines.append(f"{name}: {shape(told)}")
        if told.get("user_id"):  # follows from the credential alone, so it is compared as it is
            self.lines.append(f"{name}: user {told['user_id']}")
        if told.get("type") == "system_interaction_message":
            self._prompt = told
        return told

    def _drop(self, name: str) -> None:
        """Without a close frame."""
        self._sockets.pop(name).socket.shutdown(SHUT_RDWR)


def _reply(prompt: Mapping[str, Any], value: str | None) -> dict[str, Any]:
    asked = prompt.get("content", {})
    if value is None:
        value = asked["options"][1]["value"] if "options" in asked else "2024"
    said = {"role": "user", "content": [{"type": "text", "text": value}]}
    return {
        "type": "user_interaction_message",
        "id": "reply",
        "thread_id": "default",
        "parent_id": prompt.get("id", "nothing"),
        "conversation_id": "{me}",
        "content": {"messages": [said]},
    }


def _kind_of(line: str) -> str:
    found = _KIND.match(line)
    return found[0] if found else line
