"""What the scripted workflow does, act by act: pure, no clock, no socket.

`work` mirrors the workflow of the conformance server.  The runtime around it (slots, the opening
and the closing step, transports, time) is in `performance`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from mockagent import payloads, prompts
from mockagent.faults import Faults
from mockagent.ids import new_id
from mockagent.script import Script


class Pause(NamedTuple):
    """Nothing happens for ``ms``."""

    ms: float


class Block(NamedTuple):
    """The whole server stands still for ``ms``, as with a tool that blocks the event loop."""

    ms: float


class Step(NamedTuple):
    """A step frame.  Steps take a slower way to the client than chunks and prompts do."""

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


class Trace(NamedTuple):
    """The run has an observability trace id."""

    id: str


class InBandError(NamedTuple):
    """An error object inside the stream, then its end (a mock-only act)."""


Act = Pause | Block | Step | Chunk | Ask | Trace | InBandError
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


def work(question: str | None, script: Script, faults: Faults, root: str) -> Acts:
    """The acts of one turn; ``root`` is the id of the workflow's own step.

    ``question`` None is a request without any message, which the workflow does not survive.
    """
    if question is None:
        raise WorkflowFailure("IndexError", "list index out of range")
    if script.trace:
        yield Trace(new_id())
    yield Pause(faults.first_ms)
    _fail(script, "start")
    yield from _ask(script, "start")
    if script.oauth:
        raise WorkflowFailure("ScriptedFailure", "no auth_provider in the configuration")
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
        yield Step(model, root, "sim-model", payloads.llm(question, ""))
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
            yield Step(model, root, "sim-model", payloads.llm(question, written))
        yield Chunk(chunk)
    if script.odd:
        yield Chunk(ODD)
    if script.llm:
        yield Step(model, root, "sim-model", payloads.llm(question, written))
    yield from _ask(script, "end")
    _fail(script, "end")
    yield Chunk(f"tag={script.tag}" if script.tag else "end")


def _step(number: int, script: Script, root: str) -> Acts:
    id_ = new_id()
    query = f"query {number}"
    if script.step_kind == "function":
        query = (
            f"{number} step_ms={script.step_ms} block_ms={script.block_ms} step_kb={script.step_kb}"
        )
        yield Step(id_, root, "Function Start: retriever", payloads.function_start(query))
    elif script.step_kind == "llm":
        yield Step(id_, root, "search", payloads.llm(query, ""))
    elif script.step_kind not in ("custom", "none"):
        yield Step(id_, root, "Tool: search", payloads.tool(query, ""))
    yield Block(script.block_ms)
    yield Pause(script.step_ms)
    document = "document" + "." * int(script.step_kb * 1024)
    if script.step_kind == "function":
        payload = payloads.function_complete(query, document)
        yield Step(id_, root, "Function Complete: retriever", payload)
    elif script.step_kind == "llm":
        yield Step(id_, root, "search", payloads.llm(query, document))
    elif script.step_kind not in ("custom", "none"):
        yield Step(id_, root, "Tool: search", payloads.tool(query, document))


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
