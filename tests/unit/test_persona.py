"""The simulated analyst: its times, its choices, its share of the crowd."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from statistics import median, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.clock import NS_PER_S
from loadgen.events import Option, Prompt, PromptKind
from loadgen.persona import Apportionment, Persona, draw_ns, script_question
from loadgen.plan import Group, Human, Lognormal, Script

OPTIONS = (Option("1", "Yes", "yes"), Option("2", "No", "no"), Option("3", "Maybe", "maybe"))
HUMAN = Human(think_s=8, reply_s=4)


def _persona(seed="1", human=HUMAN, **group):
    return Persona(human, Group(name="g", dialect="nat-ws", **group), Random(seed))


def _draws(duration, count=4000):
    rng = Random(7)
    return [draw_ns(duration, rng) / NS_PER_S for _ in range(count)]


def test_half_of_the_draws_lie_below_the_median():
    draws = _draws(Lognormal(median=8, sigma=0.6))
    assert median(draws) == pytest.approx(8, rel=0.05)
    assert stdev(map(math.log, draws)) == pytest.approx(0.6, rel=0.05)


def test_no_draw_exceeds_the_maximum_and_the_median_stays():
    draws = _draws(Lognormal(median=8, sigma=0.6, max=10))
    assert max(draws) == 10
    assert 0.25 < sum(draw == 10 for draw in draws) / len(draws) < 0.45
    assert median(draws) == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        (Lognormal(median=3, sigma=0), 3),
        (Lognormal(median=0, sigma=0.6), 0),
        (Lognormal(median=3, sigma=0, max=2), 2),
        (Lognormal(median=3, sigma=2, max=0), 0),
    ],
)
def test_a_duration_without_spread_is_constant(duration, seconds):
    assert set(_draws(duration, 10)) == {seconds}


def test_the_same_seed_is_the_same_analyst_and_another_is_another():
    human = Human()

    def life(seed):
        persona = _persona(seed, human, drop_between_turns=0.5, drop_at_prompt=0.5)
        radio = Prompt(PromptKind.RADIO, "p", options=OPTIONS)
        return [
            (persona.think_ns(), persona.drops_between_turns(), persona.reply(radio, 1))
            for _ in range(20)
        ]

    assert life("1/0/3") == life("1/0/3")
    assert life("1/0/3") != life("1/0/4")


@pytest.mark.parametrize(
    "kind",
    [PromptKind.BINARY_CHOICE, PromptKind.RADIO, PromptKind.CHECKBOX, PromptKind.DROPDOWN],
)
def test_a_choice_is_answered_by_the_value_of_one_of_its_options(kind):
    persona = _persona()
    values = {persona.reply(Prompt(kind, "p", options=OPTIONS), 1).value for _ in range(50)}
    assert values == {"yes", "no", "maybe"}


@pytest.mark.parametrize("kind", [PromptKind.TEXT, PromptKind.RADIO])
def test_a_prompt_without_options_is_answered_by_a_text(kind):
    plan = _persona().reply(Prompt(kind, "p"), 1)
    assert plan.value
    assert plan.delay_ns == 4 * NS_PER_S
    assert plan.drop_after_ns is None


def test_the_connection_is_dropped_at_the_share_of_prompts_that_the_plan_says():
    persona = _persona(drop_at_prompt=0.2, drop_after_s=0.5)
    drops = [persona.reply(Prompt(PromptKind.TEXT, "p"), 1).drop_after_ns for _ in range(2000)]
    assert set(drops) == {None, NS_PER_S // 2}
    assert 340 < sum(drop is not None for drop in drops) < 460


def test_a_prompt_that_came_again_is_never_dropped_at():
    persona = _persona(drop_at_prompt=1.0)
    assert persona.reply(Prompt(PromptKind.TEXT, "p"), 1).drop_after_ns is not None
    assert persona.reply(Prompt(PromptKind.TEXT, "p"), 2).drop_after_ns is None


def test_patience_is_endless_unless_the_plan_limits_it():
    assert _persona().patience_ns() is None
    assert _persona(human=Human(patience_s=30)).patience_ns() == 30 * NS_PER_S


# question words


@pytest.mark.parametrize(
    ("script", "asked", "tag"),
    [
        (None, "why?", None),
        (Script(tag=False), "why?", None),
        (Script(words="steps=2 step_ms=50"), "why? steps=2 step_ms=50 tag=t9", "t9"),
        (
            Script(prompt_share=1, prompt_kinds=("radio",), prompt_words="hitl_at=end"),
            "why? hitl=radio hitl_at=end tag=t9",
            "t9",
        ),
    ],
)
def test_a_script_appends_its_words_to_the_question(script, asked, tag):
    assert script_question("why?", script, "t9", Random(1)) == (asked, tag)


def test_prompts_are_asked_for_in_their_share_of_the_turns_and_of_every_kind():
    script = Script(prompt_share=0.2, prompt_kinds=("text", "radio"), tag=False)
    rng = Random(3)
    asked = Counter(script_question("q", script, "t", rng)[0] for _ in range(2000))
    assert set(asked) == {"q", "q hitl=text", "q hitl=radio"}
    assert 340 < 2000 - asked["q"] < 460
    assert 0.7 < asked["q hitl=text"] / asked["q hitl=radio"] < 1.4


# shares


def test_sixty_to_forty_is_dealt_out_in_every_prefix():
    deal = Apportionment([60, 40])
    dealt = [deal.next() for _ in range(100)]
    assert dealt[:10] == [0, 1, 0, 1, 0, 0, 1, 0, 1, 0]
    for n in range(1, 101):
        assert abs(dealt[:n].count(0) - 0.6 * n) < 1
    assert dealt.count(0) == 60


weights = st.lists(st.floats(0, 1000), min_size=1, max_size=6).filter(lambda w: sum(w) > 1e-6)


@given(weights=weights, count=st.integers(1, 200))
def test_no_group_ever_gets_one_more_than_its_share_and_a_weight_of_nothing_gets_none(
    weights, count
):
    deal = Apportionment(weights)
    given_out = Counter(deal.next() for _ in range(count))
    assert sum(given_out.values()) == count
    for index, weight in enumerate(weights):
        assert given_out[index] < weight / sum(weights) * count + 1 + 1e-6
        if weight == 0:
            assert given_out[index] == 0
