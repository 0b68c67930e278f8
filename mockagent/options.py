"""The command line's options, as the settings they become."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from loadgen.errors import ConfigError
from mockagent.agent import Settings
from mockagent.arag_options import ARAG_OPTIONS, arag_settings_from
from mockagent.edition import Edition
from mockagent.identity import Credential
from mockagent.jwt_verifier import JwtPolicy
from mockagent.network import faults_of
from mockagent.profile import Profile, read_profile

Command = Callable[..., Any]
_NOT_NEGATIVE = click.IntRange(min=0)
_SECONDS = click.FloatRange(min=0)

_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--slots",
        {
            "type": _NOT_NEGATIVE,
            "default": 0,
            "help": "How many turns run at a time, the others wait; 0: no cap. NAT as released "
            "has 8.",
        },
    ),
    ("--seed", {"type": int, "default": 0, "help": "Seed of the profile's draws."}),
    (
        "--profile",
        {
            "type": click.Path(path_type=Path),
            "help": "TOML file that replaces values of the default profile.",
        },
    ),
    (
        "--edition",
        {
            "type": click.Choice([edition.value for edition in Edition]),
            "default": Edition.SERVER.value,
            "help": "The servers as they are on the wire, or as they are documented.",
        },
    ),
    (
        "--interactive-completions",
        {"is_flag": True, "help": "Prompts and OAuth on /v1/chat/completions, too."},
    ),
    ("--no-legacy-routes", {"is_flag": True, "help": "Leave out /generate* and /chat*."}),
    (
        "--workflow-input",
        {
            "metavar": "NAME",
            "help": "The workflow is a function of one text with that name, not an agent.",
        },
    ),
    (
        "--accepted-credentials",
        {
            "metavar": "LIST",
            "help": "What a WebSocket may identify itself with: of session_cookie, jwt, api_key "
            "and basic, with commas; an empty list is nothing.",
        },
    ),
    (
        "--identity-header",
        {"metavar": "NAME", "help": "Trust this header of a proxy, and no credential."},
    ),
    (
        "--jwt",
        {
            "metavar": "JWKS",
            "help": "Verify JWTs on WebSockets with the keys at this URL or in this file.",
        },
    ),
    ("--jwt-issuer", {"help": "The issuer of JWTs (with --jwt)."}),
    ("--jwt-audience", {"help": "The audience of JWTs (with --jwt)."}),
    ("--jwt-scope", {"multiple": True, "help": "A scope that JWTs need (with --jwt); repeatable."}),
    ("--per-user", {"is_flag": True, "help": "A workflow, with slots, for each user."}),
    ("--no-oauth", {"is_flag": True, "help": "No OAuth provider is configured."}),
    ("--oauth-timeout", {"type": _SECONDS, "default": 300.0, "help": "Seconds for a consent."}),
    (
        "--prompt-grace",
        {"type": _SECONDS, "default": 5.0, "help": "Seconds that prompts stay open too long."},
    ),
    (
        "--keep-alive",
        {"type": _NOT_NEGATIVE, "default": 5, "help": "Seconds until an idle connection closes."},
    ),
    ("--job-slots", {"type": _NOT_NEGATIVE, "default": 10, "help": "Async jobs at a time."}),
    (
        "--keep-executions",
        {
            "type": _NOT_NEGATIVE,
            "default": 100_000,
            "help": "Executions that are remembered; 0: all, as NAT does.",
        },
    ),
    ("--require-auth", {"is_flag": True, "help": "Refuse questions of callers without identity."}),
    ("--reject-auth", {"is_flag": True, "help": "Answer every auth_message with an error."}),
    (
        "--truth-limit",
        {
            "type": click.IntRange(min=1),
            "default": 1_000_000,
            "help": "Lines that each truth log keeps.",
        },
    ),
    (
        "--fault",
        {
            "multiple": True,
            "metavar": "KEY=VALUE",
            "help": "Something that goes wrong, on the network or in each question; repeatable.",
        },
    ),
    (
        "--crosstalk",
        {
            "type": click.FloatRange(0, 1),
            "default": 0.0,
            "help": "Share of the streams that get another one's answer.",
        },
    ),
    *ARAG_OPTIONS,
)


def setting_options(command: Command) -> Command:
    """Give a command all options that `settings_from` reads."""
    for name, facts in reversed(_OPTIONS):
        shown = facts.get("default") is not None
        command = click.option(name, show_default=shown, **facts)(command)
    return command


def settings_from(options: dict[str, Any]) -> Settings:
    """The settings that the options mean.

    Raises:
        ConfigError: they contradict each other, or the profile is no profile.
    """
    accepted = _accepted(options["accepted_credentials"])
    policy = _policy(options)
    header = options["identity_header"]
    if header is not None and (accepted is not None or policy is not None):
        raise ConfigError(
            "--identity-header is trusted instead of any credential: leave "
            "--accepted-credentials and --jwt away"
        )
    if policy is not None and accepted is not None and Credential.JWT not in accepted:
        raise ConfigError("--jwt verifies what --accepted-credentials refuses: add jwt to the list")
    profile = options["profile"]
    network, faults = faults_of(options["fault"])
    return Settings(
        slots=options["slots"],
        seed=options["seed"],
        profile=read_profile(profile) if profile else Profile(),
        require_auth=options["require_auth"],
        reject_auth=options["reject_auth"],
        truth_limit=options["truth_limit"],
        edition=Edition(options["edition"]),
        interactive_completions=options["interactive_completions"],
        legacy_routes=not options["no_legacy_routes"],
        workflow_input=options["workflow_input"],
        accepted_credentials=accepted,
        identity_header=header,
        jwt=policy,
        per_user=options["per_user"],
        oauth=not options["no_oauth"],
        oauth_timeout_s=options["oauth_timeout"],
        prompt_grace_s=options["prompt_grace"],
        keep_alive_s=options["keep_alive"],
        job_slots=options["job_slots"],
        executions_kept=options["keep_executions"],
        arag=arag_settings_from(options),
        network=network,
        faults=faults,
        crosstalk=options["crosstalk"],
    )


def _accepted(text: str | None) -> frozenset[Credential] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [kind.value for kind in Credential]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--accepted-credentials: {name!r} is no credential; known are {', '.join(known)}"
            )
    return frozenset(Credential(name) for name in names)


def _policy(options: dict[str, Any]) -> JwtPolicy | None:
    jwks, issuer, audience = options["jwt"], options["jwt_issuer"], options["jwt_audience"]
    if jwks is None:
        if issuer or audience or options["jwt_scope"]:
            raise ConfigError("--jwt-issuer, --jwt-audience and --jwt-scope need --jwt")
        return None
    if not issuer or not audience:
        raise ConfigError("--jwt needs --jwt-issuer and --jwt-audience")
    return JwtPolicy(jwks, issuer, audience, tuple(options["jwt_scope"]))
