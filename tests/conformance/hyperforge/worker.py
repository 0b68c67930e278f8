"""The scripted agents of a question with words: one that searches, in the context stage, and one
that writes, in the generation stage.
"""

from __future__ import annotations

import asyncio
import time

import questions
from hyperforge.models import Context
from script import Script
from turn import FRANCE, WRITER, Turn

NO_REPLY = "(No response received)"
ODD = (
    "<odd> caf\u00e9 \u6f22\u5b57 \U0001f600 a\u2028b\u2029c\u0085d\x0be\x0cf\r\n\n"
    "data: [DONE]\n\nevent: error\n </odd> "
)
"""What ``str.splitlines`` takes for line ends, look-alikes of terminators, text outside ASCII and
outside the basic plane."""

_LETTERS = "wvxyz"
"""Whose words are whose, when several write."""


class ScriptedFailure(RuntimeError):
    """The script says that the turn fails here."""


async def research(turn: Turn, words: Script) -> None:
    """All that comes before the answer."""
    _fail(words, "start")
    await _ask(turn, words, "start")
    if words.oauth:
        came = await turn.log_in(fixed_route=True)
        known = "used cached credentials"
        outcome = known if came is None else f"oauth callback payload: {came}"
        await turn.step("MCP: Credentials", "mcp", outcome)
    for number in range(words.steps):
        if number:
            await _search(turn, words, number)
        else:
            await _busy(words)
            await turn.step(
                "Rephrase: Rephrase", "rephrase", _padded(turn.question, words),
                took_s=words.step_ms / 1000,
            )  # fmt: skip
        _fail(words, "steps")
    if words.steps < 2:
        await _find(turn, words)
    await _ask(turn, words, "answer")
    _fail(words, "answer")
    await asyncio.sleep(words.think_ms / 1000)
    for number in range(words.reasoning):
        await asyncio.sleep(words.token_ms / 1000)
        await turn.think([f"thought {number} "], 0)


async def write(turn: Turn, words: Script) -> None:
    """The answer, and all again as often as the script says."""
    await _write(turn, words)
    for number in range(words.restarts):
        await turn.step(
            "Restart: Restart", "restart", f"restart {number}", reason="Not good enough"
        )
        await _search(turn, words, number)
        await _write(turn, words)


async def _search(turn: Turn, words: Script, number: int) -> None:
    await _busy(words)
    await _find(turn, words)
    value = _padded(f"query {number}", words)
    await turn.step("Basic ask: Ask", "basic_ask", value, took_s=words.step_ms / 1000)


async def _find(turn: Turn, words: Script) -> Context:
    text = "x" * int(words.big_kb * 1024) if words.big_kb > 0 else FRANCE
    return await turn.context(text, hidden=bool(words.lost_context))


async def _busy(words: Script) -> None:
    if words.block_ms > 0:
        time.sleep(words.block_ms / 1000)
    await asyncio.sleep(words.step_ms / 1000)


async def _write(turn: Turn, words: Script) -> None:
    """All writers write at the same time, a chunk of each in turn."""
    writers = _writers(words)
    texts = dict.fromkeys(writers, "")

    async def say(writer: str, text: str) -> None:
        texts[writer] += text
        if turn.streams:
            await turn.say(text)

    if turn.streams:
        for writer in writers:
            await turn.announce(writer)
    for number in range(words.tokens):
        _fail_after(words, number)
        if number == words.tokens // 2:
            await asyncio.sleep(words.hang_ms / 1000)
            _fail(words, "mid")
            await _ask(turn, words, "mid")
        await asyncio.sleep(words.token_ms / 1000)
        for letter, writer in zip(_letters(len(writers)), writers, strict=True):
            await say(writer, f"{letter}{number}".ljust(words.token_len, "x") + " ")
    _fail_after(words, words.tokens)
    await _ask(turn, words, "end")
    _fail(words, "end")
    for writer in writers:
        if words.odd:
            await say(writer, ODD)
        await say(writer, f"{f'tag={words.tag}' if words.tag else 'end'} [1]\n\n[1]: block-AA")
    if turn.streams:
        for _ in writers:
            await turn.say("", last=True)
    for writer in writers:
        await turn.conclude(texts[writer], turn.found, writer, charts=words.visualizations)


def _writers(words: Script) -> list[str]:
    if words.agents < 2:
        return [WRITER]
    return [f"/generation/{number}" for number in range(words.agents)]


def _letters(count: int) -> list[str]:
    return [_LETTERS[number % len(_LETTERS)] for number in range(count)]


async def _ask(turn: Turn, words: Script, where: str) -> None:
    if words.hitl_at != where:
        return
    wanted = list(questions.kinds(words))
    for kind in wanted:
        if kind not in questions.QUESTIONS:
            raise ScriptedFailure(f"unknown feedback kind {kind!r}")
    for kind in wanted:
        began = time.monotonic()
        timeout_s = words.hitl_timeout or words.feedback_timeout
        said = await turn.ask(*questions.QUESTIONS[kind], timeout_ms=round(timeout_s * 1000))
        text = NO_REPLY if said is None else said
        waited_s = time.monotonic() - began
        await turn.step("Smart: User feedback", "smart", text, took_s=waited_s)


def _padded(text: str, words: Script) -> str:
    return text + "." * int(words.step_kb * 1024)


def _fail(words: Script, where: str) -> None:
    if words.fail == where:
        raise ScriptedFailure(f"scripted failure at {where}")


def _fail_after(words: Script, chunks: int) -> None:
    if words.fail_after == chunks:
        raise ScriptedFailure(f"scripted failure after {chunks} chunks")
