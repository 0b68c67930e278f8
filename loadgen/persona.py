"""The simulated human: how long it thinks, how it answers prompts, when it loses patience or its
connection.

Pure: all randomness comes from the generator that it is given, so a seed repeats an analyst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from loadgen.clock import NS_PER_S
from loadgen.events import Prompt, PromptKind
from loadgen.plan import Group, Human, Lognormal, Script

_TEXTS = ("2024", "policy year 2023", "commercial property", "the Bavarian portfolio")


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """What the analyst does at a prompt: reply with ``value`` after ``delay_ns``.

    ``drop_after_ns``: lose the connection that long after the prompt came, before replying.
    """

    delay_ns: int
    value: str
    drop_after_ns: int | None = None


class Persona:
    """One analyst's habits."""

    def __init__(self, human: Human, group: Group, rng: Random) -> None:
        self._human = human
        self._group = group
        self._rng = rng

    def think_ns(self) -> int:
        """The pause before the next question."""
        return draw_ns(self._human.think_s, self._rng)

    def patience_ns(self) -> int | None:
        """How long the analyst waits for one turn; None for ever."""
        return (
            None if self._human.patience_s is None else draw_ns(self._human.patience_s, self._rng)
        )

    def drops_between_turns(self) -> bool:
        """Whether the connection is lost before the next question."""
        return self._rng.random() < self._group.drop_between_turns

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        """The plan for ``prompt``; a prompt that came again (``deliveries`` > 1) meets no second
        drop.
        """
        delay = draw_ns(self._human.reply_s, self._rng)
        drop = None
        if deliveries == 1 and self._rng.random() < self._group.drop_at_prompt:
            drop = draw_ns(self._group.drop_after_s, self._rng)
        if prompt.kind is PromptKind.TEXT or not prompt.options:
            value = self._rng.choice(_TEXTS)
        else:
            value = self._rng.choice(prompt.options).value
        return ReplyPlan(delay, value, drop)


def draw_ns(duration: Lognormal, rng: Random) -> int:
    """One lognormal duration in ns, cut at the maximum."""
    seconds = duration.median
    if duration.sigma and seconds:
        seconds = rng.lognormvariate(math.log(seconds), duration.sigma)
    if duration.max is not None:
        seconds = min(seconds, duration.max)
    return round(seconds * NS_PER_S)


def script_question(
    text: str, script: Script | None, tag: str, rng: Random
) -> tuple[str, str | None]:
    """``text`` with the words of ``script``, and the tag that the answer must echo, if any."""
    if script is None:
        return text, None
    words = [text, script.words] if script.words else [text]
    if script.prompt_share and rng.random() < script.prompt_share:
        words.append(f"hitl={rng.choice(script.prompt_kinds)}")
        if script.prompt_words:
            words.append(script.prompt_words)
    if script.tag:
        words.append(f"tag={tag}")
    return " ".join(words), tag if script.tag else None


class Apportionment:
    """Deals groups out by weight so that every prefix is as close to the shares as it can be."""

    def __init__(self, weights: Sequence[float]) -> None:
        total = sum(weights)
        self._shares = [weight / total for weight in weights]
        self._given = [0] * len(weights)

    def next(self) -> int:
        """The index of the group that is furthest behind its share."""
        n = sum(self._given) + 1
        behind = [share * n - given for share, given in zip(self._shares, self._given, strict=True)]
        chosen = max(range(len(behind)), key=behind.__getitem__)
        self._given[chosen] += 1
        return chosen
