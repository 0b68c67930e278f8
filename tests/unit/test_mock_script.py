"""The words of a question, and what is drawn when there are none."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest

from loadgen.errors import ConfigError
from mockagent.__main__ import main
from mockagent.agent import Agent, Settings
from mockagent.faults import Break, Faults
from mockagent.profile import Profile, read_profile
from mockagent.script import Script
from mockagent.words import read_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no words at all", {}),
        ("renewals steps=3 and step_ms=700, tag=u17.", {"steps": 3, "step_ms": 700, "tag": "u17"}),
        ("tokens=4 tokens=5", {"tokens": 5}),
        ("tokens=5 tokens=five", {"tokens": 5}),
        ("token_ms=2.5", {}),
        ("unknown=1 steps=x", {}),
        ("my-steps=3 mysteps=3 xsteps=4", {}),
        ('{"content": "steps=1"}', {"steps": 1}),
        ("hitl=text,radio; hitl_at=mid", {"hitl": "text,radio", "hitl_at": "mid"}),
    ],
)
def test_words_steer_the_script_as_they_steer_the_real_workflow(
    text: str, expected: dict[str, Any]
) -> None:
    assert Script.from_words(read_words(text)) == Script(**expected)


@pytest.mark.parametrize(
    ("text", "websocket", "expected"),
    [
        ("plain", False, None),
        ("cut=3", False, (Break.CUT, 3)),
        ("cut=0", False, (Break.CUT, 0)),
        ("drop_ws=2", False, None),
        ("drop_ws=2", True, (Break.CUT, 2)),
        ("eof=5 stall=4", True, (Break.STALL, 4)),
    ],
)
def test_the_first_break_to_come_is_obeyed(
    text: str, websocket: bool, expected: tuple[Break, int] | None
) -> None:
    assert Faults.from_words(read_words(text)).breaking(websocket) == expected


def test_a_tag_alone_leaves_the_profile_in_charge() -> None:
    agent = Agent(Settings())
    script, faults = agent.plan("How did storm losses develop? tag=u17")
    assert script.tag == "u17"
    assert faults.first_ms > 0
    assert agent.plan("steps=2 tag=u17") == (Script(tag="u17"), Faults())


def test_the_profile_depends_on_seed_text_and_how_often_it_was_asked() -> None:
    def drawn(seed: int, *texts: str) -> list[Any]:
        agent = Agent(Settings(seed=seed))
        return [agent.plan(text) for text in texts]

    assert drawn(1, "a", "b", "a") == [*drawn(1, "a"), *drawn(1, "b"), drawn(1, "a", "a")[1]]
    assert drawn(1, "a") != drawn(2, "a")
    assert drawn(1, "a", "a")[0] != drawn(1, "a", "a")[1]


def test_the_default_profile_looks_like_a_research_assistant() -> None:
    rng = Random(7)
    turns = [Profile().draw(rng, "") for _ in range(2_000)]
    first = [faults.first_ms for _, faults in turns]
    answer = [f.first_ms + s.steps * s.step_ms + s.think_ms + s.token_ms for s, f in turns]
    whole = [a + (s.tokens - 1) * s.token_ms for a, (s, _) in zip(answer, turns, strict=True)]
    assert median(first) == pytest.approx(700, rel=0.05)
    assert median(answer) == pytest.approx(4_000, rel=0.05)
    assert 6_000 < median(whole) < 8_000
    assert median(script.tokens for script, _ in turns) == pytest.approx(40, abs=2)
    asking = [script.hitl for script, _ in turns if script.hitl]
    assert len(asking) / len(turns) == pytest.approx(0.2, abs=0.03)
    assert set(asking) == {"text", "binary_choice", "radio", "checkbox", "dropdown"}


def test_a_profile_file_replaces_single_values(tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    file.write_text("prompt_share = 1.0\nprompt_kinds = ['radio']\n[first_ms]\nmedian = 9\n")
    script, faults = read_profile(file).draw(Random(1), "")
    assert script.hitl == "radio"
    assert faults.first_ms == pytest.approx(9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("median = 3", "bad.toml: median: unknown key; known are first_ms, "),
        ("[first_ms]\nmedian = -2", "first_ms.median: Input should be greater than 0, got -2"),
        ("[steps]\nlow = 3\nhigh = 1", "steps: high must be >= low, got 3 and 1"),
        ("prompt_kinds = []", "prompt_kinds: "),
        ("prompt_kinds = ['shout']", "prompt_kinds.0: "),
        ("tokens = 3", "tokens: "),
        ("x = = 1", "bad.toml: not TOML: "),
    ],
)
def test_a_bad_profile_is_named_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_profile(file)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_mistakes_of_a_profile_are_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("a = 1\nprompt_share = 2")
    with pytest.raises(ConfigError, match=r"prompt_share: .*; bad.toml: a: unknown key"):
        read_profile(file)


@pytest.mark.parametrize("owner", [Script, Faults])
def test_every_word_is_in_the_readme(owner: type) -> None:
    readme = (Path(__file__).parents[2] / "mockagent" / "README.md").read_text(encoding="utf-8")
    missing = [word.name for word in fields(owner) if f"`{word.name}`" not in readme]
    assert missing == []


def test_every_option_is_in_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "mockagent" / "README.md").read_text(encoding="utf-8")
    options = [name for option in main.params for name in option.opts if name.startswith("--")]
    assert len(options) > 20
    assert [name for name in options if f"`{name}" not in readme] == []
