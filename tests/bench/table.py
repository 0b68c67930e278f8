"""Results as Markdown: what was measured, beside what was wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.bench.accuracy import WANTED_P99_MS, Accuracy
from tests.bench.capacity import LIMIT_MS, Capacities, Capacity
from tests.bench.cost import Costs
from tests.bench.machine import Facts
from tests.bench.memory import WANTED_KIB, Memory

WANTED_RATIOS = {("ours-sse", "httpx"): 4.0, ("ours-ws", "websockets"): 2.0}
"""How many times the event rate of the second the first must sustain."""

_OURS = {"sse": "ours-sse", "ws": "ours-ws"}
_WIRES = {"sse": "SSE", "ws": "WebSocket"}


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run of the benchmarks found; what was not run is None."""

    facts: Facts
    quick: bool
    accuracy: Accuracy | None = None
    cost: Costs | None = None
    capacity: Capacities | None = None
    memory: Memory | None = None


def markdown(results: Results) -> str:
    """A page with a section for each benchmark that was run."""
    parts = [_facts(results)]
    if results.accuracy is not None:
        parts.append(_accuracy(results.accuracy))
    if results.cost is not None:
        parts.append(_cost(results.cost))
    if results.capacity is not None:
        parts.append(_capacity(results.capacity))
    if results.memory is not None:
        parts.append(_memory(results.memory))
    return "\n\n".join(parts) + "\n"


def _facts(results: Results) -> str:
    facts = results.facts
    pins = "server and client share the processors"
    if facts.pins.server is not None:
        pins = f"server on processor {facts.pins.server}, client on {facts.pins.client}"
    versions = ", ".join(f"{name} {value}" for name, value in facts.versions.items())
    quick = "\n**A quick pass: it shows that everything runs; its figures mean little.**\n"
    return (
        f"# Benchmarks\n{quick if results.quick else ''}\n"
        f"{facts.cpus} processors ({facts.processor}), {facts.platform}, Python {facts.python};"
        f" {pins}; load average at the start {facts.load_average}.\n{versions}."
    )


def _accuracy(found: Accuracy) -> str:
    scale = found.scale
    head = (
        f"## Accuracy: error of our clocks against the mock agent's truth log\n\n"
        f"{scale.analysts} analysts over both dialects, {1000 / scale.token_ms:g} events a second"
        f" each, {found.turns} turns, {found.bad} bad; {found.kernel:.1%} of the turns"
        f" kernel-stamped, {found.merged:.2%} of the reads merged. Wanted: p99 below"
        f" {WANTED_P99_MS:g} ms.\n\n"
    )
    rows = [
        (
            clock.dialect, clock.clock, str(clock.error.n), *map(_ms, (
                clock.error.p50, clock.error.p95, clock.error.p99, clock.error.max)),
            _met((clock.error.p99 or WANTED_P99_MS) < WANTED_P99_MS),
        )
        for clock in found.clocks
    ]  # fmt: skip
    names = ("dialect", "clock", "n", "p50 ms", "p95 ms", "p99 ms", "max ms", "wanted")
    return head + _table(names, rows)


def _cost(found: Costs) -> str:
    scale = found.scale
    head = (
        f"## Cost: CPU of one event\n\n{scale.streams} streams x {scale.rate:g} events a second,"
        f" each with a phase of its own, {scale.events} events a turn; the load server of"
        f" tests/bench; {scale.rounds} interleaved rounds, medians.\n\n"
    )
    rows = []
    for cost in found.costs:
        ours = found.us(_OURS[cost.wire])
        waited = max(reading.waited or 0.0 for reading in cost.readings)
        errors = [reading.error.p99 for reading in cost.readings if reading.error.p99 is not None]
        rounds = [reading.us_per_event for reading in cost.readings]
        rows.append(
            (
                _WIRES[cost.wire], cost.title, f"{cost.us_per_event:.1f}",
                f"{min(rounds):.1f} - {max(rounds):.1f}", f"{cost.us_per_event / ours:.2f}",
                _ms(sorted(errors)[len(errors) // 2] if errors else None), f"{waited:.1%}",
                str(cost.wrong),
            )
        )  # fmt: skip
    names = (
        "wire", "client", "us/event", "rounds", "of ours", "first-answer error p99 ms",
        "disturbed", "wrong turns",
    )  # fmt: skip
    return head + _table(names, rows)


def _capacity(found: Capacities) -> str:
    scale = found.scale
    head = (
        f"## Capacity: what one processor sustains\n\nStreams of {scale.rate:g} events a second,"
        f" {scale.events} events a turn, first-answer error p99 below {LIMIT_MS:g} ms, all turns"
        " finished; the load server of tests/bench.\n\n"
    )
    rows = [_capacity_row(entry) for entry in found.capacities]
    names = ("wire", "client", "events/s", "streams", "client CPU", "error p99 ms", "server CPU",
             "server late p99 ms", "limit")  # fmt: skip
    lines = []
    for (ours, other), wanted in WANTED_RATIOS.items():
        mine, theirs = found.events_per_s(ours), found.events_per_s(other)
        if mine and theirs:
            lines.append(
                f"- {ours} sustains {mine / theirs:.1f} times the event rate of {other}; wanted"
                f" {wanted:g}: {_met(mine >= wanted * theirs)}"
            )
        elif mine and other in [entry.name for entry in found.capacities]:
            lines.append(f"- {ours} sustains {mine:.0f} events/s, {other} no rate at all")
    return "\n\n".join(filter(None, (head + _table(names, rows), "\n".join(lines))))


def _capacity_row(entry: Capacity) -> Sequence[str]:
    best = entry.best
    if best is None or best.reading is None:
        return (_WIRES[entry.wire], entry.title, "none", *"------")
    reading = best.reading
    return (
        _WIRES[entry.wire], entry.title, f"{reading.offered:.0f}", str(best.streams),
        f"{reading.cpu:.2f}", _ms(reading.error.p99), f"{reading.server_cpu or 0:.2f}",
        _ms(reading.late_p99_ms), entry.limit,
    )  # fmt: skip


def _memory(found: Memory) -> str:
    return (
        f"## Memory: idle WebSocket analysts\n\n{found.analysts} analysts, each after one turn:"
        f" {found.kib:.1f} KiB of resident memory each ({found.total_mib:.0f} MiB for the whole"
        f" generator); wanted below {WANTED_KIB:g} KiB: {_met(found.kib < WANTED_KIB)}"
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _met(met: bool) -> str:
    return "met" if met else "missed"
