"""What a Progress agent can do in a turn, act by act; `arag_performance` shows it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from mockagent.workflow import Block, Pause


class Worked(NamedTuple):
    """A step is done; ``took_s`` in seconds, None: as long as the pause before it."""

    module: str
    title: str
    value: str
    reason: str | None = None
    took_s: float | None = None


class Found(NamedTuple):
    """A context; ``hidden``: it is cited, but nobody is shown it."""

    text: str
    hidden: bool = False


class Writing(NamedTuple):
    """A generation agent begins or ends a run of chunks; ``always`` as in `Written`."""

    agent: str
    begins: bool
    always: bool = False


class Written(NamedTuple):
    """Answer text, shown as a chunk where the client asked for chunks, or ``always``."""

    text: str
    always: bool = False


class Reasoned(NamedTuple):
    """Reasoning text."""

    text: str


class Answered(NamedTuple):
    """A possible answer; the last one of a turn is the answer.  ``cited``: it cites the context."""

    text: str
    agent_path: str = "/generation/default"
    cited: bool = True
    charts: int = 0


class Replied(NamedTuple):
    """What became of a question: the reply, None after its timeout, and how long it took."""

    text: str | None
    waited_s: float


class Feedback(NamedTuple):
    """A question to the user; a `Replied` is sent into the generator."""

    kind: str
    timeout_s: float


class Credentials(NamedTuple):
    """The agent needs the user's credentials; what came of it is sent into the generator.

    ``own_provider``: the consent is given at this server's own pages.
    """

    own_provider: bool = True


class Silence(NamedTuple):
    """The agent's process dies: what its server says then, and no DONE."""


class History(NamedTuple):
    """How many earlier exchanges the agent knows; sent into the generator as a number."""


Act = (
    Pause
    | Block
    | Worked
    | Found
    | Writing
    | Written
    | Reasoned
    | Answered
    | Feedback
    | Credentials
    | Silence
    | History
)
Acts = Generator[Act, Any, None]
