"""The ``[capacity]`` table of the plan: which levels a search for the capacity tries, and how long.

A level is a number of analysts in the closed model and conversations a minute in the partly-open
one.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from loadgen.errors import ConfigError
from loadgen.section import Seconds, Section

Level = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
Part = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class Capacity(Section):
    """The search doubles from ``start`` until a level fails, within ``least`` and ``most``, and
    bisects until the gap is ``precision`` of the level or one ``step``.  ``levels`` names the
    levels instead.

    Each one grows within ``ramp_s``, settles until all analysts have had a turn (``settle_s`` at
    most), and is held for ``hold_s``, up to four times as long where that settles nothing.
    ``confirm``: the lowest level that failed is measured once more; ``twice``: one level more at
    twice the answer.  ``budget_s``: no level is begun after it.
    """

    start: Level = 10
    least: Level = 1
    most: Level = 1000
    precision: Part = 0.05
    step: Level = 1
    levels: tuple[Level, ...] = ()
    confirm: bool = True
    twice: bool = True
    ramp_s: Seconds = 10
    settle_s: Seconds = 120
    hold_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 60
    budget_s: Seconds | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.least > self.most:
            raise ValueError("least is above most")
        if len(set(self.levels)) != len(self.levels):
            raise ValueError("levels must differ")
        return self


def changed(table: Capacity, told: dict[str, Any]) -> Capacity:
    """``table`` with the values ``told``.  Raises ConfigError."""
    try:
        return Capacity.model_validate(table.model_dump() | told)
    except ValidationError as error:
        lines = (
            f"capacity.{'.'.join(map(str, item['loc']))}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
        raise ConfigError("\n".join(lines)) from None
