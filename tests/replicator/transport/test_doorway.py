"""How many connections and links a listener takes."""

from __future__ import annotations

import pytest

from replicator.transport.base import Refusal
from replicator.transport.doorway import Bounds, Doorway


def told(refusal: Refusal | None) -> tuple[int, str]:
    """Status and code; with a cure and a time in any case."""
    assert refusal is not None
    assert refusal.cure
    assert refusal.retry_after is not None
    assert refusal.retry_after > 0
    return refusal.status, refusal.code


def test_connections_are_bounded_in_all_and_those_that_left_make_room() -> None:
    door = Doorway(Bounds(handshakes=2, handshakes_per_address=2))
    assert door.enter("192.0.2.1")
    assert door.enter("192.0.2.2")
    assert not door.enter("192.0.2.3")
    door.leave("192.0.2.1")
    assert door.enter("192.0.2.3")


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.2"),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::7", "2001:db8:0:2::1"),
        ("fe80::1%eth0", "fe80::2%eth1", "192.0.2.1"),
    ],
)
def test_one_address_cannot_take_the_room_of_all(one: str, same: str, other: str) -> None:
    door = Doorway(Bounds(handshakes=10, handshakes_per_address=1))
    assert door.enter(one)
    assert not door.enter(same)
    assert door.enter(other)
    door.leave(same)
    assert door.enter(one)


def test_one_cluster_has_so_many_links_and_is_told_to_come_back() -> None:
    door = Doorway(Bounds(links_per_peer=2))
    assert door.take("fjord") is None
    assert door.take("fjord") is None
    assert told(door.take("fjord")) == (429, "busy")
    assert door.take("mesa") is None
    door.give_back("fjord")
    assert door.take("fjord") is None


def test_when_full_new_clusters_come_later_and_the_linked_ones_renew() -> None:
    door = Doorway(Bounds(links=2, links_per_peer=3))
    assert door.take("fjord") is None
    assert door.take("mesa") is None
    assert told(door.take("tundra")) == (503, "shedding")
    assert door.take("fjord") is None
    assert door.take("mesa") is None
    assert told(door.take("fjord")) == (503, "shedding")
    for cluster in ("fjord", "fjord", "mesa"):
        door.give_back(cluster)
    assert door.take("tundra") is None
