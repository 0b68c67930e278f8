"""The adviser of a search for the capacity: which level the generator is to run, and for how long.

A process of its own beside the generator's (``python -m loadgen.advisor``), since generation and
analysis share nothing but the run folder.  It is told the time once a second on its standard input
and answers with an order, a JSON line each; the verdicts come from the journals.  What it found
goes to ``levels-capacity.jsonl`` in the run folder, a line a level, where a search that was broken
off can be taken up again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from loadgen.analysis import hold, level, search
from loadgen.analysis.hold import Hold, Phase, Terms
from loadgen.analysis.level import Stay
from loadgen.analysis.levelbook import NOW, LevelBook, read_levels, seen_of
from loadgen.analysis.search import Over, Scheme
from loadgen.analysis.tail import Tail
from loadgen.analysis.verdict import Verdict
from loadgen.errors import LoadgenError
from loadgen.journal import RunData, write_whole

Json = dict[str, Any]

_EARLIEST = 1 / 2
"""No level fails before it was held for this part of its time."""

_BACKLOG = 3
"""So many turns of everybody (of arrivals: conversations long) a level settles that came down from
a higher one.
"""

_LOOK_S = 4.0
_LOOK_SHARE = 0.125
"""How often one looks whether a level has failed: not more often than this part of its time."""


@dataclass(slots=True)
class Advisor:
    """A search under way.  ``carried`` are levels that an earlier run had measured."""

    scheme: Scheme
    terms: Terms
    closed: bool = True
    carried: list[Json] = field(default_factory=list)
    levels: list[Json] = field(default_factory=list)
    order: Json = field(default_factory=dict)
    _tail: Tail | None = None
    _manifest: Json = field(default_factory=dict)
    _book: LevelBook | None = None
    _hold: Hold | None = None
    _looked_s: float = 0.0

    def begin(self) -> Json:
        """The first order."""
        self.levels = [one | {"carried": True} for one in self.carried]
        self._choose(0.0)
        return self.order

    def tick(self, wall_ns: int, folder: Path, *, everybody: bool) -> Json:
        """The order of this moment; ``everybody``: the crowd is as large as was ordered."""
        if self._tail is None:
            self._open(folder)
        if "over" in self.order:
            return self.order
        assert self._tail is not None
        now_s = self._tail.at_s(wall_ns)
        self._tail.poll()
        if self._hold is None:
            self._hold = Hold(self.terms, now_s)
            self._tail.forget(now_s)
        due = self._hold.tick(now_s, everybody=everybody, cycled=self._cycled(now_s))
        if due or self._may_fail(now_s):
            self._look(now_s, due)
        if self._hold is not None:
            self.order |= {
                "phase": self._hold.phase.value,
                "left_s": round(self._hold.left_s(now_s), 1),
                "extensions": self._hold.extensions,
            }
        self._show(folder, now_s)
        return self.order

    def _open(self, folder: Path) -> None:
        self._manifest = orjson.loads((folder / "manifest.json").read_bytes())
        self._tail = Tail(folder, self._manifest)
        self._book = LevelBook(folder)
        for one in self.levels:
            self._book.add(one)

    def _choose(self, now_s: float) -> None:
        step = search.next_step(self.scheme, seen_of(self.levels), now_s)
        if isinstance(step, Over):
            self.order = {"over": step.end.value}
            if self._book is not None:
                self._book.end(step.end)
            return
        self._hold = None
        self.order = {"level": step.level, "number": len(self.levels) + 1, "phase": "ramp",
                      "left_s": self.terms.ramp_s, "extensions": 0}  # fmt: skip

    def _cycled(self, now_s: float) -> bool:
        """Whether this level's load has been what it is for as long as a dialogue lasts."""
        assert self._tail is not None
        assert self._hold is not None
        if self._hold.phase is not Phase.SETTLE:
            return False
        if self.closed:
            turns = _BACKLOG if self._falling else 1
            there = self._tail.users_ended(self._hold.grown_s, turns)
            return there >= round(float(self.order["level"]))
        human = (self._manifest.get("plan") or {}).get("human") or {}
        think_s = float((human.get("think_s") or {}).get("median", 0.0))
        length_s = self._tail.conversation_s(int(human.get("turns_per_conversation", 1)), think_s)
        if length_s is None:
            return False
        return now_s - self._hold.grown_s >= length_s * (_BACKLOG if self._falling else 1)

    @property
    def _falling(self) -> bool:
        """Whether the level before was higher, whose queue has to be worked off yet."""
        before = [one["level"] for one in self.levels if not one.get("carried")]
        return bool(before) and bool(self.order["level"] < before[-1])

    def _may_fail(self, now_s: float) -> bool:
        """Whether to look if the level has failed already."""
        assert self._hold is not None
        if self._hold.phase is not Phase.HOLD or self._falling:
            return False
        rest_s = max(_LOOK_S, _LOOK_SHARE * self.terms.hold_s)
        held_s = now_s - self._hold.opened_s
        return held_s >= _EARLIEST * self.terms.hold_s and now_s - self._looked_s >= rest_s

    def _look(self, now_s: float, due: bool) -> None:
        assert self._hold is not None
        self._looked_s = now_s
        stay = Stay(
            self.order["level"], self._hold.begun_s, self._hold.opened_s, now_s,
            self._hold.extensions,
        )  # fmt: skip
        if not due and not level.has_failed(self._run(stay), stay, hold.SURE):
            return
        found = level.measure(self._run(stay), stay)
        if self._hold.look(now_s, Verdict(found["verdict"])):
            self.levels.append(found)
            assert self._book is not None
            self._book.add(found)
            self._choose(now_s)

    def _run(self, stay: Stay) -> RunData:
        """The run as if it had this level only."""
        assert self._tail is not None
        run = self._tail.run()
        if self.closed:
            run.manifest["load"] = {**(run.manifest.get("load") or {}), "users": stay.level}
        return run

    def _show(self, folder: Path, now_s: float) -> None:
        """For a progress display."""
        write_whole(folder / NOW, orjson.dumps(self.order | {"at_s": round(now_s, 1)}))


def main() -> int:
    """Answer each line of the standard input with one on the standard output, until it ends."""
    advisor: Advisor | None = None
    for line in sys.stdin.buffer:
        told = orjson.loads(line)
        if advisor is None:
            resumed = told["resume"]
            advisor = Advisor(
                Scheme(**told["scheme"] | {"levels": tuple(told["scheme"]["levels"])}),
                Terms(**told["terms"]),
                closed=told["closed"],
                carried=read_levels(Path(resumed)) if resumed else [],
            )
            answer = advisor.begin()
        else:
            answer = advisor.tick(
                told["wall_ns"], Path(told["folder"]), everybody=told["everybody"]
            )
        sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LoadgenError as error:
        sys.exit(str(error))
