"""An epoch's number used twice: lease, disk and peers were all out of reach at once (rule C10).

Whoever begins with nothing begins in a low epoch.  A former writer may have had the same, or have
it still.
"""

from __future__ import annotations

from tests.replicator.test_siblings import FJORD, dead, pair
from tests.support.replicas import Node, World


def begun_anew(*, former_lives: bool) -> World:
    """``fjord/1`` led in 2; the lease and the disk of ``fjord/2`` are lost, which leads in 2 now.

    The former writer, if it lives, believes in its lease for ten seconds more and is linked with
    mesa.  Tundra and the new writer have met nobody yet.
    """
    world = pair("mesa", "tundra")
    former = world["fjord/1"]
    former.publish("10.1.0.1", "10.1.0.2", "10.1.0.3")
    world.run(1.0)
    world.cut("fjord/2")
    world.cut("tundra")
    if not former_lives:
        dead(world, "fjord/1")
    former.replica.own.leads_until = world.now + 10.0
    world.crash("fjord/2", empty=True)
    writer = world["fjord/2"]
    writer.services = dict(former.services)
    writer.say("10.1.0.3", "10.1.0.4")
    writer.lead(1, seconds=99.0)
    writer.publish("10.1.0.4", "10.1.0.5")
    world.run(0.5)
    assert writer.replica.own.epoch == world["mesa"].version("fjord").epoch == 2
    assert writer.replica.own.elements.version > world["mesa"].version("fjord")
    return world


def lead_as_claimed(writer: Node) -> None:
    """The lease is its own: it was taken anew, above what it asked for."""
    writer.lead(max(writer.claims) + 1, seconds=99.0)


def test_c10_a_head_of_its_epoch_from_before_that_began_makes_a_writer_open_a_higher_one() -> None:
    world = begun_anew(former_lives=False)
    writer = world["fjord/2"]
    world.connect("mesa", "fjord/2")
    world.run(1.0)
    assert writer.claims[-1] == 2
    assert writer.events().count("second_writer") == 1
    lead_as_claimed(writer)
    assert writer.replica.own.epoch == 3
    world.connect("tundra", "mesa")
    world.run(3.0)
    for name in ("mesa", "tundra"):
        assert world[name].sees("fjord") == ["10.1.0.4", "10.1.0.5"]
        assert world[name].version("fjord").epoch == 3
    assert "mismatch" not in world["tundra"].events(), "it was led there by a snapshot"
    assert writer.claims[-1] == 2


def test_c10_a_former_writer_under_the_same_number_that_lives_on_is_refused() -> None:
    world = begun_anew(former_lives=True)
    world.connect("mesa", "fjord/2")
    world.run(1.0)
    lead_as_claimed(world["fjord/2"])
    world.run(1.0)
    world["fjord/1"].publish("10.6.6.6")
    world.run(2.0)
    assert world["mesa"].sees("fjord") == ["10.1.0.4", "10.1.0.5"]
    told = [change for change in world["mesa"].changed if change.origin == FJORD]
    elements = {element for change in told for element, *_ in change.changes}
    assert any(b"10.1.0.5" in element for element in elements)
    assert not any(b"10.6.6.6" in element for element in elements)


def test_c10_without_a_lease_a_reused_number_is_passed_over_too() -> None:
    world = World("fjord", "mesa", "tundra")
    world["fjord"].publish("10.20.1.4", "10.20.1.5")
    world.mesh()
    world.run(1.0)
    world.cut("fjord")
    world.cut("tundra")
    world["fjord"].services.clear()
    world.crash("fjord", empty=True)
    world["fjord"].publish("10.20.1.6")
    world.run(1.0)
    assert world["fjord"].replica.own.epoch == world["mesa"].version("fjord").epoch == 1
    world.connect("mesa", "fjord")
    world.run(1.0)
    assert world["fjord"].events() == ["own_origin_ahead"]
    world["fjord"].publish()
    world.connect("tundra", "mesa")
    world.run(3.0)
    assert "mismatch" not in world["tundra"].events()
    for name in ("mesa", "tundra"):
        assert world[name].sees("fjord") == ["10.20.1.6"]
        assert world[name].version("fjord").epoch == 2
    assert len(world.digests()) == 1


def test_a_state_of_the_former_writer_that_all_of_it_superseded_is_just_continued() -> None:
    """Then the delta adds up, and may be committed before the former head was shown."""
    world = World("fjord", "mesa")
    world["fjord"].publish("10.20.1.4")
    world.mesh()
    world.run(1.0)
    world.cut("fjord")
    world.crash("fjord", empty=True)
    world["fjord"].publish("10.20.1.5")
    world.mesh()
    world.run(1.0)
    if world["fjord"].replica.own.dirty:
        world["fjord"].publish()
        world.run(1.0)
    assert world["mesa"].events() == []
    assert world["mesa"].sees("fjord") == ["10.20.1.5"]
    assert world["mesa"].version("fjord") == world["fjord"].replica.own.elements.version
