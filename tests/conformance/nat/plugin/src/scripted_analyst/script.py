"""What a question asks the workflow to do: ``key=value`` words anywhere in its text.

All other words are ignored, so a natural question can stand around them; a value that is not of the
key's type is ignored too, and of a repeated key the last one counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

_WORD = re.compile(r"(?<![\w-])([a-z_]+)=([^\s'\"}\]]+)")


@dataclass(frozen=True)
class Script:
    """One turn; ``_ms`` in milliseconds, ``_kb`` in KiB, ``hitl_timeout`` in whole seconds."""

    steps: int = 2
    """Retrieval steps before the answer, ``step_ms`` each."""
    step_ms: float = 100
    step_kind: str = "tool"
    """``tool``, ``function`` (a function call of the toolkit), ``llm``, ``custom`` (not shown by
    the default adaptor) or ``none`` (silent)."""
    step_kb: float = 0
    """Padding of each step's output."""
    think_ms: float = 0
    """Silence between the last step and the first chunk."""
    tokens: int = 20
    """Answer chunks ``w0 w1 ...``, ``token_ms`` before each, at least ``token_len`` long."""
    token_ms: float = 10
    token_len: int = 0
    llm: int = 0
    """1: also the steps of a model that streams."""
    hitl: str = ""
    """Comma list of prompt kinds, asked in turn."""
    hitl_at: str = "answer"
    """``start``, ``answer`` (after the steps), ``mid`` (after half the chunks) or ``end``."""
    hitl_timeout: int = 0
    """0: none; the toolkit waits 5 s longer."""
    hitl_catch: int = 0
    """1: a prompt that timed out does not fail the run."""
    fail: str = ""
    """Raise at ``start``, ``steps`` (behind the first), ``answer``, ``mid`` or ``end``."""
    fail_after: int = -1
    """Raise after that many chunks."""
    hang_ms: float = 0
    """More silence after half the chunks."""
    block_ms: float = 0
    """Block the event loop in each step, as a careless tool does."""
    oauth: int = 0
    """1: needs a token of the caller's from the configured provider, before the steps."""
    trace: int = 0
    """1: the run has an observability trace id."""
    odd: int = 0
    """1: a chunk that breaks careless parsers."""
    tag: str = ""
    """Echoed as the last chunk, ``tag=...``, to show answers that crossed."""

    @classmethod
    def of(cls, question: str) -> Script:
        """The script in ``question``."""
        kinds = {field.name: type(field.default) for field in fields(cls)}
        values: dict[str, Any] = {}
        for key, text in _WORD.findall(question):
            try:
                values[key] = kinds[key](text.rstrip(".,;"))
            except (KeyError, ValueError):
                continue
        return cls(**values)
