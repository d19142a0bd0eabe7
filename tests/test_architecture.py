"""The shape of the project: layers, purity, size of modules, public names, packaging."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replicator
from tests.support.coverage_gate import pure_modules

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("clusters", "crdt", "replicator")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LONGEST_MODULE = 500
LONGEST_DOCSTRING = 20
EFFECTS = frozenset(
    (
        *("aiohttp", "asyncio", "datetime", "logging", "os", "random", "secrets", "socket"),
        *("ssl", "subprocess", "sys", "time"),
    )
)
DISTRIBUTIONS = {"yaml": "pyyaml", "msgpack": "msgpack"}
"""Names of distributions that are not those of their modules."""


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tree_of(path: Path) -> ast.Module:
    """A module's syntax, as the oldest supported Python reads it."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 11))


def imported(path: Path) -> Iterator[str]:
    """Dotted names that a module imports, wherever in it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.module or ""


def ids(paths: list[Path]) -> list[str]:
    """Names of parameters."""
    return [name_of(path) for path in paths]


def test_the_contracts_of_the_layers_are_kept() -> None:
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_modules_of_the_contracts_exist() -> None:
    names = set(map(name_of, MODULES))
    assert pure_modules(PROJECT) <= names


CRDT = [path for path in MODULES if name_of(path).split(".")[0] == "crdt"]
CRDT_CORE = [path for path in CRDT if not name_of(path).startswith("crdt.testing")]


@pytest.mark.parametrize("path", CRDT_CORE, ids=ids(CRDT_CORE))
def test_crdt_imports_only_itself_and_the_pure_part_of_the_standard_library(path: Path) -> None:
    for name in imported(path):
        top = name.split(".")[0]
        assert top == "crdt" or top in sys.stdlib_module_names
        assert top not in EFFECTS
        assert not name.startswith("crdt.testing")


@pytest.mark.parametrize("path", MODULES, ids=ids(MODULES))
def test_a_module_is_not_too_long_and_says_what_it_is(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST_MODULE
    docstring = ast.get_docstring(tree_of(path))
    assert docstring
    assert docstring.count("\n") < LONGEST_DOCSTRING


INITS = [path for path in MODULES if path.name == "__init__.py"]


@pytest.mark.parametrize("path", INITS, ids=ids(INITS))
def test_an_init_holds_only_imports_and_a_sorted_list_of_names(path: Path) -> None:
    body = tree_of(path).body
    assert isinstance(body[0], ast.Expr)
    names: list[str] | None = None
    for node in body[1:]:
        if isinstance(node, ast.Assign):
            assert [ast.unparse(target) for target in node.targets] == ["__all__"]
            names = ast.literal_eval(node.value)
        else:
            assert isinstance(node, ast.Import | ast.ImportFrom), ast.unparse(node)
    bound = {
        alias.asname or alias.name
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    assert names == (sorted(bound, key=_in_order) if bound else None)


def _in_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as ruff sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def _broad(node: ast.ExceptHandler) -> bool:
    """Whether it takes every exception and may end without raising one."""
    taken = "" if node.type is None else ast.unparse(node.type)
    return taken in {"", "Exception", "BaseException"} and not isinstance(node.body[-1], ast.Raise)


@pytest.mark.parametrize("path", MODULES, ids=ids(MODULES))
def test_a_broad_except_says_why_it_may(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ExceptHandler) and _broad(node):
            assert "#" in lines[node.lineno - 1], f"{path}:{node.lineno}"


def test_the_packages_are_listed_each_and_explicitly() -> None:
    assert PROJECT["tool"]["setuptools"]["packages"] == sorted(map(name_of, INITS))
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").exists()


def test_every_folder_with_modules_is_a_package() -> None:
    assert {path.parent for path in MODULES} == {path.parent for path in INITS}


def test_the_version_is_one() -> None:
    assert PROJECT["project"]["version"] == replicator.__version__


def _distribution(text: str) -> str:
    return re.split(r"[><=~!\[; ]", text, maxsplit=1)[0].lower().replace("-", "_")


def test_what_is_imported_is_a_declared_dependency_and_the_other_way_round() -> None:
    declared = {_distribution(text) for text in PROJECT["project"]["dependencies"]}
    used = {
        DISTRIBUTIONS.get(top, top)
        for path in MODULES
        if not name_of(path).startswith("crdt.testing")
        for top in (name.split(".")[0] for name in imported(path))
        if top not in sys.stdlib_module_names and top not in PACKAGES
    }
    assert used == declared


def test_every_dependency_has_a_lower_bound_and_a_place_in_the_lock() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    texts = [*PROJECT["project"]["dependencies"], *extras["dev"], *extras["testing"]]
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    locked = {_distribution(line) for line in lock.splitlines() if line and line[0] != "#"}
    for text in texts:
        assert re.fullmatch(r"[A-Za-z0-9-]+>=[0-9.]+", text), text
        assert _distribution(text) in locked
    assert "://" not in lock
    for line in lock.splitlines():
        assert line.lstrip().startswith("#") or "==" in line


@pytest.mark.parametrize("command", ["replicator", "kubectl-replicator"])
def test_the_commands_lead_to_the_same_function(command: str) -> None:
    module, _, function = PROJECT["project"]["scripts"][command].partition(":")
    assert (module, function) == ("replicator.cli.main", "run")
    assert any(
        isinstance(node, ast.FunctionDef) and node.name == function
        for node in tree_of(ROOT / "replicator" / "cli" / "main.py").body
    )


def test_every_ignored_rule_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lint = text.partition("[tool.ruff.lint]")[2].partition("[tool.ruff.lint.pydocstyle]")[0]
    rules = [line for line in lint.splitlines() if re.match(r'\s+"[A-Z]+[0-9]+",', line)]
    assert rules
    for line in rules:
        assert re.search(r"# \w", line), line


SCANNED = sorted(
    path
    for pattern in ("*.md", "*.toml", "*.yml", "Makefile", ".ci/run", "*.lock", "Dockerfile")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("path", [*SCANNED, *MODULES], ids=lambda path: path.name)
def test_no_file_names_a_place_on_one_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"(?<![\w.])/(?:home/\w+|root|work|Users)/|\.\./(?:shared|\.library)", text)
    assert not found
