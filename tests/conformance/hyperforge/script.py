"""What a question asks the scripted agents to do: ``key=value`` words anywhere in its text, which
mean what they mean to the toolkit's scripted workflow, or a ``#scene`` at its start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

_WORD = re.compile(r"(?<![\w-])([a-z_]+)=([^\s'\"}\]]+)")


@dataclass(frozen=True)
class Script:
    """One turn; ``_ms`` in milliseconds, ``_kb`` in KiB, timeouts in seconds.  A value must be of
    its default's type: a whole number where that is one.
    """

    steps: int = 2
    """Steps before the answer, ``step_ms`` each: the question is put anew, then searches, each of
    which finds something."""
    step_ms: float = 100
    step_kb: float = 0
    """Padding of each step's value."""
    think_ms: float = 0
    """Silence between the last of them and the first chunk."""
    tokens: int = 20
    """Answer chunks ``w0 w1 ...``, ``token_ms`` before each, at least ``token_len`` long."""
    token_ms: float = 10
    token_len: int = 0
    hang_ms: float = 0
    """More silence after half the chunks."""
    block_ms: float = 0
    """Block the event loop in each step, as a careless tool does."""
    odd: int = 0
    """1: a chunk that breaks careless parsers."""
    reasoning: int = 0
    """Thoughts before the answer, ``token_ms`` before each."""
    feedback: str = ""
    """Comma list of the kinds of `questions` that are asked in turn; 1 is a text."""
    feedback_timeout: float = 10.0
    hitl: str = ""
    """Comma list of the toolkit's prompts: the questions that are nearest to them are asked."""
    hitl_at: str = "answer"
    """Where they are asked: ``start``, ``answer`` (after the steps), ``mid`` or ``end``."""
    hitl_timeout: int = 0
    """0: ``feedback_timeout`` counts."""
    oauth: int = 0
    """1: needs credentials of the caller's, before the steps."""
    agents: int = 1
    """Agents that write at the same time; the last one's answer is the turn's."""
    big_kb: float = 0.0
    """Size of the text in each context."""
    lost_context: int = 0
    """1: what the answer cites was shown to nobody."""
    restarts: int = 0
    """How often all is done again when there is an answer."""
    visualizations: int = 0
    fail: str = ""
    """Raise at ``start``, ``steps`` (behind the first), ``answer``, ``mid`` or ``end``."""
    fail_after: int = -1
    """Raise after that many chunks."""
    tag: str = ""
    """Echoed at the end, ``tag=...``, to show answers that crossed."""


def read(question: str) -> Script | None:
    """The script in ``question``; None if it has none of the words, but for the tag."""
    kinds = {field.name: type(field.default) for field in fields(Script)}
    values: dict[str, Any] = {}
    for key, text in _WORD.findall(question):
        try:
            values[key] = kinds[key](text.rstrip(".,;"))
        except (KeyError, ValueError):
            continue
    return Script(**values) if values.keys() - {"tag"} else None


def scene(question: str) -> tuple[str, str] | None:
    """The name behind ``#`` at the start, and what stands behind it; None if there is no ``#``."""
    found = re.match(r"#(\S*)\s*(.*)", question, re.DOTALL)
    return (found[1], found[2]) if found else None
