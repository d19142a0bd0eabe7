"""One remote origin: staging, committing, refusing; every view is its owner's at some head."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdt import Base, Change, Entry, Head, OriginSet, Version, pack
from replicator import messages as m
from replicator.errors import ProtocolError
from replicator.remote_origin import SLICE, Outcome, RemoteOrigin, Taken
from replicator.repair import STAGED_BYTES_LIMIT
from tests.support.puppets import Author
from tests.support.replicas import CART, World, live
from tests.support.signers import FakeVerifier


class Pair:
    """An origin and what a replica knows of it."""

    def __init__(self) -> None:
        self.author = Author(World(), "fjord")
        self.remote = RemoteOrigin(self.author.own.origin)
        self.verifier = FakeVerifier()

    def take(self, chunk: m.Transfer, record: m.Record | None = None) -> Taken:
        """Take a chunk with the record that came before it."""
        return self.remote.take(chunk, self.verifier, record or self.author.record)

    def committed(self) -> Taken:
        """Take everything there is."""
        taken = self.take(self.author.transfer())
        assert taken.outcome is Outcome.COMMITTED
        return taken

    def same(self) -> bool:
        """Whether the view is the owner's present state."""
        return (self.remote.head, live(self.remote.elements)) == (
            self.author.head,
            live(self.author.own.elements),
        )


def pieces(chunk: m.Transfer, size: int = 1) -> list[m.Transfer]:
    """The same transfer in chunks of ``size`` entries."""
    cuts = range(0, len(chunk.entries), size)
    start, found = chunk.start, []
    for at in cuts:
        some = chunk.entries[at : at + size]
        last = at + size >= len(chunk.entries)
        to = chunk.to if last else some[-1][1]
        head = chunk.head if last else None
        found.append(replace(chunk, start=start, to=to, entries=some, head=head))
        start = to
    return found


def test_a_snapshot_is_committed_with_its_head() -> None:
    pair = Pair()
    assert not pair.remote.known
    pair.author.publish("10.20.1.4", "10.20.1.5")
    taken = pair.committed()
    assert taken.replaced
    assert pair.remote.known
    assert pair.same()
    assert sorted(taken.entries) == sorted(pair.author.own.elements.entries())
    assert taken.services == {CART}
    assert [row.address for _, row in pair.remote.index.visible(CART)] == [
        "10.20.1.4",
        "10.20.1.5",
    ]
    assert pair.remote.record == pair.author.record


def test_a_delta_is_committed_and_tells_the_journal_what_it_put() -> None:
    pair = Pair()
    first = pair.author.publish("10.20.1.4", "10.20.1.5")
    pair.committed()
    pair.author.publish("10.20.1.4", ready=False)
    chunk = pair.author.transfer(first.stamp, snapshot=False)
    taken = pair.take(chunk)
    assert (taken.outcome, taken.replaced) == (Outcome.COMMITTED, False)
    assert sorted(taken.entries) == sorted(chunk.entries)
    assert [type(change) for change in taken.changes] == [Change, Change]
    assert pair.same()


def test_nothing_is_visible_before_the_head_is_there() -> None:
    pair = Pair()
    pair.author.publish("10.20.1.4", "10.20.1.5", "10.20.1.6")
    parts = pieces(pair.author.transfer())
    assert len(parts) == 4
    for part in parts[:-1]:
        assert pair.take(part) == Taken(Outcome.STAGED)
        assert not pair.remote.known
    assert pair.take(parts[-1]).outcome is Outcome.COMMITTED
    assert pair.same()


@settings(max_examples=60)
@given(st.data())
def test_any_order_repetition_and_loss_of_chunks_commits_the_state_or_nothing(
    data: st.DataObject,
) -> None:
    pair = Pair()
    first = pair.author.publish(*(f"10.20.1.{n}" for n in range(4)))
    if data.draw(st.booleans()):
        pair.committed()
    before = live(pair.remote.elements)
    pair.author.publish(*(f"10.20.1.{n}" for n in range(2, 8)), ready=False)
    delta = pair.author.transfer(first.stamp, snapshot=False)
    parts = pieces(pair.author.transfer(), 2) + pieces(delta, 2)
    for part in data.draw(st.lists(st.sampled_from(parts), max_size=20)):
        pair.take(part)
        assert live(pair.remote.elements) in (before, live(pair.author.own.elements))
        assert pair.same() == (pair.remote.version == pair.author.head.version)


def many(count: int) -> list[str]:
    """So many addresses."""
    return [f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}" for at in range(count)]


def test_a_large_snapshot_is_seen_at_once_and_told_in_slices() -> None:
    pair, count = Pair(), 2 * SLICE + 100
    pair.author.publish(*many(count))
    for part in pieces(pair.author.transfer(), 500):
        taken = pair.take(part)
    assert taken.outcome is Outcome.COMMITTED
    assert pair.same()
    assert len(pair.remote.index.visible(CART)) == count
    assert (taken.entries, taken.replaced, taken.services) == (None, True, {CART})
    told = [taken.changes]
    while pair.remote.untold:
        told.append(pair.remote.tell())
    assert [len(some) for some in told] == [SLICE, SLICE, 101]
    assert {c.element: c.after for some in told for c in some} == live(pair.remote.elements)
    assert pair.remote.tell() == []


def test_a_large_snapshot_after_another_tells_what_went_and_only_what_changed() -> None:
    pair = Pair()
    pair.author.publish(*many(SLICE + 300))
    pair.committed()
    while pair.remote.untold:
        pair.remote.tell()
    pair.author.publish(*many(SLICE), "10.99.0.1")
    taken = pair.committed()
    told = [*taken.changes]
    while pair.remote.untold:
        told += pair.remote.tell()
    assert sum(change.before is None for change in told) == 1
    assert sum(change.after is None for change in told) == 300
    assert len(told) == 301
    assert len(pair.remote.index.visible(CART)) == SLICE + 1


def test_a_delta_of_several_chunks_tells_the_journal_all_it_put() -> None:
    pair = Pair()
    first = pair.author.publish("10.20.1.4", "10.20.1.5")
    pair.committed()
    pair.author.publish("10.20.1.5", "10.20.1.6", ready=False)
    chunk = pair.author.transfer(first.stamp, snapshot=False)
    for part in pieces(chunk):
        taken = pair.take(part)
    assert (taken.outcome, taken.replaced, taken.services) == (Outcome.COMMITTED, False, {CART})
    assert taken.entries == chunk.entries
    assert [row.address for _, row in pair.remote.index.visible(CART)] == ["10.20.1.5", "10.20.1.6"]
    assert pair.same()


def test_a_delta_that_repeats_itself_tells_the_journal_each_entry_once() -> None:
    pair = Pair()
    first = pair.author.publish("10.20.1.4", "10.20.1.5")
    pair.committed()
    pair.author.publish("10.20.1.5", "10.20.1.6", ready=False)
    chunk = pair.author.transfer(first.stamp, snapshot=False)
    *parts, last = pieces(chunk)
    out_of_order = replace(parts[0], entries=(*last.entries, *parts[0].entries))
    for part in [out_of_order, parts[0], *parts[1:]]:
        assert pair.take(part).outcome is Outcome.STAGED
    taken = pair.take(last)
    assert taken.outcome is Outcome.COMMITTED
    assert sorted(taken.entries or ()) == sorted(chunk.entries)
    assert [row.address for _, row in pair.remote.index.visible(CART)] == ["10.20.1.5", "10.20.1.6"]
    assert pair.same()


def test_a_snapshot_that_starts_over_forgets_what_it_sent_before() -> None:
    # The floor moved while the snapshot was under way: an endpoint that was sent is gone, and so
    # is its tombstone.  Keeping the first part would make the count wrong for ever.
    pair = Pair()
    pair.author.publish("10.20.1.4", "10.20.1.5")
    for part in pieces(pair.author.transfer())[:-1]:
        pair.take(part)
    pair.author.publish("10.20.1.5")
    own = pair.author.own
    own.move_floor(own.elements.version.stamp, pair.author.wall_ns)
    pair.author.publish("10.20.1.5")
    for part in pieces(pair.author.transfer()):
        taken = pair.take(part)
    assert taken.outcome is Outcome.COMMITTED
    assert pair.same()


def test_a_chunk_beyond_a_gap_asks_again() -> None:
    pair = Pair()
    pair.author.publish("10.20.1.4", "10.20.1.5", "10.20.1.6")
    parts = pieces(pair.author.transfer())
    assert pair.take(parts[1]).outcome is Outcome.AGAIN
    assert pair.take(parts[0]).outcome is Outcome.STAGED
    assert pair.take(parts[2]).outcome is Outcome.AGAIN
    assert pair.remote.staging is None
    for part in parts:
        pair.take(part)
    assert pair.same()


def test_old_news_is_ignored() -> None:
    pair = Pair()
    first = pair.author.publish("10.20.1.4")
    old = pair.author.transfer()
    pair.author.publish("10.20.1.5")
    pair.committed()
    assert pair.take(replace(old, snapshot=False)).outcome is Outcome.IGNORED
    assert pair.take(old).outcome is Outcome.IGNORED
    assert pair.take(pair.author.transfer(first.stamp, snapshot=False)).outcome is Outcome.IGNORED
    assert pair.same()


def test_old_news_does_not_disturb_a_transfer_under_way() -> None:
    pair = Pair()
    first = pair.author.publish("10.20.1.4")
    old = replace(pair.author.transfer(), snapshot=False)
    pair.author.own.open_epoch(4)
    second = pair.author.publish("10.20.1.4", "10.20.1.5")
    pair.committed()
    pair.author.publish("10.20.1.6", "10.20.1.7")
    parts = pieces(pair.author.transfer(second.stamp, snapshot=False), 2)
    assert len(parts) == 2
    assert pair.take(parts[0]).outcome is Outcome.STAGED
    assert pair.take(old).outcome is Outcome.IGNORED
    assert pair.take(parts[1]).outcome is Outcome.COMMITTED
    assert pair.same()
    assert first.version < second.version


def test_a_writer_of_a_former_epoch_is_refused() -> None:
    pair = Pair()
    zombie = Author(pair.author.world, "fjord")
    pair.author.publish("10.20.1.4")
    pair.author.own.open_epoch(4)
    pair.author.publish("10.20.1.4")
    pair.committed()
    pair.author.world.now = 500.0
    zombie.publish("10.66.6.6")
    for snapshot in (True, False):
        assert pair.take(zombie.transfer(snapshot=snapshot)).outcome is Outcome.IGNORED
    assert pair.same()


def test_a_renewed_head_makes_fresh_and_changes_nothing() -> None:
    pair = Pair()
    pair.author.publish("10.20.1.4")
    pair.committed()
    pair.author.own.reissue(pair.author.wall_ns + 5)
    head = pair.author.head
    chunk = pair.author.transfer(head.stamp, snapshot=False)
    assert chunk.entries == ()
    assert pair.take(chunk) == Taken(Outcome.RENEWED)
    assert pair.take(chunk) == Taken(Outcome.IGNORED)
    assert pair.same()


def test_a_renewed_head_is_verified() -> None:
    pair = Pair()
    pair.author.publish("10.20.1.4")
    pair.committed()
    later = replace(pair.author.head, issued_at=pair.author.head.issued_at + 5)
    chunk = replace(pair.author.transfer(later.stamp, snapshot=False), head=later)
    with pytest.raises(ProtocolError) as caught:
        pair.take(chunk)
    assert caught.value.code == "bad_signature"
    assert pair.same()


def test_what_mends_under_an_older_issue_of_the_head_takes_no_freshness_back() -> None:
    # Found by the long search, seeds 5304, 10895 and four more.
    pair = Pair()
    pair.author.publish("10.20.1.4")
    pair.committed()
    whole = pair.author.transfer()
    pair.author.own.reissue(pair.author.wall_ns + 5)
    pair.take(pair.author.transfer(pair.author.head.stamp, snapshot=False))
    assert whole.head is not None
    assert whole.head.issued_at < pair.author.head.issued_at
    pair.remote.rotten = True
    assert pair.take(whole).outcome is Outcome.COMMITTED
    assert not pair.remote.rotten
    assert pair.same()


def test_a_head_by_a_new_key_is_verified_by_the_record_that_came_with_it() -> None:
    pair = Pair()
    pair.author.publish("10.20.1.4")
    pair.committed()
    old = pair.author.record
    pair.author.own.signer = pair.author.signer = Author(pair.author.world, "fjord", key="2").signer
    pair.author.own.reissue(pair.author.wall_ns + 5)
    chunk = pair.author.transfer(pair.author.head.stamp, snapshot=False)
    with pytest.raises(ProtocolError) as caught:
        pair.take(chunk, old)
    assert caught.value.code == "unknown_key"
    assert pair.take(chunk).outcome is Outcome.RENEWED
    assert pair.remote.record == pair.author.record


def test_a_head_without_a_record_is_refused() -> None:
    pair = Pair()
    pair.author.publish("10.20.1.4")
    with pytest.raises(ProtocolError) as caught:
        pair.remote.take(pair.author.transfer(), pair.verifier, None)
    assert caught.value.code == "unknown_key"


FORGERIES = {
    "count": {"count": 99},
    "root": {"root": b"x" * 32},
    "floor": {"floor": 1},
    "issue time": {"issued_at": 5},
    "base": {"base": Base(0, 0, b"")},
    "signature": {"signature": b"x" * 32},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_head_with_any_changed_field_is_not_committed(name: str) -> None:
    pair = Pair()
    pair.author.publish("10.20.1.4")
    real = pair.author.transfer()
    assert real.head is not None
    forged = replace(real.head, **FORGERIES[name])  # type: ignore[arg-type]
    with pytest.raises(ProtocolError):
        pair.take(replace(real, head=forged))
    assert not pair.remote.known
    assert pair.remote.staging is None
    assert pair.committed().outcome is Outcome.COMMITTED


def altered(entries: tuple[Entry, ...], how: str) -> tuple[Entry, ...]:
    """Entries as a relay might forge them."""
    element, stamp, op, value = entries[-1]
    return {
        "dropped": entries[:-1],
        "value": (*entries[:-1], (element, stamp, op, b"\xc0")),
        "op": (*entries[:-1], (element, stamp, 1 - op, value)),
        "stamp": (*entries[:-1], (element, stamp - 1, op, value)),
        "added": (*entries, (element + b"!", stamp, op, value)),
    }[how]


@pytest.mark.parametrize("how", ["dropped", "value", "op", "stamp", "added"])
@pytest.mark.parametrize("snapshot", [True, False])
def test_forged_entries_under_a_good_head_are_never_visible(how: str, *, snapshot: bool) -> None:
    pair = Pair()
    first = pair.author.publish("10.20.1.4")
    pair.committed()
    before = pair.remote.head
    pair.author.publish("10.20.1.4", "10.20.1.5")
    real = pair.author.transfer(0 if snapshot else first.stamp, snapshot=snapshot)
    forged = replace(real, entries=altered(real.entries, how))
    assert pair.take(forged) == Taken(Outcome.MISMATCH, replaced=snapshot)
    assert pair.remote.head == before
    assert pair.take(real).outcome is Outcome.COMMITTED
    assert pair.same()


def test_entries_of_two_transfers_cannot_be_mixed_unseen() -> None:
    pair, other = Pair(), Pair()
    pair.author.publish("10.20.1.4")
    other.author.publish("10.66.6.6")
    mixed = replace(pair.author.transfer(), entries=other.author.transfer().entries)
    assert pair.take(mixed).outcome is Outcome.MISMATCH


def test_what_a_delta_cannot_continue_takes_a_snapshot_and_no_endless_asking() -> None:
    # A floor above what is committed, or a base with another root at the same stamp: only the
    # receiver can tell, so asking for a delta again would get the same answer for ever.
    pair = Pair()
    first = pair.author.publish("10.20.1.4", "10.20.1.5")
    pair.committed()
    pair.author.publish("10.20.1.4")
    chunk = pair.author.transfer(first.stamp, snapshot=False)
    assert chunk.head is not None
    high = pair.author.signed(replace(chunk.head, floor=first.stamp + 1))
    assert pair.take(replace(chunk, head=high)).outcome is Outcome.AGAIN
    assert pair.remote.distrust
    pair.remote.distrust = False
    base = Base(1, first.stamp, b"other root")
    moved = pair.author.signed(replace(chunk.head, epoch=2, base=base))
    assert pair.take(replace(chunk, epoch=2, head=moved)).outcome is Outcome.AGAIN
    assert pair.remote.distrust
    assert pair.take(pair.author.transfer()).outcome is Outcome.COMMITTED
    assert not pair.remote.distrust


def forks(pair: Pair) -> tuple[m.Transfer, m.Transfer]:
    """Snapshots of two states signed for one version, the smaller root first."""
    twin = Author(pair.author.world, "fjord")
    pair.author.publish("10.20.1.4")
    twin.publish("10.66.6.6")
    first, second = sorted([pair.author, twin], key=lambda author: author.head.root)
    assert first.head.version == second.head.version
    return first.transfer(), second.transfer()


def empty(chunk: m.Transfer) -> m.Transfer:
    """Only the head of a transfer."""
    return replace(chunk, snapshot=False, start=chunk.to, entries=())


def test_of_two_states_signed_for_one_version_the_larger_root_wins_by_snapshot() -> None:
    pair = Pair()
    smaller, larger = forks(pair)
    pair.take(smaller)
    assert pair.take(empty(larger)) == Taken(Outcome.EQUIVOCATION)
    assert pair.remote.distrust
    assert pair.remote.head == smaller.head
    assert pair.take(larger).outcome is Outcome.COMMITTED
    assert pair.remote.head == larger.head
    assert not pair.remote.distrust
    for chunk in (smaller, empty(smaller)):
        assert pair.take(chunk) == Taken(Outcome.EQUIVOCATION)
        assert not pair.remote.distrust
    assert pair.remote.head == larger.head


def test_a_second_state_that_nobody_signed_is_no_equivocation() -> None:
    pair = Pair()
    smaller, larger = forks(pair)
    pair.take(smaller)
    assert larger.head is not None
    unsigned = replace(empty(larger), head=larger.head.signed(b"x" * 32))
    with pytest.raises(ProtocolError):
        pair.take(unsigned)
    assert not pair.remote.distrust


def test_a_transfer_is_limited_in_size() -> None:
    pair = Pair()
    assert pair.remote.staged_limit == STAGED_BYTES_LIMIT
    kibibyte, step = b"x" * (1 << 10), 4
    pair.remote.staged_limit = 4 * step << 10
    chunks = []
    for start in range(0, 4 * step, step):
        keys = ((pack([77, "fjord", number]), number) for number in range(start + 1, start + 5))
        entries = tuple((key, number, 0, kibibyte) for key, number in keys)
        chunk = m.Transfer(
            pair.author.own.origin,
            epoch=1,
            snapshot=True,
            start=start,
            to=start + step,
            entries=entries,
            head=None,
        )
        chunks.append(chunk)
    *fitting, chunk = chunks
    for part in fitting:
        assert pair.take(part).outcome is Outcome.STAGED
    with pytest.raises(ProtocolError) as caught:
        pair.take(chunk)
    assert caught.value.code == "too_large"
    assert pair.remote.staging is None


def test_a_journal_gives_back_what_adds_up_and_nothing_else() -> None:
    pair = Pair()
    pair.author.publish("10.20.1.4")
    pair.committed()
    head = pair.remote.head
    assert head is not None
    assert pair.remote.record is not None

    def restored(elements: OriginSet, stored: Head) -> RemoteOrigin | None:
        fresh = RemoteOrigin(head.origin)
        assert pair.remote.record is not None
        return fresh if fresh.restore(elements, stored, pair.remote.record) else None

    fresh = restored(pair.remote.elements, head)
    assert fresh is not None
    assert fresh.version == head.version
    assert fresh.fresh_at is None
    assert [row.address for _, row in fresh.index.visible(CART)] == ["10.20.1.4"]
    torn = OriginSet.restored(head.version, head.floor, list(pair.remote.elements.entries())[:-1])
    assert restored(torn, head) is None
    assert restored(pair.remote.elements, replace(head, root=b"x" * 32)) is None
    assert Version(1, 1) < head.version
