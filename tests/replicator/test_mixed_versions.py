"""Agents of different minor versions side by side: rolling upgrade and rollback (property 47).

A newer version is what the protocol lets it be: fields appended to every message, adverts and
values, message types and element kinds that the older one never heard of.
"""

from __future__ import annotations

from typing import cast

import msgpack
import pytest

from crdt import Change, pack
from replicator.codec import MAJOR
from tests.support.replicas import CART, Node, World

_HEADS = 3
_NEWS = bytes([MAJOR]) + cast("bytes", msgpack.packb([77, "of a newer version", [1, [2]]]))
GADGET = pack([99, "fjord", "gadget", 1])
NAMES = ("fjord", "mesa", "tundra")


def newer(frame: bytes) -> list[bytes]:
    """What the next minor version says instead of ``frame``, and a message of its own."""
    fields = msgpack.unpackb(frame[1:])
    if fields[0] == _HEADS:
        fields[1] = [[*advert, *([None] * (len(advert) < 7)), "more"] for advert in fields[1]]
    said = bytes([MAJOR]) + cast("bytes", msgpack.packb([*fields, "more", [1, 2]]))
    return [said, _NEWS]


def upgrade(node: Node, minor: int) -> None:
    """Restart it with another version; an older one says nothing new."""
    node.minor = minor
    node.speak = newer if minor else lambda frame: [frame]
    node.world.crash(node.name)
    for other in NAMES:
        if other != node.name:
            node.world.connect(*sorted((node.name, other)))


def mixed() -> World:
    world = World(*NAMES)
    for node in world.nodes.values():
        node.publish("10.0.0.1")
    world.mesh()
    world.run(3)
    return world


def stamps(node: Node) -> dict[bytes, int]:
    return {entry[0]: entry[1] for entry in node.replica.own.elements.entries()}


def test_p47_a_rolling_upgrade_and_a_rollback_change_no_view_and_stamp_nothing() -> None:
    """World.check holds properties 12, 13 and 22 after every event on the way."""
    world = mixed()
    before = {name: stamps(world[name]) for name in NAMES}
    for minor in (1, 0):
        for name in NAMES:
            upgrade(world[name], minor)
            world.run(5)
            assert len(world.digests()) == 1
            assert {n: stamps(world[n]) for n in NAMES} == before
            assert all(world[n].sees(o) == ["10.0.0.1"] for n in NAMES for o in NAMES)
    heard = [sent for sent in world.sent if type(sent.message).__name__ == "Unknown"]
    assert heard
    assert [e for node in world.nodes.values() for e in node.events() if "reject" in e] == []


def test_p47_what_a_newer_version_appended_to_values_is_kept_after_a_rollback() -> None:
    """Stated again without it, nothing has changed: no stamp, no delta, the same root."""
    world = mixed()
    fjord = world["fjord"]
    upgrade(fjord, 1)
    stated = fjord.projector.elements_of(fjord.services[CART])
    items = {element: msgpack.unpackb(value) for element, value in stated.items()}
    more = {element: pack([*value, "more", 2]) for element, value in items.items()}
    fjord.replica.own.state(CART, more, fjord.wall_ns)
    fjord.publish()
    world.run(3)
    before, head = stamps(fjord), fjord.replica.own.head
    upgrade(fjord, 0)
    world.run(5)
    assert stamps(fjord) == before
    assert not fjord.replica.own.dirty
    assert head is not None
    assert world["mesa"].version("fjord") == head.version
    assert len(world.digests()) == 1
    fjord.publish("10.0.0.1", ready=False)
    world.run(2)
    assert world["tundra"].sees("fjord") == ["10.0.0.1!"], "a real change is one"


def test_p47_kinds_of_a_newer_version_pass_through_older_ones_and_stay_deleted() -> None:
    world = mixed()
    upgrade(world["fjord"], 1)
    world.cut("fjord", "tundra")
    own = world["fjord"].replica.own
    own.state("gadgets", {GADGET: pack([1, "two", {"three": 3}])}, world["fjord"].wall_ns)
    world["fjord"].publish()
    world.run(5)
    assert world["tundra"].remote("fjord").elements.get(GADGET) is not None, "through mesa"
    assert len(world.digests()) == 1
    own.state("gadgets", {}, world["fjord"].wall_ns)
    world["fjord"].publish("10.0.0.2")
    world.run(5)
    gone: list[Change] = [
        change
        for told in world["tundra"].changed
        for change in told.changes
        if change[0] == GADGET and change[2] is None
    ]
    assert len(gone) == 1
    upgrade(world["fjord"], 0)
    world.run(5)
    assert world["tundra"].sees("fjord") == ["10.0.0.2"]
    assert GADGET not in {e for e, _, _ in world["tundra"].remote("fjord").elements.live()}
    assert len(world.digests()) == 1


@pytest.mark.parametrize(("one", "other"), [(0, 2), (3, 1)])
def test_p47_versions_that_are_too_far_apart_say_so_and_replicate_through_one_between(
    one: int, other: int
) -> None:
    world = mixed()
    between = (one + other) // 2
    for name, minor in zip(NAMES, (one, between, other), strict=True):
        upgrade(world[name], minor)
    world.cut("fjord", "tundra")
    world.run(3)
    world.connect("fjord", "tundra")
    world.run(5)
    assert world.between("fjord", "tundra") == []
    notices = [n for name in ("fjord", "tundra") for n in world[name].notices]
    assert "protocol_version" in {n.fields.get("code") for n in notices}
    world["fjord"].publish("10.0.0.3")
    world.run(5)
    assert world["tundra"].sees("fjord") == ["10.0.0.3"]
    assert len(world.digests()) == 1
