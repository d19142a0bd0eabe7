"""Runs blocks of seeds and counts what they came to."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from replicator.simulation.dice import Shape, make_plan
from replicator.simulation.plan import Plan
from replicator.simulation.run import Found, Report, run
from replicator.simulation.shrink import Cut, command_of, shrunk
from tests.long.ledger import TOTALS, Run
from tests.long.shapes import shape_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("crdt", "clusters", "replicator")


class Code(NamedTuple):
    """Which code is run."""

    code: str
    commit: str


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.strip()


def code_of_tree() -> Code:
    """The code of this folder; raises :class:`ValueError` when it is not committed."""
    changed = _git("status", "--porcelain", "--", *PACKAGES)
    if changed:
        message = f"not committed, so nobody could run it again:\n{changed}"
        raise ValueError(message)
    trees = _git("rev-parse", *(f"HEAD:{package}" for package in PACKAGES))
    code = blake2b(trees.encode(), digest_size=8).hexdigest()
    return Code(code, _git("rev-parse", "--short=10", "HEAD"))


def today() -> str:
    """The date, UTC."""
    return datetime.now(UTC).date().isoformat()


def _replay(seed: int, shape: Shape, found: Found) -> dict[str, Any]:
    cut, small = shrunk(seed, shape, Cut(), found)
    replay = command_of(seed, shape, cut)
    return {"seed": seed, "rule": small.rule, "detail": small.detail, "replay": replay}


def searched(
    seeds: range,
    code: Code,
    runner: Callable[[Plan], Report] = run,
    small: Callable[[int, Shape, Found], dict[str, Any]] = _replay,
) -> Run:
    """One block, run to its end."""
    begun, spent = today(), time.process_time()
    totals, faults = Counter[str](), Counter[str]()
    violations = []
    for seed in seeds:
        plan = make_plan(seed, shape_of(seed))
        report = runner(plan)
        totals.update({name: getattr(report, name) for name in TOTALS})
        faults.update(step.kind for step in plan.steps)
        if report.found is not None:
            violations.append(small(seed, shape_of(seed), report.found))
    return Run(
        first=seeds.start,
        last=seeds.stop - 1,
        code=code.code,
        commit=code.commit,
        begun=begun,
        ended=today(),
        cpu_seconds=round(time.process_time() - spent, 1),
        totals=dict(totals),
        faults=dict(sorted(faults.items())),
        violations=tuple(violations),
    )
