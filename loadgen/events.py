"""What an inbound frame means: the alphabet between dialects and the conversation.

A dialect turns each frame into zero or more of these; the conversation knows nothing else of a
server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from loadgen.turn import Cause, Outcome


class PromptKind(StrEnum):
    """How a human-in-the-loop prompt wants to be answered."""

    TEXT = "text"
    BINARY_CHOICE = "binary_choice"
    RADIO = "radio"
    CHECKBOX = "checkbox"
    DROPDOWN = "dropdown"
    NOTIFICATION = "notification"
    FEEDBACK = "feedback"
    """Wants a JSON value that satisfies the prompt's schema."""
    OAUTH_CONSENT = "oauth_consent"
    """Not a question: the analyst must log in elsewhere; the prompt's key is the URL to open."""


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of a prompt; ``extra`` keys of the server are not kept."""

    id: str
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Started:
    """The server's synthetic first step: the turn got a place to run.  Marks FIRST_STEP, never
    progress.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Work:
    """A step's cost in the server's own words: which ``module`` ran, for how long, and the tokens
    of its models, as the server counts them.
    """

    module: str
    seconds: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Work the agent shows: a step, a tool call, reasoning.  ``kind`` is low-cardinality.

    ``work``: what the server says that it cost, where it does.
    """

    kind: str
    name: str = ""
    work: Work | None = None


@dataclass(slots=True)
class Answer:
    """Non-empty answer text.  The commonest event: not frozen, so that it is made in half the time;
    nobody changes one.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """The agent asks the analyst.  ``key`` is what the dialect needs to address the reply;
    ``timeout_ns`` may be None; ``schema`` is the JSON schema of the reply.
    """

    kind: PromptKind
    key: str
    text: str = ""
    options: tuple[Option, ...] = ()
    timeout_ns: int | None = None
    execution: str | None = None
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """The protocol wants ``message`` said at once; no human is involved."""

    message: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The server did not take a message of ours; the turn goes on."""

    detail: str


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What the whole answer was found to be.

    ``chunks_match``: the chunks before it say the same; None when there were none, or when they
    were those of several agents at a time.  ``unresolved`` of the ``citations`` name a source that
    was never shown.
    """

    chunks_match: bool | None = None
    citations: int = 0
    unresolved: int = 0
    visualizations: int = 0


@dataclass(frozen=True, slots=True)
class Pending:
    """The turn goes on out of sight: its state must be asked for at ``key``, a path (or URL) that
    the server named, ``after_ns`` from now.
    """

    key: str
    after_ns: int
    execution: str | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """The server's answer to an ``auth_message``."""

    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Completed:
    """The dialect's own terminal rule was met."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn failed.  With ``final`` false the conversation keeps reading until the terminal
    frame.
    """

    outcome: Outcome
    cause: Cause
    detail: str = ""
    final: bool = True
    retry_after_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The connection is ready for the dialect: TCP, TLS and, on a socket, the upgrade."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection ended although the dialect did not say so.  ``code`` is a WebSocket close
    code, 1006 without one.
    """

    detail: str = ""
    code: int | None = None
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Anything that is neither progress nor answer: headers, trace ids, role-only deltas, closing
    echoes, usage.
    """

    kind: str
    detail: str = ""


Event = (
    Started
    | Progress
    | Answer
    | Prompt
    | Say
    | Rejected
    | Reviewed
    | Pending
    | Login
    | Completed
    | Failed
    | Opened
    | Lost
    | Notice
)
