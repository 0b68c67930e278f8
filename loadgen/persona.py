"""The simulated human: how long it thinks, how it answers prompts, when it loses patience or its
connection.

Pure: all randomness comes from the generator that it is given, so a seed repeats an analyst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from loadgen.clock import NS_PER_S
from loadgen.dialects.contract import Shape
from loadgen.events import Prompt, PromptKind
from loadgen.feedback import reply_for
from loadgen.plan import Group, Human, Lognormal, Replies, Script, seconds_ns

_USUAL = Replies()
_TEXTS = ("2024", "policy year 2023", "commercial property", "the Bavarian portfolio")


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """What the analyst does at a prompt: reply with ``value`` after ``delay_ns``, never if that is
    None.

    ``drop_after_ns``: lose the connection that long after the prompt came, before replying.
    ``insist``: reply even if the turn has ended by then.  ``twice``: say it again.
    """

    delay_ns: int | None
    value: str
    drop_after_ns: int | None = None
    shape: Shape = Shape.RIGHT
    insist: bool = False
    twice: bool = False


@dataclass(frozen=True, slots=True)
class ConsentPlan:
    """What the analyst does when it is to log in elsewhere; ``delay_ns`` is its pause before."""

    do: Literal["follow", "deny", "skip", "fail"]
    delay_ns: int


@dataclass(frozen=True, slots=True)
class Absence:
    """How the analyst is not there in mid-answer.

    ``leaves_at``: it leaves ``leaves_after_ns`` after so many chunks, 0: it stays.
    ``looks_away_ns``: how long it reads nothing from the first sign of life on.
    """

    leaves_at: int = 0
    leaves_after_ns: int = 0
    looks_away_ns: int = 0


PRESENT = Absence()


class Habits(Protocol):
    """What a conversation asks of a persona."""

    def patience_ns(self) -> int | None:
        """How long the analyst waits for this turn."""

    def interrupt_ns(self) -> int | None:
        """How long after its question the analyst asks something else; None: it waits."""

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        """What the analyst does at ``prompt``, delivered for the ``deliveries``-th time."""

    def consent(self) -> ConsentPlan:
        """What the analyst does when the agent wants it to log in elsewhere."""

    def absence(self) -> Absence:
        """How far the analyst is not there while this turn is answered."""


class Persona:
    """One analyst's habits."""

    def __init__(self, human: Human, group: Group, rng: Random) -> None:
        self._human = human
        self._group = group
        self._rng = rng
        self._replies: Mapping[str, Replies] = {str(k): v for k, v in human.replies.items()}

    def think_ns(self) -> int:
        """The pause before the next question."""
        return draw_ns(self._human.think_s, self._rng)

    def patience_ns(self) -> int | None:
        """How long the analyst waits for one turn; None for ever."""
        return (
            None if self._human.patience_s is None else draw_ns(self._human.patience_s, self._rng)
        )

    def interrupt_ns(self) -> int | None:
        """How long after its question the analyst asks something else; None: it waits."""
        if not self._human.interrupt_share or self._rng.random() >= self._human.interrupt_share:
            return None
        return draw_ns(self._human.interrupt_after_s, self._rng)

    def absence(self) -> Absence:
        """How far the analyst is not there while this turn is answered."""
        human, rng = self._human, self._rng
        leaves_at = leaves_after_ns = looks_away_ns = 0
        if human.abandon_share and rng.random() < human.abandon_share:
            leaves_at = human.abandon_after_chunks
            leaves_after_ns = draw_ns(human.abandon_after_s, rng)
        if human.slow_share and rng.random() < human.slow_share:
            looks_away_ns = draw_ns(human.slow_s, rng)
        return Absence(leaves_at, leaves_after_ns, looks_away_ns)

    def asks_again(self) -> bool:
        """Whether the question of a turn that was given up is put again at once."""
        share = self._human.ask_again_share
        return bool(share) and self._rng.random() < share

    def drops_between_turns(self) -> bool:
        """Whether the connection is lost before the next question."""
        return self._rng.random() < self._group.drop_between_turns

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        """The plan for ``prompt``; a prompt that came again (``deliveries`` > 1) meets no second
        drop.
        """
        delay: int | None = draw_ns(self._human.reply_s, self._rng)
        drop = None
        if deliveries == 1 and self._rng.random() < self._group.drop_at_prompt:
            drop = draw_ns(self._group.drop_after_s, self._rng)
        policy = self._replies.get(prompt.kind.value, _USUAL)
        values = policy.values or self._offered(prompt)
        late = policy.when == "late"
        if policy.when == "timeout":
            delay = None
        elif late:
            delay = (prompt.timeout_ns or 0) + seconds_ns(policy.late_s)
        value = self._choose(policy, values)
        return ReplyPlan(delay, value, drop, policy.shape, late, policy.times == 2)

    def _offered(self, prompt: Prompt) -> tuple[str, ...]:
        """What the prompt itself suggests."""
        if prompt.kind is PromptKind.FEEDBACK:
            return (reply_for(prompt.schema or {}, self._rng),)
        offered = () if prompt.kind is PromptKind.TEXT else prompt.options
        return tuple(option.value for option in offered) or _TEXTS

    def consent(self) -> ConsentPlan:
        """What the analyst does when the agent wants it to log in elsewhere."""
        plan = self._human.consent
        return ConsentPlan(plan.do, draw_ns(plan.delay_s, self._rng))

    def _choose(self, policy: Replies, values: Sequence[str]) -> str:
        if policy.choose == "first":
            return values[0]
        if policy.choose == "random":
            return self._rng.choice(values)
        weights = [*policy.weights, *[0.0] * len(values)][: len(values)]
        return self._rng.choices(values, weights if any(weights) else None)[0]


def draw_ns(duration: Lognormal, rng: Random) -> int:
    """One lognormal duration in ns, cut at the maximum."""
    seconds = duration.median
    if duration.sigma and seconds:
        seconds = rng.lognormvariate(math.log(seconds), duration.sigma)
    if duration.max is not None:
        seconds = min(seconds, duration.max)
    return round(seconds * NS_PER_S)


def script_question(
    text: str, script: Script | None, tag: str, rng: Random, *, first: bool = False
) -> tuple[str, str | None]:
    """``text`` with the words of ``script``, and the tag that the answer must echo, if any.

    ``first``: it is the analyst's first question.
    """
    if script is None:
        return text, None
    words = [text, script.words, script.first_words if first else ""]
    words = [word for word in words if word]
    if script.prompt_share and rng.random() < script.prompt_share:
        kind = rng.choice(script.prompt_kinds)
        words.append("feedback=1" if kind == "feedback" else f"hitl={kind}")
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
