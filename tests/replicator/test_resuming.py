"""Transfers whose source is lost and that another peer continues (rules C6, C7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdt import ZERO, Origin, Version
from replicator import messages as m
from tests.support.puppets import Author, Puppet
from tests.support.replicas import World

FJORD, TUNDRA = Origin("fjord"), Origin("tundra")
ADDRESSES = [f"10.20.{number // 250}.{number % 250}" for number in range(400)]
DELAY = 0.05
either = pytest.mark.parametrize("known", [False, True], ids=["snapshot", "delta"])


def interrupted(*, floor: bool = False, known: bool = False) -> World:
    """Mesa and steppe hold all of fjord; tundra has half of a transfer from mesa, which is gone.

    ``floor``: tombstones above what is staged were collected.  ``known``: tundra had a state
    before, so it takes a delta.
    """
    world = World("fjord", "mesa", "steppe", "tundra", chunk_bytes=2000)
    fjord = world["fjord"]
    if known:
        fjord.publish("10.99.0.1")
        world.connect("fjord", "tundra")
        world.run(1.0)
        world.cut("tundra")
    fjord.publish(*ADDRESSES)
    if floor:
        fjord.publish(*ADDRESSES[1:])
        fjord.replica.own.move_floor(fjord.replica.own.elements.version.stamp, fjord.wall_ns)
        fjord.publish()
    world.connect("fjord", "mesa")
    world.connect("fjord", "steppe")
    world.run(3.0)
    world.sent.clear()
    world.connect("mesa", "tundra", delay=DELAY)
    world.connect("steppe", "tundra", delay=3 * DELAY)
    world.run(7.5 * DELAY)
    staging = world["tundra"].remote("fjord").staging
    assert staging is not None
    assert staging.replaces is not known
    assert 100 < len(staging.entries) < 300
    return world


def brought(world: World) -> tuple[int, int]:
    """Bytes and entries of fjord that tundra was sent."""
    sent = [x for x in world.sent if x.receiver == "tundra" and isinstance(x.message, m.Transfer)]
    of_fjord = [x for x in sent if isinstance(x.message, m.Transfer) and x.message.origin == FJORD]
    return sum(len(x.frame) for x in of_fjord), sum(x.entries for x in of_fjord)


def whole(world: World) -> int:
    """How many entries there are to send."""
    return len(world["fjord"].replica.own.elements)


@either
def test_c6_what_was_staged_is_continued_from_another_peer(*, known: bool) -> None:
    world = interrupted(known=known)
    world.cut("mesa", "tundra")
    world.run(20.0)
    assert world["tundra"].version("fjord") == world["fjord"].replica.own.elements.version
    assert len(world["tundra"].sees("fjord")) == len(ADDRESSES)
    size, entries = brought(world)
    assert entries <= 1.15 * whole(world), "but for what was under way"
    undisturbed = interrupted(known=known)
    undisturbed.run(20.0)
    assert size <= 1.25 * brought(undisturbed)[0]
    assert world["tundra"].events() == []


def test_c7_below_the_floor_an_interrupted_snapshot_begins_anew() -> None:
    world = interrupted(floor=True)
    world.cut("mesa", "tundra")
    world.run(20.0)
    assert world["tundra"].version("fjord") == world["fjord"].replica.own.elements.version
    assert len(world["tundra"].sees("fjord")) == len(ADDRESSES) - 1
    assert brought(world)[1] > 1.25 * whole(world)
    assert world["tundra"].events() == []


@either
def test_what_changes_meanwhile_comes_with_the_rest(*, known: bool) -> None:
    world = interrupted(known=known)
    world.cut("mesa", "tundra")
    world["fjord"].publish(*ADDRESSES[3:], "10.99.0.9", ready=False)
    world.run(20.0)
    assert world["tundra"].sees("fjord") == world["mesa"].sees("fjord")
    assert len(world.digests()) == 1
    assert world["tundra"].events() == []


def test_a_part_that_was_made_up_costs_one_transfer_and_shows_nothing() -> None:
    world = World("fjord")
    author = Author(world, "tundra")
    author.publish("10.60.1.4", "10.60.1.5")
    liar, honest = Puppet(world["fjord"], "mesa"), Puppet(world["fjord"], "steppe")
    for puppet in (liar, honest):
        puppet.hello()
        puppet.say(m.Heads((author.advert,)))
    whole = author.transfer()
    (element, stamp, op, value), part = whole.entries[1], whole.entries[:1]
    forged = (element, stamp, op, value[:1] + bytes((value[1] ^ 1,)) + value[2:])
    liar.say(replace(whole, to=stamp, entries=(*part, forged), head=None))
    liar.gone()
    assert m.Want(TUNDRA, Version(1, stamp)) in honest.heard()
    honest.say(author.record, author.transfer(stamp, snapshot=False))
    assert world["fjord"].version("tundra") == ZERO
    assert m.Want(TUNDRA, ZERO, snapshot=True) in honest.heard()
    honest.say(author.record, whole)
    assert world["fjord"].sees("tundra") == ["10.60.1.4", "10.60.1.5"]
