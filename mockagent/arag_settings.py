"""How the mock's Progress Agentic RAG side behaves, as its ``--arag-...`` options say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenFailure:
    """A share of the token requests is answered with ``status``."""

    status: int
    share: float


@dataclass(frozen=True, slots=True)
class AragSettings:
    """Tokens, sessions, and what becomes of a turn without its client; ``_s`` in seconds, ``_ms``
    in milliseconds.

    The defaults are what the published server does: it looks at no token (a gateway in front of it
    does), keeps no stored sessions, and finishes turns that nobody waits for.
    """

    require_token: bool = False
    single_use_token: bool = False
    token_life_s: float = 300.0
    token_delay_ms: float = 0.0
    token_failure: TokenFailure | None = None
    service_key: str | None = None
    """What HTTP requests must carry as a bearer; None: nothing."""
    memory: bool = False
    stop_on_leave: bool = False
    resume: bool = False
    """Frames carry a ``seqid``, and ``from_cursor`` is obeyed."""
    reference: bool = False
    """Questions without words are answered as the conformance server's agent answers them."""
