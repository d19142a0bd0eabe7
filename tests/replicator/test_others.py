"""What an agent knows of the others: who may be one, whose things may go, how long silent."""

from __future__ import annotations

from crdt import Origin
from replicator.others import Others
from tests.support.replicas import World

MESA = Origin("mesa")


def restarted() -> tuple[World, Others]:
    """A fjord in its second life, which has stored what mesa stated and is linked with nobody."""
    world = World("fjord", "mesa")
    for node in world.nodes.values():
        node.publish("10.0.0.1")
    world.connect("fjord", "mesa")
    world.run(2.0)
    world["fjord"].save()
    world.crash("fjord")
    world["fjord"].publish("10.0.0.1")
    return world, Others(world["fjord"].replica, ["mesa"], lambda: world.now)


def test_nothing_is_deletable_before_its_cluster_was_heard_in_this_life() -> None:
    world, others = restarted()
    assert world["fjord"].remote("mesa").known
    assert not others.deletable("mesa")
    world.run(3.0)
    assert others.staleness(MESA) == 3.0, "nobody knows for how long; since the start at least"
    world.connect("fjord", "mesa")
    world.run(2.0)
    assert others.deletable("mesa")
    silent = others.staleness(MESA)
    assert silent is not None
    assert silent < 2.0


def test_of_a_cluster_never_heard_of_nothing_is_deletable() -> None:
    _, others = restarted()
    assert not others.deletable("tundra")
    assert others.staleness(Origin("tundra")) is None


def test_whoever_is_named_may_be_a_member_until_the_view_is_current() -> None:
    world = World("fjord", "mesa", "dune")
    world.connect("fjord", "mesa")
    world["mesa"].publish("10.2.0.1")
    world.run(3.0)
    replica = world["fjord"].replica
    others = Others(replica, {"dune"}, lambda: world.now)

    assert replica.announcements.relaying
    assert others.member("mesa"), "heard"
    assert others.member("dune"), "configured, never heard"
    assert not others.member("moon")
    assert not others.deletable("dune")

    replica.announcements.relaying = False
    assert others.member("moon")
    assert not others.deletable("mesa")
