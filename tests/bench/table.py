"""Results as Markdown: what was measured, beside what was wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.bench import budget, scaling
from tests.bench.accuracy import WANTED_P99_MS, Accuracy
from tests.bench.budget import Budget
from tests.bench.capacity import LIMIT_MS, Capacities, Capacity
from tests.bench.cost import Costs
from tests.bench.live import WANTED as WANTED_LIVE
from tests.bench.live import Live
from tests.bench.machine import Facts
from tests.bench.memory import WANTED_KIB, Memory
from tests.bench.reports import WANTED_GIB, WANTED_MB, WANTED_S, Step
from tests.bench.scaling import Scaling

WANTED_RATIOS = {("ours-sse", "httpx"): 4.0, ("ours-ws", "websockets"): 2.0}
"""How many times the event rate of the second the first must sustain."""

_LIVE_PARTS = ("turns", "tab", "scrapes")
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
    budget: Budget | None = None
    crowd: Accuracy | None = None
    scaling: Scaling | None = None
    live: Live | None = None
    reports: tuple[Step, ...] | None = None
    readers: tuple[Costs, ...] | None = None


def markdown(results: Results) -> str:
    """A page with a section for each benchmark that was run."""
    parts = [_facts(results)]
    if results.accuracy is not None:
        title = "Accuracy: error of our clocks against the mock agent's truth log"
        parts.append(_accuracy(title, results.accuracy))
    if results.cost is not None:
        parts.append(_cost(results.cost))
    if results.budget is not None:
        parts.append(_budget(results.budget))
    if results.readers is not None:
        parts.append(_readers(results.readers))
    if results.crowd is not None:
        title = "Crowd: WebSocket analysts of one process who ask now and then"
        parts.append(_accuracy(title, results.crowd))
    if results.capacity is not None:
        parts.append(_capacity(results.capacity))
    if results.scaling is not None:
        parts.append(_scaling(results.scaling))
    if results.memory is not None:
        parts.append(_memory(results.memory))
    if results.live is not None:
        parts.append(_live(results.live))
    if results.reports is not None:
        parts.append(_reports(results.reports))
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


def _accuracy(title: str, found: Accuracy) -> str:
    scale = found.scale
    head = (
        f"## {title}\n\n"
        f"{scale.analysts} analysts over {' and '.join(scale.dialects)},"
        f" {1000 / scale.token_ms:g} events a second each, {found.turns} turns, {found.bad} bad;"
        f" {found.kernel:.1%} of the turns kernel-stamped, {found.merged:.2%} of the reads merged."
        f" Wanted: p99 below {WANTED_P99_MS:g} ms.\n\n"
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


def _budget(found: Budget) -> str:
    head = (
        "## Budget: our whole product beside a bare hub callback that splits and parses JSON\n\n"
        f"CPU of one event, medians of interleaved rounds; wanted at most {budget.WANTED_RATIO:g}"
        f" times the floor's, and first-answer error p99 below {budget.WANTED_P99_MS:g} ms.\n\n"
    )
    rows = []
    for load in found.loads:
        for ours, floor in budget.FLOORS.items():
            error = load.error_p99_ms(ours)
            ratio = load.ratio(ours)
            met = ratio <= budget.WANTED_RATIO and (error or 0.0) < budget.WANTED_P99_MS
            rows.append(
                (
                    load.title, _WIRES[ours.rpartition("-")[2]], f"{load.costs.us(ours):.1f}",
                    f"{load.costs.us(floor):.1f}", f"{ratio:.2f}", _ms(error),
                    load.fitness(ours), _met(met),
                )
            )  # fmt: skip
    names = ("streams x ev/s", "wire", "ours us/event", "floor us/event", "ratio",
             "first-answer error p99 ms", "our verdict on ourselves", "wanted")  # fmt: skip
    return head + _table(names, rows)


def _readers(found: Sequence[Costs]) -> str:
    head = (
        "## Readers: other ways to read a socket, with nothing else done\n\n"
        "CPU of one event, medians of interleaved rounds; beside the way in which we read.\n\n"
    )
    rows = []
    for one in found:
        ours = one.us("hub-sse")
        for cost in one.costs:
            rounds = [reading.us_per_event for reading in cost.readings]
            rows.append(
                (
                    f"{one.scale.streams:,} x {one.scale.rate:g}", cost.title,
                    f"{cost.us_per_event:.1f}", f"{min(rounds):.1f} - {max(rounds):.1f}",
                    f"{cost.us_per_event / ours:.2f}",
                )
            )  # fmt: skip
    return head + _table(("streams x ev/s", "reader", "us/event", "rounds", "of the hub's"), rows)


def _scaling(found: Scaling) -> str:
    scale = found.scale
    head = (
        f"## Scaling: one process and two, {scale.streams} streams x {scale.rate:g} events a second"
        "\n\nCPU of one event, all processes with the master; where each worker has a"
        f" processor, two carry so many times the load of one; wanted {scaling.WANTED:g}.\n\n"
    )
    rows = [
        (
            _WIRES[pair.wire], f"{pair.us[0]:.1f}", f"{pair.us[1]:.1f}", f"{pair.times:.2f}",
            _met(pair.times >= scaling.WANTED),
        )
        for pair in found.pairs
    ]  # fmt: skip
    names = ("wire", "one us/event", "two us/event", "two carry", "wanted")
    return head + _table(names, rows)


def _live(found: Live) -> str:
    scale = found.scale
    with_them, without = found.cpu
    head = (
        f"## Live figures: {scale.streams} streams x {scale.rate:g} events a second, the tab asked"
        f" once a second, a scrape every five\n\nCPU of the calls into the live figures, as a share"
        f" of a core; wanted below {WANTED_LIVE:.0%}. The whole process: {with_them:.1%} of a core"
        f" with them, {without:.1%} without (medians).\n\n"
    )
    rows = [
        (
            str(number), *(f"{one.shares.get(name, 0.0):.3%}" for name in _LIVE_PARTS),
            f"{one.share:.3%}", f"{one.reading.cpu:.1%}", f"{plain.cpu:.1%}",
            _met(one.share < WANTED_LIVE),
        )
        for number, (one, plain) in enumerate(zip(found.shown, found.plain, strict=True), 1)
    ]  # fmt: skip
    names = ("round", *_LIVE_PARTS, "all", "process with", "without", "wanted")
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


def _reports(steps: Sequence[Step]) -> str:
    rows = [
        (
            f"{step.turns:,}", f"{step.report.wall_s:.1f}", f"{step.report.cpu_s:.1f}",
            f"{step.report.gib:.2f}", f"{step.html_mb:.1f}", f"{step.gate.wall_s:.1f}",
            f"{step.gate.cpu_s:.1f}", f"{step.gate.gib:.2f}",
        )
        for step in steps
    ]  # fmt: skip
    names = (
        "turns", "report, s", "its CPU, s", "GiB", "page, MB", "gate, s", "its CPU, s", "GiB",
    )  # fmt: skip
    last = steps[-1]
    met = last.report.wall_s < WANTED_S and last.report.gib < WANTED_GIB
    return (
        f"## Reports: `loadgen report` and `loadgen gate --baseline` over generated runs\n\n"
        f"{_table(names, rows)}\n\n{last.turns:,} turns: wanted below {WANTED_S:g} s and "
        f"{WANTED_GIB:g} GiB, a page of at most {WANTED_MB:g} MB: "
        f"{_met(met and last.html_mb <= WANTED_MB)}"
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _met(met: bool) -> str:
    return "met" if met else "missed"
