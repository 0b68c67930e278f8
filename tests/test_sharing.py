"""No connection is shared by analysts: each has its own, and none is pooled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
POOLS = {
    "Client", "AsyncClient", "Session", "HTTPAdapter", "PoolManager", "ConnectionPool",
    "HTTPClient", "HTTPClientPool", "FastHttpSession", "HttpSession", "ClientSession", "Connection",
    "Driver", "Poster", "HttpLink", "SocketLink", "browser",
}  # fmt: skip
"""What makes a connection, or keeps some for others."""

FILES = sorted(
    path
    for folder in ("loadgen/net", "loadgen/swarm", "loadgen/wire", "loadgen/dialects", "scenarios")
    for path in (ROOT / folder).rglob("*.py")
)


def made(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Calls that make one, in ``tree``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in POOLS:
                yield node.lineno, name


def shared(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Those that outlive one analyst: made on import, as a class attribute, or as the default of a
    parameter.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
                    yield from made(statement)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    yield from made(default)


@pytest.mark.case("D-53")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_client_is_shared_by_analysts(path: Path) -> None:
    assert list(shared(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.case("D-53")
def test_the_stream_of_a_turn_goes_through_no_pool() -> None:
    """Where analysts' bytes go there is no client of anybody else's making."""
    for name in ("driver", "connection", "posting", "endpoint"):
        tree = ast.parse((ROOT / "loadgen" / "net" / f"{name}.py").read_text(encoding="utf-8"))
        found = {
            part
            for node in ast.walk(tree)
            for part in (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            )
        }  # fmt: skip
        foreign = {"httpx", "requests", "urllib3", "aiohttp", "geventhttpclient", "http.client"}
        assert not found & foreign


@pytest.mark.case("D-53")
@pytest.mark.parametrize(
    "source",
    [
        "client = httpx.Client()",
        "class User:\n    client = AsyncClient(limits=None)",
        "def ask(client=Session()):\n    pass",
        "class User:\n    pool: object = PoolManager(100)",
    ],
)
def test_the_check_can_fail(source: str) -> None:
    assert list(shared(ast.parse(source)))


def test_a_client_of_one_call_is_nobody_elses() -> None:
    assert not list(
        shared(ast.parse("def fetch():\n    with httpx.Client() as client:\n        pass"))
    )
