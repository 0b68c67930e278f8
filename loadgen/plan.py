"""The plan: what a run does, as one frozen, validated value made from a TOML file.

All mistakes of a file are reported at once, each on a line of its own that says where and what:
``analysts.toml: human.reply_s.median must be >= 0, got -2``.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from loadgen.adversity import Adversity
from loadgen.clock import NS_PER_S
from loadgen.dialects.contract import Shape
from loadgen.errors import ConfigError
from loadgen.identity import IdentityPlan
from loadgen.levels import Capacity
from loadgen.load import Load
from loadgen.section import Seconds, Section, Share
from loadgen.turn import Cause

Clock = Literal[
    "ttfv", "ttfp", "ttfa", "ttc", "max_gap", "resume", "consent", "recovery", "auth", "connect",
    "token", "session",
]  # fmt: skip
ChoiceKind = Literal[
    "text", "binary_choice", "radio", "checkbox", "dropdown", "notification", "feedback"
]

ReplyKind = Literal["text", "binary_choice", "radio", "checkbox", "dropdown", "feedback"]

REDACTED = "[redacted]"


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
    allow_origins: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.host is not None:
            check_host(self.host)
        for origin in self.allow_origins:
            _check_origin(origin)
        return self


class Deadlines(Section):
    """When to stop waiting; time that the analyst spends at a prompt does not count."""

    connect_s: Seconds = 10.0
    auth_s: Seconds = 10.0
    first_event_s: Seconds = 120.0
    silence_s: Seconds = 60.0
    resume_s: Seconds = 15.0
    prompt_grace_s: Seconds = 15.0
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

    def wait_s(self, attempt: int, rng: Random) -> float:
        """How long to wait before that attempt (from 0): the full jitter of Brooker, *Exponential
        Backoff And Jitter* (AWS, 2015), or ``base_s``.
        """
        if self.policy == "exponential":
            return rng.uniform(0, min(self.cap_s, self.base_s * 2.0**attempt))
        return self.base_s


class Replies(Section):
    """How prompts of one kind are answered.

    ``choose`` picks among the options, or among ``values`` if there are any: ``first``, ``random``,
    or ``weighted`` by ``weights``.  A text is one of ``values``.  ``when``: after ``human.reply_s``
    (``prompt``), never (``timeout``: the prompt runs into its own), or ``late_s`` after the
    prompt's timeout.  ``times`` 2 says it twice.  ``shape``: see `contract.Shape`.
    """

    choose: Literal["first", "random", "weighted"] = "random"
    values: tuple[str, ...] = ()
    weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = ()
    when: Literal["prompt", "timeout", "late"] = "prompt"
    late_s: Seconds = 6.0
    times: Literal[1, 2] = 1
    shape: Shape = Shape.RIGHT

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.choose == "weighted") != bool(self.weights):
            raise ValueError("choose = 'weighted' and weights need each other")
        if self.weights and not sum(self.weights):
            raise ValueError("the weights sum to nothing")
        if self.weights and self.values and len(self.weights) != len(self.values):
            raise ValueError("weights and values must have the same length")
        return self


class Consent(Section):
    """What analysts do when the agent wants them to log in elsewhere: ``follow`` the URL after
    ``delay_s``, ``deny`` the consent there, ``skip`` it and wait, or ``fail`` the turn at once.
    """

    do: Literal["follow", "deny", "skip", "fail"] = "follow"
    delay_s: Duration = Lognormal(median=3.0, sigma=0.5, max=30.0)


class Human(Section):
    """The simulated analyst.

    In ``interrupt_share`` of the turns it asks something else ``interrupt_after_s`` after the
    question, without waiting for the answer.  In ``abandon_share`` it leaves in the middle of the
    answer, ``abandon_after_s`` after ``abandon_after_chunks`` chunks of it.  After
    ``ask_again_share`` of the turns that it gave up it puts the same question again, at once.  In
    ``slow_share`` it reads nothing for ``slow_s`` from the first sign of life on: what arrives
    waits in the kernel, and when that is full, with the server.
    """

    think_s: Duration = Lognormal(median=8.0, sigma=0.6, max=60.0)
    reply_s: Duration = Lognormal(median=4.0, sigma=0.6, max=30.0)
    patience_s: Duration | None = None
    turns_per_conversation: Annotated[int, Field(ge=1)] = 5
    interrupt_share: Share = 0.0
    interrupt_after_s: Duration = Lognormal(median=2.0, sigma=0.5, max=20.0)
    abandon_share: Share = 0.0
    abandon_after_chunks: Annotated[int, Field(ge=1)] = 5
    abandon_after_s: Duration = Lognormal(median=0.0, sigma=0.0)
    ask_again_share: Share = 0.0
    slow_share: Share = 0.0
    slow_s: Duration = Lognormal(median=5.0, sigma=0.5, max=30.0)
    replies: dict[ReplyKind, Replies] = Field(default_factory=dict)
    consent: Consent = Consent()

    @field_validator("replies")
    @classmethod
    def _check(cls, replies: dict[ReplyKind, Replies]) -> dict[ReplyKind, Replies]:
        for kind, policy in replies.items():
            if policy.shape is Shape.WRONG_ID and kind != "feedback":
                raise ValueError(f"shape 'wrong_id' is for feedback only, not for {kind}")
        return replies


class Script(Section):
    """Words appended to each question, for targets that obey them (the mock agent, the scripted NAT
    workflow).

    ``words`` goes on every question; in ``prompt_share`` of the turns a prompt of one of
    ``prompt_kinds`` is asked for; ``tag`` makes each answer echo its turn, so that an answer that
    crossed to another analyst shows.  ``first_words`` goes on each analyst's first question only.
    """

    words: str = ""
    first_words: str = ""
    prompt_share: Share = 0.0
    prompt_kinds: tuple[ChoiceKind, ...] = ("text",)
    prompt_words: str = ""
    tag: bool = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.prompt_share and not self.prompt_kinds:
            raise ValueError("prompt_share needs at least one of prompt_kinds")
        return self


class Group(Section):
    """A kind of analyst: a dialect and its share of the crowd.

    Its ``host`` and its ``script`` stand in place of the target's and the plan's.
    """

    name: str
    dialect: str
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    host: str | None = None
    route: str | None = None
    options: dict[str, str | bool | int | float] = Field(default_factory=dict)
    identity: IdentityPlan = IdentityPlan()
    script: Script | None = None
    drop_between_turns: Share = 0.0
    drop_at_prompt: Share = 0.0
    drop_after_s: Duration = Lognormal(median=0.5, sigma=0.0)

    @field_validator("host")
    @classmethod
    def _check(cls, host: str | None) -> str | None:
        return None if host is None else check_host(host)


class Questions(Section):
    """What is asked: a text file with a question a line, relative to the plan."""

    file: str | None = None
    texts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.file is None) == (not self.texts):
            raise ValueError("needs either file or texts")
        return self


class ClockSlo(Section):
    """``share`` of the started turns must reach the end of ``clock`` within ``within_s``; of a
    clock that a turn may have several of (``resume``, ``auth``) that share of them.

    ``dialect``, ``scenario`` and ``group`` leave the others out; ``each`` makes it one target for
    each of them that was asked.
    """

    clock: Clock
    within_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    share: Annotated[float, Field(gt=0, le=1)] = 0.95
    dialect: str | None = None
    scenario: str | None = None
    group: str | None = None
    each: Literal["dialect", "scenario", "group"] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.each is not None and getattr(self, self.each) is not None:
            raise ValueError(f"each = {self.each!r} and {self.each} exclude each other")
        return self


class Fitness(Section):
    """How late the generator's own hub may be (p99, in ms), and by how much its wall clock may be
    set at a time, before the run is INVALID.
    """

    hub_lag_ms: Annotated[float, Field(gt=0, le=60_000, allow_inf_nan=False)] = 25.0
    clock_step_ms: Annotated[float, Field(ge=50, le=86_400_000, allow_inf_nan=False)] = 50.0


class Plan(Section):
    """Everything a run needs, but for the number of analysts and the run time, which Locust is
    given.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "analysts"
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 1
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
    cause_budgets: dict[Cause, Share] = Field(default_factory=dict)
    fitness: Fitness = Fitness()
    capacity: Capacity | None = None
    adversity: tuple[Adversity, ...] = ()
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

    @model_validator(mode="after")
    def _check_slo(self) -> Self:
        """A target for turns that nobody asks would never be judged."""
        known = {
            "dialect": {group.dialect for group in self.analysts},
            "scenario": {self.name},
            "group": {group.name for group in self.analysts},
        }
        for number, target in enumerate(self.slo):
            for key, names in known.items():
                name = getattr(target, key)
                if name is not None and name not in names:
                    some = ", ".join(sorted(names))
                    raise ValueError(f"slo.{number}.{key} must be one of {some}, got {name!r}")
        return self

    @property
    def hash(self) -> str:
        """Fingerprint of all that shapes the load of a run; the hosts are not part of it, nor what
        a search tries.
        """
        other: Any = {"target": {"host"}, "analysts": {"__all__": {"host"}}, "capacity": True}
        shape = self.model_dump(mode="json", exclude=other)
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


def _check_origin(origin: str) -> str:
    try:
        bare = not urlsplit(check_host(origin)).path
    except ValueError:
        bare = False
    if not bare:
        raise ValueError("allow_origins takes http://NAME[:PORT] and nothing behind it")
    return origin.rstrip("/")


def allowed_origin(origin: str) -> str:
    """An allowed origin of the command line.  Raises ConfigError."""
    try:
        return _check_origin(origin)
    except ValueError as error:
        raise ConfigError(str(error)) from None


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
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
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
        found = error.errors(include_url=False)
        # A tuple whose items are bad is also too short, to pydantic.
        within = {item["loc"][0] for item in found if len(item["loc"]) > 1}
        found = [i for i in found if i["type"] != "too_short" or i["loc"][0] not in within]
        mistakes = [*map(_sentence, found), *mistakes]
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


def seconds_ns(seconds: float) -> int:
    """Seconds to integer nanoseconds."""
    return round(seconds * NS_PER_S)
