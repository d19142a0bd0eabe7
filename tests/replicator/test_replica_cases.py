"""Cases from practice, told as schedules."""

from __future__ import annotations

import pytest

from crdt import Origin
from replicator import messages as m
from tests.support.puppets import Author, Puppet
from tests.support.replicas import CART, World, live


def started(*names: str) -> World:
    """Nodes that have published; nobody is linked."""
    world = World(*names)
    for node in world.nodes.values():
        node.publish()
    return world


def test_c40_a_flapping_endpoint_during_a_cut_healed_through_a_third_party() -> None:
    world = started("fjord", "mesa", "tundra")
    fjord, mesa, tundra = world.nodes.values()
    world.mesh()
    fjord.publish("10.20.1.4")
    world.run(5.0)
    assert tundra.sees("fjord") == ["10.20.1.4"]
    world.sent.clear()
    world.cut("tundra")
    fjord.withdraw()
    world.run(2.0)
    fjord.publish("10.20.1.4", ready=False)
    world.run(2.0)
    world.cut("fjord")
    fjord.withdraw()
    # t9: tundra never talks to fjord, and shows what mesa knew.
    world.connect("tundra", "mesa")
    world.run(5.0)
    assert mesa.sees("fjord") == tundra.sees("fjord") == ["10.20.1.4!"]
    # t10: everybody with everybody.
    world.connect("fjord", "mesa")
    world.connect("fjord", "tundra")
    world.run(5.0)
    assert [node.sees("fjord") for node in world.nodes.values()] == [[], [], []]
    assert len(world.digests()) == 1
    assert world.snapshots() == []


def test_c41_a_second_cluster_with_the_same_id_is_refused_and_the_first_keeps_its_own() -> None:
    world = started("mesa")
    mesa = world["mesa"]
    first, second = Puppet(mesa, "fjord"), Puppet(mesa, "fjord")
    mine, theirs = Author(world, "fjord"), Author(world, "fjord")
    mine.publish("10.20.1.4")
    theirs.publish("10.70.1.4")
    first.hello(instance="1", uid="uid-a")
    first.serve(mine)
    second.hello(instance="2", uid="uid-b")
    second.serve(theirs)
    assert [x.code for x in second.heard() if isinstance(x, m.Reject)] == ["cluster_id_conflict"]
    assert mesa.sees("fjord") == ["10.20.1.4"]
    assert mesa.facts == {"uid/fjord": b"uid-a"}
    assert mesa.events() == ["peer_rejected"]
    first.gone()
    second.gone()
    again = Puppet(mesa, "fjord")
    again.hello(instance="3", uid="uid-b")
    assert [x.code for x in again.heard() if isinstance(x, m.Reject)] == ["cluster_id_conflict"]


def test_c51_a_recycled_address_of_another_clusterset_exchanges_no_entry() -> None:
    world = started("fjord")
    fjord = world["fjord"]
    stranger = Puppet(fjord, "mesa", dialled=True)
    stranger.hello(clusterset="staging")
    stranger.say(m.Heads((m.Advert(Origin("mesa"), fjord.replica.own.elements.version, 0, b""),)))
    heard = stranger.heard()
    assert [x.code for x in heard if isinstance(x, m.Reject)] == ["clusterset_mismatch"]
    assert not any(isinstance(x, m.Transfer | m.Heads | m.Record) for x in heard)
    assert fjord.replica.remotes == {}
    assert len(fjord.notices) == 1


@pytest.mark.parametrize("step_hours", [3, -27])
def test_c45_a_step_of_the_wall_clock_suspects_nobody_and_collects_nothing(step_hours: int) -> None:
    world = started("fjord", "mesa")
    fjord, mesa = world.nodes.values()
    fjord.replica.expect_members(["mesa", "tundra"], 0.0)
    world.mesh()
    fjord.publish("10.20.1.4")
    fjord.withdraw()
    world.run(3.0)
    before = fjord.replica.own.elements.version
    for node in (fjord, mesa):
        node.skew_ns += step_hours * 3600 * 10**9
        world.run(30.0)
        assert len(world.links) == 1
        assert fjord.replica.own.elements.tombstone_count == 1
        for one, other in ((fjord, "mesa"), (mesa, "fjord")):
            remote = one.remote(other)
            assert remote.fresh_at is not None
            assert world.now - remote.fresh_at < 2.5
    fjord.publish("10.20.1.5")
    world.run(2.0)
    assert fjord.replica.own.elements.version > before
    assert mesa.sees("fjord") == ["10.20.1.5"]
    assert len(world.digests()) == 1


def test_c57_a_relayed_entry_counts_only_under_its_owners_signed_head() -> None:
    world = started("steppe")
    steppe = world["steppe"]
    relay = Puppet(steppe, "mesa")
    relay.hello()
    fjord = Author(world, "fjord")
    fjord.publish("10.20.1.99")
    relay.serve(fjord)
    assert steppe.sees("fjord") == ["10.20.1.99"]
    # mesa signs a remove of fjord's element with mesa's own key and name.
    mesa = Author(world, "mesa")
    (element, stamp, _) = next(row for row in fjord.own.elements.live() if b"10.20" in row[0])
    mesa.own._pending[element] = (element, stamp + 1, 1, b"\xc0")
    mesa.own._clock.next(stamp + 1)
    mesa.own.seal(mesa.wall_ns)
    before = live(steppe.remote("fjord").elements)
    relay.say(m.Heads((mesa.advert,)), mesa.record, mesa.transfer())
    assert [x.code for x in relay.heard() if isinstance(x, m.Reject)] == ["not_owner"]
    assert live(steppe.remote("fjord").elements) == before
    assert steppe.sees("fjord", CART) == ["10.20.1.99"]
    assert steppe.version("mesa") == (0, 0)
