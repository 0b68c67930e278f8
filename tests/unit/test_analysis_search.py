from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadgen.analysis.hold import Hold, Phase, Terms
from loadgen.analysis.search import End, Over, Scheme, Seen, Try, bracket, next_step
from loadgen.analysis.verdict import Verdict

PASS, FAIL, INCONCLUSIVE, INVALID = (
    Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID,
)  # fmt: skip
Target = Callable[[float], Seen]


def limited(capacity: float) -> Target:
    return lambda level: Seen(level, PASS if level <= capacity else FAIL)


def search(
    target: Target, scheme: Scheme | None = None, seen: tuple[Seen, ...] = ()
) -> tuple[list[Seen], End]:
    """Play the search against a simulated target to its end."""
    found = list(seen)
    for _ in range(60):
        step = next_step(scheme or Scheme(), found)
        if isinstance(step, Over):
            return found, step.end
        found.append(target(step.level))
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("capacity", [1, 2, 3, 9, 10, 11, 37, 120, 127, 128, 180, 999])
def test_the_capacity_is_found_within_five_percent_or_one_analyst(capacity: int) -> None:
    seen, end = search(limited(capacity))
    found = bracket(seen)
    assert end is End.FOUND
    assert found.proven is not None
    assert found.high is not None
    assert found.proven <= capacity < found.high
    assert found.high - found.proven <= max(1, 0.05 * found.proven)
    assert len(seen) <= 17


def test_a_capacity_of_120_takes_at_most_12_levels() -> None:
    seen, _ = search(limited(120), Scheme(start=20))
    assert len(seen) <= 12


def test_twice_the_answer_is_tried_at_the_end() -> None:
    seen, _ = search(limited(63))
    answer = bracket(seen).proven
    assert answer is not None
    assert max(one.level for one in seen) >= 0.9 * 2 * answer
    assert search(limited(63), Scheme(twice=False))[0] == seen[:-1]


def test_the_lowest_level_that_failed_is_measured_once_more() -> None:
    seen, _ = search(limited(85), Scheme(twice=False))
    assert seen[-1].level == bracket(seen).high
    assert [one.level for one in seen].count(seen[-1].level) == 2
    assert search(limited(85), Scheme(twice=False, confirm=False))[0] == seen[:-1]


def test_a_level_that_failed_by_accident_does_not_bound_the_answer() -> None:
    """The machine stalls for a moment while 40 analysts are there."""
    stalled: list[float] = []

    def target(level: float) -> Seen:
        if level == 40 and not stalled:
            stalled.append(level)
            return Seen(level, FAIL)
        return limited(120)(level)

    seen, end = search(target)
    found = bracket(seen)
    assert end is End.FOUND
    assert found.proven is not None
    assert 114 <= found.proven <= 120


def test_a_target_that_always_passes_is_searched_up_to_the_bound() -> None:
    seen, end = search(lambda level: Seen(level, PASS), Scheme(most=300))
    assert end is End.AT_MOST
    assert [one.level for one in seen] == [10, 20, 40, 80, 160, 300]
    assert bracket(seen).proven == 300
    assert bracket(seen).high is None


def test_a_target_that_always_fails_is_searched_down_to_one_analyst() -> None:
    seen, end = search(lambda level: Seen(level, FAIL))
    assert end is End.BELOW
    assert [one.level for one in seen] == [10, 5, 2, 1]
    assert bracket(seen).low is None


def test_a_target_that_never_answered_is_no_target_that_died() -> None:
    _, end = search(lambda level: Seen(level, FAIL, dead=True))
    assert end is End.BELOW


def test_a_target_that_dies_ends_the_search_and_keeps_its_levels() -> None:
    seen, end = search(
        lambda level: Seen(level, PASS) if level < 60 else Seen(level, FAIL, dead=True)
    )
    assert end is End.DIED
    assert bracket(seen).proven == 40
    assert bracket(seen).high == 80


def test_an_invalid_level_ends_the_search() -> None:
    seen, end = search(lambda level: Seen(level, PASS if level < 30 else INVALID))
    assert end is End.INVALID
    assert bracket(seen).proven == 20
    assert bracket(seen).high is None


def test_a_level_that_passes_above_one_that_failed_is_a_finding() -> None:
    """Twice of what passed at last is tried, too."""
    seen, end = search(lambda level: Seen(level, FAIL if 41 < level < 79 else PASS),
                       Scheme(start=60))  # fmt: skip
    assert end is End.FOUND
    found = bracket(seen)
    assert found.proven is not None
    assert found.proven <= 41
    assert found.odd == (2 * found.proven,)


def test_an_undecided_level_leads_to_the_side_it_leans_to() -> None:
    def target(level: float) -> Seen:
        if 100 < level <= 130:
            return Seen(level, INCONCLUSIVE, leans=level <= 120)
        return Seen(level, PASS if level <= 100 else FAIL)

    seen, end = search(target)
    found = bracket(seen)
    assert end is End.FOUND
    assert found.low is not None
    assert found.proven is not None
    assert found.proven <= 100 < found.low <= 120


def test_too_few_turns_of_few_analysts_do_not_turn_the_search_around() -> None:
    """Two analysts can never show that 95 % of their turns are good."""
    seen, _ = search(
        lambda level: Seen(level, INCONCLUSIVE, leans=True) if level < 5 else limited(64)(level),
        Scheme(start=2),
    )
    assert bracket(seen).proven in range(61, 65)


def test_a_sweep_measures_its_levels_and_no_others() -> None:
    scheme = Scheme(levels=(20, 40, 80, 120, 160))
    seen, end = search(limited(90), scheme)
    assert end is End.SWEPT
    assert [one.level for one in seen] == [20, 40, 80, 120, 160]
    assert (bracket(seen).proven, bracket(seen).high) == (80, 120)


def test_a_search_goes_on_where_it_was_interrupted() -> None:
    whole, _ = search(limited(85))
    for number in range(len(whole)):
        again, end = search(limited(85), seen=tuple(whole[:number]))
        assert again == whole
        assert end is End.FOUND


def test_the_time_may_be_used_up() -> None:
    scheme = Scheme(budget_s=600)
    assert isinstance(next_step(scheme, [Seen(10, PASS)], spent_s=599), Try)
    assert next_step(scheme, [Seen(10, PASS)], spent_s=600) == Over(End.TIME)


def test_rates_are_searched_in_fractions() -> None:
    seen, end = search(limited(2.37), Scheme(start=1.0, least=0.25, step=0.05))
    assert end is End.FOUND
    assert bracket(seen).proven == pytest.approx(2.3, abs=0.12)


def test_a_level_that_is_repeated_counts_as_it_was_last() -> None:
    seen = [Seen(10, PASS), Seen(20, FAIL), replace(Seen(20, FAIL), verdict=PASS)]
    assert bracket(seen).proven == 20


TERMS = Terms(ramp_s=10, settle_s=30, hold_s=60)


def test_a_level_grows_settles_and_is_held() -> None:
    hold = Hold(TERMS, begun_s=100)
    assert not hold.tick(101, everybody=False, cycled=True)
    assert hold.phase is Phase.RAMP
    assert not hold.tick(105, everybody=True, cycled=False)
    assert hold.phase is Phase.SETTLE
    assert not hold.tick(112, everybody=True, cycled=True)
    assert (hold.phase, hold.opened_s, hold.left_s(112)) == (Phase.HOLD, 112, 60)
    assert not hold.tick(171, everybody=True, cycled=True)
    assert hold.tick(172, everybody=True, cycled=True)
    assert hold.look(172, PASS)
    assert hold.phase is Phase.DONE


def test_a_ramp_and_a_settling_without_end_are_cut() -> None:
    hold = Hold(TERMS, begun_s=0)
    hold.tick(10, everybody=False, cycled=False)
    assert hold.phase is Phase.SETTLE
    hold.tick(40, everybody=False, cycled=False)
    assert hold.phase is Phase.HOLD


def test_an_inconclusive_level_is_extended_three_times_at_most() -> None:
    hold = Hold(TERMS, begun_s=0)
    hold.tick(0, everybody=True, cycled=True)
    hold.tick(0, everybody=True, cycled=True)
    looks = []
    now = 0
    while hold.phase is Phase.HOLD:
        now += 1
        if hold.tick(now, everybody=True, cycled=True):
            looks.append(now)
            hold.look(now, INCONCLUSIVE)
    assert looks == [60, 120, 180, 240]
