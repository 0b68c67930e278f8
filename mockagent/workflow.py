"""What the scripted workflow does, act by act: pure, no clock, no socket.

`work` mirrors the workflow of the conformance server.  The runtime around it (slots, the opening
and the closing step, transports, time) is in `performance`.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from mockagent import prompts
from mockagent.faults import Faults
from mockagent.ids import new_id
from mockagent.script import Script


class Pause(NamedTuple):
    """Nothing happens for ``ms``."""

    ms: float


class Block(NamedTuple):
    """The whole server stands still for ``ms``, as with a tool that blocks the event loop."""

    ms: float


class Kind(StrEnum):
    """What an event is: NAT's IntermediateStepType, as far as the workflow emits it."""

    WORKFLOW_START = "WORKFLOW_START"
    WORKFLOW_END = "WORKFLOW_END"
    FUNCTION_START = "FUNCTION_START"
    FUNCTION_END = "FUNCTION_END"
    TOOL_START = "TOOL_START"
    TOOL_END = "TOOL_END"
    LLM_START = "LLM_START"
    LLM_NEW_TOKEN = "LLM_NEW_TOKEN"
    LLM_END = "LLM_END"
    CUSTOM_START = "CUSTOM_START"
    CUSTOM_END = "CUSTOM_END"


class Quoted(Protocol):
    """A Python object that steps quote: as its text in markdown, as JSON where they are raw."""

    def text(self) -> str:
        """Its ``str``."""

    def value(self) -> Any:
        """What it becomes in JSON."""


class Event(NamedTuple):
    """Something that happened in the run, of which clients are told by a step frame (or not).

    Steps take a slower way to the client than chunks and prompts do.  ``said`` is what there is so
    far; ``chunk`` is what a token adds.
    """

    id: str
    parent: str
    kind: Kind
    name: str
    asked: str | Quoted
    said: str | Quoted = ""
    chunk: str = ""


class Step(NamedTuple):
    """An event as the step adaptor shows it: the content of a step frame."""

    id: str
    parent: str
    name: str
    payload: str


class Chunk(NamedTuple):
    """Answer text."""

    text: str


class Ask(NamedTuple):
    """A prompt; the value of the human's answer is sent into the generator."""

    kind: str
    timeout_s: int | None


class Consent(NamedTuple):
    """The run needs an OAuth token of its user, who may have to allow that first."""


class Trace(NamedTuple):
    """The run has an observability trace id."""

    id: str


class InBandError(NamedTuple):
    """An error object inside the stream, then its end (a mock-only act)."""


Act = Pause | Block | Event | Chunk | Ask | Consent | Trace | InBandError
Acts = Generator[Act, str | None, None]


class WorkflowFailure(Exception):
    """The workflow raised; ``kind`` is the class name that goes on the wire."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


ODD = (
    "<odd> caf\u00e9 \u6f22\u5b57 \U0001f600 a\u2028b\u2029c\u0085d\x0be\x0cf\r\n\n"
    "data: [DONE]\n\nevent: error\n </odd> "
)
"""Characters that ``str.splitlines`` takes for line ends but SSE does not, look-alikes of
terminators, text outside ASCII.
"""

_STEP_KINDS = {
    "function": (Kind.FUNCTION_START, Kind.FUNCTION_END),
    "llm": (Kind.LLM_START, Kind.LLM_END),
    "custom": (Kind.CUSTOM_START, Kind.CUSTOM_END),
}


def work(question: str | WorkflowFailure, script: Script, faults: Faults, root: str) -> Acts:
    """The acts of one turn; ``root`` is the id of the workflow's own step.

    A ``question`` that is a failure stands for a request that the workflow does not survive.
    """
    if isinstance(question, WorkflowFailure):
        raise question
    if script.trace:
        yield Trace(new_id())
    yield Pause(faults.first_ms)
    _fail(script, "start")
    yield from _ask(script, "start")
    if script.oauth:
        yield Consent()
        yield Chunk("[oauth ok] ")
    for number in range(script.steps):
        yield from _step(number, script, root)
        _fail(script, "steps")
    yield from _ask(script, "answer")
    _fail(script, "answer")
    yield Pause(script.think_ms)
    yield from _answer(question, script, faults, root)
    yield Pause(faults.tail_ms)


def _answer(question: str, script: Script, faults: Faults, root: str) -> Acts:
    model = new_id()
    written = ""
    if script.llm:
        yield Event(model, root, Kind.LLM_START, "sim-model", question)
    for number in range(script.tokens):
        if number == script.fail_after:
            raise WorkflowFailure("ScriptedFailure", f"scripted failure after {number} chunks")
        if number == script.tokens // 2:
            yield Pause(script.hang_ms)
            _fail(script, "mid")
            yield from _ask(script, "mid")
            if faults.inband_error:
                yield InBandError()
                return
        yield Pause(script.token_ms)
        chunk = f"w{number}".ljust(script.token_len, "x") + " "
        if script.llm:
            written += chunk
            token = Kind.LLM_NEW_TOKEN
            yield Event(model, root, token, "sim-model", question, written, chunk)
        yield Chunk(chunk)
    if script.odd:
        yield Chunk(ODD)
    if script.llm:
        yield Event(model, root, Kind.LLM_END, "sim-model", question, written)
    yield from _ask(script, "end")
    _fail(script, "end")
    yield Chunk(f"tag={script.tag}" if script.tag else "end")


def _step(number: int, script: Script, root: str) -> Acts:
    id_ = new_id()
    query, name = f"query {number}", "search"
    start, end = _STEP_KINDS.get(script.step_kind, (Kind.TOOL_START, Kind.TOOL_END))
    shown = script.step_kind != "none"
    if script.step_kind == "function":
        name = "retriever"
        query = (
            f"{number} step_ms={script.step_ms} block_ms={script.block_ms} step_kb={script.step_kb}"
        )
    if shown:
        yield Event(id_, root, start, name, query)
    yield Block(script.block_ms)
    yield Pause(script.step_ms)
    if shown:
        document = "document" + "." * int(script.step_kb * 1024)
        yield Event(id_, root, end, name, query, document)


def _ask(script: Script, where: str) -> Acts:
    if not script.hitl or script.hitl_at != where:
        return
    said = []
    for kind in script.hitl.split(","):
        if not prompts.known(kind):
            raise WorkflowFailure("ScriptedFailure", f"unknown hitl kind {kind!r}")
        try:
            value = yield Ask(kind, script.hitl_timeout or None)
        except WorkflowFailure as failure:
            if failure.kind != "TimeoutError" or not script.hitl_catch:
                raise
            value = "TIMEOUT"
        said.append(f"{kind}:{value}")
    yield Chunk(f"[hitl {' '.join(said)}] ")


def _fail(script: Script, where: str) -> None:
    if script.fail == where:
        raise WorkflowFailure("ScriptedFailure", f"scripted failure at {where}")
