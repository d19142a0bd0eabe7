"""Heads that contradict what is held: our own origin ahead of us, and two states at one version."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from crdt import Origin, Version
from replicator import messages as m
from replicator.codec import decode_head
from replicator.conflicts import equivocation_problems
from tests.support.puppets import Author, Puppet
from tests.support.replicas import World

FJORD, TUNDRA = Origin("fjord"), Origin("tundra")


def alone() -> tuple[World, Puppet]:
    """A node with an empty disk, and a peer."""
    world = World("fjord")
    puppet = Puppet(world["fjord"], "mesa")
    puppet.hello()
    puppet.heard()
    return world, puppet


def former(world: World, *, epoch: int = 1) -> Author:
    """The node in its former life."""
    author = Author(world, "fjord", epoch=epoch)
    author.publish("10.20.1.4")
    return author


def head_only(author: Author) -> m.Transfer:
    """What an enquiry is answered with."""
    return author.transfer(author.head.stamp, snapshot=False)


def test_our_own_head_ahead_of_us_opens_a_higher_epoch_once_it_is_proven() -> None:
    world, puppet = alone()
    author = former(world)
    own = world["fjord"].replica.own
    session = world["fjord"].replica.sessions[puppet.number]
    puppet.say(m.Heads((author.advert,)))
    assert puppet.heard() == [m.Want(FJORD, author.head.version)]
    assert (own.epoch, session.answered) == (1, False)
    puppet.say(author.record, head_only(author))
    assert (own.epoch, session.answered) == (2, True)
    assert m.Stop(FJORD) in puppet.heard()
    assert world["fjord"].events() == ["own_origin_ahead"]
    world["fjord"].publish("10.20.1.5")
    assert own.head is not None
    assert own.head.epoch == 2


def test_the_same_head_met_at_several_peers_opens_one_epoch() -> None:
    world, puppet = alone()
    author = former(world)
    other = Puppet(world["fjord"], "tundra")
    other.hello()
    for peer in (puppet, other):
        peer.say(m.Heads((author.advert,)))
    for peer in (puppet, other):
        peer.say(author.record, head_only(author))
    assert world["fjord"].replica.own.epoch == 2
    puppet.say(m.Heads((author.advert,)))
    assert not any(isinstance(x, m.Want) for x in puppet.heard()[1:])


@pytest.mark.parametrize("epoch", [1, 2**62, 2**63 - 1])
def test_a_claim_without_proof_moves_no_epoch(epoch: int) -> None:
    # Believing it would let any peer drive the epoch to its end, after which no head can be sent.
    world, puppet = alone()
    puppet.say(m.Heads((m.Advert(FJORD, Version(epoch, 2**62), 0, b""),)))
    assert world["fjord"].replica.own.epoch == 1
    forged = Author(world, "fjord", epoch=epoch)
    forged.publish("10.66.6.6")
    bad = forged.head.signed(b"x" * 32)
    transfer = m.Transfer(FJORD, epoch, False, bad.stamp, bad.stamp, (), bad)  # noqa: FBT003
    puppet.say(forged.record, transfer)
    assert world["fjord"].replica.own.epoch == 1
    assert world["fjord"].events() == ["head_refused"]
    # The peer has had its say, and nothing waits for it any longer.
    assert world["fjord"].replica.sessions[puppet.number].answered
    assert not world["fjord"].replica.sessions[puppet.number].closing


def test_a_head_of_ours_without_its_record_proves_nothing() -> None:
    world, puppet = alone()
    author = former(world)
    puppet.say(m.Heads((author.advert,)), head_only(author))
    assert world["fjord"].replica.own.epoch == 1
    assert world["fjord"].events() == ["head_refused"]


def test_a_chunk_before_the_head_is_waited_through() -> None:
    world, puppet = alone()
    author = former(world)
    puppet.say(m.Heads((author.advert,)), author.record)
    stamp = author.head.stamp
    chunk = m.Transfer(FJORD, epoch=1, snapshot=True, start=0, to=stamp, entries=(), head=None)
    assert puppet.say(chunk) == []
    puppet.say(head_only(author))
    assert world["fjord"].replica.own.epoch == 2


def test_a_head_from_before_our_epoch_counts_though_we_have_passed_it() -> None:
    world, puppet = alone()
    author = former(world)
    puppet.say(m.Heads((author.advert,)), author.record)
    world.run(1.0)
    world["fjord"].publish("10.20.1.4")
    puppet.say(head_only(author))
    assert world["fjord"].replica.own.epoch == 2
    assert world["fjord"].events() == ["own_origin_ahead"]


def test_heads_that_we_published_ourselves_in_our_epoch_are_nothing() -> None:
    world, puppet = alone()
    heads = []
    for number in range(3):
        world["fjord"].publish(f"10.20.1.{number}")
        heads.append(world["fjord"].replica.own.head)
        world.run(1.0)
    for head in heads:
        assert head is not None
        puppet.heard()
        advert = m.Advert(FJORD, head.version, head.floor, head.root[:8])
        puppet.say(m.Heads((advert,)))
        assert not any(isinstance(message, m.Want) for message in puppet.heard())
    assert world["fjord"].replica.own.epoch == 1
    assert world["fjord"].events() == []


def test_a_peer_that_holds_nothing_of_ours_has_answered_with_its_first_heads() -> None:
    world, puppet = alone()
    session = world["fjord"].replica.sessions[puppet.number]
    assert not session.answered
    puppet.say(m.Heads(()))
    assert session.answered


@pytest.mark.parametrize("which", ["root", "floor"])
def test_another_state_of_our_very_version_opens_a_higher_epoch(which: str) -> None:
    world, puppet = alone()
    node, author = world["fjord"], former(world)
    node.publish("10.20.1.9" if which == "root" else "10.20.1.4")
    own = node.replica.own
    assert own.head is not None
    theirs = author.head
    if which == "floor":
        theirs = author.signed(replace(own.head, floor=own.head.stamp, key_id=author.head.key_id))
    assert theirs.version == own.head.version
    advert = m.Advert(FJORD, theirs.version, theirs.floor, theirs.root[:8])
    puppet.heard()
    puppet.say(m.Heads((advert,)))
    assert puppet.heard() == [m.Want(FJORD, theirs.version)]
    answer = m.Transfer(FJORD, 1, False, theirs.stamp, theirs.stamp, (), theirs)  # noqa: FBT003
    puppet.say(author.record, answer)
    assert own.epoch == 2
    assert node.events() == ["own_origin_ahead"]
    # What is met again before the epoch is in effect opens no other.
    puppet.say(m.Heads((advert,)), answer)
    assert own.epoch == 2


def test_our_own_state_shown_to_us_is_nothing_also_while_the_next_is_sealed() -> None:
    world, puppet = alone()
    node = world["fjord"]
    node.publish("10.20.1.4")
    own = node.replica.own
    assert own.head is not None
    former_head = own.head
    node.say("10.20.1.5")
    sealed = own.seal(node.wall_ns).head
    puppet.heard()
    for head in (former_head, sealed):
        puppet.say(m.Heads((m.Advert(FJORD, head.version, head.floor, head.root[:8]),)))
    assert puppet.heard() == []
    puppet.say(m.Heads((m.Advert(FJORD, former_head.version, 0, b"\xff" * 8),)))
    assert puppet.heard() == [m.Want(FJORD, former_head.version)]
    # The answer turns out to be our own state: nothing to open an epoch for.
    span = (former_head.stamp, former_head.stamp)
    answer = m.Transfer(FJORD, 1, False, *span, (), former_head)  # noqa: FBT003
    assert own.record is not None
    puppet.say(own.record, answer)
    assert own.epoch == 1


# ---- equivocation -------------------------------------------------------------------------------


def forks(world: World) -> list[Author]:
    """An origin twice, with two states signed for one version; the smaller root first."""
    authors = [Author(world, "tundra"), Author(world, "tundra")]
    for author, address in zip(authors, ("10.60.1.4", "10.66.6.6"), strict=True):
        author.publish(address)
    assert authors[0].head.version == authors[1].head.version
    return sorted(authors, key=lambda author: author.head.root)


def two_relays(held: Author, world: World) -> tuple[Puppet, Puppet]:
    """The node holds one state of tundra, from the first of two peers."""
    world["fjord"].publish()
    first, second = (Puppet(world["fjord"], name) for name in ("mesa", "steppe"))
    for puppet in (first, second):
        puppet.hello()
    first.serve(held)
    first.heard()
    second.heard()
    return first, second


def test_a_larger_root_signed_for_the_same_version_wins_with_both_heads_as_evidence() -> None:
    world = World("fjord")
    smaller, larger = forks(world)
    _, second = two_relays(smaller, world)
    second.say(m.Heads((larger.advert,)))
    assert second.heard() == [m.Want(TUNDRA, larger.head.version)]
    second.say(larger.record, head_only(larger))
    (notice,) = world["fjord"].notices
    assert notice.event == "equivocation"
    assert decode_head(bytes.fromhex(str(notice.fields["held"]))) == smaller.head
    assert decode_head(bytes.fromhex(str(notice.fields["met"]))) == larger.head
    assert m.Want(TUNDRA, smaller.head.version, snapshot=True) in second.heard()
    second.say(larger.transfer())
    assert world["fjord"].remote("tundra").head == larger.head
    (problem,) = equivocation_problems(world["fjord"].replica.remotes)
    assert problem["code"] == "equivocation"
    version = larger.head.version
    assert (
        f"tundra signed two states at version {version.epoch}:{version.stamp}"
        in (problem["message"])
    )
    assert decode_head(bytes.fromhex(problem["held"])) == smaller.head
    assert decode_head(bytes.fromhex(problem["met"])) == larger.head
    assert world["fjord"].remote("tundra").equivocations == 1


def test_who_signed_one_state_a_version_is_no_problem() -> None:
    world = World("fjord")
    author, _ = forks(world)
    two_relays(author, world)
    assert equivocation_problems(world["fjord"].replica.remotes) == []


def test_a_smaller_root_is_noted_and_nothing_else() -> None:
    world = World("fjord")
    smaller, larger = forks(world)
    _, second = two_relays(larger, world)
    second.say(m.Heads((smaller.advert,)), smaller.record, head_only(smaller))
    assert world["fjord"].events() == ["equivocation"]
    assert world["fjord"].remote("tundra").head == larger.head
    assert world["fjord"].remote("tundra").source != second.number


def test_a_mark_that_no_signature_stands_behind_moves_nothing() -> None:
    world = World("fjord")
    author, _ = forks(world)
    first, second = two_relays(author, world)
    lie = m.Advert(TUNDRA, author.head.version, 0, b"\xff" * 8)
    second.say(m.Heads((lie,)), author.record, head_only(author))
    assert world["fjord"].events() == []
    assert world["fjord"].remote("tundra").source == first.number
    second.say(m.Heads((lie,)))
    author.publish("10.60.1.9")
    second.say(author.record, head_only(author))
    assert world["fjord"].events() == []
    assert world["fjord"].remote("tundra").source == first.number


def test_the_source_itself_may_show_both_states() -> None:
    world = World("fjord")
    smaller, larger = forks(world)
    first, _ = two_relays(smaller, world)
    first.say(m.Heads((larger.advert,)))
    assert first.heard() == []
    first.say(larger.record, head_only(larger))
    assert first.heard() == [m.Want(TUNDRA, smaller.head.version, snapshot=True)]
    first.say(larger.transfer(), head_only(smaller))
    assert world["fjord"].events() == ["equivocation", "equivocation"]
    assert first.heard() == []
    assert world["fjord"].remote("tundra").head == larger.head


@pytest.mark.parametrize("order", list(permutations([0, 1, 0])))
def test_c38_replicas_that_took_different_states_of_one_version_end_on_the_same(
    order: tuple[int, ...],
) -> None:
    # Case C38 in our terms: one stamp with two payloads, a writer's defect or a forgery.
    world = World("a", "b", "c")
    authors = forks(world)
    for node, which in zip(world.nodes.values(), order, strict=True):
        node.publish()
        puppet = Puppet(node, "tundra")
        puppet.hello()
        puppet.serve(authors[which])
        puppet.gone()
    assert len({node.replica.announcements.digest() for node in world.nodes.values()}) > 1
    world.mesh()
    world.run(10.0)
    assert len(world.digests()) == 1
    for node in world.nodes.values():
        assert node.remote("tundra").head == authors[1].head
    assert any("equivocation" in node.events() for node in world.nodes.values())


def two_floors(world: World) -> tuple[Author, Author]:
    """An origin twice at one version with one root, and two floors; the smaller floor first."""
    authors = Author(world, "tundra"), Author(world, "tundra")
    for author in authors:
        author.publish("10.60.1.4")
    own = authors[1].own
    assert own.head is not None
    own.head = authors[1].signed(replace(own.head, floor=own.head.stamp - 1))
    assert authors[0].head.root == authors[1].head.root
    return authors


def test_one_root_with_two_floors_is_two_states() -> None:
    world = World("fjord")
    smaller, larger = two_floors(world)
    _, second = two_relays(smaller, world)
    second.say(m.Heads((larger.advert,)))
    assert second.heard() == [m.Want(TUNDRA, larger.head.version)]
    second.say(larger.record, head_only(larger))
    assert world["fjord"].events() == ["equivocation"]
    second.say(larger.transfer())
    assert world["fjord"].remote("tundra").head == larger.head
    assert world["fjord"].remote("tundra").elements.floor == larger.head.floor


def test_a_larger_count_that_nothing_adds_up_to_is_never_taken() -> None:
    world = World("fjord")
    author, _ = two_floors(world)
    _, second = two_relays(author, world)
    held = author.head
    bloated = author.signed(replace(held, count=held.count + 1))
    fields = (TUNDRA, held.epoch, False, held.stamp, held.stamp, ())
    second.say(m.Heads((m.Advert(TUNDRA, held.version, held.floor, b"\xff" * 8),)))
    second.say(author.record, m.Transfer(*fields, bloated))
    assert world["fjord"].events() == ["equivocation"]
    entries = tuple(author.own.elements.since(0, 1 << 30).entries)
    second.say(m.Transfer(TUNDRA, held.epoch, True, 0, held.stamp, entries, bloated))  # noqa: FBT003
    assert world["fjord"].events() == ["equivocation", "mismatch"]
    assert world["fjord"].remote("tundra").head == held


@pytest.mark.parametrize("order", list(permutations([0, 1, 0])))
def test_replicas_that_took_two_floors_of_one_root_end_on_the_same(order: tuple[int, ...]) -> None:
    world = World("a", "b", "c")
    authors = two_floors(world)
    for node, which in zip(world.nodes.values(), order, strict=True):
        node.publish()
        puppet = Puppet(node, "tundra")
        puppet.hello()
        puppet.serve(authors[which])
        puppet.gone()
    assert len(world.digests()) > 1
    world.mesh()
    world.run(10.0)
    assert len(world.digests()) == 1
    for node in world.nodes.values():
        assert node.remote("tundra").head == authors[1].head
