"""Property 17: messages lost, repeated and out of order within a link, below whole replicas.

No link of ours does that (TCP keeps order, and loses all or nothing); the core must be safe even
so: :meth:`World.check` looks after every event.  A link on which something was lost may be of no
more use, which its ends cannot know, so in the end all links are made anew and must do.
"""

from __future__ import annotations

import pytest

from replicator import messages as m
from replicator.codec import decode
from tests.support.replicas import Link, Node, World, _End

NAMES = ("fjord", "mesa", "steppe", "tundra")


class Lossy(World):
    """Links that lose, repeat and swap what they carry, but for the first hello."""

    def __init__(self, share: float, seed: int) -> None:
        """Each message is lost, repeated or swapped with probability ``share``, each by itself."""
        self.share = share
        self.lost = self.repeated = self.swapped = 0
        super().__init__(*NAMES, seed=seed, chunk_bytes=150)

    def _post(self, link: Link, end: _End, across: _End, frame: bytes) -> None:
        dice = self.dice
        if isinstance(decode(frame), m.Hello):
            super()._post(link, end, across, frame)
            return
        if dice.random() < self.share:
            self.lost += 1
            return
        super()._post(link, end, across, frame)
        if dice.random() < self.share:
            self.repeated += 1
            super()._post(link, end, across, frame)
        inbox = across.inbox
        if len(inbox) > 1 and dice.random() < self.share:
            other = dice.randrange(len(inbox) - 1)
            if not any(isinstance(decode(inbox[at][1]), m.Hello) for at in (other, -1)):
                self.swapped += 1
                late, early = inbox[-1], inbox[other]
                inbox[-1], inbox[other] = (late[0], early[1]), (early[0], late[1])

    def mend(self) -> None:
        """Nothing is lost any more, and every link is another."""
        self.share = 0.0
        for link in list(self.links):
            self.break_(link)
        self.mesh()


def churn(world: World, node: Node) -> None:
    """Some endpoints come or go."""
    numbers = world.dice.sample(range(1, 9), world.dice.randrange(9))
    node.publish(*(f"10.20.1.{number}" for number in sorted(numbers)))


def commits(world: World) -> int:
    """How often any node took a state of another."""
    return sum(len(node.changed) for node in world.nodes.values())


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_p17_what_links_lose_repeat_and_swap_shows_nothing_wrong_and_all_agree_in_the_end(
    seed: int, share: float
) -> None:
    world = Lossy(0.0, seed)
    world.window = 6
    for node in world.nodes.values():
        node.publish(*(f"10.20.1.{number}" for number in range(1, 9)))
    world.mesh()
    world.run(2.0)
    world.share = share
    before = commits(world)
    for _ in range(40):
        churn(world, world[world.dice.choice(NAMES)])
        world.run(world.dice.uniform(0.0, 0.6))
        for one, other in (("fjord", "mesa"), ("steppe", "tundra")):
            if not world.between(one, other):
                world.connect(one, other)
    assert world.lost > 20
    assert world.repeated > 10
    assert world.swapped > 0
    assert commits(world) >= before + 3, "something came through"
    world.mend()
    world.run(15.0)
    assert len(world.digests()) == 1
    for name in NAMES:
        shown = {tuple(node.sees(name)) for node in world.nodes.values()}
        assert len(shown) == 1
