"""``python -m tests.long``: run many schedules, in parts, and say in the manual what was run.

What was run before on the same code is left out, so a search that was interrupted goes on, and
several may share the seeds: each with a ledger of its own, put together by ``--take``.  The page is
written by the manual's ledger only.  Exit status 0 when nothing was violated, 1 otherwise, 2 when
the code is not committed, 3 when the time ran out first.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.long.ledger import Run, blocks, merged, missing, read, write
from tests.long.page import WANTED, page_of
from tests.long.search import ROOT, Code, code_of_tree, searched

LEDGER = ROOT / "docs" / "sim-long.json"
BLOCK = 250


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("--seeds", default=f"0..{WANTED - 1}", help="A..B, both included")
    parser.add_argument("--ledger", type=Path, default=LEDGER, help="where the runs are kept")
    parser.add_argument("--take", type=Path, nargs="*", default=[], help="ledgers to take in first")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no block after so long")
    return parser.parse_args(words)


def _kept(ledger: Path, runs: Sequence[Run]) -> list[Run]:
    """Write what is known, and the page that is made of it."""
    whole = merged(runs)
    write(ledger, whole)
    if ledger == LEDGER:
        ledger.with_suffix(".md").write_text(page_of(whole), "utf-8")
    return whole


def search(arguments: argparse.Namespace, code: Code) -> int:
    """Run what is missing; returns the exit status."""
    first, _, last = arguments.seeds.partition("..")
    seeds = range(int(first), int(last) + 1)
    runs = read(arguments.ledger)
    for other in arguments.take:
        runs += read(other)
    runs = _kept(arguments.ledger, runs)
    end = time.monotonic() + 60 * arguments.minutes
    for block in blocks(missing(seeds, runs, code.code), BLOCK):
        if time.monotonic() >= end:
            return 3
        found = searched(block, code)
        runs = _kept(arguments.ledger, [*runs, found])
        sys.stdout.write(
            f"seeds {found.first} to {found.last}: {len(found.violations)} violations,"
            f" {found.cpu_seconds / found.schedules * 1000:.1f} ms each\n"
        )
        for violation in found.violations:
            sys.stdout.write(f"  {violation['replay']}\n")
        sys.stdout.flush()
    broken = any(run.violations for run in runs if run.code == code.code)
    return 1 if broken else 0


def main(words: Sequence[str]) -> int:
    """Parse and search."""
    arguments = _arguments(words)
    try:
        code = code_of_tree()
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return search(arguments, code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
