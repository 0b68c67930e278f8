"""The default timeline of a question without words: a research assistant, drawn at random.

``--profile FILE`` replaces any of its values; the file is TOML with the names below.
"""

from __future__ import annotations

import tomllib
from math import log
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from loadgen.errors import ConfigError
from loadgen.events import PromptKind
from mockagent.faults import Faults
from mockagent.script import Script


class Lognormal(BaseModel):
    """A time in ms, lognormal; ``sigma`` is the standard deviation of its logarithm."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    median: Annotated[float, Field(gt=0, le=3_600_000)]
    sigma: Annotated[float, Field(ge=0, le=3)] = 0.0

    def draw(self, rng: Random) -> float:
        """One time in ms."""
        return rng.lognormvariate(log(self.median), self.sigma)


class Between(BaseModel):
    """A whole number, uniform between ``low`` and ``high``, both included."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    low: Annotated[int, Field(ge=0, le=100_000)]
    high: Annotated[int, Field(ge=0, le=100_000)]

    @model_validator(mode="after")
    def _ordered(self) -> Between:
        if self.high < self.low:
            raise ValueError(f"high must be >= low, got {self.low} and {self.high}")
        return self


class Profile(BaseModel):
    """The distribution that turns without words are drawn from; all times after the slot."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    first_ms: Lognormal = Lognormal(median=700, sigma=0.3)
    """The first real step."""
    answer_ms: Lognormal = Lognormal(median=4_000, sigma=0.2)
    """The first answer chunk (human pauses come on top)."""
    steps: Between = Between(low=2, high=4)
    tokens: Between = Between(low=30, high=50)
    token_ms: Lognormal = Lognormal(median=70, sigma=0.25)
    prompt_share: Annotated[float, Field(ge=0, le=1)] = 0.2
    """The share of turns that ask the analyst one thing."""
    prompt_kinds: Annotated[tuple[PromptKind, ...], Field(min_length=1)] = (
        PromptKind.TEXT,
        PromptKind.BINARY_CHOICE,
        PromptKind.RADIO,
        PromptKind.CHECKBOX,
        PromptKind.DROPDOWN,
    )
    hitl_at: Annotated[str, Field(pattern="^(start|answer|mid|end)$")] = "answer"

    def draw(self, rng: Random, tag: str) -> tuple[Script, Faults]:
        """One turn.  Steps take 70 % of the time between the first one and the answer, thinking the
        rest.
        """
        first_ms = self.first_ms.draw(rng)
        token_ms = self.token_ms.draw(rng)
        steps = rng.randint(self.steps.low, self.steps.high)
        work_ms = max(self.answer_ms.draw(rng) - first_ms - token_ms, 0.0)
        asks = rng.random() < self.prompt_share
        script = Script(
            steps=steps,
            step_ms=0.7 * work_ms / steps if steps else 0.0,
            think_ms=0.3 * work_ms if steps else work_ms,
            tokens=rng.randint(self.tokens.low, self.tokens.high),
            token_ms=token_ms,
            hitl=rng.choice(self.prompt_kinds).value if asks else "",
            hitl_at=self.hitl_at,
            tag=tag,
        )
        return script, Faults(first_ms=first_ms)


def read_profile(path: Path) -> Profile:
    """The profile in the TOML file ``path``; every mistake in it is named in one `ConfigError`."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{path}: cannot be read ({reason}); give --profile a TOML file"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    try:
        return Profile.model_validate(values)
    except ValidationError as error:
        raise ConfigError("; ".join(_mistakes(path, error))) from None


def _mistakes(path: Path, error: ValidationError) -> list[str]:
    known = ", ".join(Profile.model_fields)
    said = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
            said.append(f"{path.name}: {where}: unknown key; known are {known}")
        else:
            message = item["msg"].removeprefix("Value error, ")
            said.append(f"{path.name}: {where}: {message}, got {item['input']!r}")
    return said
