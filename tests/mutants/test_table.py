"""The tables of the manual are about what is there: mutants, their tests, properties and theirs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.page import PAGE, SURVIVED, page_of, rows_in

_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(?:Test\w+::)?(test_\w+)`")
_ROW = re.compile(r"^\| (\d+) \| (.+?) \| (held|partly|open) \| (.+) \|$", re.MULTILINE)
PROPERTIES = (ROOT / "docs" / "properties.md").read_text(encoding="utf-8")


@cache
def names_in(path: str) -> frozenset[str]:
    """Names of the tests in a file."""
    if not (ROOT / path).exists():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in found if node.name.startswith("test_"))


def missing(text: str) -> list[str]:
    """Tests that are named and are not there."""
    return [f"{path}::{name}" for path, name in _NAMED.findall(text) if name not in names_in(path)]


def test_the_names_of_mutants_are_distinct() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_what_is_there_and_names_tests_that_are(mutant: Mutant) -> None:
    source = (ROOT / mutant.module).read_text(encoding="utf-8")
    changed = mutant.applied(source)
    ast.parse(changed)
    assert changed != source
    assert mutant.tests
    assert missing("".join(f"`{test}`" for test in mutant.tests)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("gone", "new"), ("x", "y"), ("once", "once")],
    ids=["not there", "there twice", "no change"],
)
def test_a_mutant_whose_text_does_not_match_is_an_error(old: str, new: str) -> None:
    mutant = Mutant("m", "r", "module.py", old, new, ("t",))
    with pytest.raises(ValueError, match="mutant 'm'"):
        mutant.applied("x once x")


def test_no_mutant_survived_when_the_table_was_made() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert SURVIVED not in text
    assert missing(text) == []
    names = [mutant.name for mutant in MUTANTS]
    assert [*rows_in(text)] == names, "run make mutants"
    assert text == page_of(names, rows_in(text))


def test_each_of_the_fifty_properties_has_a_row_and_tests_that_exist() -> None:
    rows = _ROW.findall(PROPERTIES)
    assert [int(number) for number, *_ in rows] == list(range(1, 51))
    assert missing(PROPERTIES) == []
    for number, _, state, text in rows:
        named = _NAMED.findall(text)
        assert bool(named) is (state != "open"), number
        assert ("missing:" in text) is (state == "partly"), number


def test_the_counts_that_the_page_of_properties_gives_are_right() -> None:
    states = [state for _, _, state, _ in _ROW.findall(PROPERTIES)]
    held, partly, unheld = (states.count(state) for state in ("held", "partly", "open"))
    assert f"{held} held, {partly} partly, {unheld} open" in PROPERTIES


def test_the_folder_of_mutants_holds_no_other_tests() -> None:
    found = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    assert found == {"test_killers.py", "test_table.py"}
