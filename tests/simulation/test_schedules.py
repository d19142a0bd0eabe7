"""Seeded schedules with faults through the simulator; every property is checked after each step."""

from __future__ import annotations

from collections import Counter

import pytest

from replicator.simulation.dice import Shape, make_plan
from replicator.simulation.plan import KINDS
from replicator.simulation.run import Report, run
from replicator.simulation.shrink import Cut, command_of, shrunk
from tests.long.shapes import SHAPES, shape_of

QUICK_SHAPES = (SHAPES[2], Shape(regions=3, seconds=2.0, steps=60, churn=0.0))
QUICK, PARTS = 100, 5
BLOCK = 100
BLOCKS = 20


def held(seed: int, shape: Shape) -> Report:
    """Run one seed; when it fails, say the one command that shows it."""
    report = run(make_plan(seed, shape))
    if report.found is not None:
        cut, found = shrunk(seed, shape, Cut(), report.found)
        pytest.fail(f"property {found.rule}: {found.detail}\n{command_of(seed, shape, cut)}")
    return report


@pytest.mark.parametrize("part", range(PARTS))
def test_a_part_of_a_hundred_schedules_holds_every_property(part: int) -> None:
    reports = [held(seed, QUICK_SHAPES[seed % 2]) for seed in range(part, QUICK, PARTS)]
    assert min(report.checks for report in reports) > 50
    assert sum(report.commits for report in reports) > 5 * len(reports)


def test_a_hundred_seeds_come_with_every_fault() -> None:
    plans = [make_plan(seed, SHAPES[0]) for seed in range(QUICK)]
    assert {step.kind for plan in plans for step in plan.steps} == {*KINDS}


def test_five_regions_under_churn_hold_every_property() -> None:
    report = held(7, Shape(seconds=4.0))
    assert report.commits > 200
    assert report.rested_after is not None


@pytest.mark.sim
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_block_of_schedules_holds_every_property(block: int) -> None:
    for seed in range(QUICK + block * BLOCK, QUICK + (block + 1) * BLOCK):
        held(seed, shape_of(seed))


@pytest.mark.sim
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(6))
def test_minutes_of_churn_and_faults_hold_every_property(seed: int) -> None:
    held(seed, Shape(seconds=120.0, churn=2.0))


@pytest.mark.parametrize("part", range(2))
def test_clusters_forgotten_at_random_end_as_one_decision(part: int) -> None:
    """Properties 24 and 27: two and three regions, so that a few forget each other."""
    shape = Shape(2 + part, 6.0, 40, 0.0, ("forget", "admit", "policy", "crash", "break", "disk"))
    reports = [held(seed, shape) for seed in range(30)]
    notices = Counter[str]()
    for report in reports:
        notices.update(report.notices)
    assert notices["cluster_forgotten"] > 5
    assert notices["cluster_admitted"] > 20
    assert notices["policy_decided"] > 5
