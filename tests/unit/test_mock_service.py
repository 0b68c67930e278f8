"""The mock as the single server of queueing theory."""

from __future__ import annotations

import math

import pytest

from mockagent.agent import Agent, Settings

QUESTION = "What? steps=0 tokens=0 service_ms=50"


def draws(seed: int, number: int, question: str = QUESTION) -> list[float]:
    agent = Agent(Settings(seed=seed))
    return [agent.plan(f"{question} tag=t{n}")[1].first_ms for n in range(number)]


def test_service_times_are_exponential_with_that_mean() -> None:
    found = sorted(draws(1, 4000))
    assert sum(found) / len(found) == pytest.approx(50, rel=0.05)
    for share in (0.25, 0.5, 0.9):
        assert found[int(share * len(found))] == pytest.approx(-50 * math.log(1 - share), rel=0.08)


def test_the_draws_are_those_of_the_seed_and_of_how_many_came_before() -> None:
    assert draws(3, 5) == draws(3, 5) != draws(4, 5)
    assert len(set(draws(3, 5))) == 5


def test_a_service_time_comes_on_top_and_is_none_unless_asked_for() -> None:
    later = draws(3, 5, QUESTION + " first_ms=10")
    assert later == pytest.approx([value + 10 for value in draws(3, 5)])
    assert draws(3, 2, "steps=0") == [0, 0]
