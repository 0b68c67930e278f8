"""A turn shown as server-sent events, in each of the ways in which NAT's routes write them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import orjson
from starlette.types import Send

from loadgen.clock import NS_PER_S, wall_ns
from mockagent import frames
from mockagent.atif import AtifSteps
from mockagent.consents import Flow
from mockagent.executions import Execution, Executions
from mockagent.faults import Break
from mockagent.ids import new_id
from mockagent.payloads import Written, markdown
from mockagent.raw_steps import RawSteps
from mockagent.workflow import Event, WorkflowFailure

NO_PROMPTS = WorkflowFailure(
    "NotImplementedError",
    "No human prompt callback was registered. Unable to handle requested prompt.",
)


class Steps(Enum):
    """How a route shows events."""

    MARKDOWN = auto()
    RAW = auto()
    ATIF = auto()


@dataclass(frozen=True, slots=True)
class Shape:
    """How a route writes its stream.

    ``interactive`` routes can prompt, and say an error as an event of its own; the others, and all
    that show raw steps, as bare JSON at the end of the body.  ``values`` are ``{"value": ...}``
    instead of chat chunks, ``done`` is the stop chunk and ``[DONE]`` of OpenAI.
    """

    interactive: bool
    steps: Steps = Steps.MARKDOWN
    values: bool = False
    done: bool = False

    @property
    def bare_errors(self) -> bool:
        """Whether a failure is bare JSON: no field name, no blank line."""
        return not self.interactive or self.steps is Steps.RAW


class SseStage:
    """The stage of one stream; ``usage`` is a mock's own chunk before ``[DONE]``."""

    websocket = False

    def __init__(
        self,
        send: Send,
        shape: Shape,
        executions: Executions,
        conversation: str | None = None,
        filter_steps: str | None = None,
        usage: bool = False,
    ) -> None:
        self.ended = False
        self._send = send
        self._shape = shape
        self._executions = executions
        self._execution: Execution | None = None
        self._usage = usage
        self._raw = RawSteps(conversation, filter_steps) if shape.steps is Steps.RAW else None
        self._atif = AtifSteps() if shape.steps is Steps.ATIF else None

    def step(self, event: Event) -> bytes | None:
        if self._atif is not None:
            made = self._atif.step(event)
            return None if made is None else frames.sse_data(made)
        step = markdown(event) if self._raw is None else self._raw.step(event)
        if step is None:
            return None
        return frames.sse_step(step) if self._raw is None else frames.sse_step(step, event.kind)

    def chunk(self, written: Written) -> bytes:
        if self._shape.values:
            return frames.sse_value(written.text)
        return frames.sse_chunk(written.id, written.text, written.wall_ns // NS_PER_S)

    def role(self) -> bytes | None:
        return None if self._shape.values else frames.sse_role(new_id(), wall_ns() // NS_PER_S)

    def trace(self, trace: str) -> bytes:
        if self._raw is not None:
            return frames.sse_value(frames.json_text({"observability_trace_id": trace}))
        return frames.sse_trace(trace)

    def inband_error(self) -> Sequence[bytes]:
        error = {"message": "scripted error inside the stream", "type": "server_error", "code": 500}
        return (frames.sse_data({"error": error}), frames.DONE)

    def failed(self, failure: WorkflowFailure) -> Sequence[bytes]:
        error = {"code": "workflow_error", "message": str(failure), "details": failure.kind}
        if self._shape.bare_errors:
            return (orjson.dumps(error),)
        return (frames.sse_event("error", error),)

    def refused(self, kind: str, text: str) -> bytes:
        """The one frame of a stream that never got as far as its run."""
        error = {"code": "workflow_error", "message": text, "details": kind}
        return frames.sse_event("error", error)

    def completed(self, chunks: int) -> Sequence[bytes]:
        if not self._shape.done:
            return ()
        created_s = wall_ns() // NS_PER_S
        last = [frames.sse_stop(new_id(), created_s)]
        if self._usage:
            last.append(frames.sse_usage(new_id(), chunks, created_s))
        return (*last, frames.DONE)

    def ask(
        self, kind: str, prompt: dict[str, Any]
    ) -> tuple[bytes | None, asyncio.Future[str] | None]:
        if not self._shape.interactive:
            raise NO_PROMPTS
        if kind == "notification":
            return None, None
        execution = self._own_execution()
        answer = self._executions.ask(execution, prompt)
        return self._event("interaction_required", execution.pending()), answer

    def asked(self) -> None:
        """Whether the prompt is over is the store's business."""

    def consent(self, flow: Flow) -> bytes:
        execution = self._own_execution()
        self._executions.consent(execution, flow)
        return self._event("oauth_required", execution.allowing())

    def consented(self) -> None:
        self._own_execution().flow = None

    async def send(self, frames: Sequence[bytes]) -> None:
        if frames:
            body = frames[0] if len(frames) == 1 else b"".join(frames)
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        """The last chunk of the body; where there is no ``[DONE]`` it alone ends the turn.

        An ATIF stream never ends after a good run: its summary fails, and it waits for that.
        """
        if self._atif is not None and self._atif.finished:
            await asyncio.Event().wait()
        self.ended = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def break_off(self, how: Break) -> None:
        """A cut needs nothing here: the server closes a connection whose answer is unfinished."""
        if how is Break.EOF:
            self.ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        elif how is Break.STALL:
            await asyncio.Event().wait()

    def _own_execution(self) -> Execution:
        if self._execution is None:
            self._execution = Execution()
        return self._execution

    def _event(self, kind: str, content: dict[str, Any]) -> bytes:
        head = {"event_type": kind, "execution_id": self._own_execution().id}
        return frames.sse_event(kind, head | content)
