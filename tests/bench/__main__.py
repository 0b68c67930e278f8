"""``python -m tests.bench``: what our generator costs and how well it tells the time."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
import orjson

from tests.bench import accuracy, budget, capacity, cost, live, machine, memory, reports, scaling
from tests.bench.process import BenchFailure
from tests.bench.table import Results, markdown

_PARTS = (
    "accuracy", "cost", "budget", "readers", "crowd", "capacity", "scaling", "memory", "live",
    "reports",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scales:
    """How much of each benchmark is run."""

    crowd: accuracy.Scale
    accuracy: accuracy.Scale
    budget: tuple[cost.Scale, ...]
    cost: cost.Scale
    readers: tuple[cost.Scale, ...]
    capacity: capacity.Scale
    scaling: scaling.Scale
    field: tuple[str, ...]
    analysts: int
    live: cost.Scale
    reports: tuple[int, ...]


FULL = Scales(
    accuracy=accuracy.Scale(180, tokens=80, token_ms=50, warm_s=8, window_s=25),
    crowd=accuracy.Scale(
        2000, tokens=10, token_ms=100, warm_s=12, window_s=20, think_s=18, dialects=("nat-ws",)
    ),
    cost=cost.Scale(180, rate=20, events=60, warm_s=4, window_s=9, rounds=3),
    budget=(
        cost.Scale(180, rate=20, events=60, warm_s=4, window_s=9, rounds=3),
        cost.Scale(1000, rate=20, events=60, warm_s=7, window_s=8, rounds=3),
        cost.Scale(180, rate=100, events=300, warm_s=4, window_s=8, rounds=3),
    ),
    readers=(
        cost.Scale(180, rate=20, events=60, warm_s=3, window_s=6, rounds=5),
        cost.Scale(1000, rate=20, events=60, warm_s=5, window_s=6, rounds=5),
    ),
    capacity=capacity.Scale(20, events=40, warm_s=3, window_s=6, precision=0.1, most=5000),
    scaling=scaling.Scale(360, rate=20, events=60, warm_s=4, window_s=9, rounds=3),
    field=("ours-sse", "httpx", "hub-sse", "ours-ws", "websockets", "hub-ws", "ours-sse-user"),
    analysts=1000,
    live=cost.Scale(200, rate=20, events=60, warm_s=4, window_s=20, rounds=3),
    reports=(10_000, 100_000, 1_000_000),
)
QUICK = Scales(
    accuracy=accuracy.Scale(30, tokens=20, token_ms=50, warm_s=2, window_s=6),
    crowd=accuracy.Scale(
        100, tokens=5, token_ms=100, warm_s=2, window_s=5, think_s=1, dialects=("nat-ws",)
    ),
    cost=cost.Scale(150, rate=20, events=20, warm_s=1.5, window_s=3.5, rounds=1),
    budget=(cost.Scale(100, rate=20, events=20, warm_s=1.5, window_s=2.5, rounds=1),),
    readers=(cost.Scale(100, rate=20, events=20, warm_s=1, window_s=1.5, rounds=1),),
    capacity=capacity.Scale(20, events=20, warm_s=1.5, window_s=2.5, precision=1.0, most=40),
    scaling=scaling.Scale(100, rate=20, events=20, warm_s=1, window_s=2.5, rounds=1),
    field=("ours-sse", "ours-ws"),
    analysts=150,
    live=cost.Scale(50, rate=20, events=20, warm_s=1.5, window_s=6, rounds=1),
    reports=(10_000,),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="One to two minutes: does it run, are the signs right?")
@click.option(
    "--only", multiple=True, type=click.Choice(_PARTS), help="Run just this; can be repeated."
)
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of the cost benchmark.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for bench.json and bench.md.",
)
def main(quick: bool, only: tuple[str, ...], rounds: int | None, out: Path | None) -> None:
    """Measure accuracy, cost, capacity and memory; print a table in Markdown.

    Exit code 1 when a benchmark could not be carried out, or when a comparison that holds on any
    machine does not hold.  Times are reported, never judged by the exit code.
    """
    scales = QUICK if quick else FULL
    try:
        results = _measure(scales, quick, only or _PARTS, rounds)
    except BenchFailure as failure:
        click.echo(f"bench: {failure}", err=True)
        sys.exit(1)
    page = markdown(results)
    click.echo(page)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "bench.md").write_text(page, encoding="utf-8")
        (out / "bench.json").write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2))
    complaints = wrong_signs(results)
    for complaint in complaints:
        click.echo(f"bench: {complaint}", err=True)
    sys.exit(1 if complaints else 0)


def _measure(scales: Scales, quick: bool, parts: tuple[str, ...], rounds: int | None) -> Results:
    facts, pins = machine.facts(), machine.pins()
    costs = capacities = errors = weight = spent = crowd = scaled = shown = told = None
    ways = None
    with tempfile.TemporaryDirectory(prefix="loadgen-bench-") as name:
        folder = Path(name)
        if "accuracy" in parts:
            _say("accuracy: both dialects against the mock agent")
            errors = accuracy.measure(scales.accuracy, pins, folder)
        if "cost" in parts:
            scale = scales.cost
            if rounds is not None:
                scale = cost.Scale(
                    scale.streams, scale.rate, scale.events, scale.warm_s, scale.window_s, rounds
                )
            costs = cost.measure(scale, pins, folder, _say)
        if "budget" in parts:
            spent = budget.measure(scales.budget, pins, folder, _say, rounds)
        if "readers" in parts:
            ways = tuple(
                cost.measure(scale, pins, folder, _say, cost.READERS) for scale in scales.readers
            )
        if "crowd" in parts:
            _say(f"crowd: {scales.crowd.analysts} analysts who ask now and then")
            crowd = accuracy.measure(scales.crowd, pins, folder)
        if "capacity" in parts:
            capacities = capacity.measure(scales.capacity, pins, folder, _say, scales.field)
        if "scaling" in parts:
            scaled = scaling.measure(scales.scaling, pins, folder, _say)
        if "memory" in parts:
            _say(f"memory: {scales.analysts} idle analysts")
            weight = memory.measure(scales.analysts, pins, folder)
        if "live" in parts:
            shown = live.measure(scales.live, pins, folder, _say)
        if "reports" in parts:
            told = reports.measure(scales.reports, folder, _say)
    return Results(
        facts, quick, errors, costs, capacities, weight, spent, crowd, scaled, shown, told, ways
    )


def wrong_signs(results: Results) -> list[str]:
    """What cannot be on any machine, however busy, unless something is broken."""
    found = []
    for part, judged in (("accuracy", results.accuracy), ("crowd", results.crowd)):
        if judged is not None and judged.bad:
            found.append(f"{part}: {judged.bad} turns did not complete")
        if judged is not None and not all(c.error.n for c in judged.clocks):
            found.append(f"{part}: a clock of a dialect has no turn to compare")
    if results.cost is not None:
        us = results.cost.us
        found += [
            f"cost: {cheap} costs {us(cheap):.1f} us/event, not less than {dear} {us(dear):.1f}"
            for cheap, dear in (
                ("ours-sse", "httpx"), ("ours-ws", "websockets"),
                ("hub-sse", "ours-sse"), ("hub-ws", "ours-ws"),
            )
            if us(cheap) >= us(dear)
        ]  # fmt: skip
        found += [
            f"cost: {c.name} had {c.wrong} wrong turns" for c in results.cost.costs if c.wrong
        ]
    if results.capacity is not None:
        found += [
            f"capacity: {entry.name} could not be measured, or had wrong turns"
            for entry in results.capacity.capacities
            if all(probe.reading is None or probe.reading.wrong for probe in entry.probes)
        ]
    if results.live is not None:
        found += [
            f"live: nobody asked for {name}"
            for name in ("turns", "tab", "scrapes")
            if not all(one.calls.get(name) for one in results.live.shown)
        ]
    for step in results.reports or ():
        if step.html_mb > reports.WANTED_MB:
            found.append(f"reports: a page of {step.html_mb:.1f} MB of {step.turns:,} turns")
        if step.report.gib > reports.WANTED_GIB:
            found.append(f"reports: {step.report.gib:.1f} GiB for {step.turns:,} turns")
    if results.memory is not None and results.memory.kib <= 0:
        found.append("memory: analysts cannot weigh nothing")
    return found


def _say(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
