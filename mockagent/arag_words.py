"""Words that only Progress Agentic RAG's routes obey, and when a turn is broken off there.

``README.md`` has them in a table; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from mockagent.words import typed_words

_MOST = 100
_LARGEST_KB = 16 * 1024
_LONGEST_S = 86_400.0
_TIMEOUT_S = 10.0
"""Hyperforge's own default."""


class Moment(Enum):
    """Where a break happens when it is not counted in answer chunks."""

    OPEN = "open"
    """Before the START frame."""
    START = "start"
    """Right behind it."""
    DONE = "done"
    """Behind the frame with the answer or the error, instead of the DONE frame."""
    CLOSE = "close"
    """Behind the DONE frame, instead of the close."""


@dataclass(frozen=True, slots=True)
class AragWords:
    """What a turn does beyond `Script` and `Faults`; 0 is no or none, counts are whole numbers."""

    feedback: str = ""
    """What the analyst is asked, a comma list of `arag_questions.KINDS`; 1 is ``string``."""
    feedback_timeout: float = _TIMEOUT_S
    """Seconds."""
    reasoning: int = 0
    """Reasoning frames before the answer."""
    big_kb: float = 0.0
    """Length of the text of each context, KiB."""
    agents: int = 1
    """Generation agents that write at the same time."""
    restarts: int = 0
    """How often the workflow begins anew when it has an answer."""
    drop_chunks: int = 0
    """The first so many chunks are lost on the way, as behind a full Redis stream."""
    lost_context: int = 0
    """1: the answer cites a context that nobody was shown."""
    visualizations: int = 0
    break_at: str = ""
    """A `Moment` for ``cut``, ``drop_ws``, ``eof`` and ``stall``, whose counts then say nothing."""
    close_code: int = 1000
    """The close code of ``eof``; what is no code for an endpoint to send is 1000."""
    reset: int = 0
    """1: ``cut`` is a TCP reset."""
    once: int = 0
    """1: nothing breaks when the same text is asked again."""

    @classmethod
    def from_words(cls, words: Sequence[tuple[str, str]]) -> AragWords:
        """What ``words`` ask for; unknown words are ignored."""
        asked = cls(**typed_words(words, cls))
        timeout_s = asked.feedback_timeout
        return replace(
            asked,
            agents=min(max(asked.agents, 1), _MOST),
            visualizations=min(max(asked.visualizations, 0), _MOST),
            big_kb=asked.big_kb if 0 < asked.big_kb <= _LARGEST_KB else 0.0,
            feedback_timeout=timeout_s if 0 <= timeout_s <= _LONGEST_S else _TIMEOUT_S,
            close_code=asked.close_code if _sendable(asked.close_code) else 1000,
        )

    @property
    def moment(self) -> Moment | None:
        """When the break comes; None: after as many chunks as it says."""
        known = {moment.value: moment for moment in Moment}
        return known.get(self.break_at)


def _sendable(code: int) -> bool:
    """RFC 6455, 7.4: 1004 to 1006 and 1015 never stand in a close frame."""
    registered = 1000 <= code <= 1014 and code not in (1004, 1005, 1006)
    return registered or 3000 <= code <= 4999
