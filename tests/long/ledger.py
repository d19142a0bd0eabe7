"""What was searched so far: runs of seeds that follow one another, on one state of the code.

The file is JSON, so that runs on several machines can be put together; see :func:`merged`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TOTALS = ("events", "checks", "frames", "commits", "starts")


@dataclass(frozen=True, slots=True)
class Run:
    """Schedules of the seeds ``first`` to ``last``, all of them run."""

    first: int
    last: int
    code: str
    """The trees of the product's packages: equal for commits that change none of them."""
    commit: str
    """The commit that the first of these blocks ran at, short."""
    begun: str
    ended: str
    """Dates, ISO 8601, UTC."""
    cpu_seconds: float
    totals: dict[str, int]
    faults: dict[str, int]
    """Steps of each kind in the plans."""
    violations: tuple[dict[str, Any], ...] = ()
    """Seed, property, what was found, and the command that replays it."""

    @property
    def schedules(self) -> int:
        """How many were run."""
        return self.last - self.first + 1

    def __add__(self, later: Run) -> Run:
        """This run and one whose seeds follow it."""
        return Run(
            self.first,
            later.last,
            self.code,
            self.commit,
            min(self.begun, later.begun),
            max(self.ended, later.ended),
            round(self.cpu_seconds + later.cpu_seconds, 1),
            dict(Counter(self.totals) + Counter(later.totals)),
            dict(sorted((Counter(self.faults) + Counter(later.faults)).items())),
            (*self.violations, *later.violations),
        )


def merged(runs: Iterable[Run]) -> list[Run]:
    """The runs in order, those that follow one another on the same code made one.

    Raises :class:`ValueError` when two runs of the same code share a seed.
    """
    found: list[Run] = []
    for run in sorted(runs, key=lambda run: (run.code, run.first)):
        former = found[-1] if found else None
        if former is None or former.code != run.code or former.last + 1 < run.first:
            found.append(run)
        elif former.last + 1 == run.first:
            found[-1] = former + run
        else:
            message = f"seed {run.first} was run twice"
            raise ValueError(message)
    return sorted(found, key=lambda run: (run.begun, run.first))


def missing(seeds: range, runs: Iterable[Run], code: str) -> list[int]:
    """Those of ``seeds`` that were not run on ``code``."""
    done = {seed for run in runs if run.code == code for seed in range(run.first, run.last + 1)}
    return [seed for seed in seeds if seed not in done]


def blocks(seeds: Iterable[int], size: int) -> list[range]:
    """Ranges of at most ``size`` seeds, each of seeds that follow one another."""
    found: list[range] = []
    for seed in seeds:
        if found and found[-1].stop == seed and len(found[-1]) < size:
            found[-1] = range(found[-1].start, seed + 1)
        else:
            found.append(range(seed, seed + 1))
    return found


def read(path: Path) -> list[Run]:
    """The runs in a file; none when there is no file."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text("utf-8"))["runs"]
    return [Run(**{**row, "violations": tuple(row["violations"])}) for row in rows]


def write(path: Path, runs: Iterable[Run]) -> None:
    """Put the runs into a file, whole or not at all."""
    text = json.dumps({"runs": [asdict(run) for run in runs]}, indent=1) + "\n"
    new = path.with_suffix(".new")
    new.write_text(text, "utf-8")
    new.replace(path)
