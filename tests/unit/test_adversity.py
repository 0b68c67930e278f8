"""What goes wrong in a run: the plan's tables, and who is hit."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from loadgen.adversity import Adversity, chosen
from loadgen.errors import ConfigError
from loadgen.plan import parse_plan

BARE: dict[str, Any] = {
    "analysts": [{"name": "desk", "dialect": "nat-ws"}],
    "questions": {"texts": ["q"]},
}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"what": "drop"}, "adversity.0.at_s is missing"),
        ({"at_s": -1, "what": "drop"}, "adversity.0.at_s must be >= 0"),
        ({"at_s": 1, "what": "quake"}, "adversity.0.what"),
        ({"at_s": 1, "what": "drop", "share": 2}, "adversity.0.share must be <= 1"),
        ({"at_s": 1, "what": "drop", "count": 0}, "adversity.0.count must be >= 1"),
        ({"at_s": 1, "what": "drop", "count": 3, "share": 0.5}, "share or count, not both"),
        ({"at_s": 1, "what": "drop", "command": {"drop": "all"}}, "belongs to control"),
        ({"at_s": 1, "what": "control"}, "control needs a command"),
        ({"at_s": 1, "what": "control", "command": {"drop": 1}, "count": 1}, "belong to drop"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_cannot_be_is_named(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_plan(BARE | {"adversity": [table]}, "my.toml")
    assert said in str(caught.value)
    assert str(caught.value).startswith("my.toml: adversity.0")


def test_tables_stand_in_the_plan_and_shape_its_hash() -> None:
    table = {"at_s": 30, "what": "control", "command": {"drop": "all", "refuse_s": 3}}
    plan = parse_plan(BARE | {"adversity": [table]}, "my.toml")
    assert plan.adversity[0].command == {"drop": "all", "refuse_s": 3}
    assert plan.hash != parse_plan(BARE, "my.toml").hash


def hit(count: int | None, share: float | None, connected: int, worker: int, workers: int) -> int:
    item = Adversity(at_s=0, what="drop", count=count, share=share)
    return len(chosen(item, range(connected), Random(1), worker, workers))


@pytest.mark.parametrize(
    ("count", "share", "connected", "expected"),
    [
        (None, None, 50, 50), (None, 0.5, 50, 25), (None, 0.0, 50, 0), (10, None, 50, 10),
        (80, None, 50, 50), (3, None, 0, 0), (None, None, 0, 0),
    ],
)  # fmt: skip
def test_all_a_share_or_a_number_are_hit(
    count: int | None, share: float | None, connected: int, expected: int
) -> None:
    assert hit(count, share, connected, 0, 1) == expected


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_the_parts_of_workers_add_up(count: int) -> None:
    assert sum(hit(count, None, 60, worker, 3) for worker in range(3)) == count


def test_the_same_seed_hits_the_same_analysts() -> None:
    item = Adversity(at_s=0, what="drop", share=0.3)
    first, again, other = (chosen(item, range(100), Random(seed), 0, 1) for seed in (1, 1, 2))
    assert first == again != other
    shuffled = list(range(100))
    Random(9).shuffle(shuffled)
    assert chosen(item, shuffled, Random(1), 0, 1) == first, "the order of seats counts"
