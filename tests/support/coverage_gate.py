"""Holds coverage to the thresholds in pyproject.toml, group by group.

``python tests/support/coverage_gate.py coverage.json`` reads what ``coverage json`` wrote.  Pure
files (crdt, and the modules that import-linter keeps free of I/O) must each reach ``pure``; what
remains of each package must reach ``other`` together.  Prints one line a group and one for each
file to mend; exit 1 when a threshold is missed, 2 when there is nothing to judge.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_PURE_PACKAGE = "crdt"


def pure_modules(project: Mapping[str, Any]) -> frozenset[str]:
    """Modules under a contract that forbids I/O."""
    contracts = project["tool"]["importlinter"]["contracts"]
    return frozenset(
        module
        for contract in contracts
        if contract["type"] == "forbidden" and "asyncio" in contract["forbidden_modules"]
        for module in contract["source_modules"]
    )


def is_pure(file: str, modules: frozenset[str]) -> bool:
    """Whether ``file`` (relative, with slashes) is a pure module or lies within a pure package."""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    return any(".".join(parts[:length]) in modules for length in range(1, len(parts) + 1))


def percent(summaries: Sequence[Mapping[str, int]]) -> float:
    """Covered lines and branches of all that there are; nothing to cover is all covered."""
    there = sum(s["num_statements"] + s.get("num_branches", 0) for s in summaries)
    reached = sum(s["covered_lines"] + s.get("covered_branches", 0) for s in summaries)
    return 100.0 if there == 0 else 100.0 * reached / there


def judge(report: Mapping[str, Any], project: Mapping[str, Any]) -> tuple[list[str], bool]:
    """The lines to print, and whether every threshold is reached."""
    wanted = project["tool"]["replicator"]["coverage"]
    modules = pure_modules(project)
    files = {name: entry["summary"] for name, entry in sorted(report["files"].items())}
    pure = {name: summary for name, summary in files.items() if is_pure(name, modules)}
    lines = [f"pure: {percent(list(pure.values())):.2f} % of {len(pure)} files"]
    missed = {name: s for name, s in pure.items() if percent([s]) < wanted["pure"]}
    good = not missed
    packages = sorted({name.split("/")[0] for name in files} - {_PURE_PACKAGE})
    for package in packages:
        rest = {n: s for n, s in files.items() if n.startswith(package + "/") and n not in pure}
        reached = percent(list(rest.values()))
        lines.append(f"{package}: {reached:.2f} % of {len(rest)} other files")
        if reached < wanted["other"]:
            good = False
            missed |= {name: s for name, s in rest.items() if percent([s]) < wanted["other"]}
    for name, summary in missed.items():
        least = wanted["pure"] if name in pure else wanted["other"]
        gaps = report["files"][name]
        where = _ranges(gaps["missing_lines"], gaps.get("missing_branches", []))
        lines.append(f"  {name}: {percent([summary]):.2f} % of {least} %, missing {where}")
    return lines, good


def _ranges(lines: Sequence[int], branches: Sequence[Sequence[int]]) -> str:
    shown = [str(line) for line in lines]
    shown += [f"{start}->{end}" for start, end in branches if start not in lines]
    return " ".join(shown)


def main(arguments: Sequence[str]) -> int:
    """Judge the report named in ``arguments``."""
    try:
        report = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    except (IndexError, OSError, ValueError) as error:
        sys.stderr.write(f"coverage gate: cannot read the report: {error}; run make test\n")
        return 2
    if not report["files"]:
        sys.stderr.write("coverage gate: the report names no file; run make test from the top\n")
        return 2
    lines, good = judge(report, tomllib.loads(PROJECT.read_text(encoding="utf-8")))
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write("coverage is as wanted\n" if good else "coverage is below what is wanted\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
