"""How soon simulated agents converge and how often they ask: properties 45 and 46."""

from __future__ import annotations

from statistics import median

import pytest

from replicator.session import BEAT_IDLE_SECONDS
from replicator.simulation.dice import Shape, make_plan
from replicator.simulation.faults import perform
from replicator.simulation.run import rested
from replicator.simulation.world import World

PERIOD = BEAT_IDLE_SECONDS
"""Of anti-entropy: what a peer holds is told with its beat, at least so often."""
NETWORK = ("break", "partition", "oneway", "slow", "dial")


def stormy(seed: int, faults: tuple[str, ...]) -> World:
    """Five agents after twenty seconds of changes and faults, just mended."""
    plan = make_plan(seed, Shape(regions=5, seconds=20.0, steps=40, faults=faults))
    world = World(plan)
    for step in plan.steps:
        world.at(step.at, lambda step=step: perform(world, step))  # type: ignore[misc]
    world.run(plan.seconds)
    world.mend()
    return world


def links_up_at(world: World) -> float:
    """When the last of the present links came up."""
    return max(
        session.opened_at - process.site.base
        for process in world.running()
        for session in process.replica.sessions.values()
    )


def seconds_to_rest(world: World) -> float:
    """Seconds from the heal until all agree: from the mending, or from when all links are up."""
    healed = world.now
    while not rested(world):
        assert world.now < healed + 60.0
        world.run(world.now + 0.05)
    return world.now - max(healed, links_up_at(world))


@pytest.mark.parametrize("seeds", [range(20), range(20, 40), range(60, 70), range(160, 170)])
def test_p45_after_a_heal_all_agree_within_three_periods(seeds: range) -> None:
    taken = [seconds_to_rest(stormy(seed, NETWORK)) for seed in seeds]
    assert max(taken) <= 3 * PERIOD
    assert median(taken) <= PERIOD / 2


def test_p45_so_they_do_after_agents_were_killed() -> None:
    taken = [seconds_to_rest(stormy(seed, (*NETWORK, "crash", "stop"))) for seed in range(250, 270)]
    assert max(taken) <= 3 * PERIOD
