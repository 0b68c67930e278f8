"""The agent of the conformance server: ``#scenario words``, with its texts and its times.

One client script runs on both.  Every other question is its ``plain`` scenario.
"""

from __future__ import annotations

from mockagent.arag_acts import (
    Acts,
    Answered,
    Credentials,
    Feedback,
    Found,
    History,
    Reasoned,
    Worked,
    Writing,
    Written,
)
from mockagent.arag_workflow import NO_RESPONSE, StageFailure
from mockagent.workflow import Pause

_ANSWER = "Paris is the capital of France [1].\n\n[1]: block-AA"
_PIECES = ("Paris is ", "the capital ", "of France ", "[1].", "\n\n[1]: ", "block-AA")
_FOUND = "Paris is the capital and largest city of France."
_BIG = 1_500_000
_AGENT = "summarize@/generation/default"
_STEP_S = 0.01
SCENARIOS = (
    "plain", "stream", "feedback", "feedback-timeout", "oauth", "error", "reasoning", "history",
    "burst", "big", "slow",
)  # fmt: skip


def scenario_of(question: str) -> str | None:
    """The scenario that ``question`` names; a lone ``#`` is ``plain``, None is none."""
    if not question.startswith("#"):
        return None
    return question.split()[0][1:] or "plain"


def reference(question: str, streaming: bool) -> Acts:
    """The acts of one turn of the reference agent."""
    name = scenario_of(question) or "plain"
    yield Worked("rephrase", "Rephrase: Rephrase", question, took_s=_STEP_S)
    if name == "error":
        raise StageFailure("Scripted agent failure", "context")
    if name == "slow":
        yield Pause(_seconds(question) * 1000)
    if name in ("feedback", "feedback-timeout"):
        yield from _feedback(1.5 if name == "feedback-timeout" else 10.0)
        return
    if name == "oauth":
        said = yield Credentials(own_provider=False)
        yield Answered(said, cited=False)
        return
    yield Found("x" * _BIG if name == "big" else _FOUND)
    if name == "reasoning":
        for text in ("The user asks ", "about France."):
            yield Reasoned(text)
            yield Pause(20)
    if name == "burst":
        pieces = tuple(f"t{number} " for number in range(300))
        yield from _stream(pieces, 0)
        yield from _answer("".join(pieces))
        return
    if streaming or name in ("stream", "reasoning"):
        yield from _stream(_PIECES, 30)
    text = _ANSWER
    if name == "history":
        text = f"history entries: {(yield History())}"
    yield from _answer(text)


def _feedback(timeout_s: float) -> Acts:
    replied = yield Feedback("string", timeout_s)
    got = NO_RESPONSE if replied.text is None else replied.text
    said = f"{got} after {replied.waited_s:.2f}s"
    yield Worked("smart", "Smart: User feedback", said, took_s=_STEP_S)
    yield Answered(f"feedback was: {got}", cited=False)


def _stream(pieces: tuple[str, ...], delay_ms: float) -> Acts:
    yield Writing(_AGENT, begins=True, always=True)
    for piece in pieces:
        yield Written(piece, always=True)
        yield Pause(delay_ms)
    yield Writing(_AGENT, begins=False, always=True)


def _answer(text: str) -> Acts:
    yield Answered(text)
    yield Worked("summarize", "Summarize: Summarize", text, "Summarized", _STEP_S)


def _seconds(question: str) -> float:
    """``#slow SECONDS``; 3 without a number."""
    words = question.split()
    try:
        return float(words[1]) if len(words) > 1 else 3.0
    except ValueError:
        raise StageFailure(f"could not convert string to float: {words[1]!r}", "context") from None
