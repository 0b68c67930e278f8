from __future__ import annotations

from typing import Any

import click
import pytest
from sides import FACTS, side

from loadgen.analysis.guards import Guard, check
from loadgen.cli import cli
from loadgen.errors import ConfigError, ExitCode


def changed(name: str, **keys: Any) -> dict[str, Any]:
    return {name: FACTS[name] | keys}


CASES = [
    (Guard.HOST, {"facts": changed("host", hostname="runner-7")}, "hostname bench / runner-7"),
    (Guard.PLAN, {"facts": changed("plan", hash="abcdef0123")}, "hash 0123456789 / abcdef0123"),
    (Guard.PLAN, {"facts": changed("plan", seed=7)}, "seed nothing / 7"),
    (Guard.LOAD, {"facts": changed("load", model="open")}, "model closed / open"),
    (Guard.LOAD, {"facts": changed("load", users=90)}, "users 180 / 90"),
    (Guard.DIALECTS, {"facts": {"dialects": {"nat-sse": 300}}}, "nat-ws 33.3 % / 0 %"),
    (
        Guard.DIALECTS,
        {"facts": {"dialects": {"nat-sse": 100, "nat-ws": 200}}},
        "nat-sse 66.7 % / 33.3 %",
    ),
    (Guard.TRANSPORT, {"facts": changed("transport", schemes=["https"])}, "schemes.0 http / https"),
    (Guard.TRANSPORT, {"facts": changed("transport", stamps="user")}, "stamps kernel / user"),
    (Guard.INVALID, {"verdict": "INVALID", "reasons": ("a worker was lost",)}, "a worker was lost"),
]  # fmt: skip


@pytest.mark.case("D-73")
@pytest.mark.parametrize(("guard", "change", "words"), CASES)
def test_what_differs_refuses_and_is_shown(
    guard: Guard, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check([side("base")], [side("new", **change)], [])
    assert words in str(refused.value)
    assert f"--allow {guard}" in str(refused.value)
    assert refused.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(("guard", "change", "words"), CASES)
def test_what_is_allowed_by_name_is_said_instead(
    guard: Guard, change: dict[str, Any], words: str
) -> None:
    (said,) = check([side("base")], [side("new", **change)], [guard])
    assert words in said
    assert said.endswith("(allowed)")


@pytest.mark.parametrize("guard", list(Guard))
def test_one_allowance_opens_one_gate_only(guard: Guard) -> None:
    others = [other for other in Guard if other is not guard]
    change = next(change for name, change, _ in CASES if name is guard)
    with pytest.raises(ConfigError):
        check([side("base")], [side("new", **change)], others)


def test_an_invalid_base_refuses_too() -> None:
    with pytest.raises(ConfigError, match="base is INVALID"):
        check([side("base", verdict="INVALID")], [side("new")], [])


def test_all_differences_are_shown_at_once() -> None:
    facts = changed("host", cpus=64) | changed("load", users=1)
    with pytest.raises(ConfigError, match=r"--allow host --allow load") as refused:
        check([side("base")], [side("new", facts=facts)], [])
    assert "cpus 2 / 64" in str(refused.value)
    assert "users 180 / 1" in str(refused.value)


def test_many_differences_of_one_kind_are_counted() -> None:
    facts = {"plan": {f"key{n}": n for n in range(20)}}
    with pytest.raises(ConfigError, match="and 17 more"):
        check([side("base")], [side("new", facts=facts)], [])


@pytest.mark.parametrize("mix", [{"nat-sse": 200, "nat-ws": 100}, {"nat-sse": 26, "nat-ws": 18}])
def test_a_mix_that_chance_explains_is_the_same(mix: dict[str, int]) -> None:
    assert check([side("base")], [side("new", facts={"dialects": mix})], []) == []


def test_equal_sides_have_nothing_against_them() -> None:
    other = side("new", facts={"versions": {"loadgen": "9"}})
    assert check([side("base")], [other], []) == []


def test_several_runs_are_all_held_against_the_first() -> None:
    odd = side("odd", facts=changed("host", cpus=64))
    with pytest.raises(ConfigError, match="base and odd differ in host"):
        check([side("base"), odd], [side("new")], [])


@pytest.mark.parametrize("verb", ["compare", "gate"])
def test_the_command_line_knows_the_guards(verb: str) -> None:
    (option,) = [p for p in cli.commands[verb].params if p.name == "allowed"]
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == [guard.value for guard in Guard]
