"""The documents say what is there: commands, plan keys, exit codes, targets of the Makefile."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

from loadgen.cli import cli
from loadgen.dialects import DIALECTS
from loadgen.errors import ExitCode
from loadgen.plan import Plan, load_plan
from loadgen.turn import Cause, Outcome

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCENARIOS = (ROOT / "scenarios" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"loadgen {command}" in README


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_dialect_is_in_the_readme(name: str) -> None:
    assert f"`{name}`" in README


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_is_in_the_readme(code: ExitCode) -> None:
    assert re.search(rf"^\| {int(code)} \|", README, re.MULTILINE)


@pytest.mark.parametrize("word", [*Outcome, *Cause])
def test_every_outcome_and_cause_is_explained(word: str) -> None:
    assert f"`{word}`" in README


def keys(model: type[BaseModel], seen: set[type]) -> set[str]:
    """All keys of the plan, of its tables too."""
    found: set[str] = set()
    seen.add(model)
    for name, field in model.model_fields.items():
        found.add(name)
        for module, part in re.findall(r"(loadgen\.\w+)\.(\w+)", str(field.annotation)):
            inner = getattr(__import__(module, fromlist=[part]), part, None)
            if isinstance(inner, type) and issubclass(inner, BaseModel) and inner not in seen:
                found |= keys(inner, seen)
    return found


@pytest.mark.parametrize("key", sorted(keys(Plan, set())))
def test_every_plan_key_is_in_the_table(key: str) -> None:
    assert re.search(rf"\b{key}\b", SCENARIOS)


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.toml")), ids=lambda p: p.name)
def test_every_plan_we_ship_is_valid_and_described(path: Path) -> None:
    plan = load_plan(path, DIALECTS)
    assert plan.question_texts(path.parent)
    assert path.name in SCENARIOS


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:`|^ {4})make ([a-z-]+)", README, re.MULTILINE)
    assert set(named) <= targets
    assert {"demo", "test", "bench", "conformance", "lint"} <= targets


def test_the_readme_begins_with_the_two_commands() -> None:
    head = README[:1500]
    assert "make demo" in head
    assert "make test" in head


@pytest.mark.parametrize(
    "path", [p for p in ROOT.glob("**/README.md") if ".venv" not in p.parts], ids=str
)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path}: {target}"


def test_every_option_of_a_command_has_a_help_text() -> None:
    for command in cli.commands.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{command.name}: {parameter.name}"


def test_the_changelog_knows_the_version() -> None:
    from loadgen import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_dependency_has_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    listed = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    for requirement in (*listed, *(one for extra in extras for one in extra)):
        assert ">=" in requirement, requirement


def test_every_picture_is_small_and_stands_beside_what_made_it() -> None:
    folder = ROOT / "results" / "examples"
    text = (folder / "README.md").read_text(encoding="utf-8")
    pictures = sorted(folder.glob("*.png"))
    assert {"run-pass.png", "comparison.png", "capacity.png", "live.png"} <= {
        picture.name for picture in pictures
    }
    for picture in pictures:
        assert picture.stat().st_size < 300_000
        assert f"| [{picture.name}]({picture.name}) |" in text
    assert "results/examples/README.md" in README
