"""The plan: what a run does, as one frozen, validated value made from a TOML file.

All mistakes of a file are reported at once, each on a line of its own that says where and what:
``analysts.toml: human.reply_s.median must be >= 0, got -2``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from loadgen.clock import NS_PER_S
from loadgen.dialects.contract import Identity, Wire
from loadgen.errors import ConfigError

Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Clock = Literal["ttfv", "ttfp", "ttfa", "ttc"]
ChoiceKind = Literal["text", "binary_choice", "radio", "checkbox", "dropdown", "notification"]

REDACTED = "[redacted]"


class Section(BaseModel):
    """Base of every table of the plan: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Lognormal(Section):
    """A lognormal duration in seconds: ``median``, ``sigma`` of its logarithm, cut at ``max``."""

    median: Seconds
    sigma: Annotated[float, Field(ge=0, le=5)] = 0.6
    max: Seconds | None = None


def _constant(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"median": value, "sigma": 0} if is_number else value


Duration = Annotated[Lognormal, BeforeValidator(_constant)]
"""A number of seconds, or a table ``{ median, sigma, max }``."""


class Target(Section):
    """Where the agent is and how to reach it."""

    host: str | None = None
    verify_tls: bool = True
    ca_file: str | None = None
    keep_alive_s: Seconds = 4.0
    compression: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.host is not None:
            check_host(self.host)
        return self


class Deadlines(Section):
    """When to stop waiting; time that the analyst spends at a prompt does not count."""

    connect_s: Seconds = 10.0
    auth_s: Seconds = 10.0
    first_event_s: Seconds = 120.0
    silence_s: Seconds = 60.0
    resume_s: Seconds = 15.0
    turn_s: Seconds = 300.0


class Reconnect(Section):
    """What an analyst does when the socket is lost in mid-turn.

    ``exponential`` waits U(0, min(cap, base * 2**k)) before attempt k, so that the first attempts
    spread over ``base_s``; ``fixed`` waits ``base_s``; ``none`` gives the turn up.
    """

    policy: Literal["exponential", "fixed", "none"] = "exponential"
    base_s: Seconds = 8.0
    cap_s: Seconds = 30.0
    attempts: Annotated[int, Field(ge=1, le=100)] = 5


class Human(Section):
    """The simulated analyst."""

    think_s: Duration = Lognormal(median=8.0, sigma=0.6, max=60.0)
    reply_s: Duration = Lognormal(median=4.0, sigma=0.6, max=30.0)
    patience_s: Duration | None = None
    turns_per_conversation: Annotated[int, Field(ge=1)] = 5


class IdentityPlan(Section):
    """Who the analysts are.

    ``{n}`` in a template stands for the analyst's number.  A secret is named by the environment
    variable or the file that holds it, never written into the plan.
    """

    method: Literal["none", "session", "bearer", "api_key_header", "api_key", "jwt", "basic"] = (
        "none"
    )
    template: str | None = None
    env: str | None = None
    file: str | None = None
    username: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        sources = [name for name in ("template", "env", "file") if getattr(self, name) is not None]
        if self.method == "none" and sources:
            raise ValueError(f"{sources[0]} has no use while method is 'none'; name a method")
        if self.method != "none" and len(sources) != 1:
            raise ValueError(
                f"method {self.method!r} needs exactly one of template, env and file,"
                f" got {sources or 'none'}"
            )
        if self.method == "basic" and not self.username:
            raise ValueError("method 'basic' needs a username")
        return self


class Group(Section):
    """A kind of analyst: a dialect and its share of the crowd."""

    name: str
    dialect: str
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    route: str | None = None
    identity: IdentityPlan = IdentityPlan()
    drop_between_turns: Share = 0.0
    drop_at_prompt: Share = 0.0
    drop_after_s: Duration = Lognormal(median=0.5, sigma=0.0)


class Questions(Section):
    """What is asked: a text file with a question a line, relative to the plan."""

    file: str | None = None
    texts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.file is None) == (not self.texts):
            raise ValueError("needs either file or texts")
        return self


class Script(Section):
    """Words appended to each question, for targets that obey them (the mock agent, the scripted NAT
    workflow).

    ``words`` goes on every question; in ``prompt_share`` of the turns a prompt of one of
    ``prompt_kinds`` is asked for; ``tag`` makes each answer echo its turn, so that an answer that
    crossed to another analyst shows.
    """

    words: str = ""
    prompt_share: Share = 0.0
    prompt_kinds: tuple[ChoiceKind, ...] = ("text",)
    prompt_words: str = ""
    tag: bool = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.prompt_share and not self.prompt_kinds:
            raise ValueError("prompt_share needs at least one of prompt_kinds")
        return self


class ClockSlo(Section):
    """``share`` of the started turns must reach the end of ``clock`` within ``within_s``."""

    clock: Clock
    within_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    share: Annotated[float, Field(gt=0, le=1)] = 0.95


class Load(Section):
    """How the run goes when the command line says nothing else."""

    model: Literal["closed"] = "closed"
    drain_s: Seconds = 30.0


class Plan(Section):
    """Everything a run needs, but for the number of analysts and the run time, which Locust is
    given.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "analysts"
    seed: int = 1
    target: Target = Target()
    load: Load = Load()
    deadlines: Deadlines = Deadlines()
    reconnect: Reconnect = Reconnect()
    human: Human = Human()
    analysts: Annotated[tuple[Group, ...], Field(min_length=1)]
    questions: Questions
    script: Script | None = None
    slo: tuple[ClockSlo, ...] = ()
    failure_budget: Share | None = None
    keep_answers: bool = False

    @field_validator("analysts")
    @classmethod
    def _check(cls, analysts: tuple[Group, ...]) -> tuple[Group, ...]:
        if sum(group.weight for group in analysts) <= 0:
            raise ValueError("the weights sum to nothing; give at least one group a weight")
        names = [group.name for group in analysts]
        if len(set(names)) != len(names):
            raise ValueError(f"group names must differ, got {', '.join(names)}")
        return analysts

    @property
    def hash(self) -> str:
        """Fingerprint of all that shapes the load; the host is not part of it."""
        shape = self.model_dump(mode="json", exclude={"target": {"host"}})
        return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]

    def question_texts(self, folder: Path) -> tuple[str, ...]:
        """The questions, from the plan or from its file beside the plan."""
        if self.questions.file is None:
            return self.questions.texts
        path = folder / self.questions.file
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"questions.file: cannot read {path}: {error}") from error
        texts = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
        if not texts:
            raise ConfigError(f"questions.file: {path} holds no question; write one a line")
        return texts


def check_host(host: str) -> str:
    """``host`` without a trailing slash, or ValueError: http or https, a name, no credentials, no
    query.
    """
    try:
        parts = urlsplit(host)
    except ValueError as error:
        raise ValueError(f"host is no URL ({error}); write http://NAME[:PORT]") from None
    if parts.username or parts.password:
        raise ValueError("host must not hold credentials; put them into [analysts.identity]")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"host must be http://NAME[:PORT] or https://NAME[:PORT], got {host!r}")
    if parts.query or parts.fragment:
        raise ValueError("host must not hold a query or a fragment")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError(f"host has a port that is no number from 0 to 65535: {host!r}") from None
    return host.rstrip("/")


def target_host(host: str) -> str:
    """`check_host` for the command line.  Raises ConfigError."""
    try:
        return check_host(host)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def identity_plan(method: str | None, env: str | None, username: str | None) -> IdentityPlan:
    """An identity from the command line.  Raises ConfigError."""
    if method is None and env is None:
        return IdentityPlan()
    raw = {"method": method or "none", "env": env, "username": username}
    try:
        return IdentityPlan.model_validate(raw)
    except ValidationError as error:
        lines = [f"identity: {_sentence(item)}" for item in error.errors(include_url=False)]
        raise ConfigError("\n".join(lines)) from None


def load_plan(path: Path, dialects: Mapping[str, object] | None = None) -> Plan:
    """Read and validate the plan at ``path``.

    ``dialects`` are the known names; a group that names another one is an error.
    Raises ConfigError with a line for each mistake.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such plan file; give one with --plan") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot read the plan: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    return parse_plan(raw, path.name, dialects)


def parse_plan(
    raw: Mapping[str, Any], source: str, dialects: Mapping[str, object] | None = None
) -> Plan:
    """Validate the table ``raw``; ``source`` names it in messages."""
    mistakes = [] if dialects is None else list(_unknown_dialects(raw.get("analysts"), dialects))
    try:
        plan = Plan.model_validate(raw)
    except ValidationError as error:
        mistakes = [*map(_sentence, error.errors(include_url=False)), *mistakes]
    if mistakes:
        raise ConfigError("\n".join(f"{source}: {mistake}" for mistake in mistakes))
    return plan


def _unknown_dialects(analysts: object, dialects: Mapping[str, object]) -> Iterator[str]:
    for number, group in enumerate(analysts if isinstance(analysts, list) else ()):
        name = group.get("dialect") if isinstance(group, dict) else None
        if isinstance(name, str) and name not in dialects:
            known = ", ".join(sorted(dialects))
            yield f"analysts.{number}.dialect must be one of {known}, got {name!r}"


_LIMIT_WORDS = {
    "greater_than_equal": ("ge", "must be >="),
    "greater_than": ("gt", "must be >"),
    "less_than_equal": ("le", "must be <="),
    "less_than": ("lt", "must be <"),
}


def _sentence(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"])
    kind, given = item["type"], item.get("input")
    if kind == "extra_forbidden":
        return f"{where} is not a key of the plan; check its spelling"
    if kind == "missing":
        return f"{where} is missing"
    if kind in _LIMIT_WORDS:
        key, words = _LIMIT_WORDS[kind]
        return f"{where} {words} {item['ctx'][key]:g}, got {given}"
    message = item["msg"].removeprefix("Value error, ")
    plain = isinstance(given, str | int | float) and str(given) not in message
    sentence = f"{where}: {message}" if where else message
    return f"{sentence}, got {given!r}" if plain else sentence


def resolve_identity(
    plan: IdentityPlan, number: int, wire: Wire, environ: Mapping[str, str] = os.environ
) -> Identity:
    """The credentials of analyst ``number``.

    ``api_key``, ``jwt`` and ``basic`` travel in an `auth_message` on a socket and in the
    ``Authorization`` header of a request.  Raises ConfigError when the named source holds none.
    """
    if plan.method == "none":
        return Identity()
    token = _credential(plan, number, environ)
    user = plan.username or ""
    basic = base64.b64encode(f"{user}:{token}".encode()).decode()
    secrets = (token, basic) if plan.template is None else ()
    headers: dict[str, dict[str, str]] = {
        "session": {"cookie": f"nat-session={token}"},
        "bearer": {"authorization": f"Bearer {token}"},
        "api_key_header": {"x-api-key": token},
        "api_key": {"authorization": f"Bearer {token}"},
        "jwt": {"authorization": f"Bearer {token}"},
        "basic": {"authorization": f"Basic {basic}"},
    }
    logins: dict[str, dict[str, str]] = {
        "api_key": {"method": "api_key", "token": token},
        "jwt": {"method": "jwt", "token": token},
        "basic": {"method": "basic", "username": user, "password": token},
    }
    if wire is Wire.WEBSOCKET and plan.method in logins:
        return Identity(login=logins[plan.method], secrets=secrets)
    return Identity(headers=headers[plan.method], secrets=secrets)


def _credential(plan: IdentityPlan, number: int, environ: Mapping[str, str]) -> str:
    if plan.template is not None:
        token = plan.template.replace("{n}", str(number))
    elif plan.env is not None:
        token = environ.get(plan.env, "").strip()
        if not token:
            raise ConfigError(
                f"identity: the environment variable {plan.env} is not set;"
                " export it before the run"
            )
    else:
        path = Path(plan.file or "")
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"identity: cannot read the credential file {path}: {error}"
            ) from None
        if not token:
            raise ConfigError(f"identity: the credential file {path} is empty")
    if any(ord(character) < 32 or ord(character) > 126 for character in token):
        raise ConfigError("identity: the credential holds characters that no header may carry")
    return token


def seconds_ns(seconds: float) -> int:
    """Seconds to integer nanoseconds."""
    return round(seconds * NS_PER_S)
