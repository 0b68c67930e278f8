"""The ``[load]`` table of the plan: which workload model, how much of it, and how it changes.

The models are those of Schroeder, Wierman and Harchol-Balter, *Open versus closed: a cautionary
tale* (NSDI 2006): ``closed`` is so many analysts who think between their questions; ``open`` is
single turns that arrive whatever the target does; ``partly-open`` is conversations that arrive and
then have turns with think time between them; ``replay`` is what a file says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from loadgen.section import Seconds, Section

Model = Literal["closed", "open", "partly-open", "replay"]
Rate = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
Level = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]

_PACED = ("open", "partly-open")
_BELONGS = {
    "rate": _PACED,
    "arrivals": _PACED,
    "stages": ("closed", *_PACED),
    "max_in_flight": (*_PACED, "replay"),
    "conversation_length": ("partly-open",),
    "file": ("replay",),
    "speed": ("replay",),
    "jitter_s": ("closed",),
}
"""Keys that mean something in some models only."""


class Stage(Section):
    """The level goes in a straight line to ``to`` within ``over_s``; 0 is a step."""

    over_s: Seconds
    to: Level


class Load(Section):
    """How the run goes when the command line says nothing else.

    ``rate`` is per second: turns of ``open``, conversations of ``partly-open``.  ``stages`` begin
    at ``rate`` (0 without one, and always in ``closed``); their levels are analysts in ``closed``
    and rates in the others.  ``max_in_flight`` is how many turns (``open``) or conversations may
    be under way; an arrival beyond it is dropped, and counted.  ``jitter_s``: each analyst of
    ``closed`` starts up to that much later, so that those spawned together do not march in step.
    """

    model: Model = "closed"
    drain_s: Seconds = 30.0
    jitter_s: Seconds = 1.0
    rate: Rate | None = None
    arrivals: Literal["poisson", "constant"] = "poisson"
    conversation_length: Literal["fixed", "geometric"] = "fixed"
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] | None = None
    stages: tuple[Stage, ...] = ()
    file: str | None = None
    speed: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        mistakes = list(self._mistakes())
        if mistakes:
            raise ValueError("; ".join(mistakes))
        return self

    @property
    def is_closed(self) -> bool:
        """Whether an analyst's next question waits for the answer to the one before."""
        return self.model == "closed"

    def _mistakes(self) -> Iterator[str]:
        for key, models in _BELONGS.items():
            # A plan that crossed to a worker names every key, most of them with their default.
            default = type(self).model_fields[key].default
            if self.model not in models and getattr(self, key) != default:
                yield f"{key} is for {', '.join(models)} only, the model is {self.model}"
        if self.model in _PACED and self.rate is None and not self.stages:
            yield f"model {self.model} needs a rate (per second), or stages"
        if self.model == "replay" and self.file is None:
            yield "model replay needs a file"
        if self.stages and not sum(stage.over_s for stage in self.stages):
            yield "stages take no time: give at least one an over_s"
        if self.stages and not (self.rate or any(stage.to for stage in self.stages)):
            yield "stages never leave 0"
