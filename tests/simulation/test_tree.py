"""Property 46: every link of the tree that an origin goes along is lost once, under changes.

From whom each agent takes an origin makes a tree.  Of a link that is gone the receivers turn to
others, and back once it is there again; nobody else asks for anything, and no entry is sent to
speak of that its receiver has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from crdt import Origin
from replicator.simulation.dice import names_of
from replicator.simulation.faults import perform
from replicator.simulation.monitor import Monitor
from replicator.simulation.plan import READY_BIT, Plan, Step
from replicator.simulation.process import Process
from replicator.simulation.run import rested
from replicator.simulation.world import World

_WANT = 4
"""Message type."""
Edge = tuple[str, str]


class Asked(Monitor):
    """A monitor that also counts who asks for origins, in each virtual second."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.wants: Counter[tuple[str, int]] = Counter()

    def sends(self, process: Process, number: int, frame: bytes) -> None:
        """As ever, and count."""
        if frame[2] == _WANT:
            self.wants[process.name, int(self.world.now)] += 1
        super().sends(process, number, frame)


class Tree:
    """Agents at rest, then under changes all over."""

    def __init__(self, regions: int, rest: float) -> None:
        self.regions = names_of(regions)
        plan = Plan(seed=1, regions=self.regions, seconds=rest, tick=0.25, delay=0.2)
        self.world = World(plan)
        self.asked = self.world.monitor = Asked(self.world)
        self.world.run(rest)
        assert rested(self.world)
        self.changes = 0
        self._change()

    def _change(self) -> None:
        """Another change now, and ever again, ten a second."""
        number = self.changes = self.changes + 1
        region = self.regions[7 * number % len(self.regions)]
        amount = READY_BIT * (number // len(self.regions) % 2) | 1 + number % 60
        perform(self.world, Step(self.world.now, "change", region, "cart", 0.0, amount))
        self.world.at(0.1, self._change)

    def sources(self) -> Iterator[tuple[str, Origin, str]]:
        """Who takes which origin from whom."""
        for process in self.world.running():
            for origin, remote in process.replica.remotes.items():
                session = process.replica.sessions.get(remote.source or 0)
                assert session is not None
                yield process.cluster, origin, session.cluster

    def along(self, edge: Edge) -> int:
        """How many origins go along a link, either way."""
        return sum({one, other} == {*edge} for one, _, other in self.sources())

    def links_of(self, cluster: str) -> list[Edge]:
        """The links of the tree of a cluster's origin."""
        taken = [(a, b) for a, origin, b in self.sources() if origin.cluster == cluster]
        assert len(taken) == len(self.regions) - 1, "it is a tree"
        return taken

    def spent(self) -> tuple[int, int, int]:
        """Entries that commits brought, entries sent, and requests, so far."""
        world = self.world
        brought = world.entries + sum(process.entries for process in world.running())
        return brought, self.asked.entries_sent, self.asked.wants.total()


def test_p46_in_steady_state_nobody_asks_and_each_change_is_sent_once() -> None:
    tree = Tree(5, 4.0)
    tree.world.run(6.0)
    brought, sent, wants = tree.spent()
    tree.world.run(16.0)
    later = tree.spent()
    assert later[0] - brought >= 4 * 90
    assert later[1] - sent <= 1.02 * (later[0] - brought)
    assert later[2] == wants


@pytest.mark.parametrize(
    ("regions", "rest", "at_once"), [(5, 4.0, 1), pytest.param(50, 6.0, 13, marks=pytest.mark.sim)]
)
def test_p46_each_link_of_a_tree_is_lost_once_and_every_change_is_sent_about_once(
    regions: int, rest: float, at_once: int
) -> None:
    tree = Tree(regions, rest)
    world = tree.world
    world.run(world.now + 0.5)
    edges = tree.links_of("r1")
    most = max(len(process.replica.sessions) for process in world.running())
    (brought, sent, wants), moved = tree.spent(), 0
    for first in range(0, len(edges), at_once):
        for edge in edges[first : first + at_once]:
            moved += tree.along(edge)
            perform(world, Step(world.now, "break", *edge))
        world.run(world.now + 0.8)
    later = tree.spent()
    copies = (later[1] - sent) / (later[0] - brought)
    assert copies <= 1.1
    assert moved >= len(edges)
    assert later[2] - wants <= 4 * moved, "those who lost a source, there and back"
    window = max(0.010, 0.001 * regions)
    assert max(tree.asked.wants.values()) <= 2 * most / window
    world.run(world.now + 1.0)
    assert len({*tree.links_of("r1")}) == regions - 1
