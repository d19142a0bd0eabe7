"""Property 28: a kill between any two steps of an agent, each of them once.

A first run counts the boundaries that one node passes (storing, sending, taking a frame, carrying
out an effect); then there is one run for each, in which the node dies there, starts again from
its disk and goes on.  What holds after every event is :meth:`World.check`'s and ``only_state``'s.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.replicas import KilledError, Node, World

NAMES = ("fjord", "mesa", "tundra")
PLACES = {
    "before its batch is stored",
    "after its batch is stored",
    "before a commit is stored",
    "after a commit is stored",
    "before an effect",
    "before a frame is sent",
    "after a frame is sent",
    "before a frame is taken",
    "after a frame is taken",
}


class Killer:
    """Counts the boundaries of one node, and kills it at the one of number ``fatal``."""

    def __init__(self, world: World, victim: str, fatal: int | None) -> None:
        self.world, self.victim, self.fatal = world, victim, fatal
        self.passed = 0
        self.places: Counter[str] = Counter()
        world.boundary = self

    def __call__(self, node: Node, place: str) -> None:
        if node.name != self.victim:
            return
        self.passed += 1
        self.places[place] += 1
        if self.passed == self.fatal:
            for other in NAMES:
                if "mesa" in {other, node.name} and other != node.name:
                    self.world.at(0.05, lambda other=other: self.relink(node.name, other))  # type: ignore[misc]
            raise KilledError(node)

    def relink(self, one: str, other: str) -> None:
        """The link is dialled anew."""
        if not self.world.between(one, other):
            self.world.connect(one, other)


def publishing(world: World, node: Node) -> None:
    """Seal, store and send what waits, an instant apart, as long as the life lasts."""
    life = node.lives

    def then(step: str) -> None:
        if node.lives == life and step == "store":
            node.store()
            world.at(0.001, lambda: then("send"))
        elif node.lives == life:
            node.send()

    if node.replica.own.dirty and node.sealed is None:
        node.seal()
        world.at(0.002, lambda: then("store"))
    world.at(0.02, lambda: publishing(world, node))


def saving(world: World, node: Node) -> None:
    """Write one remote commit now and then."""
    world.at(0.15, lambda: saving(world, node))
    node.save(1)


def collect(node: Node) -> None:
    """Drop all tombstones."""
    own = node.replica.own
    if own.head is not None:
        own.move_floor(own.head.stamp, node.wall_ns)


def history(victim: str, fatal: int | None) -> tuple[World, Killer]:
    """Adds, deletes, a floor that moves and others' commits at three nodes in a row."""
    world = World(*NAMES, tick=0.25, chunk_bytes=150)
    fjord, mesa = world["fjord"], world["mesa"]
    for node in world.nodes.values():
        node.publish("10.0.0.9")
    world.connect("fjord", "mesa")
    world.connect("mesa", "tundra")
    world.run(2.0)
    killer = Killer(world, victim, fatal)
    for node in world.nodes.values():
        world.at(0.0, lambda node=node: publishing(world, node))  # type: ignore[misc]
        world.at(0.0, lambda node=node: saving(world, node))  # type: ignore[misc]
    world.at(0.00, lambda: fjord.say("10.0.0.1", "10.0.0.2", "10.0.0.3"))
    world.at(0.05, lambda: mesa.say("10.0.0.7", "10.0.0.8"))
    world.at(0.30, lambda: fjord.say("10.0.0.2", "10.0.0.4"))
    world.at(0.50, lambda: collect(fjord))
    world.at(0.55, lambda: mesa.say("10.0.0.8"))
    world.at(0.70, lambda: fjord.say("10.0.0.2", "10.0.0.5"))
    world.run(2.5)
    passed = killer.passed
    world.run(4.0)
    killer.passed = passed
    return world, killer


def assert_well(world: World) -> None:
    """All show what the clusters say, and nothing that was deleted."""
    assert len(world.digests()) == 1
    for node in world.nodes.values():
        assert node.sees("fjord") == ["10.0.0.2", "10.0.0.5"]
        assert node.sees("mesa") == ["10.0.0.8"]


@pytest.mark.parametrize("victim", ["fjord", "mesa"])
def test_p28_a_kill_at_every_boundary_loses_nothing_and_reuses_no_version(victim: str) -> None:
    world, killer = history(victim, None)
    assert_well(world)
    assert set(killer.places) == PLACES
    assert killer.passed >= 50
    for fatal in range(1, killer.passed + 1):
        world, _ = history(victim, fatal)
        assert world[victim].lives == 2
        assert_well(world)
