"""Another agent that writes as this cluster, without a lease, does not go unseen."""

from __future__ import annotations

import pytest

from replicator import messages as m
from replicator.rivals import Rivals
from tests.support.puppets import Author, Puppet
from tests.support.replicas import World


def problems(world: World) -> list[str]:
    found = world["fjord"].replica.own.rivals.problems("fjord", world.now)
    return [problem["code"] for problem in found]


def overtake(world: World, puppet: Puppet) -> None:
    """Somebody else's head of the node, an epoch above its own."""
    author = Author(world, "fjord", epoch=world["fjord"].replica.own.epoch + 1)
    author.publish("10.20.1.4")
    head = author.transfer(author.head.stamp, snapshot=False)
    puppet.say(m.Heads((author.advert,)), author.record, head)


def test_who_is_overtaken_again_and_again_says_that_another_agent_writes_as_it() -> None:
    world = World("fjord")
    puppet = Puppet(world["fjord"], "mesa")
    puppet.hello()
    world["fjord"].publish("10.20.1.5")
    for _ in range(2):
        overtake(world, puppet)
        assert problems(world) == [], "a lost disk and a copied one are put right by an epoch"
    overtake(world, puppet)
    assert problems(world) == ["rival_writer"]


@pytest.mark.parametrize(
    ("times", "now", "shown"),
    [
        ((0.0, 1.0, 60.0), 60.0, True),
        ((0.0, 1.0, 60.0), 60.1, False),
        ((0.0, 1.5, 2.0, 61.0), 61.5, True),
        ((0.0, 30.0, 61.0), 61.0, False),
    ],
)
def test_it_is_said_while_three_times_lie_within_a_minute(
    times: tuple[float, ...], now: float, *, shown: bool
) -> None:
    rivals = Rivals()
    for time in times:
        rivals.met(time)
    assert bool(rivals.problems("fjord", now)) is shown
