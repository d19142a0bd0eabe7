"""Property 46: beyond a full mesh every change reaches every cluster about once, over few links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator.overlay import MESH_CLUSTERS
from replicator.simulation.dice import names_of
from replicator.simulation.faults import perform
from replicator.simulation.plan import READY_BIT, Plan, Step
from replicator.simulation.run import rested, run
from replicator.simulation.world import World

REGIONS = names_of(50)
SECONDS = 6.0


def plan_of(*steps: Step) -> Plan:
    return Plan(seed=1, regions=REGIONS, seconds=SECONDS, tick=0.25, delay=0.2, steps=steps)


def changes(number: int, begin: float) -> list[Step]:
    """Changes of regions all over, a tenth of a second apart."""
    return [
        Step(begin + 0.1 * at, "change", REGIONS[7 * at % 50], "cart", 0.0, READY_BIT | 1 + at)
        for at in range(number)
    ]


def test_p46_fifty_regions_converge_with_hardly_more_than_one_copy_each() -> None:
    report = run(plan_of(*changes(20, 3.5)))
    assert report.found is None
    assert report.commits > 49 * (50 + 15)
    assert report.copies <= 1.1
    assert report.rested_after is not None
    assert report.rested_after <= 5.0


def test_p46_links_are_few_and_lead_everywhere() -> None:
    world = World(plan_of())
    world.run(SECONDS)
    assert rested(world)
    links = sum(len(process.replica.sessions) for process in world.running())
    assert links / len(REGIONS) <= 24
    assert len(REGIONS) > MESH_CLUSTERS


def test_p46_a_cut_of_many_links_is_got_round_and_changes_arrive_once_again() -> None:
    cuts = [
        Step(3.5, "partition", one, other, 2.0, 1) for one in REGIONS[:5] for other in REGIONS[5:30]
    ]
    report = run(replace(plan_of(*cuts, *changes(10, 4.0)), seconds=8.0))
    assert report.found is None
    assert report.copies <= 1.2


def test_tombstones_go_within_a_minute_though_few_are_linked() -> None:
    """While links are still chosen relays change; then all are spoken for, without any change."""
    few = REGIONS[: MESH_CLUSTERS + 4]
    world = World(replace(plan_of(), regions=few))
    for step in (
        Step(2.5, "change", "r1", "cart", 0.0, READY_BIT | 0b11),
        Step(3.5, "change", "r1", "cart", 0.0, READY_BIT | 0b10),
    ):
        world.at(step.at, lambda step=step: perform(world, step))  # type: ignore[misc]
    world.run(3.8)
    own = world.processes["r1"].replica.own
    assert own.elements.tombstone_count == 1
    world.run(60.0)
    assert own.elements.tombstone_count == 0
    assert len(world.processes["r1"].replica.sessions) < len(few) - 5
    told = [p.replica.remotes[own.origin].elements for p in world.running() if p.cluster != "r1"]
    assert [elements.tombstone_count for elements in told] == [0] * (len(few) - 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_fifty_regions_lose_agents_and_disks_and_agree_again(seed: int) -> None:
    steps = [
        Step(3.0, "crash", "r9", "", 1.0, 0),
        Step(3.1, "crash", "r10", "silent", 0.5, 1000),
        Step(3.2, "disk", "r11", "", 0.5, 0),
        *changes(5, 3.3),
    ]
    report = run(replace(plan_of(*steps), seed=seed))
    assert report.found is None
