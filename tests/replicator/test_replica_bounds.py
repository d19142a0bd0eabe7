"""How soon replicas converge: properties 18 and 45, in virtual time, to the millisecond.

``DELAY`` is a link's one-way delay, ``WINDOW`` the least time between two heads of one origin.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from clusters.model import ServiceKey
from replicator.session import BEAT_IDLE_SECONDS, SETTLE_SECONDS
from replicator.sources import STALL_SECONDS
from tests.support.replicas import Link, Node, World

DELAY = 0.08
WINDOW = 0.010
TICK = 0.1
"""An agent looks at what is due so often."""
PERIOD = BEAT_IDLE_SECONDS
"""Of anti-entropy: what a peer holds is told with its beat, at least so often."""
BYPASS_SECONDS = SETTLE_SECONDS + TICK + DELAY + STALL_SECONDS + TICK + DELAY
"""Until a source that fell silent is left: another's beat, two beats' wait, and the asking."""
NAMES = ("a", "b", "c", "d", "e", "f", "g")
PAIRS = {
    "line": list(pairwise(NAMES)),
    "star": [("a", name) for name in NAMES[1:]],
    "ring": [*pairwise(NAMES), ("g", "a")],
    "towards the middle": [*pairwise(NAMES[:4]), *pairwise(reversed(NAMES[3:]))],
    "from the middle": [*pairwise(reversed(NAMES[:4])), *pairwise(NAMES[3:])],
}
"""Who dials whom; of the last two shapes no link could be dialled from its other side."""
DIAMETERS = dict.fromkeys(PAIRS, 6) | {"star": 2, "ring": 3}


class Writer:
    """Publishes as an agent does: at once when idle, one head per window under load."""

    def __init__(self, node: Node) -> None:
        self.node, self.busy = node, False

    def say(self, address: str, service: str = "cart") -> None:
        """The cluster changed."""
        self.node.say(address, key=ServiceKey("shop", service))
        if not self.busy:
            self._publish()

    def _publish(self) -> None:
        self.busy = self.node.replica.own.dirty
        if self.busy:
            self.node.publish()
            self.node.world.at(WINDOW, self._publish)


def published(*names: str) -> World:
    """Nodes that have published their first head, with links that hold much."""
    world = World(*names, tick=TICK)
    world.window = 1000
    for node in world.nodes.values():
        node.publish()
    return world


def shaped(shape: str) -> World:
    """Seven nodes at rest."""
    world = published(*NAMES)
    for dialler, listener in PAIRS[shape]:
        world.connect(dialler, listener, DELAY)
    world.run(10.0)
    assert len(world.digests()) == 1
    return world


def busy(world: World, changes: int = 20) -> None:
    """Every node says so many things, several within a window; ends with the last of them."""
    writers = [Writer(node) for node in world.nodes.values()]
    for number in range(changes):
        for at, writer in enumerate(writers):
            writer.say(f"10.20.{at}.{number}", service=f"s{number % 3}")
        world.run(WINDOW / 3)
    for at, writer in enumerate(writers):
        writer.say(f"10.30.{at}.1")


def assert_converged(world: World) -> None:
    """Everybody shows what everybody said last."""
    assert len(world.digests()) == 1
    for at, origin in enumerate(world.nodes):
        for node in world.nodes.values():
            assert node.sees(origin) == [f"10.30.{at}.1"]


@pytest.mark.parametrize("shape", PAIRS)
def test_p18_a_change_takes_a_delay_and_a_window_for_each_hop(shape: str) -> None:
    world = shaped(shape)
    busy(world)
    world.run(DIAMETERS[shape] * (WINDOW + DELAY))
    assert_converged(world)


@pytest.mark.parametrize("shape", PAIRS)
def test_p18_a_cut_in_the_middle_costs_one_period_more_once_it_is_healed(shape: str) -> None:
    world = shaped(shape)
    dialler, listener = PAIRS[shape][2]
    world.cut(dialler, listener)
    busy(world)
    world.run(30.0)
    assert (len(world.digests()) == 1) is (shape == "ring")
    world.connect(dialler, listener, DELAY)
    world.run(DIAMETERS[shape] * (WINDOW + DELAY) + PERIOD)
    assert_converged(world)


@pytest.mark.parametrize("shape", PAIRS)
def test_p18_what_nobody_knew_takes_a_beat_and_a_round_trip_more_for_each_hop(shape: str) -> None:
    world = published(*NAMES)
    busy(world)
    world.run(1.0)
    for dialler, listener in PAIRS[shape]:
        world.connect(dialler, listener, DELAY)
    world.run(DIAMETERS[shape] * (SETTLE_SECONDS + TICK + 3 * DELAY))
    assert_converged(world)


def meshed(delays: list[float]) -> tuple[World, list[Link]]:
    """Five nodes, each linked with each, over links of these delays in turn."""
    world = published(*NAMES[:5])
    links = [
        world.connect(one, other, delays[at % len(delays)])
        for at, (one, other) in enumerate(combinations(NAMES[:5], 2))
    ]
    world.run(10.0)
    return world, links


@pytest.mark.parametrize("jitter", [0.0, 0.03])
def test_p45_without_faults_the_last_write_is_everywhere_after_a_delay_and_two_windows(
    jitter: float,
) -> None:
    delays = [0.005, 0.035, 0.13, 0.08]
    world, _ = meshed(delays)
    world.jitter = jitter
    busy(world)
    world.run(max(delays) + jitter + 2 * WINDOW)
    assert_converged(world)


@pytest.mark.parametrize("blocked", ["a", "b"])
def test_p18_a_link_that_falls_silent_one_way_is_got_round_after_a_beat_and_a_stall(
    blocked: str,
) -> None:
    world, _ = meshed([DELAY])
    (link,) = world.between("a", "b")
    link.towards(blocked).blocked = True
    busy(world)
    world.run(BYPASS_SECONDS + 2 * (WINDOW + DELAY))
    assert_converged(world)


def test_p18_in_a_ring_each_cluster_behind_a_silent_link_waits_as_long() -> None:
    world = shaped("ring")
    (link,) = world.between("a", "b")
    link.towards("b").blocked = True
    busy(world)
    behind = DIAMETERS["ring"]
    world.run(behind * (BYPASS_SECONDS + WINDOW + DELAY) + TICK)
    assert_converged(world)
