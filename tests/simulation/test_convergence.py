"""Seeded schedules: churn, delays, cuts, crashes and lost disks, checked after every event."""

from __future__ import annotations

from itertools import combinations

import pytest

from clusters.model import ServiceKey
from tests.support.replicas import CART, World

NAMES = ("fjord", "mesa", "steppe", "tundra")
KEYS = [ServiceKey("shop", name) for name in ("cart", "pay", "search")]
ANCHOR = "10.0.0.1"
"""An endpoint that is always there: whoever shows its cluster shows it."""
SECONDS = 30.0


class Storm:
    """Random accidents on a world, until told to stop."""

    def __init__(self, seed: int) -> None:
        self.world = World(*NAMES, seed=seed, tick=0.25, chunk_bytes=200)
        self.dice = self.world.dice
        self.world.jitter = self.dice.choice([0.0, 0.02, 0.3])
        self.calm = False
        self.trace: list[str] = []
        for name, node in self.world.nodes.items():
            node.gated = True
            node.replica.announcements.relaying = False
            node.skew_ns = self.dice.randint(-(10**9), 10**9)
            node.say(ANCHOR)
            self.world.at(self.dice.uniform(0.0, 1.0), lambda name=name: self.churn(name))  # type: ignore[misc]
        self.world.at(0.1, self.weather)

    def churn(self, name: str) -> None:
        """One change of one cluster, and perhaps a batch."""
        node, dice, own = self.world[name], self.dice, self.world[name].replica.own
        if not self.calm:
            key = dice.choice(KEYS)
            some = [f"10.0.1.{dice.randrange(6)}" for _ in range(dice.randrange(4))]
            fixed = [ANCHOR] if key == CART else []
            node.say(*fixed, *sorted({*some}), key=key, ready=dice.random() < 0.8)
            if own.head is not None and dice.random() < 0.2:
                own.move_floor(max(1, own.head.stamp - dice.choice([0, 0, 10**9])), node.wall_ns)
        if node.may_publish and own.dirty and node.sealed is None:
            self.publish(name)
        self.world.at(dice.uniform(0.05, 1.0), lambda: self.churn(name))

    def publish(self, name: str) -> None:
        """Seal, store, send: the process may die between any two."""
        node, dice, life = self.world[name], self.dice, self.world[name].lives

        def next_step(step: str) -> None:
            if node.lives != life:
                return
            if not self.calm and dice.random() < 0.02:
                self.crash(name)
            elif step == "store":
                node.store()
                self.world.at(0.001, lambda: next_step("send"))
            else:
                node.send()

        node.seal()
        self.world.at(dice.uniform(0.001, 0.05), lambda: next_step("store"))

    def crash(self, name: str) -> None:
        """A node dies with some of its remote commits unsaved, or with its whole disk."""
        node, dice = self.world[name], self.dice
        node.save(dice.randrange(len(node.unsaved) + 1))
        lost = dice.random() < 0.25
        self.trace.append(f"{self.world.now:.3f} crash {name} {lost}")
        self.world.crash(name, empty=lost)

    def weather(self) -> None:
        """Disks are written, links come and go."""
        for node in self.world.nodes.values():
            if self.dice.random() < 0.5:
                node.save()
        for one, other in combinations(NAMES, 2):
            if not self.world.between(one, other) and (self.calm or self.dice.random() < 0.3):
                self.connect(one, other)
        if not self.calm:
            self.accident(self.dice.random())
        self.world.at(0.5, self.weather)

    def connect(self, *pair: str) -> None:
        """Either dials; sometimes both do."""
        dice = self.dice
        dialler, listener = dice.sample(pair, 2)
        self.world.connect(dialler, listener, delay=dice.choice([0.001, 0.05, 0.2]))
        if dice.random() < 0.1:
            self.world.connect(listener, dialler)

    def accident(self, roll: float) -> None:
        """A cut, a node cut off, a crash, or a link that only looks alive."""
        world, dice = self.world, self.dice
        if 0.3 <= roll < 0.4:
            world.cut(dice.choice(NAMES))
        elif 0.4 <= roll < 0.45:
            self.crash(dice.choice(NAMES))
        elif roll < 0.3 and world.links:
            world.break_(dice.choice(world.links))
        elif roll < 0.5 and world.links:
            dice.choice(dice.choice(world.links).ends).blocked = True

    def run(self) -> None:
        self.world.run(SECONDS)
        self.calm = True
        self.world.run(60.0)


def check_anchor(storm: Storm) -> None:
    for node in storm.world.nodes.values():
        for change in node.changed:
            touched = [element for element, _, after, _ in change.changes if after is None]
            assert not any(ANCHOR.encode() in element for element in touched)


@pytest.mark.parametrize("seed", range(8))
def test_replicas_agree_after_any_weather(seed: int) -> None:
    storm = Storm(seed)
    storm.run()
    check_anchor(storm)
    world = storm.world
    assert len(world.digests()) == 1
    for name in NAMES:
        for other in NAMES:
            for key in KEYS:
                assert world[name].sees(other, key) == world[other].sees(other, key)


def test_the_same_seed_gives_the_same_history() -> None:
    histories = []
    for _ in range(2):
        storm = Storm(3)
        storm.world.run(10.0)
        histories.append((storm.trace, storm.world.sent, storm.world.digests()))
    assert histories[0] == histories[1]
