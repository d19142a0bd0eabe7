"""What is written behind the replica, in which order, and what a full disk changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crdt import Entry, Origin, OriginSet
from replicator.codec import decode_head, encode_head, encode_record
from replicator.effects import Drop, Store
from replicator.errors import JournalError
from replicator.journal import RemoteCommit
from replicator.journal_memory import Disk, MemoryJournal
from replicator.recorder import Recorder
from replicator.remote_origin import Outcome, RemoteOrigin
from tests.support.clock import FakeClock
from tests.support.puppets import Author, Puppet
from tests.support.replicas import World
from tests.support.signers import FakeVerifier

FULL = JournalError("no room", code="journal_full")


async def test_a_dropped_origin_is_not_written_and_may_begin_anew() -> None:
    journal = MemoryJournal(Disk())
    recorder = Recorder(journal, {}, FakeClock())
    mesa, tundra = Origin("mesa"), Origin("tundra")

    def stored(origin: Origin, head: bytes) -> None:
        recorder.store(Store(origin, head, b"record", ((head, 1, 0, b""),), 0, replace=True))

    stored(mesa, b"1")
    stored(tundra, b"1")
    assert await recorder.flush()
    stored(mesa, b"2")
    recorder.drop(mesa)
    assert await recorder.flush()
    assert journal.disk.contents.remotes.keys() == {tundra}
    recorder.drop(tundra)
    stored(tundra, b"3")
    assert await recorder.flush()
    assert journal.disk.contents.remotes[tundra].head == b"3"
    assert journal.disk.contents.remotes[tundra].entries.keys() == {b"3"}


async def test_a_drop_that_was_refused_is_done_later() -> None:
    journal = MemoryJournal(Disk())
    world = World("fjord")
    node, author = world["fjord"], Author(world, "mesa")
    node.publish()
    peer = Puppet(node, "mesa")
    peer.hello()
    author.publish("10.20.1.4")
    peer.serve(author)
    recorder = Recorder(journal, node.replica.remotes, FakeClock())
    (store,) = node.unsaved
    recorder.store(store)
    assert await recorder.flush()
    # A commit is lost to a full disk, the origin dropped meanwhile, and that is refused as well.
    journal.fail(FULL, times=2)
    recorder.store(store)
    assert not await recorder.flush()
    del node.replica.remotes[Origin("mesa")]
    recorder.drop(Origin("mesa"))
    assert not await recorder.flush()
    assert recorder.failing == "no room"
    assert Origin("mesa") in journal.disk.contents.remotes
    assert await recorder.flush()
    assert journal.disk.contents.remotes == {}
    assert recorder.failing is None


async def test_a_torn_origin_that_is_gone_or_begins_anew_is_not_stored() -> None:
    journal = MemoryJournal(Disk())
    world = World("fjord")
    author = Author(world, "mesa")
    author.publish("10.20.1.4")
    remotes = world["fjord"].replica.remotes
    recorder = Recorder(journal, remotes, FakeClock())
    peer = Puppet(world["fjord"], "mesa")
    peer.hello()
    peer.serve(author)
    (store,) = world["fjord"].unsaved
    journal.fail(FULL)
    recorder.store(store)
    assert not await recorder.flush()
    kept = remotes.pop(Origin("mesa"))
    assert await recorder.flush()
    assert journal.disk.contents.remotes == {}
    journal.fail(FULL)
    recorder.store(store)
    assert not await recorder.flush()
    remotes[Origin("mesa")] = kept
    assert await recorder.flush()
    assert journal.disk.contents.remotes.keys() == {Origin("mesa")}


class Watched(MemoryJournal):
    """Notes how many entries each write has, and lets something happen before one."""

    def __init__(self) -> None:
        super().__init__(Disk())
        self.sizes: list[int] = []
        self.before: dict[int, Callable[[], None]] = {}

    def _write(self, entries: Sequence[Entry]) -> None:
        self.sizes.append(len(entries))
        self.before.pop(len(self.sizes), lambda: None)()

    async def draft_remote(self, number: int, entries: Sequence[Entry]) -> None:
        self._write(entries)
        await super().draft_remote(number, entries)

    async def finish_remote(self, number: int, commit: RemoteCommit) -> None:
        self._write(commit.entries)
        await super().finish_remote(number, commit)


class Stored:
    """A large origin as it is kept behind a replica."""

    def __init__(self) -> None:
        self.author = Author(World(), "mesa")
        self.remote = RemoteOrigin(self.author.own.origin)
        self.journal = Watched()
        remotes = {self.remote.origin: self.remote}
        self.recorder = Recorder(self.journal, remotes, FakeClock(), slice_bytes=5000)

    def take(self, *addresses: str, after: int = 0) -> None:
        """Commit these, and have it stored."""
        self.author.publish(*addresses)
        transfer = self.author.transfer(after, snapshot=not after)
        taken = self.remote.take(transfer, FakeVerifier(), self.author.record)
        head = self.remote.head
        assert taken.outcome is Outcome.COMMITTED
        assert head is not None
        packed = encode_head(head), encode_record(self.author.record)
        entries = None if taken.replaced else taken.entries
        self.recorder.keep(Store(head.origin, *packed, entries, head.floor, replace=not after))

    def whole(self) -> bool:
        """Whether what is stored adds up to the head stored with it, and that is the last one."""
        (kept,) = self.journal.disk.contents.remotes.values()
        head = decode_head(kept.head)
        elements = OriginSet.restored(head.version, head.floor, kept.entries.values())
        return (elements.root(), len(elements)) == (self.author.head.root, head.count)


def addresses(count: int) -> list[str]:
    """So many."""
    return [f"10.20.{at >> 8}.{at & 255}" for at in range(count)]


async def test_a_large_origin_is_stored_in_slices() -> None:
    stored = Stored()
    stored.take(*addresses(200))
    assert await stored.recorder.flush()
    assert stored.whole()
    assert sum(stored.journal.sizes) == 201
    assert len(stored.journal.sizes) == 3
    assert max(stored.journal.sizes) < 80


async def test_what_is_committed_while_an_origin_is_stored_in_slices_is_stored_too() -> None:
    for when in (1, 2, 3):
        stored = Stored()
        stored.take(*addresses(200))

        def later(stored: Stored = stored) -> None:
            stored.take(*addresses(190), "10.99.0.1", after=stored.author.head.stamp)

        stored.journal.before[when] = later
        assert await stored.recorder.flush()
        assert not stored.journal.before
        assert await stored.recorder.flush()
        assert stored.whole()


async def test_a_snapshot_or_a_floor_that_comes_between_begins_anew() -> None:
    stored = Stored()
    stored.take(*addresses(200))

    def later() -> None:
        own = stored.author.own
        own.move_floor(own.elements.version.stamp, stored.author.wall_ns)
        stored.take(*addresses(100))

    stored.journal.before[1] = later
    assert await stored.recorder.flush()
    assert stored.whole()
    assert sum(stored.journal.sizes[1:]) == len(stored.remote.elements)


async def test_a_large_origin_that_was_refused_is_stored_later() -> None:
    stored = Stored()
    stored.take(*addresses(200))
    stored.journal.fail(FULL)
    assert not await stored.recorder.flush()
    stored.journal.before[len(stored.journal.sizes) + 3] = lambda: stored.journal.fail(FULL)
    assert not await stored.recorder.flush()
    assert await stored.recorder.flush()
    assert stored.whole()


async def test_an_origin_that_is_dropped_while_it_is_stored_is_not_stored() -> None:
    stored = Stored()
    stored.take(*addresses(200))

    def later() -> None:
        stored.recorder._remotes.clear()
        stored.recorder.keep(Drop(stored.remote.origin))

    stored.journal.before[1] = later
    assert await stored.recorder.flush()
    assert stored.journal.disk.contents.remotes == {}
