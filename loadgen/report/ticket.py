"""A capacity report as Markdown, for a ticket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadgen.report.capacity import amount, law, prices, rows

FILE = "capacity.md"


def render(found: Mapping[str, Any]) -> str:
    """The answer, what is behind it, and the levels as a table."""
    parts = [f"**{found['verdict']}**: {found['headline']}", ""]
    parts += [f"- {_cell(text)}" for text in found["findings"]]
    twice = found["twice"]
    if twice is not None:
        parts.append(f"- at about twice the load ({amount(twice['level'])}): "
                     f"{_cell(twice['sentence'])}")  # fmt: skip
    parts += ["", *_levels(found), ""]
    sizes = prices(found)
    if sizes:
        parts += [f"| replicas | {found['unit']} each | headroom | cost |", "|---:|---:|---:|---:|"]
        parts += [
            f"| {row['replicas']} | {row['each']} | {row['headroom']} | {row['cost']} |"
            for row in sizes
        ]
        parts += ["", *(f"- assumed: {text}" for text in found["sizing"]["assumptions"]), ""]
    parts += [f"- {name}: {value} ({_cell(meaning)})" for name, value, meaning in law(found)]
    against = found.get("against")
    if against is not None:
        parts += ["", f"Beside {against['run']}: {against['sentence']}", "",
                  f"| | {against['run']} | {found['run']} |", "|---|---:|---:|"]  # fmt: skip
        parts += [f"| {row['name']} | {row['base']} | {row['new']} |" for row in against["rows"]]
    parts += ["", f"Model {found['model']}; runs {', '.join(found['runs'])}; "
              f"target {(found['target'] or {}).get('host', '?')}", ""]  # fmt: skip
    return "\n".join(parts)


def _levels(found: Mapping[str, Any]) -> list[str]:
    made = rows(found)
    names = [target["name"] for target in made[0]["targets"]]
    head = [found["unit"], "verdict", "turns", "turns/s", *names, "ran at once"]
    lines = ["| " + " | ".join(map(_cell, head)) + " |", "|---:|---|" + "---:|" * (len(head) - 2)]
    for row in made:
        targets = [f"{target['value']} ({target['span']})" for target in row["targets"]]
        cells = [row["level"], row["verdict"], row["turns"], row["rate"], *targets, row["running"]]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return lines


def _cell(text: str) -> str:
    """Nothing that would end the cell or begin another one."""
    return str(text).replace("|", "\\|").replace("\n", " ")
