"""``python -m tests.mutants [--new | NAME ...]``: each mutant must be killed by a test of its own.

Without names all mutants are run; ``--new`` are those that ``docs/mutants.md`` has no row of.  What
was run is written there, beside the rows of the others.  Exit status 1 if one survives, 2 if the
tests fail without any mutant or a mutant's text is not there any more.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.page import PAGE, page_of, row_of, rows_in
from tests.mutants.runner import Copy, Result, copied, judge

_BASELINE_SECONDS = 240.0
NEW = "--new"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _check(copy: Copy, chosen: Sequence[Mutant]) -> None:
    """Raise unless every text is there, and all tests pass without any mutant."""
    for mutant in MUTANTS:
        mutant.applied((copy.folder / mutant.module).read_text(encoding="utf-8"))
    tests = sorted({test for mutant in chosen for test in mutant.tests})
    status, printed = copy.run(tests, _BASELINE_SECONDS)
    if status != 0:
        message = f"the tests fail without a mutant ({status}):\n{printed}"
        raise RuntimeError(message)


def main(names: Sequence[str]) -> int:
    """Run the gate."""
    began = time.monotonic()
    rows = rows_in(PAGE.read_text(encoding="utf-8")) if names else {}
    wanted = {mutant.name for mutant in MUTANTS} - rows.keys() if NEW in names else {*names}
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in wanted]
    results: list[Result] = []
    with copied() as copy:
        try:
            _check(copy, chosen)
            for mutant in chosen:
                results.append(judge(copy, mutant))
                found = results[-1]
                _say(f"{found.seconds:5.1f} s  {mutant.name}: {found.killer or 'SURVIVED'}")
        except (RuntimeError, ValueError) as error:
            _say(str(error))
            return 2
    survivors = [result for result in results if result.killer is None]
    rows |= {result.mutant.name: row_of(result) for result in results}
    PAGE.write_text(page_of([mutant.name for mutant in MUTANTS], rows), encoding="utf-8")
    _say(f"{len(results)} mutants, {len(survivors)} survived, {time.monotonic() - began:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
