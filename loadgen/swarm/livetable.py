"""A run under way in words: a small table for a terminal, one line for a log."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadgen.analysis import numerals
from loadgen.fitness import FEW, Light
from loadgen.live import FAILED, WINDOW_S, Figures, Scope, Tally
from loadgen.metrics import INTENDED, TITLES, Clock
from loadgen.phase import Standing

SHORT = (Clock.TTFP, Clock.TTFA, Clock.TTC)
"""The clocks of the line."""

_P50, _P95 = Fraction(50, 100), Fraction(95, 100)
_STYLES = {Light.FIT: "green", Light.UNFIT: "bold red", Light.UNKNOWN: "dim"}


def line(figures: Figures) -> str:
    """Everything on one line; what is not known yet is left out or a dash."""
    return " | ".join(_parts(figures))


def table(figures: Figures) -> RenderableType:
    """The same as a small table, for a terminal."""
    head = Text(f"{when(figures)}   {crowd(figures)}   {done(figures)}")
    flight = Text(f"{numerals.count(figures.in_flight)} in flight: {standing(figures)}")
    light = figures.fitness.light
    fit = Text(fitness(figures), style=_STYLES[light])
    return Group(head, flight, _clocks(figures), Text(failures(figures)), fit)


def when(figures: Figures) -> str:
    """Elapsed and left."""
    if figures.over:
        return f"over after {span(figures.elapsed_s)}"
    elapsed = f"{span(figures.elapsed_s)} elapsed"
    if figures.draining:
        return f"{elapsed}, ending"
    return elapsed if figures.left_s is None else f"{elapsed}, {span(figures.left_s)} left"


def span(seconds: float) -> str:
    """``75`` as ``1:15``, ``3675`` as ``1:01:15``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def crowd(figures: Figures) -> str:
    """How many analysts there are, of how many."""
    there = numerals.count(figures.analysts)
    whole = figures.analysts == figures.wanted
    return f"{there} analysts" if whole else f"{there} of {numerals.of(figures.wanted, 'analyst')}"


def done(figures: Figures) -> str:
    """Turns that have ended."""
    turns = figures.whole.turns
    return f"{numerals.count(turns)} {'turn' if turns == 1 else 'turns'} ended"


def standing(figures: Figures) -> str:
    """The turns under way by where they stand; what is empty is left out."""
    counts = figures.standing
    found = [f"{numerals.count(counts[at])} {at}" for at in Standing if counts.get(at)]
    return ", ".join(found) if found else "none"


def titled(scope: Scope, title: str) -> str:
    """``title``, and whose it is in an A/B run."""
    return f"{scope.name}: {title}" if scope.name else title


def failures(figures: Figures) -> str:
    """Failed turns of the whole run and of the last seconds, with the most frequent cause."""
    whole, recent = figures.whole, figures.recent
    text = f"{numerals.count(whole.failed)} failed"
    if whole.failed:
        text += f" ({numerals.share(whole.failed / whole.judged)}"
        text += f", mostly {_commonest(whole)}; {numerals.count(recent.failed)} of them in the "
        text += f"last {WINDOW_S} s)"
    if whole.losses:
        text += f", {numerals.count(whole.returns)} of {numerals.count(whole.losses)} lost"
        text += " connections came back"
    return text


def fitness(figures: Figures) -> str:
    """Is the generator well?"""
    found = figures.fitness
    if found.light is Light.UNKNOWN:
        return "generator: not known yet"
    if found.light is Light.UNFIT:
        return f"generator UNFIT: {'; '.join(found.reasons)}"
    text = f"generator fit: hub {numerals.duration(found.lag_p99_ms)} late at p99"
    if (found.lag_p99_ms or 0.0) > found.limit_ms:
        text += f" (fewer than {FEW} late ticks are an accident)"
    return text if found.cpu is None else f"{text}, {numerals.share(round(found.cpu, 3))} of a core"


def _parts(figures: Figures) -> Iterator[str]:
    yield when(figures)
    yield crowd(figures)
    yield f"{numerals.count(figures.in_flight)} in flight: {standing(figures)}"
    for scope in figures.scopes:
        tails = (f"{clock} {_tail(scope.recent, _seen(figures, clock))}" for clock in SHORT)
        whose = f", {scope.name}" if scope.name else ""
        yield f"p95 of the last {WINDOW_S} s{whose}: {', '.join(tails)}"
    yield done(figures)
    yield failures(figures)
    yield fitness(figures)


def _seen(figures: Figures, clock: Clock) -> Clock:
    """``clock``, or its twin where turns count from when they were due."""
    return clock if clock in figures.measures.marks else INTENDED[clock]


def _tail(tally: Tally, clock: Clock, share: Fraction = _P95) -> str:
    """A percentile to three digits: more would claim more than the buckets know."""
    histogram = tally.clocks.get(clock)
    found = None if histogram is None else histogram.quantile(share)
    return numerals.duration(None if found is None else float(f"{found:.3g}"))


def _clocks(figures: Figures) -> Table:
    found = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    found.add_column("")
    for name in (f"p50, {WINDOW_S} s", f"p95, {WINDOW_S} s", "turns", "p95, whole run", "turns"):
        found.add_column(name, justify="right")
    found.add_column("target")
    for scope, clock in product(figures.scopes, figures.measures.marks):
        recent, whole = scope.recent, scope.whole
        found.add_row(
            titled(scope, TITLES[clock]),
            _tail(recent, clock, _P50), _tail(recent, clock), _number(recent, clock),
            _tail(whole, clock), _number(whole, clock),
            Text(_target(figures, scope, clock)),
        )  # fmt: skip
    return found


def _number(tally: Tally, clock: Clock) -> str:
    histogram = tally.clocks.get(clock)
    return numerals.count(0 if histogram is None else histogram.n)


def _target(figures: Figures, scope: Scope, clock: Clock) -> str:
    """How much of the whole run is within each target of ``clock``, of how much that is wanted."""
    found = []
    for target in figures.measures.targets:
        if target.clock is clock:
            met, judged = scope.whole.within(target)
            limit = numerals.seconds(target.within_ms / 1000)
            wanted = numerals.share(target.share)
            reached = numerals.share(met / judged, target.share) if judged else numerals.NONE
            found.append(f"{reached} within {limit}, wanted {wanted}")
    return "; ".join(found)


def _commonest(tally: Tally) -> str:
    bad = {key: count for key, count in tally.ends.items() if key[0] in FAILED}
    outcome, cause = max(bad, key=lambda key: bad[key])
    return f"{outcome} by {cause}" if cause else outcome
