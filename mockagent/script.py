"""What the scripted workflow does in one turn.

The words are those of the workflow that runs on a real NAT server in the conformance tests, with
the same meaning and the same defaults, so that one scenario runs on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mockagent.words import typed_words


@dataclass(frozen=True, slots=True)
class Script:
    """One turn; ``_ms`` in milliseconds, ``hitl_timeout`` in whole seconds (0: none).

    The defaults are whole numbers because the other workflow's are: there a word like
    ``token_ms=2.5`` is no whole number, and ignored.
    """

    steps: int = 2
    step_ms: float = 100
    step_kind: str = "tool"
    """``tool``, ``function``, ``llm``, ``custom`` (not shown) or ``none`` (silent)."""
    step_kb: float = 0
    think_ms: float = 0
    tokens: int = 20
    token_ms: float = 10
    token_len: int = 0
    llm: int = 0
    hitl: str = ""
    """Comma list of prompt kinds, asked in turn."""
    hitl_at: str = "answer"
    """``start``, ``answer`` (after the steps), ``mid`` (after half the chunks) or ``end``."""
    hitl_timeout: int = 0
    hitl_catch: int = 0
    fail: str = ""
    """``start``, ``steps``, ``answer``, ``mid`` or ``end``."""
    fail_after: int = -1
    hang_ms: float = 0
    block_ms: float = 0
    oauth: int = 0
    trace: int = 0
    odd: int = 0
    tag: str = ""

    @classmethod
    def from_words(cls, words: Sequence[tuple[str, str]]) -> Script:
        """The script that ``words`` ask for; unknown words are ignored."""
        return cls(**typed_words(words, cls))
