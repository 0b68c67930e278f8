"""The ``--arag-...`` options of the command line, as the settings they become."""

from __future__ import annotations

from typing import Any

import click

from loadgen.errors import ConfigError
from mockagent.arag_settings import AragSettings, TokenFailure

_NOT_NEGATIVE = click.FloatRange(min=0)

ARAG_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--arag-require-token",
        {"is_flag": True, "help": "A socket needs a token that was given out and is alive."},
    ),
    ("--arag-single-use-token", {"is_flag": True, "help": "A token opens one socket."}),
    (
        "--arag-token-life",
        {"type": _NOT_NEGATIVE, "default": 300.0, "help": "Seconds that a token is good for."},
    ),
    (
        "--arag-token-delay",
        {"type": _NOT_NEGATIVE, "default": 0.0, "help": "Milliseconds until a token is there."},
    ),
    (
        "--arag-token-failure",
        {
            "metavar": "STATUS[:SHARE]",
            "help": "Answer token requests, or a share of them, with this status.",
        },
    ),
    (
        "--arag-service-key",
        {"metavar": "KEY", "help": "HTTP requests must carry this key as a bearer."},
    ),
    ("--arag-memory", {"is_flag": True, "help": "Agents have memory: sessions are stored."}),
    (
        "--arag-stop-on-leave",
        {"is_flag": True, "help": "A turn ends when its client leaves, instead of going on."},
    ),
    (
        "--arag-resume",
        {"is_flag": True, "help": "Frames carry a seqid, and from_cursor replays them."},
    ),
    (
        "--arag-reference",
        {
            "is_flag": True,
            "help": "Answer questions without words as the conformance server's agent, not by the "
            "profile.",
        },
    ),
)


def arag_settings_from(options: dict[str, Any]) -> AragSettings:
    """The settings that the options mean.

    Raises:
        ConfigError: the token failure is none.
    """
    return AragSettings(
        require_token=options["arag_require_token"],
        single_use_token=options["arag_single_use_token"],
        token_life_s=options["arag_token_life"],
        token_delay_ms=options["arag_token_delay"],
        token_failure=_failure(options["arag_token_failure"]),
        service_key=options["arag_service_key"],
        memory=options["arag_memory"],
        stop_on_leave=options["arag_stop_on_leave"],
        resume=options["arag_resume"],
        reference=options["arag_reference"],
    )


def _failure(text: str | None) -> TokenFailure | None:
    if text is None:
        return None
    status, _, share = text.partition(":")
    try:
        failure = TokenFailure(int(status), float(share or "1"))
    except ValueError:
        failure = TokenFailure(0, 0.0)
    if 400 <= failure.status <= 599 and 0 <= failure.share <= 1:
        return failure
    raise ConfigError(
        f"--arag-token-failure: {text!r} is no status of 400-599 with a share of 0-1, "
        "such as 503:0.1"
    )
