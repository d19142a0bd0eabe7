"""Agents of three minor versions side by side, upgraded and rolled back (properties 4 and 47)."""

from __future__ import annotations

from collections import Counter

import pytest

from crdt import Origin
from replicator.handshake import Self
from replicator.kinds import unpack
from replicator.own_origin import OwnOrigin
from replicator.simulation.dice import Shape, make_plan
from replicator.simulation.faults import turn
from replicator.simulation.monitor import Violation
from replicator.simulation.plan import READY_BIT, Plan, Step
from replicator.simulation.run import rested, run
from replicator.simulation.shrink import Cut, command_of, shrunk
from replicator.simulation.versions import UNKNOWN_KIND, Release, me_of
from replicator.simulation.world import World

NAMES = ("r1", "r2", "r3")


def storm(*steps: Step, newer: tuple[str, ...] = (), older: tuple[str, ...] = ()) -> Plan:
    """Three regions that change something every second, and ``steps``."""
    changes = tuple(
        Step(0.5 + second, "change", name, "cart", 0.0, READY_BIT * (second % 3 > 0) | second % 64)
        for second in range(20)
        for name in NAMES
    )
    everything = tuple(sorted((*changes, *steps)))
    return Plan(7, NAMES, 20.0, newer=newer, older=older, steps=everything)


def world_of(**releases: Release) -> World:
    """A world at rest in which each agent is of the release named."""
    newer = tuple(name for name in NAMES if releases.get(name) is Release.NEWER)
    older = tuple(name for name in NAMES if releases.get(name) is Release.OLDER)
    world = World(Plan(1, NAMES, 60.0, newer=newer, older=older))
    for name in NAMES:
        world.sites[name].set("cart", READY_BIT | 0b111)
    world.run(5.0)
    return world


def own(world: World, name: str) -> OwnOrigin:
    return world.processes[name].replica.own


def test_an_older_version_knows_no_packed_transfers_and_each_knows_its_neighbours() -> None:
    selves = [me_of("r1", "r1.1", release) for release in Release]
    assert [me.packed for me in selves] == [False, True, True]
    assert [me.minor - selves[0].minor for me in selves] == [0, 1, 2]
    assert all(isinstance(me, Self) for me in selves)


@pytest.mark.parametrize("release", [Release.OLDER, Release.NEWER])
def test_p47_a_rolling_upgrade_and_a_rollback_hold_every_property(release: Release) -> None:
    there = [Step(2.0 + 2 * n, "version", name, amount=release) for n, name in enumerate(NAMES)]
    back = [Step(10.0 + 2 * n, "version", name, amount=1) for n, name in enumerate(NAMES)]
    report = run(storm(*there, *back))
    assert report.found is None, report.found
    assert report.starts == 9
    assert "peer_rejected" not in report.notices


def test_p47_nothing_is_stamped_when_every_agent_goes_there_and_back() -> None:
    world = world_of()
    before = {name: dict(_stamps(world, name)) for name in NAMES}
    for release in (Release.NEWER, Release.PRESENT, Release.OLDER, Release.PRESENT):
        for name in NAMES:
            turn(world, name, release)
            world.run(world.now + 3.0)
        assert rested(world)
        for name in NAMES:
            now = dict(_stamps(world, name))
            assert {element: now[element] for element in before[name]} == before[name]


def _stamps(world: World, name: str) -> list[tuple[bytes, int]]:
    """Stamps of the endpoints and the export that a region states."""
    live = own(world, name).elements.live()
    return [(element, stamp) for element, stamp, _ in live if unpack(element)[0] in {1, 2}]


def test_p47_what_a_newer_version_says_stays_as_it_was_after_the_rollback() -> None:
    world = world_of(r1=Release.NEWER)
    appended = {element: value for element, _, value in own(world, "r1").elements.live()}
    assert [unpack(value)[-1] for value in appended.values()].count("later") == 4
    assert UNKNOWN_KIND in {unpack(element)[0] for element in appended}
    turn(world, "r1", Release.PRESENT)
    world.run(world.now + 5.0)
    assert rested(world)
    for name in ("r2", "r3"):
        remote = world.processes[name].replica.remotes[Origin("r1")]
        shown = {element: value for element, _, value in remote.elements.live()}
        assert UNKNOWN_KIND not in {unpack(element)[0] for element in shown}
        assert [unpack(value)[-1] for value in shown.values()].count("later") == 4


def test_p47_two_that_are_too_far_apart_replicate_through_one_between() -> None:
    world = world_of(r1=Release.OLDER, r3=Release.NEWER)
    r1 = world.processes["r1"]
    assert not r1.connected("r3")
    assert r1.notices["peer_rejected"] > 0
    world.run(35.0)  # an empty agent waits half a minute for who never answers
    assert rested(world), "by the way of r2"


def test_p47_those_that_are_too_old_are_upgraded_before_all_must_agree() -> None:
    plan = Plan(1, ("r1", "r2"), 3.0, newer=("r1",), older=("r2",))
    report = run(plan)
    assert report.found is None, report.found
    assert report.starts == 3


def test_p47_the_monitor_sees_a_stamp_that_says_nothing_new() -> None:
    world = world_of()
    r1 = world.processes["r1"]
    element, _, value = min(r1.replica.own.elements.live())
    stamp = r1.replica.own._clock.next(r1.wall_ns(world.now))
    r1.replica.own._pending[element] = (element, stamp, 0, value)
    world.settle(r1)
    with pytest.raises(Violation, match="stamped anew") as caught:
        world.run(world.now + 1.0)
    assert caught.value.rule == "47"


def test_a_plan_that_knows_no_older_regions_is_read() -> None:
    plan = Plan(1, NAMES, 2.0, older=("r2",))
    assert plan.without(["r2"]).older == ()


@pytest.mark.parametrize("part", range(2))
def test_versions_that_come_and_go_at_random_hold_every_property(part: int) -> None:
    faults = ("version", "crash", "break", "stop", "disk", "floor", "bulk", "twin")
    shape = Shape(3 + part, 6.0, 40, 0.0, faults if part else (*faults, "forget", "admit"))
    seen = Counter[int]()
    for seed in range(40):
        plan = make_plan(seed, shape)
        report = run(plan)
        if report.found is not None:
            cut, found = shrunk(seed, shape, Cut(), report.found)
            pytest.fail(f"property {found.rule}: {found.detail}\n{command_of(seed, shape, cut)}")
        seen.update(step.amount for step in plan.steps if step.kind == "version")
    assert all(seen[release] > 5 for release in Release)
