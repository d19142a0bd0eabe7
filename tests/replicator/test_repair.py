"""What rots is found and mended by the buckets that differ, and by nothing larger."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clusters.model import ServiceKey
from crdt import Origin, OriginSet, Version
from crdt.entries import opened, stored_of
from replicator import messages as m
from replicator.auditor import AUDIT_SECONDS
from replicator.codec import encode
from replicator.outflow import CHUNK_BYTES
from replicator.repairs import PATIENCE_SECONDS, rot_problems
from tests.support.replicas import Sent, World

MESA = Origin("mesa")
MANY = tuple(f"10.{number // 250}.7.{number % 250}" for number in range(1200))
ROUND = 2 * AUDIT_SECONDS + 5
"""In this time fjord has audited itself and mesa, and mended what it found."""
PAY = ServiceKey("shop", "pay")


def pair(*names: str, state: tuple[str, ...] = MANY, chunk_bytes: int = CHUNK_BYTES) -> World:
    """Clusters in full agreement, of which mesa has a large state."""
    world = World("fjord", "mesa", *names, tick=0.25, chunk_bytes=chunk_bytes)
    for node in world.nodes.values():
        node.publish("10.20.1.4")
    world["mesa"].publish(*state)
    world.mesh()
    world.run(3.0)
    assert len(world.digests()) == 1
    world.sent.clear()
    return world


def kinds(world: World, sender: str) -> list[type[m.Message]]:
    """What repair by buckets made a node say."""
    bucketing = (m.GetBuckets, m.Buckets, m.GetBucketEntries, m.BucketEntries)
    found = [x.message for x in world.sent if x.sender == sender]
    return [type(message) for message in found if isinstance(message, bucketing)]


def bytes_of(sent: list[Sent]) -> int:
    return sum(len(x.frame) for x in sent)


def is_sound(world: World, name: str) -> bool:
    """Whether a node holds mesa's state as it was signed, and says so."""
    remote = world[name].remote("mesa")
    elements, own = remote.elements, world["mesa"].replica.own.elements
    return (
        not remote.rotten
        and remote.repair is None
        and not world.rotten
        and dict(elements.held()) == dict(own.held())
        and elements.root() == own.root()
    )


def test_a_flipped_bit_is_found_by_the_audit_and_its_bucket_alone_is_sent() -> None:
    world = pair()
    world.rot("fjord", "mesa")
    assert not is_sound(world, "fjord")
    world.run(ROUND)
    assert is_sound(world, "fjord")
    assert world["fjord"].events() == ["audit_failed", "repair_begun"]
    assert world["fjord"].replica.repairs.begun == 1
    assert kinds(world, "fjord") == [m.GetBuckets, m.GetBucketEntries]
    assert set(kinds(world, "mesa")) == {m.Buckets, m.BucketEntries}
    assert world.snapshots() == []
    assert sum(x.entries for x in world.sent) < len(MANY) / 50
    answers = [x for x in world.sent if isinstance(x.message, m.Buckets | m.BucketEntries)]
    assert bytes_of(answers) < 12_000


def test_what_was_mended_is_stored_whole() -> None:
    world = pair()
    world["fjord"].save()
    element = world.rot("fjord", "mesa")
    stored = world["fjord"].disk.remotes[MESA][1]
    stored[element] = (*stored[element][:3], b"\x90")
    world.run(ROUND)
    world["fjord"].save()
    world.crash("fjord")
    assert is_sound(world, "fjord")


def test_while_something_is_rotten_the_view_stays_and_is_served_to_nobody() -> None:
    world = pair("tundra")
    world.cut("mesa")
    world.cut("tundra")
    world.rot("fjord", "mesa")
    world.run(ROUND)
    remote = world["fjord"].remote("mesa")
    assert remote.rotten
    assert len(world["fjord"].sees("mesa")) == len(MANY)
    assert "10.0.7.0!" in world["fjord"].sees("mesa")
    served = world["fjord"].replica.announcements.serve(MESA)
    assert served is not None
    assert (served.whole, served.nodes) == (False, None)
    world.sent.clear()
    world.crash("tundra", empty=True)
    world.connect("fjord", "tundra")
    world.run(3.0)
    assert world["tundra"].version("mesa") == Version(0, 0)
    assert world.transfers("tundra") != []
    assert all(sent.message.origin != MESA for sent in world.transfers("tundra"))  # type: ignore[union-attr]
    (problem,) = rot_problems(world["fjord"].replica.remotes)
    assert problem["code"] == "state_rotten"
    world.cut("tundra")
    world.sent.clear()
    world.connect("fjord", "mesa")
    world.run(PATIENCE_SECONDS)
    assert is_sound(world, "fjord")
    assert rot_problems(world["fjord"].replica.remotes) == []
    assert world.snapshots() == []


def test_a_relay_that_was_behind_mends_it_once_it_has_caught_up() -> None:
    world = pair("tundra")
    world.cut("tundra")
    world["mesa"].publish(*MANY, "10.9.0.1")
    world.run(1.0)
    world.cut("mesa")
    world.rot("fjord", "mesa")
    world.run(ROUND)
    assert world["fjord"].remote("mesa").rotten
    world.connect("fjord", "tundra")
    world.run(3.0)
    assert world["tundra"].version("mesa") < world["fjord"].version("mesa")
    assert world["fjord"].remote("mesa").rotten, "older buckets and an older snapshot are no help"
    world.connect("tundra", "mesa")
    world.run(2.0)
    # What follows the older snapshot adds up: the digest does not know of the flipped bit.
    world["mesa"].publish(*MANY, "10.9.0.2")
    world.run(3.0)
    assert is_sound(world, "fjord")


def test_a_relay_mends_it_where_the_origin_is_gone() -> None:
    world = pair("tundra")
    world.cut("mesa")
    world.run(1.0)
    world.rot("fjord", "mesa")
    world.run(ROUND)
    assert is_sound(world, "fjord")
    assert kinds(world, "tundra")[:1] == [m.Buckets]
    assert world.snapshots() == []


def test_a_digest_that_rots_is_mended_when_the_next_change_does_not_add_up() -> None:
    world = pair()
    branch = world["fjord"].remote("mesa").elements._digest._root
    assert not isinstance(branch, bytes)
    branch.digests[40] ^= 1
    branch.children[3].digests[0] ^= 1  # type: ignore[union-attr]
    world["fjord"].remote("mesa").elements._digest._known = None
    world["mesa"].publish("10.40.9.9", key=PAY)
    world.run(3.0)
    assert world["fjord"].events() == ["mismatch", "repair_begun", "state_rotten"]
    assert is_sound(world, "fjord")
    assert world["fjord"].sees("mesa", PAY) == ["10.40.9.9"]
    assert world.snapshots() == []


def test_changes_meanwhile_are_in_what_is_committed() -> None:
    """The source goes on while it lends: entries move, go, and their tombstones are collected."""
    world = pair(chunk_bytes=8000)
    for link in world.links:
        link.delay = 0.2
    world.rot("fjord", "mesa")

    def go_on() -> None:
        world["mesa"].publish(f"10.41.1.{round(world.now) % 200}", key=PAY)
        if round(world.now) % 5 == 0:
            world["mesa"].publish(*MANY[: -1 - round(world.now) // 5])
        if going:
            world.at(1.0, go_on)

    going = True
    go_on()
    world.run(ROUND)
    assert "audit_failed" in world["fjord"].events()
    assert not world["fjord"].remote("mesa").rotten
    assert not world.rotten
    going = False
    world.run(5.0)
    assert is_sound(world, "fjord")
    assert world["mesa"].replica.own.elements.floor > 0


def test_a_source_that_knows_of_no_buckets_sends_a_snapshot_that_mends_too() -> None:
    world = pair()
    world["mesa"].buckets = False
    world.crash("mesa")
    world.connect("fjord", "mesa")
    world.run(3.0)
    world.sent.clear()
    world.rot("fjord", "mesa")
    world.run(ROUND)
    assert is_sound(world, "fjord")
    assert kinds(world, "fjord") == []
    assert world.snapshots() != []


def test_where_most_has_rotted_everything_is_sent() -> None:
    world = pair()
    elements = world["fjord"].remote("mesa").elements
    world.rot("fjord", "mesa")
    for element, stamp, op, value in list(elements.entries()):
        rotten = value[:-1] + bytes((value[-1] ^ 1,))
        elements._entries[element] = stored_of(stamp, op, rotten)
    world.run(ROUND)
    assert is_sound(world, "fjord")
    assert world.snapshots() != []


def test_a_source_that_is_lost_in_the_middle_is_replaced_and_asked_anew() -> None:
    world = pair("tundra")
    for link in world.between("fjord", "mesa"):
        link.towards("fjord").blocked = True
    world.rot("fjord", "mesa")
    world.run(ROUND + 30)
    assert is_sound(world, "fjord")
    assert world["fjord"].remote("mesa").source == world["fjord"].session("tundra")


def test_our_own_origin_is_stated_anew_in_a_new_epoch() -> None:
    world = pair()
    own = world["mesa"].replica.own
    element, stamp, value = min(own.elements.live())
    own.elements._entries[element] = stored_of(stamp, 0, value + b"\xc0")
    epoch = own.epoch
    world.run(ROUND)
    assert world["mesa"].events() == ["audit_failed"]
    assert own.epoch == epoch + 1
    assert own.dirty
    world["mesa"].publish()
    world.run(3.0)
    found = own.elements.get(element)
    assert found is not None
    assert found[1] == value
    assert found[0] != stamp
    assert world["fjord"].version("mesa") == own.elements.version
    assert is_sound(world, "fjord")
    world.run(ROUND)
    assert world["mesa"].events() == ["audit_failed"]


def test_sound_states_are_audited_in_turn_and_nothing_comes_of_it() -> None:
    world = pair("tundra", state=MANY[:70])
    world.run(7 * AUDIT_SECONDS)
    for node in world.nodes.values():
        assert node.events() == []
        assert node.replica.repairs.auditor.done >= 6
        assert node.replica.repairs.auditor.failures == 0
    assert not any(kinds(world, name) for name in world.nodes)


@pytest.mark.parametrize("depth", [0, 1])
def test_a_small_state_is_one_bucket_or_a_few(depth: int) -> None:
    world = pair(state=MANY[: 30 if depth == 0 else 500])
    world.rot("fjord", "mesa")
    world.run(ROUND)
    assert is_sound(world, "fjord")
    asked = [x.message for x in world.sent if isinstance(x.message, m.GetBuckets)]
    assert asked == [m.GetBuckets(MESA, depth)]


def test_an_answer_that_comes_when_nothing_was_asked_is_ignored() -> None:
    world = pair()
    head = world["mesa"].replica.own.head
    assert head is not None
    before = world["fjord"].replica.announcements.digest()
    number = world["fjord"].session("mesa")
    own = world["mesa"].replica.own.elements
    for message in (
        m.Buckets(head, 1, own.nodes(1)),
        m.BucketEntries(MESA, 1, 0, 5, (), last=True),
        m.BucketEntries(Origin("other"), 1, 0, 5, (), last=True),
    ):
        world.hand(world["fjord"], number, encode(message))
    assert world["fjord"].events() == []
    assert world["fjord"].replica.announcements.digest() == before
    assert world["fjord"].version("mesa") == head.version > Version(0, 0)


def garbled_name(elements: OriginSet, element: bytes) -> None:
    elements._entries[b"\xc1" + element] = elements._entries.pop(element)


def garbled_value(elements: OriginSet, element: bytes) -> None:
    _, stamp, op, value = opened(element, elements._entries[element])
    elements._entries[element] = stored_of(stamp, op, b"\xc1" + value)


def lost(elements: OriginSet, element: bytes) -> None:
    del elements._entries[element]


@pytest.mark.parametrize("rot", [garbled_name, garbled_value, lost])
def test_what_cannot_even_be_read_is_mended(rot: Callable[[OriginSet, bytes], None]) -> None:
    world = pair(state=MANY[:100])
    element = world.rot("fjord", "mesa")
    rot(world["fjord"].remote("mesa").elements, element)
    world.run(ROUND)
    assert is_sound(world, "fjord")
    assert world["fjord"].sees("mesa") == world["mesa"].sees("mesa")
    assert kinds(world, "fjord") == [m.GetBuckets, m.GetBucketEntries]


def test_an_owner_that_lost_its_disk_learns_its_epoch_from_who_holds_it_rotten() -> None:
    """Found by the simulator: neither could go on, each waiting for a state of the other."""
    world = World("fjord", "mesa", tick=0.25)
    for node in world.nodes.values():
        node.publish("10.20.1.4")
    world["mesa"].replica.own.open_epoch(1)
    world["mesa"].publish("10.20.1.5")
    link = world.connect("fjord", "mesa")
    world.run(3.0)
    assert world["fjord"].version("mesa").epoch == 2
    world.break_(link)
    world.rot("fjord", "mesa")
    world.run(ROUND)
    assert world["fjord"].remote("mesa").rotten
    world.crash("mesa", empty=True)
    world["mesa"].publish("10.20.1.6")
    world.connect("mesa", "fjord")
    world.run(3.0)
    assert world["mesa"].replica.own.dirty
    world["mesa"].publish()
    world.run(3.0)
    assert world["fjord"].version("mesa").epoch == 3
    assert world["fjord"].sees("mesa") == ["10.20.1.6"]
    assert is_sound(world, "fjord")


def test_who_is_sent_a_wrong_delta_serves_on_and_is_not_called_rotten() -> None:
    """What fjord holds is sound: it is what mesa's log left out that does not add up."""
    world = pair(state=MANY[:200])
    own = world["mesa"].replica.own.elements
    world["mesa"].say("10.40.9.9", key=PAY)
    world["mesa"].seal()
    segment = own._log._segments[-1]
    segment.elements = (*segment.elements[:-1], b"")
    world["mesa"].store()
    world["mesa"].send()
    world.run(1.0)
    remote = world["fjord"].remote("mesa")
    assert world["fjord"].events()[:2] == ["mismatch", "repair_begun"]
    assert "state_rotten" not in world["fjord"].events()
    assert not remote.rotten
    assert rot_problems(world["fjord"].replica.remotes) == []
    served = world["fjord"].replica.announcements.serve(MESA)
    assert served is not None
    assert served.whole
    # Asked for its buckets, mesa looks at itself, and states all anew.
    world.run(3.0)
    assert world["mesa"].events() == ["audit_failed"]
    world["mesa"].publish()
    world.run(5.0)
    assert is_sound(world, "fjord")
    assert world["fjord"].sees("mesa", PAY) == ["10.40.9.9"]
