"""Where a turn is shown: what a transport must offer to a performance, and what is performed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from mockagent.consents import Flow
from mockagent.faults import Break, Faults
from mockagent.payloads import Written
from mockagent.script import Script
from mockagent.workflow import Event, Quoted, WorkflowFailure


class ClientGone(Exception):
    """Nobody can be reached on the connection any more."""


class Form(Enum):
    """How the answer is given."""

    STREAM = auto()
    WHOLE_CHAT = auto()
    """In one piece, as a chat response."""
    WHOLE_VALUE = auto()
    """In one piece, as ``{"value": ...}``."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is to be performed: ``question`` is a failure if the workflow cannot take the request,
    ``given`` is that request as the opening step quotes it, ``user`` the caller's id as far as the
    run knows it.
    """

    question: str | WorkflowFailure
    given: str | Quoted
    script: Script
    faults: Faults
    form: Form = Form.STREAM
    user: str | None = None


class Stage(Protocol):
    """A transport that shows a turn.  The first methods render frames; `send` lets them go."""

    websocket: bool

    def step(self, event: Event) -> Any:
        """The frame of an event; None if it is not shown."""

    def chunk(self, written: Written) -> Any:
        """The frame of an answer chunk."""

    def role(self) -> Any:
        """The frame of a role-only chunk; None where there is no such thing."""

    def trace(self, trace: str) -> Any:
        """The frame of a trace id; None if it is shown later."""

    def inband_error(self) -> Sequence[Any]:
        """The frames of an error inside the stream; none where there is no such thing."""

    def failed(self, failure: WorkflowFailure) -> Sequence[Any]:
        """The last frames of a failed turn."""

    def completed(self, chunks: int) -> Sequence[Any]:
        """The last frames of a good turn."""

    def ask(self, kind: str, prompt: dict[str, Any]) -> tuple[Any, asyncio.Future[str] | None]:
        """The frame of a prompt (None: not shown) and the answer to come (None: not waited for).

        Raises:
            WorkflowFailure: prompts are impossible here.
        """

    def asked(self) -> None:
        """The prompt is over: answered, timed out or broken off."""

    def consent(self, flow: Flow) -> Any:
        """The frame that asks the user to allow a token.

        Raises:
            WorkflowFailure: nobody can be asked here.
        """

    def consented(self) -> None:
        """The user has allowed it."""

    async def send(self, frames: Sequence[Any]) -> None:
        """Hand frames to the transport in one write.

        Raises:
            ClientGone: there is nobody.
        """

    async def end(self) -> None:
        """End the turn cleanly, where the transport has an end of a turn."""

    async def break_off(self, how: Break) -> None:
        """Cut the connection, end it cleanly, or fall silent for ever."""
