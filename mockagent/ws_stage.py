"""A turn on a WebSocket: the connection it is shown through, which may change while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.types import Send

from loadgen.clock import now_ns, wall_ns
from mockagent import prompts
from mockagent.consents import Flow
from mockagent.faults import Break
from mockagent.frames import WsFrames
from mockagent.payloads import Written, markdown
from mockagent.stage import ClientGone
from mockagent.workflow import Event, WorkflowFailure


class Socket:
    """What can be said through one connection."""

    def __init__(self, number: int, send: Send) -> None:
        self.number = number
        self.gone = asyncio.Event()
        self.dropped = False
        self._send = send
        self._closed = False
        self._serving = asyncio.current_task()

    async def send(self, texts: Sequence[str]) -> None:
        """Send text messages.

        Raises:
            ClientGone: the connection is no more.
        """
        if self._closed:
            raise ClientGone
        try:
            for text in texts:
                await self._send({"type": "websocket.send", "text": text})
        except OSError:
            raise ClientGone from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye."""
        if not self._closed:
            self._closed = True
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def drop(self) -> None:
        """End the TCP connection without a close frame."""
        self._closed = self.dropped = True
        if self._serving is not None:
            self._serving.cancel()


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt that waits for its human; ``asked_ns`` monotonic."""

    answer: asyncio.Future[str]
    prompt: dict[str, Any]
    asked_ns: int


class Chatting(Protocol):
    """Who owns the turn: the state that the next connection may take over."""

    socket: Socket
    question: Question | None
    frames: WsFrames
    popup: bool


class WsStage:
    """A turn shown as WebSocket messages, on whatever socket its chat has at the moment, and in the
    name of the chat's last message, even if that became no turn.
    """

    websocket = True

    def __init__(self, chat: Chatting) -> None:
        self._chat = chat
        self._trace: str | None = None
        self._flow: Flow | None = None

    def step(self, event: Event) -> str | None:
        step = markdown(event)
        return None if step is None else self._chat.frames.step(step, wall_ns())

    def chunk(self, written: Written) -> str:
        return self._chat.frames.chunk(written.id, written.text, wall_ns())

    def role(self) -> None:
        return None

    def trace(self, trace: str) -> None:
        """It comes after the end."""
        self._trace = trace

    def inband_error(self) -> Sequence[str]:
        return ()

    def failed(self, failure: WorkflowFailure) -> Sequence[str]:
        error = self._chat.frames.error("workflow_error", failure.kind, str(failure), wall_ns())
        return (error, *self._last(failed=True))

    def completed(self, chunks: int) -> Sequence[str]:
        return self._last()

    def ask(self, kind: str, prompt: dict[str, Any]) -> tuple[str, asyncio.Future[str] | None]:
        frame = self._chat.frames.prompt(prompt, wall_ns())
        if kind == "notification":
            return frame, None
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._chat.question = Question(answer, prompt, now_ns())
        return frame, answer

    def asked(self) -> None:
        self._chat.question = None

    def consent(self, flow: Flow) -> str:
        flow.popup = self._chat.popup
        self._flow = flow
        return self._chat.frames.prompt(prompts.consent(flow.url), wall_ns())

    def consented(self) -> None:
        self._flow = None

    def prefer(self, popup: bool) -> None:
        """How the page at the end of an open consent is to look."""
        if self._flow is not None:
            self._flow.popup = popup

    async def send(self, frames: Sequence[str]) -> None:
        await self._chat.socket.send(frames)

    async def end(self) -> None:
        """The socket outlives the turn."""

    async def break_off(self, how: Break) -> None:
        socket = self._chat.socket
        if how is Break.CUT:
            socket.drop()
        elif how is Break.EOF:
            await socket.close()
        else:
            await socket.gone.wait()
            raise ClientGone

    def _last(self, failed: bool = False) -> Sequence[str]:
        last = self._chat.frames.complete(wall_ns(), failed)
        if self._trace is None:
            return (last,)
        return (last, self._chat.frames.trace(self._trace, wall_ns()))
