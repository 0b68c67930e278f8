"""The mock's own adversities, without a socket: which turns are swapped, which faults exist."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from loadgen.errors import ConfigError
from mockagent.agent import Agent, Settings
from mockagent.control import Command
from mockagent.crosstalk import Crosstalk
from mockagent.faults import Faults
from mockagent.network import Network, faults_of
from mockagent.truth import TurnTruth

README = (Path(__file__).parents[2] / "mockagent" / "README.md").read_text(encoding="utf-8")


def turn(name: str) -> TurnTruth:
    truth = TurnTruth(name, f"c-{name}", "ws", "/websocket", 1)
    truth.tag = f"tag-{name}"
    return truth


@pytest.mark.case("D-41")
def test_two_turns_under_way_change_their_tags() -> None:
    cross = Crosstalk(1.0, seed=1)
    cross._due = 1
    first, second = turn("a"), turn("b")
    swap_first = cross.take(first)
    swap_second = cross.take(second)
    assert swap_first is not None
    assert swap_second is not None
    assert swap_first(b'{"text": "tag=tag-a"}', True) == b'{"text": "tag=tag-b"}'
    assert swap_second("data: tag=tag-b", True) == "data: tag=tag-a"
    assert swap_first("w0 w1", True) == "w0 w1"
    assert (first.crossed, second.crossed) == ("b", "a")


def test_a_turn_that_has_said_its_tag_is_swapped_with_nobody() -> None:
    cross = Crosstalk(1.0, seed=1)
    first, second = turn("a"), turn("b")
    swap = cross.take(first)
    assert swap is not None
    assert swap("a step that quotes tag=tag-a", False) == "a step that quotes tag=tag-a"
    assert swap("tag=tag-a", True) == "tag=tag-a"
    cross._due = 1
    cross.take(second)
    assert (first.crossed, second.crossed) == (None, None)


def test_a_turn_that_has_ended_is_swapped_with_nobody() -> None:
    cross = Crosstalk(1.0, seed=1)
    gone, later = turn("a"), turn("b")
    cross.take(gone)
    gone.ended_ns = 5
    cross._due = 1
    cross.take(later)
    assert later.crossed is None


@pytest.mark.case("D-41")
@pytest.mark.parametrize("share", [0.0, 0.005, 0.2])
def test_the_share_is_that_of_all_turns(share: float) -> None:
    cross, turns = Crosstalk(share, seed=3), [turn(str(n)) for n in range(10_000)]
    for place, truth in enumerate(turns):
        if place >= 20:
            turns[place - 20].ended_ns = 1
        cross.take(truth)
    found = sum(truth.crossed is not None for truth in turns)
    assert found == 0 if not share else found == pytest.approx(share * 10_000, rel=0.35)


def test_a_turn_without_a_tag_cannot_be_swapped() -> None:
    untagged = turn("a")
    untagged.tag = ""
    assert Crosstalk(1.0, seed=1).take(untagged) is None
    assert Crosstalk(0.0, seed=1).take(turn("b")) is None


def test_faults_are_of_the_network_or_of_each_question() -> None:
    network, words = faults_of(["delay_ms=5", "cut=3", "retry_after=7", "ws_status=429"])
    assert network == Network(delay_ms=5.0, ws_status=429, retry_after=7)
    assert words == (("cut", "3"), ("retry_after", "7"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("weather=bad", "'weather' is no fault; known are accept_ms, buffer, "),
        ("delay_ms", "delay_ms must be a number"),
        ("delay_ms=-1", "delay_ms must be 0 to 3600000"),
        ("delay_ms=nan", "delay_ms must be 0 to 3600000"),
        ("bytes_s=-1", "bytes_s must be >= 0"),
        ("ws_status=302", "ws_status must be 400 to 599"),
        ("cut=soon", "cut must be a number"),
    ],
)
def test_a_bad_fault_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="fault: ") as caught:
        faults_of([text])
    assert said in str(caught.value)


def test_words_of_a_question_count_before_faults_of_all() -> None:
    agent = Agent(Settings(faults=(("cut", "3"), ("first_ms", "9"))))
    assert agent.plan("steps=1 cut=5")[1] == Faults(cut=5, first_ms=9)
    assert agent.plan("no words at all")[1].cut == 3
    assert agent.plan("no words at all")[1].first_ms == 9


@pytest.mark.parametrize("owner", [Network, Command])
def test_every_fault_and_command_is_in_the_readme(owner: type) -> None:
    names = Command.model_fields if owner is Command else {f.name: f for f in fields(owner)}
    assert [name for name in names if f"`{name}`" not in README] == []
