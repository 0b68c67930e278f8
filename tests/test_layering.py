"""The layers of the house: who may import whom.  The tables below are the rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

VOCABULARY = {
    "loadgen",
    "loadgen.clock",
    "loadgen.errors",
    "loadgen.events",
    "loadgen.flow",
    "loadgen.side",
    "loadgen.trace",
    "loadgen.turn",
}
WIRE = {"loadgen.wire"}
DIALECTS = {"loadgen.dialects"}
PLAN = {
    "loadgen.adversity",
    "loadgen.identity",
    "loadgen.levels",
    "loadgen.mint",
    "loadgen.plan",
    "loadgen.roster",
    "loadgen.secretfile",
    "loadgen.section",
}
WATCHED = {"loadgen.fitness", "loadgen.histogram", "loadgen.live"}
LOAD = {"loadgen.load", "loadgen.pacing", "loadgen.replay", "loadgen.timetable"}
PURE = {
    "loadgen.feedback",
    "loadgen.metrics",
    "loadgen.persona",
    "loadgen.phase",
    *PLAN,
    *LOAD,
    *WATCHED,
    *WIRE,
    *DIALECTS,
}
BRAIN = {
    "loadgen.commands",
    "loadgen.conversation",
    "loadgen.dialogue",
    "loadgen.hearing",
    "loadgen.line",
    "loadgen.openturn",
    "loadgen.redaction",
}
BODY = {"loadgen.net", "loadgen.journal", "loadgen.calibration"}
HOST = {"loadgen.swarm"}
ANALYSIS = {"loadgen.analysis"}
REPORT = {"loadgen.report"}

LAYERS: list[tuple[str, set[str], set[str], set[str]]] = [
    # layer, its modules, modules of ours it may import, packages it may import
    ("vocabulary", VOCABULARY, VOCABULARY, set()),
    (
        "pure",
        PURE,
        VOCABULARY | PURE,
        {
            "pydantic",
            "httptools",
            "websockets",
            "orjson",
            "numpy",
            "jwt",
            "cryptography",
            "jsonschema",
            "referencing",
        },
    ),
    ("brain", BRAIN, VOCABULARY | PURE | BRAIN, set()),
    ("body", BODY, VOCABULARY | PURE | BRAIN | BODY, {"gevent", "httpx", "orjson"}),
    (
        "host",
        HOST,
        VOCABULARY | PURE | BRAIN | BODY | HOST | {"loadgen.analysis.numerals"},
        {"gevent", "locust", "opentelemetry", "orjson", "prometheus_client", "psutil", "rich"},
    ),
    (
        "analysis",
        ANALYSIS,
        VOCABULARY
        | {"loadgen.metrics", "loadgen.plan", "loadgen.journal", "loadgen.fitness"}
        | ANALYSIS,
        {"numpy", "pandas", "scipy", "orjson"},
    ),
    (
        "report",
        REPORT,
        VOCABULARY | {"loadgen.metrics", "loadgen.journal"} | ANALYSIS | REPORT,
        {
            "plotly",
            "jinja2",
            "markupsafe",
            "rich",
            "orjson",
            "numpy",
            "pandas",
            "kaleido",
            "choreographer",
        },
    ),
    (
        "cli",
        {
            "loadgen.ab",
            "loadgen.cli",
            "loadgen.__main__",
            "loadgen.advisor",
            "loadgen.planning",
            "loadgen.probe",
            "loadgen.calibrate",
            "loadgen.regression",
            "loadgen.reporting",
            "loadgen.trial",
        },
        {"loadgen"},
        {"click", "rich", "gevent", "orjson"},
    ),
    (
        "mock",
        {"mockagent"},
        VOCABULARY | WIRE | {"mockagent"},
        {
            "starlette",
            "uvicorn",
            "uvloop",
            "httptools",
            "websockets",
            "orjson",
            "click",
            "pydantic",
            "jwt",
        },
    ),
    ("scenarios", {"scenarios"}, HOST | {"loadgen.plan"}, {"locust"}),
]

ONLY_IN: list[tuple[str, set[str]]] = [
    ("time", {"loadgen.clock"}),
    ("asyncio", {"mockagent"}),
    ("uvloop", {"mockagent"}),
    ("gevent", {"loadgen.net", "loadgen.swarm", "loadgen.probe", "scenarios"}),
    ("locust", {"loadgen.swarm", "scenarios"}),
    ("jwt", {"loadgen.mint", "mockagent"}),
    ("opentelemetry", {"loadgen.swarm.traces"}),
    ("prometheus_client", {"loadgen.swarm.exposition"}),
    ("cryptography", {"loadgen.mint"}),
    ("jsonschema", {"loadgen.feedback"}),
    ("referencing", {"loadgen.feedback"}),
    # Only what is not on the clock.
    (
        "httpx",
        {
            "loadgen.net.browser",
            "loadgen.net.control",
            "loadgen.net.discovery",
            "loadgen.net.visit",
        },
    ),
]

PRINTERS = {"loadgen.cli", "loadgen.report.terminal", "mockagent.__main__"}


def sources() -> dict[str, Path]:
    found = {}
    for folder in ("loadgen", "mockagent", "scenarios"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = sources()


def inside(module: str, places: set[str]) -> bool:
    """Whether ``module`` is one of ``places`` or below one; ``loadgen`` stands for itself only."""
    return any(
        module == place or (place not in {"loadgen"} and module.startswith(place + "."))
        for place in places
    )


def imports(path: Path, module: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node.lineno, full if full in MODULES else str(node.module)


def layer_of(module: str) -> tuple[str, set[str], set[str]]:
    for name, members, ours, packages in LAYERS:
        if inside(module, members):
            return name, ours, packages
    raise AssertionError(f"{module} belongs to no layer: add it to LAYERS")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_layer_may(module: str) -> None:
    layer, ours, packages = layer_of(module)
    wrong = []
    for line, target in imports(MODULES[module], module):
        top = target.split(".")[0]
        if top in ("loadgen", "mockagent", "scenarios"):
            allowed = layer == "cli" or inside(target, ours)
        else:
            allowed = top in STDLIB or top in packages
        if not allowed:
            wrong.append(f"line {line}: {target}")
    assert not wrong, f"{module} ({layer}) may not import: {', '.join(wrong)}"


@pytest.mark.parametrize(("package", "places"), ONLY_IN)
def test_some_packages_live_in_some_places_only(package: str, places: set[str]) -> None:
    found = [
        f"{module}:{line}"
        for module, path in MODULES.items()
        for line, target in imports(path, module)
        if target.split(".")[0] == package and not inside(module, places)
    ]
    assert not found, f"{package} may be imported in {sorted(places)} only: {found}"


def test_dialects_never_import_each_other() -> None:
    from loadgen.dialects import DIALECTS as known

    files = {make.__module__ for make in known.values()}  # type: ignore[attr-defined]
    for module in files:
        others = {target for _, target in imports(MODULES[module], module)} & (files - {module})
        assert not others, f"{module} imports {others}"


def test_printing_is_left_to_the_command_line() -> None:
    found = []
    for module, path in MODULES.items():
        if module in PRINTERS:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                found.append(f"{module}:{node.lineno}")
    assert not found


def test_nothing_happens_on_import() -> None:
    """No module of ours calls anything at its top level that opens, starts or reads."""
    forbidden = {"open", "connect", "start", "run", "getaddrinfo", "mkdir"}
    found = []
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                name = getattr(node.value.func, "attr", getattr(node.value.func, "id", ""))
                if name in forbidden:
                    found.append(f"{module}:{node.lineno}: {name}")
    assert not found


STDLIB = __import__("sys").stdlib_module_names
