"""What is written behind the replica, in which order, and what a full disk changes."""

from __future__ import annotations

from crdt import Origin
from replicator.effects import Store
from replicator.errors import JournalError
from replicator.journal_memory import Disk, MemoryJournal
from replicator.recorder import Recorder
from tests.support.clock import FakeClock
from tests.support.puppets import Author, Puppet
from tests.support.replicas import World

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
