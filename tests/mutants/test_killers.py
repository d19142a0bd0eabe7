"""Tests for rules that no other test would have missed: each kills a mutant of this folder."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from crdt import Base, Head, Origin, OriginSet, Staging, StampClock, Version
from crdt.entries import ADD
from replicator import messages as m
from replicator.codec import encode_head, encode_record
from replicator.effects import Effect, Store
from replicator.errors import JournalError
from replicator.handshake import Self
from replicator.journal import Journal, RemoteCommit
from replicator.journal_memory import MemoryJournal
from replicator.own_origin import OwnOrigin
from replicator.publisher import Publisher
from replicator.recorder import Recorder
from replicator.remote_origin import Outcome, RemoteOrigin
from replicator.replica import Replica
from tests.simulation.test_convergence import Storm
from tests.support.clock import FakeClock
from tests.support.puppets import Author, Puppet
from tests.support.replicas import Sent, World
from tests.support.signers import FakeSigner, FakeVerifier

FJORD, TUNDRA = Origin("fjord"), Origin("tundra")


# ---- what is sent -------------------------------------------------------------------------------


class Watched(list[Sent]):
    """What a world sends, each message checked when it leaves (property 14)."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.chunks = self.adverts = 0

    def append(self, sent: Sent) -> None:
        """Check one message against what its sender holds now."""
        node, message = self.world[sent.sender], sent.message
        if isinstance(message, m.Transfer):
            last = max((entry[1] for entry in message.entries), default=0)
            if message.head is None:
                self.chunks += 1
                assert message.to == last
            else:
                assert last <= message.to == message.head.stamp
        elif isinstance(message, m.Heads):
            for advert in message.adverts:
                self.adverts += 1
                own = node.replica.own.published_head
                held = own.version if own and advert.origin.cluster == sent.sender else None
                assert advert.version <= (held or node.version(advert.origin.cluster))


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_sent_claims_more_than_it_holds_or_its_sender_committed(seed: int) -> None:
    storm = Storm(seed)
    watched = storm.world.sent = Watched(storm.world)
    storm.world.run(20.0)
    assert watched.chunks > 20
    assert watched.adverts > 100


def test_nothing_is_advertised_before_it_is_committed_under_a_slow_transfer() -> None:
    world = World("fjord", "mesa", "tundra", chunk_bytes=150)
    watched = world.sent = Watched(world)
    world["fjord"].publish(*(f"10.20.1.{number}" for number in range(40)))
    world.connect("fjord", "mesa", delay=0.3)
    world.connect("mesa", "tundra", delay=0.001)
    world.run(20.0)
    assert len(world["tundra"].sees("fjord")) == 40
    assert watched.adverts


# ---- C6 -----------------------------------------------------------------------------------------


def _scene() -> tuple[World, Puppet, Puppet, Author]:
    """The node has taken a first state of tundra from the first of two relays."""
    world = World("fjord")
    world["fjord"].publish("10.20.1.4")
    author = Author(world, "tundra")
    author.publish("10.60.1.4", "10.60.1.5")
    puppets = Puppet(world["fjord"], "mesa"), Puppet(world["fjord"], "steppe")
    for puppet in puppets:
        puppet.hello()
    puppets[0].serve(author)
    assert world["fjord"].sees("tundra") == ["10.60.1.4", "10.60.1.5"]
    return world, *puppets, author


@pytest.mark.parametrize("how", ["gone", "refused", "stalled"])
def test_c6_another_source_is_asked_from_the_committed_version(how: str) -> None:
    # The first source has sent a part of what leads to a late head, in which an endpoint is newer
    # than in the head that the second one holds.  Kept, that part would hide the older entry.
    world, first, second, author = _scene()
    base = author.head
    author.publish("10.60.1.4", "10.60.1.5", ready=False)
    middle, held = author.transfer(base.stamp, snapshot=False), author.advert
    author.publish("10.60.1.4", "10.60.1.5")
    late = author.transfer(base.stamp, snapshot=False)
    cut = late.entries[-2][1]
    first.say(replace(late, to=cut, entries=late.entries[:-1], head=None))
    second.say(m.Heads((held,)))
    if how == "gone":
        first.gone()
    elif how == "refused":
        assert late.head is not None
        forged = late.head.signed(b"x" * 32)
        first.say(replace(late, start=cut, entries=(), head=forged))
    else:
        for _ in range(30):
            first.say(m.Beat(1, 0, 0, b""))
            second.say(m.Beat(1, 0, 0, b""))
            world.run(0.1)
    assert m.Want(TUNDRA, base.version) in second.heard()
    second.say(author.record, middle)
    assert world["fjord"].events()[-1:] != ["mismatch"]
    assert world["fjord"].version("tundra") == held.version
    assert world["fjord"].sees("tundra") == ["10.60.1.4!", "10.60.1.5!"]


def test_c6_who_has_an_earlier_state_continues_no_part_of_a_later_one() -> None:
    # The part ends just where the second one's state does, but lacks an entry of that, for which
    # the first one had a newer one.
    world, first, second, author = _scene()
    base = author.head
    author.publish("10.60.1.4", "10.60.1.5", "10.60.1.6", ready=False)
    held, middle = author.advert, author.transfer(base.stamp, snapshot=False)
    author.publish("10.60.1.4", "10.60.1.6", ready=False)
    late = author.transfer(base.stamp, snapshot=False)
    first.say(m.Heads((author.advert,)))
    part = [entry for entry in late.entries if entry[1] <= held.version.stamp]
    assert len(part) < len(middle.entries)
    cut = replace(late, to=held.version.stamp, entries=tuple(part), head=None)
    first.say(cut)
    second.say(m.Heads((held,)))
    first.gone()
    assert second.heard()[-1] == m.Want(TUNDRA, base.version)
    second.say(author.record, middle)
    assert world["fjord"].events()[-1:] != ["mismatch"]
    assert world["fjord"].version("tundra") == held.version


def test_what_was_staged_is_let_go_with_its_source() -> None:
    # Nobody else may be there for days, and a staged transfer may be large.
    world, first, second, author = _scene()
    base = author.head
    second.gone()
    author.publish("10.60.1.6")
    late = author.transfer(base.stamp, snapshot=False)
    first.say(replace(late, to=late.entries[0][1], entries=late.entries[:1], head=None))
    remote = world["fjord"].remote("tundra")
    assert remote.staging is not None
    first.gone()
    left = world["fjord"].remote("tundra")
    assert left.source is None
    assert left.staging is None


def test_a_delta_after_half_a_snapshot_is_not_mixed_with_it() -> None:
    author = Author(World(), "fjord")
    first = author.publish("10.20.1.4", "10.20.1.5")
    remote, verifier = RemoteOrigin(FJORD), FakeVerifier()
    assert remote.take(author.transfer(), verifier, author.record).outcome is Outcome.COMMITTED
    author.publish("10.20.1.4", "10.20.1.6")
    whole, delta = author.transfer(), author.transfer(first.stamp, snapshot=False)
    half = replace(whole, to=whole.entries[0][1], entries=whole.entries[:1], head=None)
    assert remote.take(half, verifier, author.record).outcome is Outcome.STAGED
    taken = remote.take(delta, verifier, author.record)
    assert (taken.outcome, taken.replaced) == (Outcome.COMMITTED, False)
    assert remote.head == author.head


def test_entries_beyond_the_head_wait_for_the_next() -> None:
    elements, seen = OriginSet(), OriginSet()
    elements.advance([(b"a", 1, ADD, b"1")], version=Version(1, 1), floor=0)
    first = head_at(elements)
    elements.advance([(b"b", 2, ADD, b"2")], version=Version(1, 2), floor=0)
    second = head_at(elements)
    staging = Staging(epoch=1, start=0, replaces=True)
    staging.add(0, 1, [(b"a", 1, ADD, b"1")])
    seen.commit(staging, first)
    staging = Staging(epoch=1, start=1, replaces=False)
    staging.add(1, 9, [(b"b", 2, ADD, b"2"), (b"c", 9, ADD, b"9")])
    seen.commit(staging, second)
    assert sorted(seen.entries()) == sorted(elements.entries())


def head_at(elements: OriginSet, epoch: int = 1, base: Base | None = None) -> Head:
    """An unsigned head of the present state."""
    stamp, floor, count = elements.version.stamp, elements.floor, len(elements)
    return Head(FJORD, epoch, base, stamp, floor, count, elements.root(), 0, 0, b"")


def test_from_nothing_only_a_snapshot_leads_anywhere() -> None:
    # Even for an origin that counts its epochs from 0, or claims to continue from nothing.
    nothing, elements = OriginSet(), OriginSet()
    elements.advance([(b"a", 1, ADD, b"1")], version=Version(1, 1), floor=0)
    assert not nothing.can_continue(head_at(elements, epoch=0))
    assert not nothing.can_continue(head_at(elements, base=Base(0, 0, nothing.root())))
    assert not nothing.can_continue(head_at(elements, base=Base(0, 1, b"")))


# ---- clocks and epochs --------------------------------------------------------------------------


def test_no_stamp_of_another_cluster_moves_our_clock() -> None:
    world = World("fjord", "mesa")
    world["mesa"].skew_ns = 3600 * 10**9
    for node in world.nodes.values():
        node.publish()
    world.mesh()
    world["mesa"].publish("10.40.1.4")
    world.run(3.0)
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]
    world["fjord"].publish("10.20.1.4")
    head = world["fjord"].replica.own.head
    assert head is not None
    assert head.stamp <= world["fjord"].wall_ns + 10
    assert head.stamp < world["fjord"].version("mesa").stamp


def test_a_restart_with_the_clock_a_day_back_still_wins() -> None:
    world = World("fjord", "mesa")
    for node in world.nodes.values():
        node.publish()
    world.mesh()
    world["fjord"].publish("10.20.1.4")
    world.run(3.0)
    before = world["mesa"].version("fjord")
    world["fjord"].skew_ns = -24 * 3600 * 10**9
    world.crash("fjord")
    world.connect("fjord", "mesa")
    world["fjord"].publish("10.20.1.5")
    world.run(3.0)
    assert world["mesa"].version("fjord") > before
    assert world["mesa"].version("fjord").epoch == before.epoch
    assert world["mesa"].sees("fjord") == ["10.20.1.5"]


def test_a_head_of_a_former_epoch_of_ours_opens_no_other() -> None:
    # A peer that was long away still shows what we signed before we lost our disk.  It may lie
    # above a head that we have not published yet, never above our epoch.
    world = World("fjord")
    node = world["fjord"]
    old = Author(world, "fjord")
    old.publish("10.20.1.4")
    node.replica.own.open_epoch(6)
    puppet = Puppet(node, "mesa")
    puppet.hello()
    puppet.heard()
    puppet.say(m.Heads((old.advert,)))
    assert not any(isinstance(message, m.Want) for message in puppet.heard())
    assert node.replica.own.epoch == 7


# ---- the journal --------------------------------------------------------------------------------


def _replica() -> Replica:
    own = OwnOrigin(FJORD, FakeSigner("fjord"), epoch=1, clock=StampClock(), elements=OriginSet())
    me = Self("set", "fjord", "instance", "uid", "test")
    return Replica(me, own, FakeVerifier(), [])


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5.0):
        while not condition():  # noqa: ASYNC110 - conditions of any kind
            await asyncio.sleep(0)


async def test_nothing_is_sent_before_the_journal_has_it() -> None:
    replica, journal, clock = _replica(), MemoryJournal(), FakeClock()
    performed: list[Effect] = []
    publisher = Publisher(replica, journal, clock, performed.extend, lambda _: None)
    number, _ = replica.open_session("mesa", dialled=True, now=0.0)
    session = replica.sessions[number]
    session.peer = m.Hello(0, "set", "mesa", "i", "writer", 1, "uid", "test", 1 << 20)
    journal.fail(JournalError("no room", code="journal_full"))
    replica.own.state(None, {b"\x92\x03\xa5fjord": b"\xc0"}, clock.wall_ns())
    task = asyncio.create_task(publisher.publish())
    await _until(lambda: publisher.failing)
    assert replica.own.sealing
    assert replica.own.served() is None
    assert performed == []
    clock.advance(1.0)
    await task
    assert replica.own.served() is not None


async def test_after_a_write_that_failed_an_origin_is_stored_whole() -> None:
    world = World()
    author = Author(world, "fjord")
    remote = RemoteOrigin(FJORD)
    journal = MemoryJournal()
    recorder = Recorder(journal, {FJORD: remote}, FakeClock())

    def taken(chunk: m.Transfer) -> Store:
        found = remote.take(chunk, FakeVerifier(), author.record)
        assert found.outcome is Outcome.COMMITTED
        assert remote.head is not None
        head, record = encode_head(remote.head), encode_record(author.record)
        floor = remote.head.floor
        return Store(FJORD, head, record, found.entries, floor, replace=found.replaced)

    first = author.publish("10.20.1.4", "10.20.1.5")
    journal.fail(JournalError("no room", code="journal_full"))
    recorder.store(taken(author.transfer()))
    assert not await recorder.flush()
    author.publish("10.20.1.4")
    recorder.store(taken(author.transfer(first.stamp, snapshot=False)))
    assert await recorder.flush()
    _, (stored,) = await journal.load()
    again = RemoteOrigin(FJORD)
    head, record = author.head, author.record
    assert again.restore(OriginSet.restored(head.version, head.floor, stored.entries), head, record)


async def test_a_version_and_its_entries_are_one_transaction(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path)
    good = RemoteCommit("mesa", 0, b"head 1", b"record", ((b"e", 1, 0, b"v"),), 0, replace=False)
    bad = RemoteCommit("mesa", 0, b"head 2", b"record", ((b"e", 2, 0, b"w"),), 0, replace=False)
    await journal.persist_remote([good])
    other = sqlite3.connect(tmp_path / "remote.db")
    other.execute(
        "CREATE TRIGGER full BEFORE INSERT ON entries WHEN NEW.stamp = 2"
        " BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )
    other.commit()
    with pytest.raises(JournalError):
        await journal.persist_remote([bad])
    other.execute("DROP TRIGGER full")
    other.commit()
    other.close()
    _, (stored,) = await journal.load()
    assert (stored.head, stored.entries) == (b"head 1", [(b"e", 1, 0, b"v")])
    await journal.close()
