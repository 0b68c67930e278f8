"""The scripted agent of a question with words: NAT's scripted workflow as Progress shows one.

Pure: no clock, no socket.  The words mean what they mean in `workflow`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mockagent.arag_acts import (
    Acts,
    Answered,
    Credentials,
    Feedback,
    Found,
    Reasoned,
    Silence,
    Worked,
    Writing,
    Written,
)
from mockagent.arag_frames import BLOCK
from mockagent.arag_questions import kinds_of
from mockagent.arag_words import AragWords
from mockagent.faults import Faults
from mockagent.script import Script
from mockagent.workflow import ODD, Block, Pause, WorkflowFailure

NO_RESPONSE = "(No response received)"
_FOUND = "Paris is the capital and largest city of France."
_QUICK_S = 0.01
"""What steps say that take no time."""
_STAGES = {"start": "context", "answer": "context", "mid": "generation", "end": "generation"}
_LETTERS = "wvxyz"
"""Whose words are whose, when several agents write."""


class StageFailure(WorkflowFailure):
    """The agent raised in one of its stages, ``context`` or ``generation``; None: in none."""

    def __init__(self, text: str, stage: str | None) -> None:
        super().__init__("ScriptedFailure", text)
        self.stage = stage


def work(question: str, script: Script, faults: Faults, words: AragWords) -> Acts:
    """The acts of one turn."""
    yield Pause(faults.first_ms)
    _fail(script, "start", "context")
    yield from _ask(script, words, "start")
    if script.oauth:
        outcome = yield Credentials()
        yield Worked("mcp", "MCP: Credentials", outcome, took_s=_QUICK_S)
    yield from _research(question, script, words)
    yield from _ask(script, words, "answer")
    _fail(script, "answer", "context")
    if script.fail == "timeout":
        raise StageFailure("TimeoutError", None)
    if script.fail == "silent":
        yield Pause(script.hang_ms)
        yield Silence()
        return
    yield Pause(script.think_ms)
    for number in range(words.reasoning):
        yield Pause(script.token_ms)
        yield Reasoned(f"thought {number} ")
    yield from _generate(script, words)
    for number in range(words.restarts):
        why = "Not good enough"
        yield Worked("restart", "Restart: Restart", f"restart {number}", why, _QUICK_S)
        yield from _search(number, script, words)
        yield from _generate(script, words)
    yield Pause(faults.tail_ms)


def _research(question: str, script: Script, words: AragWords) -> Acts:
    """The steps before the answer: the question is rephrased, then there are searches."""
    for number in range(script.steps):
        if number:
            yield from _search(number, script, words)
        else:
            yield from _busy(script)
            yield Worked("rephrase", "Rephrase: Rephrase", _padded(question, script))
        _fail(script, "steps", "context")
    if script.steps < 2:
        yield _found(words)


def _search(number: int, script: Script, words: AragWords) -> Acts:
    yield from _busy(script)
    yield _found(words)
    yield Worked("basic_ask", "Basic ask: Ask", _padded(f"query {number}", script))


def _busy(script: Script) -> Acts:
    yield Block(script.block_ms)
    yield Pause(script.step_ms)


def _found(words: AragWords) -> Found:
    text = "x" * int(words.big_kb * 1024) or _FOUND
    return Found(text, hidden=bool(words.lost_context))


def _generate(script: Script, words: AragWords) -> Acts:
    """All generation agents write at the same time, a chunk of each in turn."""
    agents = range(words.agents)
    for agent in agents:
        yield Writing(f"summarize@{_path(agent, words)}", begins=True)
    texts = ["" for _ in agents]
    for number in range(script.tokens):
        _fail_after(script, number)
        if number == script.tokens // 2:
            yield Pause(script.hang_ms)
            _fail(script, "mid", "generation")
            yield from _ask(script, words, "mid")
        yield Pause(script.token_ms)
        for agent in agents:
            word = f"{_LETTERS[agent % len(_LETTERS)]}{number}".ljust(script.token_len, "x")
            yield from _write(f"{word} ", texts, agent)
    _fail_after(script, script.tokens)
    yield from _ask(script, words, "end")
    _fail(script, "end", "generation")
    for agent in agents:
        for text in _closing(script):
            yield from _write(text, texts, agent)
    for agent in agents:
        yield Writing(f"summarize@{_path(agent, words)}", begins=False)
    for agent in agents:
        yield Answered(texts[agent], _path(agent, words), charts=words.visualizations)
        yield Worked("summarize", "Summarize: Summarize", texts[agent], "Summarized", _QUICK_S)


def _closing(script: Script) -> Iterator[str]:
    if script.odd:
        yield ODD
    yield f"{f'tag={script.tag}' if script.tag else 'end'} [1]\n\n[1]: {BLOCK}"


def _write(text: str, texts: list[str], agent: int) -> Acts:
    texts[agent] += text
    yield Written(text)


def _path(agent: int, words: AragWords) -> str:
    return "/generation/default" if words.agents < 2 else f"/generation/{agent}"


def _padded(text: str, script: Script) -> str:
    return text + "." * int(script.step_kb * 1024)


def _ask(script: Script, words: AragWords, where: str) -> Acts:
    if script.hitl_at != where:
        return
    timeout_s = float(script.hitl_timeout) or words.feedback_timeout
    try:
        kinds = kinds_of(words.feedback, script.hitl)
    except ValueError as error:
        raise StageFailure(str(error), _STAGES[where]) from None
    for kind in kinds:
        replied = yield Feedback(kind, timeout_s)
        got = NO_RESPONSE if replied.text is None else replied.text
        yield Worked("smart", "Smart: User feedback", got, took_s=replied.waited_s)


def _fail(script: Script, where: str, stage: str) -> None:
    if script.fail == where:
        raise StageFailure(f"scripted failure at {where}", stage)


def _fail_after(script: Script, chunks: int) -> None:
    if chunks == script.fail_after:
        raise StageFailure(f"scripted failure after {chunks} chunks", "generation")
