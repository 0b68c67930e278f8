"""The ``[[adversity]]`` tables of the plan: what goes wrong in a run, and when."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from loadgen.section import Seconds, Section, Share


class Adversity(Section):
    """Something that goes wrong ``at_s`` after the start of the run.

    ``drop``: ``count`` connections of analysts, or a ``share`` of them (all, if neither is given),
    are lost in the same instant, as a network would lose them: open WebSockets, and requests under
    way.  ``control``: ``command`` is given to the mock agent, which the target must be.
    """

    at_s: Seconds
    what: Literal["drop", "control"]
    share: Share | None = None
    count: Annotated[int, Field(ge=1)] | None = None
    command: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.what == "control":
            if not self.command:
                raise ValueError("control needs a command, such as { drop = 'all' }")
            if self.share is not None or self.count is not None:
                raise ValueError("share and count belong to drop; control takes a command")
        elif self.command:
            raise ValueError("a command belongs to control; drop takes share or count")
        elif self.share is not None and self.count is not None:
            raise ValueError("drop takes share or count, not both")
        return self


def chosen(
    adversity: Adversity, connected: Sequence[int], rng: Random, worker: int, workers: int
) -> list[int]:
    """Which of the ``connected`` analysts of a worker lose their connection.

    Each of the ``workers`` takes its part of a count, so that the parts add up to it; of a share
    each takes that of its own analysts.
    """
    if adversity.count is not None:
        part = adversity.count // workers + (worker < adversity.count % workers)
    else:
        share = 1.0 if adversity.share is None else adversity.share
        part = round(share * len(connected))
    return rng.sample(sorted(connected), min(part, len(connected)))
