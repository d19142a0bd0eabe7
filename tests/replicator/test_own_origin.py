"""Our own origin: batches, stamps, heads."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.model import Endpoint, ExportedService, LocalService, ServiceKey
from crdt import Base, Change, Head, Origin, OriginSet, StampClock, Version, pack
from crdt.entries import ADD, NIL, REMOVE
from replicator.kinds import MAX_ENTRY_BYTES
from replicator.messages import Record
from replicator.own_origin import OwnBatch, OwnOrigin
from replicator.projection import Projector
from tests.support.replicas import live
from tests.support.signers import FakeSigner, FakeVerifier

FJORD = Origin("fjord")
CART = ServiceKey("shop", "cart")
WALL = 1_764_655_200_000_000_000
A, B, C = (pack([99, "fjord", name]) for name in "abc")


def own(epoch: int = 1, clock: StampClock | None = None) -> OwnOrigin:
    """An origin that states nothing yet."""
    return OwnOrigin(
        FJORD,
        FakeSigner("fjord"),
        epoch=epoch,
        clock=clock or StampClock(),
        elements=OriginSet(),
    )


def publish(origin: OwnOrigin, wall: int = WALL) -> OwnBatch:
    """Seal and publish."""
    batch = origin.seal(wall)
    origin.published()
    return batch


def verified(origin: OwnOrigin) -> Head:
    """The head, if its record verifies it."""
    assert origin.head is not None
    assert origin.record is not None
    FakeVerifier().verify(origin.head, origin.record)
    return origin.head


def test_a_batch_is_sealed_into_one_head() -> None:
    origin = own()
    assert origin.dirty
    assert origin.state(CART, {B: b"\x01", A: b"\x02"}, WALL) == 2
    batch = origin.seal(WALL + 9)
    assert origin.sealing
    assert batch.entries == ((A, WALL, ADD, b"\x02"), (B, WALL + 1, ADD, b"\x01"))
    assert (batch.epoch, batch.last_stamp, batch.floor) == (1, WALL + 1, 0)
    assert batch.ceiling > batch.last_stamp
    head = verified(origin)
    assert batch.head == head
    assert (head.version, head.base, head.count) == (Version(1, WALL + 1), None, 2)
    assert (head.root, head.observed_at) == (origin.elements.root(), WALL)
    assert batch.changes == (Change(A, None, b"\x02", WALL), Change(B, None, b"\x01", WALL + 1))
    assert not origin.dirty
    origin.published()
    assert not origin.sealing


def test_an_unchanged_value_gets_no_stamp() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01"}, WALL)
    publish(origin)
    assert origin.state(CART, {A: b"\x01"}, WALL + 5) == 0
    assert not origin.dirty


def test_what_is_no_longer_stated_is_removed() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01", B: b"\x01"}, WALL)
    publish(origin)
    assert origin.stated_services == {CART}
    assert origin.state(CART, {B: b"\x02"}, WALL + 5) == 2
    batch = publish(origin)
    assert batch.entries == ((A, WALL + 5, REMOVE, NIL), (B, WALL + 6, ADD, b"\x02"))
    assert [change[1:3] for change in batch.changes] == [(b"\x01", None), (b"\x01", b"\x02")]
    assert origin.state(CART, {}, WALL + 9) == 1
    assert origin.stated_services == set()


def test_changes_that_undo_each_other_before_a_head_leave_the_last_word() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01"}, WALL)
    origin.state(CART, {}, WALL + 1)
    batch = publish(origin)
    assert batch.entries == ((A, WALL + 1, REMOVE, NIL),)
    assert live(origin.elements) == {}


def test_services_do_not_touch_each_others_elements_and_the_cluster_has_its_own() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01"}, WALL)
    origin.state(ServiceKey("shop", "pay"), {B: b"\x01"}, WALL)
    origin.state(None, {C: b"\x01"}, WALL)
    assert origin.state(CART, {}, WALL) == 1
    publish(origin)
    assert live(origin.elements) == {B: b"\x01", C: b"\x01"}
    assert origin.stated_services == {ServiceKey("shop", "pay")}


def test_an_oversized_entry_is_left_out_counted_and_blocks_nothing() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01", B: b"\x01"}, WALL)
    publish(origin)
    # What it stated before is not true any more, so that goes as well.
    huge = b"x" * (MAX_ENTRY_BYTES - len(A) + 1)
    assert origin.state(CART, {A: huge, B: b"\x02"}, WALL + 5) == 2
    assert origin.oversized == 1
    publish(origin)
    assert live(origin.elements) == {B: b"\x02"}
    assert origin.state(CART, {A: huge, B: b"\x02"}, WALL + 6) == 0
    assert origin.oversized == 2
    assert origin.state(CART, {A: huge[1:], B: b"\x02"}, WALL + 7) == 1


@given(st.lists(st.integers(0, 2**63 - 1000), min_size=1, max_size=12))
def test_stamps_rise_whatever_the_wall_clock_does(walls: list[int]) -> None:
    origin = own()
    stamps = [0]
    issued = [0]
    for number, wall in enumerate(walls):
        origin.state(CART, {A: pack(number), B: pack(number)}, wall)
        batch = publish(origin, wall)
        stamps += [entry[1] for entry in batch.entries]
        issued.append(batch.head.issued_at)
        assert batch.head.stamp == stamps[-1] == batch.last_stamp
    assert all(a < b for a, b in pairwise(stamps))
    assert all(a < b for a, b in pairwise(issued))


def test_the_first_head_of_an_empty_cluster_has_a_stamp() -> None:
    origin = own()
    batch = publish(origin)
    assert batch.head.version == Version(1, WALL)
    assert (batch.head.count, batch.entries, batch.head.observed_at) == (0, (), WALL)


def test_a_head_is_issued_again_with_a_later_time_and_nothing_else() -> None:
    origin = own()
    with pytest.raises(ValueError, match="no published head"):
        origin.reissue(WALL)
    origin.state(CART, {A: b"\x01"}, WALL)
    first = origin.seal(WALL).head
    with pytest.raises(ValueError, match="no published head"):
        origin.reissue(WALL)
    origin.published()
    second = origin.reissue(WALL - 5)
    assert second.same_state(first)
    assert (second.issued_at, second.observed_at) == (WALL + 1, WALL)
    assert verified(origin) == second


def test_a_new_key_signs_what_comes_next_and_its_record_goes_with_it() -> None:
    origin = own()
    publish(origin)
    assert origin.record == Record(FJORD, FakeSigner("fjord").key_id, FakeSigner("fjord").chain)
    origin.state(CART, {A: b"\x01"}, WALL)
    origin.seal(WALL)
    origin.signer = FakeSigner("fjord", "2")
    # The sealed head still is by the old key, and so is the record beside it.
    old = verified(origin)
    origin.published()
    assert verified(origin) == old
    origin.reissue(WALL)
    assert verified(origin).key_id == FakeSigner("fjord", "2").key_id


def test_a_moved_floor_takes_a_stamp_and_a_head_and_drops_tombstones() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01", B: b"\x01"}, WALL)
    publish(origin)
    origin.state(CART, {B: b"\x01"}, WALL + 5)
    publish(origin)
    origin.move_floor(0, WALL + 6)
    assert not origin.dirty
    origin.move_floor(WALL + 5, WALL + 6)
    assert origin.dirty
    batch = publish(origin)
    assert (batch.entries, batch.floor, batch.head.stamp) == ((), WALL + 5, WALL + 6)
    assert (batch.head.count, origin.elements.tombstone_count) == (1, 0)
    assert batch.head.floor == WALL + 5
    origin.state(CART, {}, WALL + 9)
    later = publish(origin)
    assert (later.floor, later.head.stamp) == (WALL + 5, WALL + 9)


BATCHES = st.lists(
    st.dictionaries(st.sampled_from([A, B, C]), st.sampled_from([b"\x01", b"\x02"])),
    min_size=2,
    max_size=6,
)


@given(batches=BATCHES, skipped=st.integers(0, 4), budget=st.integers(0, 120))
def test_while_a_batch_is_sealed_the_state_before_it_is_served_whole(
    batches: list[dict[bytes, bytes]], skipped: int, budget: int
) -> None:
    origin = own()
    for number, stated in enumerate(batches[:-1]):
        origin.state(CART, stated, WALL + 10 * number)
        publish(origin, WALL + 10 * number)
    head, before = origin.head, sorted(origin.elements.entries(), key=lambda entry: entry[1])
    origin.state(CART, batches[-1], WALL + 100)
    origin.seal(WALL + 100)
    served = origin.served()
    assert served is not None
    assert served.head == head
    assert head is not None
    after = ([0] + [entry[1] for entry in before])[: skipped + 1][-1]
    position, got, complete = after, [], False
    while not complete:
        chunk = served.since(position, budget)
        assert chunk.to > position or chunk.complete
        got += chunk.entries
        position, complete = chunk.to, chunk.complete
    assert got == [entry for entry in before if entry[1] > after]
    assert position == head.stamp
    origin.published()
    now = origin.served()
    assert now is not None
    assert now.head == origin.head
    assert now.since(0, 1 << 20).entries == sorted(
        origin.elements.entries(), key=lambda entry: entry[1]
    )


def test_nothing_is_served_while_a_batch_drops_tombstones_or_before_the_first_head() -> None:
    origin = own()
    assert origin.served() is None
    origin.state(CART, {A: b"\x01"}, WALL)
    origin.seal(WALL)
    assert origin.served() is None
    origin.published()
    origin.state(CART, {}, WALL + 5)
    publish(origin)
    origin.move_floor(WALL + 5, WALL + 6)
    origin.seal(WALL + 6)
    assert origin.served() is None
    origin.published()
    assert origin.served() is not None


def test_stated_anew_everything_has_a_new_stamp_in_a_higher_epoch() -> None:
    origin = own()
    future = WALL + 9 * 10**12
    origin.state(CART, {A: b"\x01", B: b"\x01"}, future)
    publish(origin, future)
    origin.state(CART, {A: b"\x01"}, future + 5)
    before = publish(origin, future + 5)
    assert (origin.ahead_ns(WALL), origin.ahead_ns(2 * future)) == (future + 5 - WALL, 0)
    origin.state(CART, {A: b"\x01", C: b"\x03"}, future + 9)
    origin.state_anew(WALL)
    assert origin.ahead_ns(WALL) <= 1
    batch = origin.seal(WALL)
    assert origin.served() is None
    assert batch.replace
    assert batch.entries == ((A, WALL, ADD, b"\x01"), (C, WALL + 1, ADD, b"\x03"))
    assert batch.head.version == Version(2, WALL + 1) > before.head.version
    assert (batch.head.base, batch.head.floor, batch.head.issued_at) == (None, 0, WALL)
    assert batch.changes == (Change(C, None, b"\x03", WALL + 1),)
    origin.published()
    served = origin.served()
    assert served is not None
    assert served.head == verified(origin)
    assert origin.elements.tombstone_count == 0
    origin.state(CART, {C: b"\x03"}, WALL + 9)
    later = publish(origin, WALL + 9)
    assert not later.replace
    assert live(origin.elements) == {C: b"\x03"}


def test_no_floor_of_former_stamps_moves_into_what_is_stated_anew() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01", B: b"\x01"}, WALL + 50)
    publish(origin, WALL + 50)
    origin.state(CART, {A: b"\x01"}, WALL + 60)
    former = publish(origin, WALL + 60).head
    origin.state_anew(WALL)
    origin.move_floor(former.stamp, WALL)
    head = publish(origin).head
    assert (head.floor, head.stamp) == (0, WALL)


def test_what_goes_while_all_is_stated_anew_is_seen_to_go() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01", B: b"\x01"}, WALL + 50)
    publish(origin, WALL + 50)
    origin.state(CART, {B: b"\x01"}, WALL + 60)
    origin.state_anew(WALL)
    batch = publish(origin)
    assert batch.changes == (Change(A, b"\x01", None, batch.head.stamp),)
    assert live(origin.elements) == {B: b"\x01"}


def test_a_higher_epoch_takes_effect_with_the_next_batch_only() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01"}, WALL)
    publish(origin)
    origin.open_epoch(7)
    assert (origin.epoch, origin.dirty) == (8, True)
    # Re-issuing meanwhile must not announce an epoch that is not on disk.
    assert origin.reissue(WALL + 5).version == Version(1, WALL)
    batch = publish(origin)
    assert (batch.epoch, batch.head.version) == (8, Version(8, WALL))
    assert batch.head.base is None
    origin.open_epoch(3)
    assert origin.epoch == 9


def test_a_restart_goes_on_where_the_journal_ends() -> None:
    origin = own()
    origin.state(CART, {A: b"\x01", B: b"\x01"}, WALL)
    batch = publish(origin)
    again = OwnOrigin(
        FJORD,
        FakeSigner("fjord", "2"),
        epoch=batch.epoch,
        clock=StampClock(last=batch.last_stamp, ceiling=batch.ceiling),
        elements=OriginSet.restored(batch.head.version, batch.head.floor, batch.entries),
    )
    assert again.record is None
    again.restore_head(batch.head)
    assert not again.dirty
    # The certificate may be another one now: until it is signed anew the head has no record.
    assert again.record is None
    assert again.state(None, {A: b"\x01", B: b"\x01"}, WALL) == 0
    again.reissue(WALL - 10**9)
    head = verified(again)
    assert head.same_state(batch.head)
    assert head.issued_at > batch.head.issued_at
    again.state(None, {A: b"\x02", B: b"\x01"}, WALL - 10**9)
    assert publish(again).entries[0][1] > batch.ceiling


def test_a_base_stays_with_its_epoch() -> None:
    origin = own(epoch=2)
    origin.state(CART, {A: b"\x01"}, WALL)
    publish(origin)
    assert origin.head is not None
    fields = {name: getattr(origin.head, name) for name in Head.__slots__}
    origin.restore_head(Head(**{**fields, "base": Base(1, 5, b"r")}))
    assert origin.reissue(WALL).base == Base(1, 5, b"r")
    origin.state(CART, {}, WALL + 1)
    assert publish(origin).head.base == Base(1, 5, b"r")
    origin.open_epoch(2)
    assert publish(origin).head.base is None


def test_an_origin_starts_with_the_services_its_set_holds() -> None:
    projector = Projector("fjord")
    service = LocalService(CART, (Endpoint("10.20.1.4", None),), ExportedService())
    stated = projector.elements_of(service)
    elements = OriginSet()
    entries = [(e, n, ADD, v) for n, (e, v) in enumerate(sorted(stated.items()), 1)]
    elements.advance(entries, version=Version(1, 9), floor=0)
    origin = OwnOrigin(
        FJORD, FakeSigner("fjord"), epoch=1, clock=StampClock(last=9), elements=elements
    )
    assert origin.stated_services == {CART}
    assert [row.address for _, row in origin.index.visible(CART)] == ["10.20.1.4"]
    assert origin.state(CART, {}, 5) == 2
    assert origin.clean_stop() == 11
    publish(origin)
    assert origin.index.visible(CART) == []
