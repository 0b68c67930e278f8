"""The [load] table: each model takes its own keys, and says so."""

from __future__ import annotations

import pytest

from loadgen.dialects import DIALECTS
from loadgen.errors import ConfigError
from loadgen.pacing import Profile, profile_of, users_wanted
from loadgen.plan import Plan, parse_plan

SMALLEST = {
    "analysts": [{"name": "desk", "dialect": "nat-ws"}],
    "questions": {"texts": ["why?"]},
}
UP_AND_DOWN = [
    {"over_s": 10, "to": 100}, {"over_s": 5, "to": 100}, {"over_s": 0, "to": 180},
    {"over_s": 5, "to": 180}, {"over_s": 10, "to": 0},
]  # fmt: skip


def planned(**load: object) -> Plan:
    return parse_plan(SMALLEST | {"load": load}, "plan.toml", DIALECTS)


@pytest.mark.parametrize(
    "load",
    [
        {},
        {"model": "closed", "stages": UP_AND_DOWN},
        {"model": "open", "rate": 2.5, "arrivals": "constant", "max_in_flight": 40},
        {"model": "open", "stages": UP_AND_DOWN},
        {"model": "partly-open", "rate": 0.1, "conversation_length": "geometric"},
        {"model": "replay", "file": "load.csv", "speed": 4, "max_in_flight": 3},
    ],
)
def test_a_plan_survives_its_way_to_a_worker(load: dict[str, object]) -> None:
    plan = planned(**load)
    assert Plan.model_validate(plan.model_dump(mode="json")) == plan


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ({"model": "open"}, "load: model open needs a rate (per second), or stages"),
        ({"model": "partly-open"}, "load: model partly-open needs a rate"),
        ({"model": "replay"}, "load: model replay needs a file"),
        ({"rate": 2}, "load: rate is for open, partly-open only, the model is closed"),
        ({"max_in_flight": 2}, "max_in_flight is for open, partly-open, replay only"),
        ({"model": "open", "rate": 1, "file": "x"}, "file is for replay only, the model is open"),
        ({"model": "replay", "file": "x", "stages": UP_AND_DOWN}, "stages is for closed, open,"),
        ({"model": "open", "rate": 1, "conversation_length": "geometric"}, "partly-open only"),
        ({"model": "open", "rate": 0}, "load.rate must be > 0, got 0"),
        ({"model": "open", "rate": 1, "max_in_flight": 0}, "load.max_in_flight must be >= 1"),
        ({"stages": [{"over_s": 0, "to": 5}]}, "load: stages take no time"),
        ({"stages": [{"over_s": 5, "to": 0}]}, "load: stages never leave 0"),
        ({"stages": [{"over_s": 5, "to": -1}]}, "load.stages.0.to must be >= 0, got -1"),
        ({"model": "sealed"}, "load.model: Input should be 'closed', 'open', 'partly-open' or"),
    ],
)
def test_a_key_that_means_nothing_is_a_mistake(load: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(**load)
    assert said in str(caught.value)


def test_two_mistakes_are_told_together() -> None:
    with pytest.raises(ConfigError, match=r"speed is for .*needs a rate"):
        planned(model="open", speed=3)


STAGED = profile_of(planned(stages=UP_AND_DOWN).load)


@pytest.mark.parametrize(
    ("at_s", "users"),
    [(0, 10), (0.3, 13), (4, 50), (9, 100), (12, 100), (14, 180), (19, 180), (20, 162), (29, 0)],
)
def test_stages_are_users_a_second_ahead(at_s: float, users: int) -> None:
    assert users_wanted(STAGED, at_s) == users


@pytest.mark.parametrize(("run_time_s", "ends_s"), [(None, 30), (60, 30), (12, 12)])
def test_a_staged_run_ends_with_its_stages_or_its_run_time(
    run_time_s: float | None, ends_s: float
) -> None:
    assert users_wanted(STAGED, ends_s - 0.1, run_time_s) is not None
    assert users_wanted(STAGED, ends_s, run_time_s) is None


def test_a_slow_ramp_begins_with_somebody() -> None:
    ramp = Profile(((0, 0), (3600, 180)))
    assert [users_wanted(ramp, at) for at in (0, 5, 20)] == [1, 1, 2]
