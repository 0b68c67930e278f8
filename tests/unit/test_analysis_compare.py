from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
import pytest
from sides import lognormal, side, timed

from loadgen.analysis.compare import as_json, compare, holm, overall
from loadgen.analysis.evidence import Evidence, Vector
from loadgen.analysis.measure import Change, Measure, Terms
from loadgen.analysis.shift import p_beyond, shift
from loadgen.errors import ConfigError

TTFA = Terms(metrics=("ttfa",), resamples=400)


def found(base: Evidence, new: Evidence, terms: Terms = TTFA) -> dict[tuple[str, str], Measure]:
    made = compare([base], [new], terms)
    return {(m.metric, m.of): m for m in made.measures}


def pairs(repeats: int, sigma: float, turns: int, times: float = 1.0) -> Iterator[Measure]:
    """The typical first answer of simulated pairs of runs."""
    for repeat in range(repeats):
        base = timed("base", 2 * repeat, turns, sigma)
        new = timed("new", 2 * repeat + 1, turns, sigma, times)
        yield found(base, new)["ttfa", "typical"]


@pytest.mark.case("D-71")
@pytest.mark.parametrize("sigma", [0.3, 0.6])
def test_pairs_of_equal_runs_are_hardly_ever_called_a_regression(sigma: float) -> None:
    """At most 1 % of 200 a measure, and at most 5 % of the pairs by any of them."""
    flagged = {"typical": 0, "p95": 0}
    any_flagged = 0
    for repeat in range(200):
        base, new = (timed("x", 2 * repeat + n, 300, sigma) for n in (0, 1))
        bad = [m.of for m in found(base, new).values() if m.change is Change.REGRESSION]
        any_flagged += bool(bad)
        for of in bad:
            flagged[of] += 1
    assert max(flagged.values()) <= 2, flagged
    assert any_flagged <= 10


@pytest.mark.case("D-72")
def test_twenty_percent_more_are_found_where_noise_allows() -> None:
    changes = [m.change for m in pairs(100, 0.3, 300, 1.2)]
    assert changes.count(Change.REGRESSION) >= 95
    assert Change.OK not in changes


@pytest.mark.case("D-72")
def test_where_it_does_not_the_answer_is_inconclusive_with_the_turns_it_takes() -> None:
    measures = list(pairs(100, 0.6, 300, 1.2))
    changes = [m.change for m in measures]
    assert 60 <= changes.count(Change.REGRESSION) <= 92
    assert Change.OK not in changes
    assert Change.INCONCLUSIVE in changes
    for m in measures:
        if m.change is Change.INCONCLUSIVE:
            assert m.needs is not None
            assert m.needs == pytest.approx(550, rel=0.25)
            assert f"needs about {m.needs} turns a side to show +20 %" in m.reason


POWER = [
    # sigma, true ratio, turns a side, share flagged (method, section 10)
    (0.1, 1.0, 300, 0.0), (0.3, 1.0, 300, 0.0), (0.6, 1.0, 300, 0.0),
    (0.1, 1.1, 300, 1.00), (0.1, 1.1, 1000, 1.00),
    (0.1, 1.2, 100, 1.00), (0.1, 1.2, 300, 1.00), (0.1, 1.2, 600, 1.00),
    (0.3, 1.1, 300, 0.45), (0.3, 1.1, 1000, 0.93),
    (0.3, 1.2, 100, 0.87), (0.3, 1.2, 300, 0.997), (0.3, 1.2, 600, 1.00),
    (0.6, 1.1, 300, 0.15), (0.6, 1.1, 1000, 0.42),
    (0.6, 1.2, 100, 0.31), (0.6, 1.2, 300, 0.77), (0.6, 1.2, 600, 0.97),
    # as many turns as the tool asks for
    (0.3, 1.1, 1132, 0.95), (0.3, 1.2, 138, 0.95), (0.3, 1.3, 54, 0.95), (0.6, 1.2, 550, 0.95),
    (0.6, 1.3, 215, 0.95), (0.1, 1.1, 126, 0.95),
]  # fmt: skip


@pytest.mark.parametrize(("sigma", "times", "turns", "expected"), POWER)
def test_the_power_table(sigma: float, times: float, turns: int, expected: float) -> None:
    """Within four standard errors of 400 repeats, and as much of the 400 behind the table."""
    generator = np.random.default_rng(int(1000 * sigma + 100 * times + turns))
    limit, flagged = math.log(1.05), 0
    for _ in range(400):
        base = generator.normal(0, sigma, turns)
        new = math.log(times) + generator.normal(0, sigma, turns)
        flagged += p_beyond(base, new, limit) < 0.025
    error = math.sqrt(max(expected * (1 - expected), 0.005) * 2 / 400)
    assert abs(flagged / 400 - expected) <= 4 * error, flagged / 400


@pytest.mark.parametrize("turns", [20, 300])
def test_p_below_a_fortieth_is_an_interval_beyond_the_limit(turns: int) -> None:
    generator = np.random.default_rng(3)
    limit, agreed = math.log(1.05), 0
    for _ in range(200):
        base = generator.normal(0, 0.3, turns)
        new = math.log(1.15) + generator.normal(0, 0.3, turns)
        low = shift(base, new).low
        assert low is not None
        agreed += (low > limit) == (p_beyond(base, new, limit) < 0.025)
    assert agreed >= 198


def test_a_tail_that_alone_got_worse_is_found_by_p95() -> None:
    """The slowest tenth half as slow again: about 87 % at n = 300 without Holm."""
    tails, typical = 0, 0
    for repeat in range(40):
        values = lognormal(2 * repeat + 1, 300, 0.6)
        values[values > np.quantile(values, 0.9)] *= 1.5
        measures = found(timed("base", 2 * repeat, 300, 0.6), side("new", {"ttfa": values}))
        tails += measures["ttfa", "p95"].change is Change.REGRESSION
        typical += measures["ttfa", "typical"].change is Change.REGRESSION
    assert tails >= 22
    assert typical <= 2


def test_what_got_faster_is_an_improvement_and_named() -> None:
    made = compare([timed("base", 1)], [timed("new", 2, times=0.5)], TTFA)
    assert made.verdict is Change.IMPROVED
    assert "-5" in made.reasons[0]


def test_equal_runs_of_enough_turns_are_ok() -> None:
    made = compare([timed("base", 1, 3000)], [timed("new", 2, 3000)], TTFA)
    assert made.verdict is Change.OK
    assert {m.change for m in made.measures} == {Change.OK, None}


def test_a_run_held_against_itself_has_not_changed() -> None:
    run = timed("base", 1, 3000)
    typical = found(run, run)["ttfa", "typical"]
    assert typical.value == 1.0


def test_p50_and_p90_are_shown_and_not_judged() -> None:
    measures = found(timed("base", 1), timed("new", 2, times=2.0))
    assert {of for (_, of), m in measures.items() if m.change is None} == {"p50", "p90"}
    assert measures["ttfa", "p90"].value == pytest.approx(2.0, rel=0.15)


def test_few_turns_have_no_verdict_on_the_tail_but_the_number_it_takes() -> None:
    measures = found(timed("base", 1, 71), timed("new", 2, 71, times=3.0))
    tail = measures["ttfa", "p95"]
    assert (tail.low, tail.change, tail.needs) == (None, Change.INCONCLUSIVE, 72)
    assert "needs at least 72 turns a side (71 and 71 here)" in tail.reason
    assert measures["ttfa", "typical"].change is Change.REGRESSION


def test_a_change_of_a_few_milliseconds_is_none() -> None:
    base = side("base", {"ttfa": lognormal(1, 300, 0.1, 2.0)})
    new = side("new", {"ttfa": lognormal(2, 300, 0.1, 4.0)})
    assert found(base, new)["ttfa", "typical"].change is Change.OK
    strict = Terms(metrics=("ttfa",), least_ms=0.0, resamples=400)
    assert found(base, new, strict)["ttfa", "typical"].change is Change.REGRESSION


def test_tolerances_are_terms() -> None:
    base, new = timed("base", 1), timed("new", 2, times=1.3)
    loose = Terms(metrics=("ttfa",), typical=1.0, tail=1.0, resamples=400)
    assert compare([base], [new], TTFA).verdict is Change.REGRESSION
    assert compare([base], [new], loose).verdict is Change.OK


@pytest.mark.parametrize(
    ("failed", "judged", "change"),
    [
        ((0, 0), 300, Change.OK),
        ((0, 0), 100, Change.INCONCLUSIVE),
        ((2, 40), 300, Change.REGRESSION),
        ((40, 2), 300, Change.IMPROVED),
        ((2, 8), 300, Change.INCONCLUSIVE),
    ],
)
def test_failures_are_compared_by_their_share(
    failed: tuple[int, int], judged: int, change: Change
) -> None:
    base, new = (side("x", failed=number, judged=judged) for number in failed)
    measure = found(base, new, Terms(metrics=("failures",)))["failures", "share"]
    assert measure.change is change, measure.reason


@pytest.mark.parametrize(
    ("cut_off", "change"),
    [((0, 20), Change.INCONCLUSIVE), ((20, 0), Change.OK), ((2, 2), Change.OK)],
)
def test_an_agent_that_stood_still_until_the_end_of_the_run_is_not_ok(
    cut_off: tuple[int, int], change: Change
) -> None:
    base, new = (side("x", judged=600, cut_off=number) for number in cut_off)
    measure = found(base, new, Terms(metrics=("failures",)))["failures", "share"]
    assert measure.change is change, measure.reason


def test_a_watched_clock_with_few_values_withholds_no_ok() -> None:
    clocks = {"ttfv": lognormal(1, 3000), "ttfa": lognormal(2, 3000), "ttc": lognormal(3, 3000)}
    few = {"recovery": lognormal(4, 5)}
    base = side("base", clocks | few, judged=3000)
    new = side("new", clocks | few, judged=3000)
    made = compare([base], [new], Terms(resamples=400))
    changes = {(m.metric, m.of): m.change for m in made.measures}
    assert changes["recovery", "typical"] is Change.INCONCLUSIVE
    assert made.verdict is Change.OK


def test_a_watched_clock_that_is_certainly_worse_is_a_regression() -> None:
    clocks = {"ttfv": lognormal(1), "ttfa": lognormal(2), "ttc": lognormal(3)}
    base = side("base", clocks | {"resume": lognormal(4)})
    new = side("new", clocks | {"resume": 2 * lognormal(4)})
    made = compare([base], [new], Terms(resamples=400))
    assert made.verdict is Change.REGRESSION
    assert [reason.split(",")[0] for reason in made.reasons[:1]] == ["resume after a reply"]


def test_a_clock_that_decides_and_is_gone_is_inconclusive() -> None:
    base = side("base", {"ttfv": lognormal(1), "ttfa": lognormal(2), "ttc": lognormal(3)})
    new = side("new", {"ttfv": lognormal(1), "ttc": lognormal(3)})
    made = compare([base], [new], Terms(resamples=400))
    assert made.verdict is Change.INCONCLUSIVE
    assert any("first answer" in reason and "nothing" in reason for reason in made.reasons)
    assert "first answer: only base has any" in made.warnings


def test_where_turns_arrive_clocks_count_from_the_intended_start() -> None:
    clocks = {f"{mark}_intended": lognormal(1) for mark in ("ttfv", "ttfp", "ttfa", "ttc")}
    base, new = (side(name, clocks, closed=False) for name in ("base", "new"))
    made = compare([base], [new], Terms(resamples=100))
    assert {m.metric for m in made.measures} == {*clocks, "failures"}
    assert {m.metric for m in made.measures if m.decides} == {
        "ttfv_intended", "ttfa_intended", "ttc_intended", "failures",
    }  # fmt: skip


def test_a_metric_that_no_run_has_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"--metric bogus: .* ttfa, failures"):
        compare([timed("base", 1)], [timed("new", 2)], Terms(metrics=("bogus",)))


# several runs


def runs(number: int, seed: int, times: float = 1.0, between: float = 0.0) -> list[Evidence]:
    """Runs whose levels scatter by ``between`` (sigma of log time)."""
    generator = np.random.default_rng(seed)
    return [
        timed(f"run-{seed}-{n}", seed + n, 200, 0.3, times * math.exp(generator.normal(0, between)))
        for n in range(number)
    ]


def test_of_five_runs_a_side_the_run_is_the_unit() -> None:
    made = compare(runs(5, 100), runs(6, 200, 1.3), TTFA)
    typical = made.measures[0]
    assert (typical.unit, typical.n_base, typical.n_new) == ("runs", 5, 6)
    assert typical.change is Change.REGRESSION
    assert not any("differs from run to run" in warning for warning in made.warnings)


def test_with_fewer_turns_are_pooled_and_a_warning_says_what_is_missing() -> None:
    made = compare(runs(4, 100), runs(5, 200, 1.3), TTFA)
    assert (made.measures[0].unit, made.measures[0].n_base) == ("turns", 800)
    assert any("4 base and 5 new runs: what differs" in warning for warning in made.warnings)


@pytest.mark.case("D-73")
def test_scatter_between_runs_is_no_regression_when_the_run_is_the_unit() -> None:
    """26 % between runs, as in the field: turns pooled cry wolf, runs do not."""
    cried, wrong = 0, 0
    for repeat in range(20):
        base = runs(6, 1000 + 50 * repeat, between=0.26)
        new = runs(6, 5000 + 50 * repeat, between=0.26)
        wrong += compare(base, new, TTFA).verdict is Change.REGRESSION
        cried += compare(base[:1], new[:1], TTFA).verdict is Change.REGRESSION
    assert wrong <= 1
    assert cried >= 4


def test_alike_turns_of_a_conversation_widen_the_interval() -> None:
    generator = np.random.default_rng(9)
    values = np.repeat(lognormal(1, 60, 0.5), 5) * generator.lognormal(0, 0.02, 300)
    alike = Vector(values, np.repeat(np.arange(60), 5))
    alone = Vector(values, np.arange(300))
    widths = []
    for vector in (alone, alike):
        one = side("x", clocks=None)
        made = found(*(Evidence(**fields(one) | {"clocks": {"ttfa": vector}}) for _ in "12"))
        typical = made["ttfa", "typical"]
        assert typical.low is not None
        assert typical.high is not None
        widths.append(math.log(typical.high / typical.low))
    assert widths[1] > 1.8 * widths[0]


def fields(evidence: Evidence) -> dict[str, object]:
    return {name: getattr(evidence, name) for name in Evidence.__slots__}


# Holm, and the whole


@pytest.mark.parametrize(
    ("p", "falls"),
    [
        ([0.01, 0.04, 0.03, 0.005], [True, False, False, True]),
        ([0.01, 0.02, 0.03], [True, True, True]),
        ([0.06, 0.001], [False, True]),
        ([0.03, 0.03], [False, False]),
        ([], []),
    ],
)
def test_holm_steps_down_until_one_stands(p: list[float], falls: list[bool]) -> None:
    assert holm(p, 0.05) == falls


def test_nothing_compared_settles_nothing() -> None:
    assert overall([]) is Change.INCONCLUSIVE


def test_every_number_of_a_reason_is_in_the_json() -> None:
    made = as_json(compare([timed("base", 1)], [timed("new", 2, times=1.2)], TTFA))
    assert made["exit_code"] == 4
    for m in made["measures"]:
        keys = ("value", "low", "high", "limit", "effect")
        percents = [(m[key] - 1) * 100 for key in keys if m[key] is not None]
        for said in re.findall(r"([+-][\d.]+) %", m["reason"]):
            near = min(percents, key=lambda percent: abs(percent - float(said)))
            assert float(said) == pytest.approx(near, abs=0.51 if "." not in said else 0.051)
