"""Property 48: the same seed gives the same bytes, whatever the process and its hash seed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replicator.simulation.dice import Shape, make_plan
from replicator.simulation.run import run

ROOT = Path(__file__).parents[2]
SHAPES = {
    "short": ["--seed", "14", "--regions", "3", "--seconds", "6", "--steps", "60"],
    "churn": ["--seed", "12", "--regions", "3", "--seconds", "4"],
}


def output(folder: Path, hash_seed: int, arguments: list[str]) -> tuple[bytes, bytes]:
    """Trace and document of one run in a process of its own."""
    trace = folder / f"trace-{hash_seed}"
    command = [sys.executable, "-m", "replicator", "simulate", *arguments]
    done = subprocess.run(
        [*command, "-o", "json", "--trace", str(trace)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        check=True,
    )
    return trace.read_bytes(), done.stdout


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_two_processes_with_other_hash_seeds_write_the_same_bytes(
    tmp_path: Path, name: str
) -> None:
    first, second = (output(tmp_path, seed, SHAPES[name]) for seed in (1, 4242))
    assert first == second
    assert first[0].count(b"\n") > 300


def test_a_step_left_out_moves_nothing_before_it() -> None:
    plan = make_plan(11, Shape(regions=3, seconds=6.0, steps=60, churn=0.0))
    traces: list[list[str]] = []
    for one in (plan, plan.only(range(len(plan.steps) - 1))):
        lines: list[str] = []
        run(one, lines.append)
        traces.append(lines)
    last = f"step {plan.steps[-1]}"
    until = next(at for at, line in enumerate(traces[0]) if line.endswith(last))
    assert traces[0][:until] == traces[1][:until]


def test_other_seeds_give_other_plans() -> None:
    shape = Shape(regions=3, seconds=6.0, steps=60, churn=0.0)
    assert len({make_plan(seed, shape) for seed in range(20)}) == 20
    assert make_plan(7, shape) == make_plan(7, shape)


@pytest.mark.parametrize("looked", [True, False])
def test_a_run_leaves_the_search_for_garbage_as_it_was(looked: bool) -> None:  # noqa: FBT001 - a parameter of the test
    before = gc.isenabled()
    try:
        (gc.enable if looked else gc.disable)()
        run(make_plan(1, Shape(regions=2, seconds=1.0, steps=0, churn=0.0)))
        assert gc.isenabled() is looked
    finally:
        (gc.enable if before else gc.disable)()
