"""The two sides of an A/B run, and which of them a conversation goes to."""

from __future__ import annotations

from enum import StrEnum


class Side(StrEnum):
    """What a turn was asked of: the baseline or the candidate."""

    BASE = "base"
    NEW = "new"

    @property
    def role(self) -> str:
        """As the command line calls it."""
        return "baseline" if self is Side.BASE else "candidate"


_ORDER = (Side.BASE, Side.NEW, Side.NEW, Side.BASE)


def side_of(analyst: int, conversation: int) -> Side:
    """Where that conversation (from 0) of that analyst goes: A, B, B, A, from another place on for
    each analyst.

    Whatever grows or shrinks during a run meets both sides alike, and at each instant about half of
    the crowd is on either.
    """
    return _ORDER[(analyst + conversation) % len(_ORDER)]
