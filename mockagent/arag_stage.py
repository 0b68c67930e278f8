"""Where a Progress turn is shown: a socket, or the lines of an HTTP answer.

The server's own process forwards what the agent says, and forwards nothing while it waits for the
user's reply, however long: that is the gate here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from starlette.types import Send

from loadgen.clock import now_ns
from mockagent.faults import Break
from mockagent.stage import ClientGone
from mockagent.truth import PromptTruth
from mockagent.ws_stage import Socket


class NotOverHttp(Exception):
    """The one-shot route cannot ask anybody; the text is the server's."""


class AragStage(Protocol):
    """A transport of a turn; the first three methods are those of `delivery.Outlet`."""

    websocket: bool

    @property
    def gone(self) -> bool:
        """Whether the client has left."""

    async def send(self, frames: Sequence[str]) -> None:
        """Hand frames to the transport.

        Raises:
            ClientGone: there is nobody.
        """

    async def end(self) -> None:
        """The turn is over, where the transport has an end of a turn."""

    async def break_off(self, how: Break) -> None:
        """Cut the connection, end it cleanly, or fall silent for ever."""

    def expect(self, prompt: PromptTruth) -> asyncio.Future[str]:
        """The reply to the request that is sent next.

        Raises:
            NotOverHttp: there is no way to reply.
        """

    def hold(self) -> None:
        """Forward nothing until the reply is here."""

    def forget(self) -> None:
        """The reply is no longer waited for."""

    async def restored(self) -> None:
        """Wait until there is a connection."""


class SocketStage:
    """A turn on a socket; another one of the session may take its place.

    ``log`` keeps all frames for clients that come back for them; None: nobody can.
    """

    websocket = True

    def __init__(
        self, socket: Socket, keep: bool, reset: Callable[[], None] | None, close_code: int
    ) -> None:
        self.socket = socket
        self.log: list[str] | None = [] if keep else None
        self._reset = reset
        self._close_code = close_code
        self._reply: asyncio.Future[str] | None = None
        self._prompt: PromptTruth | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._here = asyncio.Event()
        self._here.set()

    @property
    def gone(self) -> bool:
        return self.socket.gone.is_set()

    @property
    def waits(self) -> bool:
        """Whether a reply is waited for."""
        return self._reply is not None

    async def send(self, frames: Sequence[str]) -> None:
        if not self._open.is_set():
            await self._open.wait()
        if self.log is not None:
            self.log += frames
        if self.gone:
            raise ClientGone
        try:
            await self.socket.send(frames)
        except RuntimeError:  # uvicorn has closed by itself: a ping was not answered
            raise ClientGone from None

    async def end(self) -> None:
        """The socket outlives the turn, at least by its close."""

    async def break_off(self, how: Break) -> None:
        socket = self.socket
        if how is Break.CUT:
            if self._reset is not None:
                self._reset()
            socket.drop()
        elif how is Break.EOF:
            await socket.close(self._close_code)
        else:
            await socket.gone.wait()
            raise ClientGone

    def expect(self, prompt: PromptTruth) -> asyncio.Future[str]:
        self._prompt = prompt
        self._reply = asyncio.get_running_loop().create_future()
        return self._reply

    def hold(self) -> None:
        if self.waits and not self.gone:
            self._open.clear()

    def forget(self) -> None:
        self._reply = None
        self._open.set()

    def reply(self, text: str) -> None:
        """The user's reply, in time or too late; the first one counts."""
        reply, prompt = self._reply, self._prompt
        self.forget()
        if prompt is not None:
            prompt.answered_ns = now_ns()
        if reply is not None and not reply.done():
            reply.set_result(text)

    def leave(self) -> None:
        """The client has left: nobody is held up by it."""
        self._here.clear()
        self._open.set()

    async def move(self, socket: Socket, cursor: int | None = None) -> None:
        """Another connection of the client takes over, with all frames from number ``cursor`` on.

        Raises:
            ClientGone: it has left already.
        """
        shown = len(self.log or ()) if cursor is None else max(cursor - 1, 0)
        while self.log is not None and shown < len(self.log):
            missed = self.log[shown:]
            shown += len(missed)
            await socket.send(missed)
        self.socket = socket
        self._here.set()

    async def restored(self) -> None:
        await self._here.wait()


class LinesStage:
    """A turn as lines of JSON in one HTTP answer."""

    websocket = False

    def __init__(self, send: Send, reset: Callable[[], None] | None) -> None:
        self.ended = False
        self._left = asyncio.Event()
        self._send = send
        self._reset = reset

    async def send(self, frames: Sequence[str]) -> None:
        if self.gone:
            raise ClientGone
        body = "".join(f"{frame}\n" for frame in frames).encode()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        """The last chunk of the body."""
        if self.gone:
            raise ClientGone
        self.ended = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def break_off(self, how: Break) -> None:
        """A cut needs nothing: the server closes a connection whose answer is unfinished."""
        if how is Break.EOF:
            await self.end()
        elif how is Break.STALL:
            await self._left.wait()
            raise ClientGone
        elif self._reset is not None:
            self._reset()

    @property
    def gone(self) -> bool:
        return self._left.is_set()

    def leave(self) -> None:
        """The client has left."""
        self._left.set()

    def expect(self, prompt: PromptTruth) -> asyncio.Future[str]:
        kind = "OAuth" if prompt.kind == "oauth_consent" else "elicitation"
        raise NotOverHttp(f"Agent requires {kind} which is only supported via websocket")

    def hold(self) -> None:
        """Nothing is asked here."""

    def forget(self) -> None:
        """Nothing is asked here."""

    async def restored(self) -> None:
        """There is one connection only."""
