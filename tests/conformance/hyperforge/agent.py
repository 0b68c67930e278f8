"""The scripted agents of Hyperforge's stages: what a question says is what they do, so that no
model is needed.  A question without words is answered as the scene ``plain``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import script
import worker
from hyperforge.context.agent import ContextAgent
from hyperforge.context.config import ContextAgentConfig
from hyperforge.memory import QuestionMemory
from questions import QUESTIONS
from turn import FRANCE, NAME, Turn
from worker import NO_REPLY, ScriptedFailure

ANSWER = "Paris is the capital of France [1].\n\n[1]: block-AA"
PIECES = ("Paris is ", "the capital ", "of France ", "[1].", "\n\n[1]: ", "block-AA")
THOUGHTS = ("The user asks ", "about France.")
PAUSE_S = 0.03
BURST = 300
BIG = 1_500_000


class Searcher(ContextAgent):
    """The agent of the context stage; a scene is all its own."""

    config = ContextAgentConfig(module="mock", title="Scripted")
    agent_id = NAME

    async def get_question_context(
        self,
        memory: QuestionMemory,
        manager: object,
        question_uuid: str | None = None,
        question: str | None = None,
        flow_id: str | None = None,
        extra_context: object = None,
    ) -> None:
        """Called by the runtime for each question."""
        turn = Turn(memory, flow_id or "flow")
        named = script.scene(turn.question)
        words = script.read(turn.question)
        if named is None and words is not None:
            await worker.research(turn, words)
            return
        name, rest = named or ("plain", "")
        await turn.step("Rephrase: Rephrase", "rephrase", turn.question)
        await SCENES.get(name, _plain)(turn, rest)


class Writer:
    """The agent of the generation stage."""

    async def __call__(self, memory: QuestionMemory, manager: object) -> None:
        """Called by the runtime when the context is there."""
        turn = Turn(memory, "flow")
        words = script.read(turn.question)
        if words is not None and script.scene(turn.question) is None:
            await worker.write(turn, words)


async def _plain(turn: Turn, rest: str, *, text: str = FRANCE) -> None:
    found = await turn.context(text)
    if turn.streams:
        await turn.stream(PIECES, PAUSE_S)
    await turn.conclude(ANSWER, found)


async def _stream(turn: Turn, rest: str) -> None:
    found = await turn.context()
    await turn.stream(PIECES, PAUSE_S)
    await turn.conclude(ANSWER, found)


async def _reasoning(turn: Turn, rest: str) -> None:
    found = await turn.context()
    await turn.think(THOUGHTS, 0.02)
    await turn.stream(PIECES, PAUSE_S)
    await turn.conclude(ANSWER, found)


async def _burst(turn: Turn, rest: str) -> None:
    found = await turn.context()
    pieces = [f"t{number} " for number in range(BURST)]
    await turn.stream(pieces, 0)
    await turn.conclude("".join(pieces), found)


async def _big(turn: Turn, rest: str) -> None:
    await _plain(turn, rest, text="x" * BIG)


async def _slow(turn: Turn, rest: str) -> None:
    await asyncio.sleep(float(rest.split()[0]) if rest else 3)
    await _plain(turn, rest)


async def _error(turn: Turn, rest: str) -> None:
    raise ScriptedFailure("Scripted agent failure")


async def _history(turn: Turn, rest: str) -> None:
    found = await turn.context()
    if turn.streams:
        await turn.stream(PIECES, PAUSE_S)
    _, entries = await turn.memory.context_history()
    await turn.conclude(f"history entries: {entries}", found)


async def _feedback(turn: Turn, rest: str, timeout_ms: int = 10_000) -> None:
    began = time.monotonic()
    reply = await turn.ask(*QUESTIONS["string"], timeout_ms)
    said = NO_REPLY if reply is None else reply
    waited_s = time.monotonic() - began
    await turn.step("Smart: User feedback", "smart", f"{said} after {waited_s:.2f}s")
    await turn.propose(f"feedback was: {said}")


async def _feedback_timeout(turn: Turn, rest: str) -> None:
    await _feedback(turn, rest, 1500)


async def _oauth(turn: Turn, rest: str) -> None:
    came = await turn.log_in(fixed_route=False)
    text = "used cached credentials" if came is None else f"oauth callback payload: {came}"
    await turn.propose(text)


SCENES: dict[str, Callable[[Turn, str], Awaitable[None]]] = {
    "plain": _plain,
    "stream": _stream,
    "reasoning": _reasoning,
    "burst": _burst,
    "big": _big,
    "slow": _slow,
    "error": _error,
    "history": _history,
    "feedback": _feedback,
    "feedback-timeout": _feedback_timeout,
    "oauth": _oauth,
}
"""What stands behind ``#``; another name is ``plain`` too."""
