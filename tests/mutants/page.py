"""The table of mutants in the manual."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.mutants.mutant import ROOT
from tests.mutants.runner import Result

PAGE = ROOT / "docs" / "mutants.md"
SURVIVED = "**survived**"
_HEAD = """# Mutants

Made by `make mutants`; do not edit. Each row is one change of one module, run against a few tests
named for it; a test that fails kills it. {count} mutants, {survivors} survived; {seconds:.0f} s on
the machine that made this page.

A mutant that is killed shows that some test notices that change; it does not show that every change
would be noticed. What no mutant here touches: the transport, the journal's files beyond one change,
the agent that puts the parts together, and everything about Kubernetes.

| mutant | rule | module | killed by | s |
|---|---|---|---|---|
"""


def row_of(result: Result) -> str:
    """One line of the table."""
    mutant = result.mutant
    killer = SURVIVED if result.killer is None else f"`{result.killer.split('[')[0]}`"
    cells = (
        mutant.name,
        mutant.rule,
        f"`{mutant.module}`",
        killer,
        f"{max(1.0, result.seconds):.0f}",
    )
    return "| " + " | ".join(cells) + " |\n"


def rows_in(text: str) -> dict[str, str]:
    """The rows of a page, by mutant."""
    lines = [line for line in text.splitlines(keepends=True) if line.startswith("| ")]
    return {line.split(" | ")[0][2:]: line for line in lines[1:]}


def page_of(names: Iterable[str], rows: Mapping[str, str]) -> str:
    """The page of the mutants of these names, as far as they were ever run."""
    found = [rows[name] for name in names if name in rows]
    survivors = sum(SURVIVED in row for row in found)
    seconds = sum(int(row.rsplit(" | ", 1)[1][:-3]) for row in found)
    head = _HEAD.format(count=len(found), survivors=survivors, seconds=seconds)
    return head + "".join(found)
