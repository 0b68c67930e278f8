"""Two streams that change places: the fault that a test of isolation must find.

A pair of turns that run at the same time get each other's answers, so that each carries the tag of
the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from mockagent.truth import TurnTruth


class Crosstalk:
    """Pairs turns; ``share`` of all turns with a tag are to be swapped, as far as two are under way
    at a time.
    """

    def __init__(self, share: float, seed: int) -> None:
        self._share = share
        self._rng = Random(f"{seed}/crosstalk")
        self._due = 0
        self._open: dict[TurnTruth, None] = {}
        """Turns under way that are in no pair and have not said their tag, oldest first."""
        self._other: dict[TurnTruth, TurnTruth] = {}

    def take(self, truth: TurnTruth) -> Callable[[Any, bool], Any] | None:
        """A turn begins: what its frames must go through; None: they are always its own.

        The second argument says that the frame is part of the answer.
        """
        if not self._share or not truth.tag:
            return None
        # A pair spoils two turns.
        self._due += self._rng.random() < self._share / 2
        for gone in [turn for turn in self._open if turn.ended_ns]:
            del self._open[gone]
        if self._due:
            self._pair(truth)
        if truth not in self._other:
            self._open[truth] = None
        return lambda frame, answer: self._swapped(truth, frame, answer)

    def _pair(self, truth: TurnTruth) -> None:
        other = next(iter(self._open), None)
        if other is None:
            return
        self._due -= 1
        del self._open[other]
        self._other[truth], self._other[other] = other, truth
        truth.crossed, other.crossed = other.id, truth.id

    def _swapped(self, truth: TurnTruth, frame: Any, answer: bool) -> Any:
        mine = _tagged(truth, frame)
        if mine not in frame:
            return frame
        if answer:
            self._open.pop(truth, None)
        other = self._other.get(truth)
        return frame if other is None else frame.replace(mine, _tagged(other, frame))


def _tagged(truth: TurnTruth, frame: Any) -> Any:
    text = f"tag={truth.tag}"
    return text.encode() if isinstance(frame, bytes) else text
