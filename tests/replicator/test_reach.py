"""Acknowledgements through relays: the least of all behind one is told on, hop by hop."""

from __future__ import annotations

from itertools import pairwise

import pytest

from crdt import Origin, Version
from replicator import messages as m
from replicator.announcements import reach_of
from replicator.codec import encode
from replicator.collection import Acknowledged, waited_for
from tests.support.puppets import Puppet
from tests.support.replicas import World

FJORD = Origin("fjord")
NAMES = ("fjord", "mesa", "steppe", "tundra")


@pytest.fixture
def line() -> World:
    """Four replicas in a row, all with one endpoint of the first, which expects the others."""
    world = World(*NAMES)
    for name in NAMES:
        world[name].publish()
    world["fjord"].replica.expect_members(NAMES[1:], 0.0)
    for one, other in pairwise(NAMES):
        world.connect(one, other)
    world["fjord"].publish("10.20.1.4")
    world.run(30.0)
    return world


def told_by_mesa(world: World) -> Acknowledged:
    return world["fjord"].replica.acknowledged["mesa"]


def test_tombstones_go_once_all_behind_relays_have_acknowledged_them(line: World) -> None:
    line["fjord"].withdraw()
    line.run(30.0)
    own = line["fjord"].replica.own
    assert (told_by_mesa(line).speaks_for, told_by_mesa(line).version) == (3, own.elements.version)
    assert own.dirty
    line["fjord"].publish()
    assert own.elements.tombstone_count == 0


def test_tombstones_stay_while_one_behind_relays_has_not_acknowledged(line: World) -> None:
    before = line["fjord"].replica.own.elements.version
    (link,) = line.between("steppe", "tundra")
    line.break_(link)
    line["fjord"].withdraw()
    line.run(60.0)
    own = line["fjord"].replica.own
    assert told_by_mesa(line).speaks_for == 2
    assert own.elements.tombstone_count == 1
    assert not own.dirty
    assert before < told_by_mesa(line).version
    line.connect("steppe", "tundra")
    line.run(30.0)
    assert own.dirty


def test_the_least_version_behind_a_relay_is_what_it_tells(line: World) -> None:
    before = line["fjord"].replica.own.elements.version
    (link,) = line.between("steppe", "tundra")
    link.towards("tundra").blocked = True
    line["fjord"].withdraw()
    line.run(5.0)
    assert (told_by_mesa(line).speaks_for, told_by_mesa(line).version) == (3, before)


def test_no_relay_speaks_for_more_clusters_than_it_knows(line: World) -> None:
    mesa, version = line["mesa"], line["fjord"].replica.own.elements.version
    advert = m.Advert(FJORD, version, 0, bytes(8), m.Reach(version, 1 << 40))
    line.hand(mesa, mesa.session("steppe"), encode(m.Heads((advert,))))
    line.run(5.0)
    assert told_by_mesa(line).speaks_for == 3


def test_the_same_news_is_told_once(line: World) -> None:
    line.run(30.0)
    sent = len(line.sent)
    line.run(30.0)
    assert not [one for one in line.sent[sent:] if isinstance(one.message, m.Heads)]


def test_who_told_nothing_has_acknowledged_nothing() -> None:
    advert = m.Advert(FJORD, Version(1, 9), 0, b"")
    assert reach_of(None) == m.Reach(Version(0, 0), 1)
    assert reach_of(advert) == m.Reach(Version(1, 9), 1)


def test_a_relay_vouches_for_nobody_who_told_it_nothing(line: World) -> None:
    """Somebody begins to take the origin through mesa, and has not said how far it is."""
    mesa = line["mesa"]
    stranger = Puppet(mesa, "delta")
    stranger.hello()
    stranger.say(m.Want(FJORD, Version(0, 0)))
    line.run(3.0)
    assert (told_by_mesa(line).speaks_for, told_by_mesa(line).version) == (3, Version(0, 0))


def test_the_linked_are_enough_only_when_they_speak_for_all() -> None:
    members = {
        "mesa": Acknowledged(Version(1, 9), 0.0, 2),
        "tundra": Acknowledged(Version(1, 3), 0),
    }
    assert waited_for(members, {"mesa", "stranger"}, 2) == [members["mesa"]]
    assert waited_for(members, {"mesa", "stranger"}, 3) == [members["mesa"], members["tundra"]]


def test_a_new_source_is_told_at_once_for_whom_it_is(line: World) -> None:
    line.connect("fjord", "steppe")
    line.run(5.0)
    acknowledged = line["fjord"].replica.acknowledged
    assert acknowledged["steppe"].speaks_for == 2
    assert acknowledged["mesa"].speaks_for == 1
