"""Runs the kit over CRDT packages from PyPI and writes the page about it.

``PYTHONPATH=. python tests/crdt/testing/survey/run.py docs/testing-kit-survey.md`` at the top of
the repository, in an environment with the packages; what is not installed is left out and said to
be.  A script, since some of the packages install a package of tests of their own.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import engines
import plain

from crdt.testing import Budget, Crdt, Finding, examine

Adapter = Callable[[], Iterator[Crdt[Any]]]
BUDGET = Budget(examples=200)
PACKAGES: dict[str, Adapter] = {
    "crdt-merge": engines.crdt_merge_types,
    "crdts": plain.crdts_types,
    "link.crdt": plain.link_types,
    "loro": engines.loro_types,
    "nexus-crdt": engines.nexus_types,
    "pycrdt": engines.pycrdt_types,
    "python3-crdt": plain.python3_crdt_types,
    "xotl.crdt": plain.xotl_types,
    "y-py": engines.y_py_types,
}

HEAD = (
    "# What the kit found in packages from PyPI\n\n"
    "Written by `tests/crdt/testing/survey/run.py` on {date}, with Python {python}; {examples} "
    "schedules for a type, at most {replicas} replicas and {longest} events. An adapter of a few "
    "lines (`tests/crdt/testing/survey`) says how each type is made, changed, merged and read, by "
    "what its documentation says.\n\n"
    '"Held" means that no schedule tried broke the law. `meaning` is checked only where the name '
    "or the manual of a type says what it means: counters count, observed-remove sets keep what no "
    "remove has seen. A broken law is not a defect for every user: an application may rule out the "
    "case, by merging each state once, say, or by clocks that agree. "
    "[How to read the laws](testing-kit.md#the-laws).\n\n"
)
NOTES = {
    "crdt-merge": (
        "The caller gives the times, and those of two replicas differ, as wall clocks do: a "
        "register that is written at an older time than it has seen takes the value, and a "
        "merge undoes it."
    ),
    "crdts": (
        "Replicas get the other's `history()`, the way of resynchronising that its manual shows."
    ),
    "link.crdt": (
        "Merges two copies that were changed since one common value, and keeps no account of what "
        "was merged before. Does not import on Python 3.10 or later without the name "
        "`collections.Set`, which the adapter puts back."
    ),
    "python3-crdt": (
        "The LWW set reads the clock by itself; the adapter gives it times that differ between "
        "replicas. A PNCounter cannot be made at all: its constructor calls itself."
    ),
}


class Row(NamedTuple):
    """What was found of one type."""

    name: str
    findings: list[Finding]

    @property
    def broken(self) -> list[Finding]:
        """The laws that were broken."""
        return [finding for finding in self.findings if not finding.held]


def surveyed(adapter: Adapter) -> list[Row]:
    """The findings of every type of a package."""
    return [Row(crdt.name, examine(crdt, budget=BUDGET)) for crdt in adapter()]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def _lines(package: str, rows: list[Row]) -> Iterator[str]:
    yield f"## {package} {version(package)}"
    yield ""
    if package in NOTES:
        yield NOTES[package]
        yield ""
    yield "| type | held | broken |"
    yield "| --- | --- | --- |"
    for row in rows:
        broken = ", ".join(finding.law for finding in row.broken) or "none"
        held = len(row.findings) - len(row.broken)
        yield f"| {row.name} | {held} of {len(row.findings)} | {broken} |"
    yield ""
    if any(row.broken for row in rows):
        yield "| type | law | shortest history found | what differs |"
        yield "| --- | --- | --- | --- |"
    for row in rows:
        # A type that cannot even be made breaks all laws in one way.
        told = row.broken[:1] if len(row.broken) == len(row.findings) else row.broken
        for finding in told:
            assert finding.report is not None
            seen = finding.report.contrast
            history = "; ".join(finding.report.history) or "nothing"
            differs = f"{seen.left}: {seen.found}; {seen.right}: {seen.wanted}"
            yield f"| {row.name} | {finding.law} | {_cell(history)} | {_cell(differs)} |"
    yield ""


def page() -> str:
    """The whole page."""
    lines, absent = [], []
    for package, adapter in PACKAGES.items():
        try:
            version(package)
        except PackageNotFoundError:
            absent.append(package)
            continue
        sys.stderr.write(f"{package}\n")
        lines += _lines(package, surveyed(adapter))
    if absent:
        lines += [f"Not installed, so not looked at: {', '.join(absent)}.", ""]
    head = HEAD.format(
        date=datetime.now(UTC).date().isoformat(), python=platform.python_version(), **vars_of()
    )
    return head + "\n".join(lines).rstrip() + "\n"


def vars_of() -> dict[str, int]:
    """The budget's numbers by name."""
    return {name: getattr(BUDGET, name) for name in ("examples", "replicas", "longest")}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
