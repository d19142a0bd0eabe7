"""Links that are renewed: nothing waits, nothing is lost, nothing starts over."""

from __future__ import annotations

import pytest

from replicator.effects import Close
from replicator.errors import ProtocolError
from replicator.session import LINK_SECONDS
from replicator.sources import STALL_SECONDS
from tests.support.replicas import Link, World

DELAY, SLOW = 0.02, 0.1


def linked(*names: str, chunk_bytes: int = 1 << 20) -> World:
    """Nodes that are linked each with each and know each other."""
    world = World(*names, chunk_bytes=chunk_bytes)
    for node in world.nodes.values():
        node.publish("10.0.0.1")
    return world


def opened(world: World, dialler: str, listener: str, delay: float = DELAY) -> Link:
    return world.connect(dialler, listener, delay)


def bootstrapping() -> tuple[World, Link]:
    """A mesa that has half of fjord's first snapshot, over a slow link."""
    world = linked("fjord", "mesa", chunk_bytes=2000)
    world["fjord"].publish(*(f"10.2.{n // 250}.{n % 250}" for n in range(1000)))
    link = opened(world, "fjord", "mesa", SLOW)
    world.run(1)
    assert world["mesa"].remote("fjord").staging is not None
    return world, link


def source_of(world: World, name: str, origin: str) -> int | None:
    return world[name].remote(origin).source


@pytest.mark.parametrize("dialler", ["fjord", "mesa"])
@pytest.mark.parametrize("offset", [0.0, 0.007, 0.013, 0.021, 0.028, 0.036, 0.043])
def test_changes_go_on_while_a_link_is_renewed(dialler: str, offset: float) -> None:
    """None comes later than without a renewal, none over a relay, and the new link is up first."""
    world = linked("fjord", "mesa", "tundra")
    listener = "mesa" if dialler == "fjord" else "fjord"
    first = opened(world, dialler, listener)
    opened(world, "fjord", "tundra")
    opened(world, "mesa", "tundra")
    world.run(5)
    for node in world.nodes.values():
        node.changed.clear()
    world.sent.clear()
    for step in range(30):
        for name in ("fjord", "mesa"):
            address = f"10.1.0.{step + 1}"
            world.at(0.05 * step, lambda name=name, at=address: world[name].publish(at))  # type: ignore[misc]
    world.run(0.4 + offset)
    second = opened(world, dialler, listener)
    while first in world.links:
        world.run(0.01)
        assert all(
            any(s.cluster == other and s.peer for s in world[name].replica.sessions.values())
            for name, other in (("fjord", "mesa"), ("mesa", "fjord"))
        )
    assert second.alive
    world.run(2)
    assert world.between("fjord", "mesa") == [second]
    for name, other in (("fjord", "mesa"), ("mesa", "fjord")):
        node = world[name]
        assert node.sees(other) == ["10.1.0.30"]
        told = [c.seconds for c in node.changed if c.origin.cluster == other]
        assert len(told) == 30
        assert max(seconds for seconds in told if seconds is not None) <= 2 * DELAY, (
            "a beat before it, no more"
        )
        assert source_of(world, name, other) == second.towards(name).number
        relayed = [sent for sent in world.transfers(name) if sent.sender == "tundra"]
        assert relayed == []
    assert world.snapshots() == []
    assert len(world.digests()) == 1
    notices = [notice.event for node in world.nodes.values() for notice in node.notices]
    assert "source_stalled" not in notices


def test_a_transfer_that_is_under_way_ends_on_the_link_it_began_on() -> None:
    world, first = bootstrapping()
    second = opened(world, "fjord", "mesa", SLOW)
    world.run(0.5)
    assert source_of(world, "mesa", "fjord") == first.towards("mesa").number
    world.run(20)
    assert len(world["mesa"].sees("fjord")) == 1000
    assert world.between("fjord", "mesa") == [second]
    assert source_of(world, "mesa", "fjord") == second.towards("mesa").number
    begun = [sent for sent in world.snapshots() if sent.message.start == 0]  # type: ignore[union-attr]
    assert [sent.receiver for sent in begun].count("mesa") == 1


def test_a_transfer_on_a_link_that_died_unseen_is_not_waited_for() -> None:
    world, first = bootstrapping()
    first.towards("mesa").blocked = True
    opened(world, "fjord", "mesa", SLOW)
    world.run(1.5)
    assert source_of(world, "mesa", "fjord") == first.towards("mesa").number
    world.run(12)
    assert len(world["mesa"].sees("fjord")) == 1000
    assert first not in world.links, "silent for ten seconds"


def test_a_transfer_that_stalls_on_the_former_link_moves_over_after_two_seconds() -> None:
    world, first = bootstrapping()
    second = opened(world, "fjord", "mesa", SLOW)
    world.run(0.5)
    first.towards("mesa").blocked = True
    world.run(STALL_SECONDS + 0.2)
    assert source_of(world, "mesa", "fjord") == second.towards("mesa").number


def test_if_the_newer_link_is_lost_first_the_former_goes_on() -> None:
    world, first = bootstrapping()
    second = opened(world, "fjord", "mesa", SLOW)
    world.run(0.5)
    assert world["mesa"].replica.sessions[first.towards("mesa").number].successor is not None
    world.break_(second)
    world.run(20)
    assert len(world["mesa"].sees("fjord")) == 1000
    assert world.between("fjord", "mesa") == [first]
    world["fjord"].publish("10.3.0.1")
    world.run(20)
    assert world["mesa"].sees("fjord") == ["10.3.0.1"]


def test_the_former_link_is_lost_before_the_newer_has_told_anything() -> None:
    world = linked("fjord", "mesa")
    first = opened(world, "fjord", "mesa")
    world.run(2)
    second = opened(world, "fjord", "mesa")
    world.run(DELAY + 0.01)
    assert world["mesa"].replica.sessions[second.towards("mesa").number].former is not None
    world.break_(first)
    world["fjord"].publish("10.3.0.1")
    world.run(1)
    assert world["mesa"].sees("fjord") == ["10.3.0.1"]


def test_of_many_links_dialled_by_one_side_two_are_kept_at_most() -> None:
    world = linked("fjord", "mesa")
    links = [opened(world, "fjord", "mesa") for _ in range(5)]
    world.run(DELAY + 0.01)
    mesa = world["mesa"].replica
    assert sum(session.peer is not None for session in mesa.sessions.values()) == 2
    world.run(3)
    assert world.between("fjord", "mesa") == links[-1:]
    assert world["mesa"].sees("fjord") == ["10.0.0.1"]


@pytest.mark.parametrize("dialler", ["fjord", "mesa"])
def test_a_renewal_is_no_pair_of_links_dialled_from_both_sides(dialler: str) -> None:
    """The one of the smaller cluster stays, and a renewed one of the larger stays as well."""
    world = linked("fjord", "mesa")
    listener = {"fjord": "mesa", "mesa": "fjord"}[dialler]
    opened(world, dialler, listener)
    world.run(2)
    renewed = opened(world, dialler, listener)
    across = opened(world, listener, dialler)
    world.run(3)
    stays = renewed if dialler == "fjord" else across
    assert world.between("fjord", "mesa") == [stays]
    world["fjord"].publish("10.3.0.1")
    world.run(1)
    assert world["mesa"].sees("fjord") == ["10.3.0.1"]


def test_no_link_lives_longer_than_an_hour() -> None:
    world = linked("fjord", "mesa")
    link = opened(world, "fjord", "mesa")
    world.run(2)
    mesa = world["mesa"].replica
    number = link.towards("mesa").number
    session = mesa.sessions[number]
    assert session.overdue(session.heard_at) is None
    session.heard_at = session.opened_at + LINK_SECONDS
    effects = mesa.tick(session.heard_at, world["mesa"].wall_ns)
    assert Close(number, 1000, "too old") in effects


def test_a_renewal_of_the_writers_link_does_not_free_the_lease() -> None:
    world = World("fjord/1", "fjord/2")
    world["fjord/1"].services.clear()
    world["fjord/1"].lead(1, 1000.0)
    world["fjord/1"].publish("10.0.0.1")
    world.connect("fjord/1", "fjord/2", DELAY)
    world.run(2)
    standby = world["fjord/2"]
    standby.claims.clear()
    world.connect("fjord/1", "fjord/2", DELAY)
    world.run(2)
    assert len(world.links) == 1
    assert standby.claims == []
    world.cut("fjord/1")
    assert standby.claims == [0]


def test_a_former_link_that_outlives_the_newer_still_tells_of_its_end() -> None:
    world = World("fjord/1", "fjord/2")
    world["fjord/1"].services.clear()
    world["fjord/1"].lead(1, 1000.0)
    world["fjord/1"].publish("10.0.0.1")
    first = world.connect("fjord/1", "fjord/2", DELAY)
    world.run(2)
    standby = world["fjord/2"]
    session = standby.replica.sessions[first.towards("fjord/2").number]
    second = world.connect("fjord/1", "fjord/2", DELAY)
    while session.successor is None:
        world.run(0.001)
    world.break_(second)
    world.run(2)
    assert world.links == [first]
    standby.claims.clear()
    world.cut("fjord/1")
    assert standby.claims == [0]


def test_a_rejected_link_hears_no_second_reason() -> None:
    world = linked("fjord", "mesa")
    link = opened(world, "fjord", "mesa")
    world.run(1)
    mesa, number = world["mesa"], link.towards("mesa").number
    error = ProtocolError("over", code="certificate_expired")
    effects = mesa.replica.reject(number, error, world.now)
    assert Close(number, 1008, "certificate_expired") in effects
    assert mesa.replica.sessions[number].rejected
    assert mesa.replica.reject(number, ProtocolError("again", code="x"), world.now) == []
    mesa.perform(effects)
    world.run(1)
    notices = [n for n in world["fjord"].notices if n.event == "rejected_by_peer"]
    assert [n.fields["code"] for n in notices] == ["certificate_expired"]
