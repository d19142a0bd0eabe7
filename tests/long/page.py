"""The page of the manual that says what was searched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tests.long.ledger import TOTALS, Run

WANTED = 100_000
_HEAD = """# Long search

Made by `make sim-long` from [sim-long.json](sim-long.json); do not edit. Each schedule is the plan
of one seed, sixty steps over two to four regions, run to its end on the production core with every
property checked after every step, as [simulation](simulation.md) tells. Seeds take turns in four
shapes of plans. {wanted:,} schedules on one state of the code are wanted; so far it is {most:,}.

| seeds | schedules | commit | from | until | CPU minutes | violations |
|---|---|---|---|---|---|---|
"""


def page_of(runs: Sequence[Run]) -> str:
    """The whole page."""
    by_code: Counter[str] = Counter()
    for run in runs:
        by_code[run.code] += run.schedules
    most = max(by_code.values(), default=0)
    lines = [_HEAD.format(wanted=WANTED, most=most)]
    lines += [_row(run) for run in runs]
    lines.append("\nA run counts for the commit that it began at, and for later ones as long as")
    lines.append(" `crdt`, `clusters` and `replicator` are the same.\n")
    lines += _violations(runs)
    lines += _counts("Steps in these plans", _sum(run.faults for run in runs))
    totals = _sum(run.totals for run in runs)
    lines += _counts("What happened", {name: totals.get(name, 0) for name in TOTALS})
    return "".join(lines)


def _row(run: Run) -> str:
    minutes = f"{run.cpu_seconds / 60:,.1f}"
    cells = (
        f"{run.first} to {run.last}",
        f"{run.schedules:,}",
        f"`{run.commit}`",
        run.begun,
        run.ended,
        minutes,
        str(len(run.violations)),
    )
    return "| " + " | ".join(cells) + " |\n"


def _violations(runs: Sequence[Run]) -> list[str]:
    found = [violation for run in runs for violation in run.violations]
    lines = ["\n## Violations\n\n"]
    if not found:
        return [*lines, "None.\n"]
    rows = (
        f"- seed {one['seed']}, property {one['rule']}: {one['detail']}; `{one['replay']}`\n"
        for one in found
    )
    return [*lines, *rows]


def _counts(title: str, counts: dict[str, int]) -> list[str]:
    rows = [f"| {name} | {count:,} |\n" for name, count in counts.items()]
    return [f"\n## {title}\n\n| what | how many |\n|---|---|\n", *rows]


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    whole: Counter[str] = Counter()
    for part in parts:
        whole.update(part)
    return dict(sorted(whole.items()))
