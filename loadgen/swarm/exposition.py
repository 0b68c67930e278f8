"""The figures of a run for Prometheus, at ``--metrics-port``.

Histograms have fixed buckets, the finest around the targets; they and the counters are those of the
whole run and begin anew with the next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from gevent.pywsgi import WSGIServer
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from loadgen.errors import ConfigError
from loadgen.fitness import Light
from loadgen.histogram import Histogram
from loadgen.live import WINDOW_S, Figures, Target
from loadgen.phase import Standing

_QUANTILES = (Fraction(50, 100), Fraction(95, 100), Fraction(99, 100))


def serve(host: str, port: int, figures: Callable[[], Figures | None]) -> Any:
    """Answer ``/metrics`` on ``host``; gives the server.  Raises ConfigError: it cannot listen."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exposition(figures))
    # Not prometheus-client's own server: a Ctrl-C that falls into one of its threads is lost.
    server = WSGIServer((host, port), make_wsgi_app(registry), log=None)
    try:
        server.start()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError(f"--metrics-port: cannot listen on {host}:{port}: {why}") from error
    return server


class Exposition(Collector):
    """What is told at each scrape; ``figures`` gives None before the first run."""

    def __init__(self, figures: Callable[[], Figures | None]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        """Nothing: what there is depends on the run."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics, from one look at the run."""
        figures = self._figures()
        active = figures is not None and not figures.over
        yield _gauge("loadgen_run_active", "1 while a run is under way", float(active))
        if figures is None:
            return
        info = GaugeMetricFamily("loadgen_run_info", "The run that is told of", labels=["run"])
        info.add_metric([figures.run], 1.0)
        yield info
        yield from _crowd(figures)
        yield from _turns(figures)
        yield from _clocks(figures)
        yield from _targets(figures)
        yield from _generator(figures)


def _crowd(figures: Figures) -> Iterator[Metric]:
    yield _gauge("loadgen_run_elapsed_seconds", "How long the run has gone on", figures.elapsed_s)
    if figures.left_s is not None:
        yield _gauge("loadgen_run_left_seconds", "How long it still goes on", figures.left_s)
    yield _gauge("loadgen_analysts", "Analysts that are there", figures.analysts)
    yield _gauge("loadgen_analysts_wanted", "Analysts that are wanted", figures.wanted)
    flight = GaugeMetricFamily(
        "loadgen_turns_in_flight", "Turns under way by where they stand", labels=["standing"]
    )
    for at in Standing:
        flight.add_metric([at.name.lower()], figures.standing.get(at, 0))
    yield flight


def _turns(figures: Figures) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "loadgen_turns", "Turns that ended, by outcome and cause", labels=["outcome", "cause"]
    )
    for (outcome, cause), count in sorted(figures.whole.ends.items()):
        ended.add_metric([outcome, cause], count)
    yield ended
    whole = figures.whole
    yield _counter("loadgen_prompts", "Prompts to the human", whole.prompts)
    yield _counter("loadgen_connections_lost", "Connections lost in mid-turn", whole.losses)
    yield _counter("loadgen_connections_returned", "Those that came back", whole.returns)
    yield _counter("loadgen_turns_recovered", "Turns completed after a loss", whole.recovered)


def _clocks(figures: Figures) -> Iterator[Metric]:
    whole = HistogramMetricFamily(
        "loadgen_turn_clock_seconds",
        "Clocks of completed turns over the run; recovery: lost connections that came back",
        labels=["clock", *_side(figures)],
    )
    recent = GaugeMetricFamily(
        "loadgen_recent_clock_seconds",
        f"Percentiles of the last {WINDOW_S} s, over all processes",
        labels=["clock", "quantile", *_side(figures)],
    )
    scale = figures.measures.scale
    for scope, clock in product(figures.scopes, figures.measures.clocks):
        side = [scope.name] if scope.name else []
        histogram = scope.whole.clocks.get(clock) or Histogram(scale)
        buckets = list(_buckets(histogram, figures.measures.bounds_ms(clock)))
        whole.add_metric([clock.value, *side], buckets, histogram.sum_ms / 1000)
        if clock in scope.recent.clocks:
            values = scope.recent.clocks[clock].quantiles(_QUANTILES)
            for share, value in zip(_QUANTILES, values, strict=True):
                recent.add_metric([clock.value, f"{float(share):g}", *side], value / 1000)
    yield from (whole, recent)


def _side(figures: Figures) -> list[str]:
    """The label that tells the two agents of an A/B run apart; other runs have none."""
    return ["side"] if figures.sides else []


def _buckets(histogram: Histogram, bounds_ms: Iterable[float]) -> Iterator[tuple[str, float]]:
    for bound in bounds_ms:
        yield str(round(bound / 1000, 9)), histogram.at_most(bound)
    yield "+Inf", histogram.n


def _targets(figures: Figures) -> Iterator[Metric]:
    labels = ["clock", "within", *_side(figures)]
    wanted = GaugeMetricFamily("loadgen_target_wanted_ratio", "What a target wants", labels=labels)
    whole = GaugeMetricFamily(
        "loadgen_target_met_ratio", "Judged turns of the run within it", labels=labels
    )
    recent = GaugeMetricFamily(
        "loadgen_target_recent_met_ratio", f"Those of the last {WINDOW_S} s", labels=labels
    )
    for scope, target in product(figures.scopes, figures.measures.targets):
        side = [scope.name] if scope.name else []
        names = [target.clock.value, _seconds(target), *side]
        wanted.add_metric(names, target.share)
        for family, tally in ((whole, scope.whole), (recent, scope.recent)):
            met, judged = tally.within(target)
            if judged:
                family.add_metric(names, met / judged)
    yield from (wanted, whole, recent)


def _seconds(target: Target) -> str:
    return f"{target.within_ms / 1000:g}s"


def _generator(figures: Figures) -> Iterator[Metric]:
    found = figures.fitness
    if found.light is Light.UNKNOWN:
        return
    fit = float(found.light is Light.FIT)
    yield _gauge("loadgen_generator_fit", "1: the generator is not the limit", fit)
    if found.lag_p99_ms is not None:
        lag = found.lag_p99_ms / 1000
        yield _gauge("loadgen_generator_hub_lag_seconds", "p99 of the worst process", lag)
    if found.cpu is not None:
        yield _gauge("loadgen_generator_cpu_ratio", "Of one core, the worst process", found.cpu)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
