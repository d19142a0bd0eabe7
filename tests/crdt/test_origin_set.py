"""One origin's set: situations of the rules C1 to C10 by name, and properties of operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdt import (
    ZERO,
    Base,
    Change,
    ContinuityError,
    CrdtError,
    Entry,
    GapError,
    Head,
    MismatchError,
    OriginSet,
    Staging,
    StaleError,
    Version,
    pack,
)
from crdt.buckets import read_nodes
from crdt.entries import ADD, NIL, REMOVE, entry_bytes, stored_of
from tests.crdt.origin import (
    PLENTY,
    OwnerHistory,
    add,
    changes_between,
    element,
    picture,
    pull,
    remove,
    staged,
    state_of,
    transfer,
)
from tests.crdt.strategies import integers, values
from tests.support.reference_model import after

steps = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=6), min_size=1, max_size=6
)


def grown(batches: list[list[tuple[int, int]]], floors: list[int]) -> OwnerHistory:
    """An owner that published these batches (value 0 removes), each with a floor below its end."""
    owner = OwnerHistory()
    owner.publish([add(number, number + 1, 7) for number in range(4)])
    for batch, lag in zip(batches, floors, strict=True):
        stamp = owner.stamp
        entries: dict[int, Entry] = {}
        for number, value in batch:
            stamp += 1
            entries.pop(number, None)
            entries[number] = add(number, stamp, value) if value else remove(number, stamp)
        stamp += 1
        floor = max(owner.elements.floor, stamp - lag)
        owner.publish(list(entries.values()), stamp=stamp, floor=floor)
    return owner


@st.composite
def owners(draw: st.DrawFn) -> OwnerHistory:
    """An owner with a few heads and floor moves behind it."""
    batches = draw(steps)
    lags = st.lists(st.integers(0, 25), min_size=len(batches), max_size=len(batches))
    return grown(batches, draw(lags))


def at_head(owner: OwnerHistory, head: Head) -> OriginSet:
    """A replica that committed ``head``."""
    entries = [(key, *stored) for key, stored in owner.states[head.version].items()]
    return OriginSet.restored(head.version, head.floor, entries)


# Canonical entry bytes


@given(
    st.integers(0, 127),
    st.lists(st.text(max_size=5) | st.integers(0, 9), max_size=14),
    integers,
    st.sampled_from([ADD, REMOVE]),
    values,
)
def test_entry_bytes_are_messagepack_of_kind_key_stamp_op_and_value(
    kind: int, key: list[object], stamp: int, op: int, value: object
) -> None:
    data = entry_bytes(pack([kind, *key]), stamp, op, pack(value))
    assert data == pack([kind, key, stamp, op, value])


@pytest.mark.parametrize(
    "key", [[128, "fjord"], [2**40], [-1, "x"], [1, *range(15)], [1, *range(99)]]
)
def test_an_element_of_another_layout_stays_whole_in_its_entry_bytes(key: list[object]) -> None:
    data = entry_bytes(pack(key), 5, REMOVE, NIL)
    assert msgpack.unpackb(data) == [key, 5, 1, None]


@pytest.mark.parametrize("data", [b"", b"\x90", b"\x91", b"\xc0", b"junk"])
def test_entry_bytes_of_any_element_raise_nothing(data: bytes) -> None:
    assert entry_bytes(data, 1, ADD, NIL).endswith(data + b"\x01\x00\xc0")


def test_an_operation_that_is_none_makes_other_bytes_than_those_that_are() -> None:
    made = {entry_bytes(element(1), 1, op, NIL) for op in (0, 1, 2, 255)}
    assert len(made) == 4


# Reading


@given(owners())
def test_a_set_answers_for_its_elements(owner: OwnerHistory) -> None:
    elements, state = owner.elements, owner.states[owner.head.version]
    for number in range(12):
        key = element(number)
        stored = state.get(key)
        assert elements.entry(key) == (None if stored is None else (key, *stored))
        alive = stored is not None and stored[1] == ADD
        assert elements.get(key) == ((stored[0], stored[2]) if stored and alive else None)
    assert {key: (stamp, value) for key, stamp, value in elements.live()} == {
        key: (stamp, value) for key, (stamp, op, value) in state.items() if op == ADD
    }


@given(owners())
def test_the_nodes_of_a_set_hash_up_to_its_root(owner: OwnerHistory) -> None:
    elements = owner.elements
    assert read_nodes(elements.nodes(2), 2)[0] == elements.root()


@given(owners(), st.data())
def test_since_gives_every_current_entry_of_its_interval_whatever_the_budget(
    owner: OwnerHistory, data: st.DataObject
) -> None:
    elements = owner.elements
    start = data.draw(st.integers(0, owner.stamp + 2))
    budget = data.draw(st.integers(-5, 300))
    entries, to, complete = elements.since(start, budget)
    expected = sorted(
        (entry for entry in elements.entries() if entry[1] > start), key=lambda entry: entry[1]
    )
    assert entries == expected[: len(entries)]
    assert complete is (entries == expected)
    assert to == (owner.stamp if complete else entries[-1][1])
    assert entries or not expected
    sizes = [len(entry[0]) + len(entry[3]) for entry in entries[1:]]
    assert sum(sizes) <= max(0, budget)


@given(owners(), st.integers(0, 200))
def test_chunks_of_any_budget_together_are_one_transfer(owner: OwnerHistory, budget: int) -> None:
    chunks = transfer(owner.elements, 0, budget)
    assert [entry for _, _, entries in chunks for entry in entries] == owner.elements.since(
        0, PLENTY
    ).entries
    assert [start for start, _, _ in chunks[1:]] == [to for _, to, _ in chunks[:-1]]
    assert chunks[-1][1] == owner.stamp


@given(owners())
def test_a_set_restored_from_its_entries_is_the_same_set(owner: OwnerHistory) -> None:
    shuffled = sorted(owner.elements.entries())
    again = OriginSet.restored(owner.elements.version, owner.elements.floor, shuffled)
    assert picture(again) == picture(owner.elements)


# Staging


def test_a_chunk_after_a_gap_is_refused_and_nothing_of_it_is_kept() -> None:
    staging = Staging(epoch=1, start=5, replaces=False)
    with pytest.raises(GapError):
        staging.add(6, 9, [add(1, 7)])
    assert (staging.position, staging.entries) == (5, {})


@given(owners(), st.data())
def test_any_chunking_order_repetition_and_loss_commits_the_owners_state_or_nothing(
    owner: OwnerHistory, data: st.DataObject
) -> None:
    first = data.draw(st.none() | st.sampled_from(owner.heads[:-1]))
    replica = OriginSet() if first is None else at_head(owner, first)
    head = owner.head
    replaces = not replica.can_continue(head) or data.draw(st.booleans())
    start = 0 if replaces else replica.version.stamp
    cuts = [transfer(owner.elements, start, data.draw(st.integers(0, 150))) for _ in range(2)]
    chunks = data.draw(st.lists(st.sampled_from(cuts[0] + cuts[1]), max_size=20))
    staging = Staging(epoch=head.epoch, start=start, replaces=replaces)
    reached = {start}
    for low, to, entries in chunks:
        try:
            staging.add(low, to, entries)
        except GapError:
            assert low > max(reached)
        else:
            reached.add(to)
    before, old = picture(replica), state_of(replica)
    if max(reached) < head.stamp:
        with pytest.raises(CrdtError):
            replica.commit(staging, head)
        assert picture(replica) == before
        for low, to, entries in cuts[0]:
            staging.add(low, to, entries)
    changes = replica.commit(staging, head)
    assert picture(replica) == picture(owner.elements)
    assert changes == changes_between(old, state_of(replica), head.version)


@given(owners(), st.data())
def test_chunks_of_successive_heads_may_make_one_transfer(
    owner: OwnerHistory, data: st.DataObject
) -> None:
    middle = data.draw(st.sampled_from(owner.heads))
    source = at_head(owner, middle)
    entries, to, _ = source.since(0, data.draw(budget_like))
    head = owner.head
    staging = Staging(epoch=head.epoch, start=0, replaces=True)
    staging.add(0, to, entries)
    replica = OriginSet()
    for chunk in transfer(owner.elements, to):
        staging.add(*chunk)
    if head.floor > middle.stamp:
        # C7: a tombstone this transfer needed may be gone.  Never a wrong state, at worst none.
        try:
            replica.commit(staging, head)
        except MismatchError:
            assert picture(replica) == picture(OriginSet())
            return
    else:
        replica.commit(staging, head)
    assert picture(replica) == picture(owner.elements)


def test_chunks_of_two_heads_with_the_older_one_repeated_make_one_delta() -> None:
    owner = OwnerHistory()
    owner.publish([add(9, 1)])
    replica = owner.replica()
    owner.publish([add(1, 2), add(2, 3), add(3, 4)])
    older, *_ = transfer(owner.elements, 1, 40)
    assert [entry[1] for entry in older[2]] == [2, 3][: len(older[2])]
    owner.publish([add(1, 5, "newer")])
    newer = transfer(owner.elements, older[1])
    staging = staged(owner.head, 1, [older, *newer, older])
    replica.commit(staging, owner.head)
    assert picture(replica) == picture(owner.elements)


@pytest.mark.parametrize("back", [0, 1, 2, 9], ids=lambda back: f"{back} before the committed")
def test_a_chunk_that_overlaps_what_is_committed_puts_nothing_twice(back: int) -> None:
    owner = OwnerHistory()
    owner.publish([add(number, number + 1) for number in range(9)])
    replica = owner.replica()
    owner.publish([add(1, 10)])
    staging = staged(owner.head, 9, transfer(owner.elements, 9 - back))
    replica.commit(staging, owner.head)
    assert picture(replica) == picture(owner.elements)


budget_like = st.integers(0, 300)


# Forgery: nothing but the owner's state is ever committed


def forged_entries(entries: list[Entry], stamp: int) -> list[list[Entry]]:
    """Every list of entries that differs from an honest one in a single field or entry."""
    found = [[*entries, (element(90), stamp, ADD, b"\x01")], [*entries, remove(91, stamp)]]
    for at, (key, when, op, value) in enumerate(entries):
        others: list[Entry | None] = [
            None,
            (key + b"\x00", when, op, value),
            (bytes([key[0] ^ 1]) + key[1:], when, op, value),
            (element(92), when, op, value),
            (key, when - 1, op, value),
            (key, when + 1, op, value),
            (key, when, 1 - op, value),
            (key, when, 2, value),
            (key, when, op, value + b"\x00"),
            (key, when, op, bytes([value[0] ^ 1]) + value[1:]),
        ]
        found += [
            [*entries[:at], *([] if other is None else [other]), *entries[at + 1 :]]
            for other in others
        ]
    return found


@given(owner=owners(), replaces=st.booleans(), data=st.data())
def test_a_forged_dropped_or_added_entry_is_never_committed(
    *, owner: OwnerHistory, replaces: bool, data: st.DataObject
) -> None:
    head, first = owner.head, owner.heads[0]
    replica = at_head(owner, first)
    replaces = replaces or not replica.can_continue(head)
    start = 0 if replaces else first.stamp
    entries = owner.elements.since(start, PLENTY).entries
    forged = data.draw(st.sampled_from(forged_entries(entries, head.stamp)))
    staging = staged(head, start, [(start, head.stamp, forged)], replaces=replaces)
    before = picture(replica)
    honest = at_head(owner, first)
    honest_state = after({} if replaces else state_of(honest), entries, head.floor)
    seen = -1 if replaces else first.stamp
    taken = [entry for entry in forged if seen < entry[1] <= head.stamp]
    if after({} if replaces else state_of(honest), taken, head.floor) == honest_state:
        replica.commit(staging, head)
        assert picture(replica) == picture(owner.elements)
        return
    with pytest.raises(MismatchError) as caught:
        replica.commit(staging, head)
    assert caught.value.code == "root_mismatch"
    assert picture(replica) == before
    pull(replica, owner.elements, head)
    assert picture(replica) == picture(owner.elements)


@pytest.mark.parametrize("replaces", [False, True], ids=["delta", "snapshot"])
@pytest.mark.parametrize(
    "lie",
    [
        {"count": 3},
        {"count": 0},
        {"count": 2**62},
        {"root": bytes(32)},
        {"root": b""},
        {"floor": 8},
        {"stamp": 6},
        {"stamp": 7},
    ],
    ids=str,
)
def test_a_head_that_its_entries_do_not_reproduce_is_not_committed(
    *, lie: dict[str, Any], replaces: bool
) -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1), add(2, 2), remove(3, 5)])
    replica = owner.replica()
    owner.publish([remove(2, 6), add(4, 7), remove(1, 8)], stamp=9)
    start = 0 if replaces else 5
    staging = staged(owner.head, start, transfer(owner.elements, start), replaces=replaces)
    before = picture(replica)
    wrong = replace(owner.head, **lie)
    with pytest.raises(CrdtError) as caught:
        replica.commit(staging, wrong)
    assert type(caught.value) in (MismatchError, ContinuityError)
    assert picture(replica) == before
    replica.commit(staging, owner.head)
    assert picture(replica) == picture(owner.elements)


def test_a_mismatch_puts_back_collected_and_superseded_tombstones() -> None:
    owner = OwnerHistory()
    owner.publish([remove(1, 1), remove(2, 2), remove(3, 3), add(4, 4)])
    replica = owner.replica()
    owner.publish([add(2, 5), remove(4, 6)], stamp=7, floor=3)
    before = picture(replica)
    staging = staged(owner.head, 4, transfer(owner.elements, 4))
    with pytest.raises(MismatchError):
        replica.commit(staging, replace(owner.head, root=bytes(32)))
    assert picture(replica) == before
    # What was put back is found again by the next floor move.
    replica.commit(staging, owner.head)
    assert picture(replica) == picture(owner.elements)
    assert state_of(replica).keys() == {element(2), element(4)}


def test_a_mismatch_leaves_the_tombstones_in_the_order_floors_need() -> None:
    owner = OwnerHistory()
    owner.publish([remove(1, 1), remove(2, 2), remove(3, 3), add(4, 4), add(5, 5)])
    replica = owner.replica()
    head = owner.publish([remove(4, 6)], stamp=9)
    forged = staged(head, 5, [(5, 9, [remove(5, 9)])])
    with pytest.raises(MismatchError):
        replica.commit(forged, replace(head, floor=3))
    pull(replica, owner.elements, head)
    for floor, left in ((1, {2, 3, 4}), (6, set())):
        owner.publish(stamp=owner.stamp + 1, floor=floor)
        pull(replica, owner.elements, owner.head)
        assert picture(replica) == picture(owner.elements)
        assert state_of(replica).keys() == {element(number) for number in {*left, 5}}


# Forward only, and by which way (C6, C7, C8, C10)


def test_a_head_at_or_before_the_committed_version_is_stale() -> None:
    owner = OwnerHistory()
    first = owner.publish([add(1, 1)])
    owner.publish([add(2, 2)])
    replica = owner.replica()
    for head in (first, owner.head, replace(owner.head, epoch=0, stamp=99)):
        for replaces in (False, True):
            with pytest.raises(StaleError):
                replica.commit(Staging(epoch=head.epoch, start=99, replaces=replaces), head)
    assert picture(replica) == picture(owner.elements)


def test_a_transfer_that_did_not_reach_the_head_is_a_gap() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1)])
    replica = owner.replica()
    head = owner.publish([add(2, 5)])
    for staging in (
        Staging(epoch=1, start=4, replaces=False),
        Staging(epoch=2, start=5, replaces=False),
        Staging(epoch=1, start=4, replaces=True),
    ):
        with pytest.raises(GapError):
            replica.commit(staging, head)
    assert replica.version == Version(1, 1)


def test_c8_an_old_delta_replayed_after_the_floor_moved_inserts_nothing() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1)])
    owner.publish([add(2, 2)])
    old = transfer(owner.elements, 0)
    owner.publish([remove(2, 3)])
    replica = owner.replica()
    owner.publish(stamp=4, floor=4)
    pull(replica, owner.elements, owner.head)
    assert replica.entry(element(2)) is None
    head = owner.publish([add(5, 5)])
    staging = staged(head, replica.version.stamp, old)
    for chunk in transfer(owner.elements, 4):
        staging.add(*chunk)
    assert replica.commit(staging, head) == [Change(element(5), None, b"\x01", 5)]
    assert replica.entry(element(2)) is None
    assert picture(replica) == picture(owner.elements)


@pytest.mark.parametrize("above", [-1, 0, 1], ids=["vv - 1", "vv", "vv + 1"])
def test_c7_a_delta_may_start_at_the_floor_but_not_below_it(above: int) -> None:
    owner = OwnerHistory()
    owner.publish([add(number, number) for number in range(1, 11)])
    replica = owner.replica()
    owner.publish([remove(3, 11), remove(4, 12)])
    head = owner.publish(stamp=13, floor=replica.version.stamp + above)
    delta = staged(head, 10, transfer(owner.elements, 10))
    assert replica.can_continue(head) is (above <= 0)
    if above > 0:
        before = picture(replica)
        with pytest.raises(ContinuityError):
            replica.commit(delta, head)
        assert picture(replica) == before
        delta = staged(head, 0, transfer(owner.elements, 0), replaces=True)
    changes = replica.commit(delta, head)
    assert [(change.element, change.after) for change in changes] == [
        (element(3), None),
        (element(4), None),
    ]
    assert picture(replica) == picture(owner.elements)


def test_a_replica_with_nothing_takes_no_delta() -> None:
    owner = OwnerHistory()
    head = owner.publish([add(1, 1)])
    replica = OriginSet()
    with pytest.raises(ContinuityError) as caught:
        replica.commit(staged(head, 0, transfer(owner.elements, 0)), head)
    assert caught.value.code == "needs_snapshot"
    assert replica.version == ZERO


@given(owners())
def test_a_tombstone_at_or_below_the_floor_is_never_kept(owner: OwnerHistory) -> None:
    head = owner.head
    extra = [remove(50, max(1, head.floor)), remove(51, max(1, head.floor // 2))]
    chunk = sorted([*owner.elements.entries(), *extra], key=lambda entry: entry[1])
    replica = OriginSet()
    if head.floor:
        replica.commit(staged(head, 0, [(0, head.stamp, chunk)], replaces=True), head)
        assert picture(replica) == picture(owner.elements)


OURS = b"the root of the replica"


def epochs() -> tuple[OwnerHistory, list[Head]]:
    """Heads at stamps 10, 20 and 30 of epoch 1; epoch 2 continues from the one at 20."""
    owner = OwnerHistory()
    heads = [owner.publish([add(number, number)]) for number in (10, 20, 30)]
    owner.open_epoch(base=heads[1])
    owner.publish([add(4, 40), remove(10, 41)])
    return owner, heads


@pytest.mark.parametrize("at", [0, 1], ids=["before the base", "at the base"])
def test_c10_a_delta_leads_into_a_new_epoch_from_up_to_its_base(at: int) -> None:
    owner, heads = epochs()
    replica = at_head(owner, heads[at])
    assert replica.can_continue(owner.head)
    pull(replica, owner.elements, owner.head)
    assert picture(replica) == picture(owner.elements)


def test_c10_beyond_the_base_only_a_snapshot_leads_into_a_new_epoch() -> None:
    owner, heads = epochs()
    replica = at_head(owner, heads[2])
    before = picture(replica)
    with pytest.raises(ContinuityError):
        replica.commit(staged(owner.head, 30, transfer(owner.elements, 30)), owner.head)
    assert picture(replica) == before
    changes = pull(replica, owner.elements, owner.head)
    assert picture(replica) == picture(owner.elements)
    # What the fenced writer had added is gone for readers as well.
    assert Change(element(30), b"\x01", None, 41) in changes


@pytest.mark.parametrize(
    "lie",
    [
        {"base": None},
        {"base": Base(0, 20, OURS)},
        {"base": Base(2, 20, OURS)},
        {"base": Base(1, 20, bytes(32))},
        {"base": Base(1, 19, OURS)},
        {"base": Base(1, 99, OURS)},
    ],
    ids=["none", "older epoch", "same epoch", "another root", "before us", "beyond the head"],
)
def test_c10_a_base_that_is_not_ours_needs_a_snapshot(lie: dict[str, Any]) -> None:
    owner, heads = epochs()
    replica = at_head(owner, heads[1])
    if lie["base"] is not None and lie["base"].root == OURS:
        lie = {"base": lie["base"]._replace(root=replica.root())}
    assert not replica.can_continue(replace(owner.head, **lie))


def test_a_new_epoch_may_not_continue_to_an_earlier_stamp_than_its_base() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 10)])
    replica = owner.replica()
    base = Base(1, 10, owner.head.root)
    earlier = replace(owner.head, epoch=2, base=base, stamp=5)
    with pytest.raises(ContinuityError):
        replica.commit(Staging(epoch=2, start=10, replaces=False), earlier)
    assert picture(replica) == picture(owner.elements)


def test_of_two_states_signed_for_one_version_all_replicas_end_on_the_larger_root() -> None:
    one, two = OwnerHistory(), OwnerHistory()
    heads = [one.publish([add(1, 1), add(2, 2)]), two.publish([add(1, 1), add(3, 2)])]
    owners = {heads[0].root: one, heads[1].root: two}
    small, large = (owners[root] for root in sorted(owners))
    for first, second in ((small, large), (large, small)):
        replica = first.replica()
        staging = staged(second.head, 0, transfer(second.elements, 0), replaces=True)
        delta = staged(second.head, 2, transfer(second.elements, 2))
        with pytest.raises(StaleError):
            replica.commit(delta, second.head)
        if second is large:
            assert len(replica.commit(staging, second.head)) == 2
        else:
            with pytest.raises(StaleError):
                replica.commit(staging, second.head)
        assert picture(replica) == picture(large.elements)


# What readers are told


@given(owners(), st.data())
def test_a_commit_tells_exactly_how_the_live_view_changed(
    owner: OwnerHistory, data: st.DataObject
) -> None:
    first = data.draw(st.sampled_from(owner.heads[:-1]))
    replica = at_head(owner, first)
    changes = pull(replica, owner.elements, owner.head, data.draw(budget_like))
    expected = changes_between(owner.states[first.version], state_of(replica), owner.head.version)
    assert changes == expected


def test_elements_removed_while_older_tombstones_are_collected_are_told_once() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1), remove(2, 2), add(3, 3)])
    replica = owner.replica()
    owner.publish([remove(1, 4)])
    owner.publish(stamp=5, floor=2)
    staging = staged(owner.head, 3, transfer(owner.elements, 3))
    staging.add(3, 5, [remove(3, 5)])
    owner.publish([remove(3, 6)])
    head = owner.publish(stamp=7, floor=3)
    staging.add(5, 6, [remove(3, 6)])
    staging.add(6, 7, [])
    changes = replica.commit(staging, head)
    assert changes == [Change(element(1), b"\x01", None, 4), Change(element(3), b"\x01", None, 6)]
    assert picture(replica) == picture(owner.elements)


def test_a_removed_element_whose_tombstone_is_gone_is_told_with_the_heads_stamp() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1)])
    replica = owner.replica()
    owner.publish([remove(1, 2)], stamp=3, floor=3)
    # Only a snapshot leads over that floor, and its readers still hear of the remove.
    assert pull(replica, owner.elements, owner.head) == [Change(element(1), b"\x01", None, 3)]


def test_a_new_stamp_on_the_same_value_is_no_change_for_readers() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1)])
    replica = owner.replica()
    owner.publish([add(1, 2)])
    assert pull(replica, owner.elements, owner.head) == []
    assert replica.get(element(1)) == (2, b"\x01")


def test_both_halves_of_a_swap_come_in_one_commit() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1)])
    replica = owner.replica()
    head = owner.publish([remove(1, 2), add(2, 3)])
    first, second = transfer(owner.elements, 1, 0)
    staging = staged(head, 1, [first])
    with pytest.raises(GapError):
        replica.commit(staging, head)
    assert [key for key, _, _ in replica.live()] == [element(1)]
    staging.add(*second)
    replica.commit(staging, head)
    assert [key for key, _, _ in replica.live()] == [element(2)]


# The owner's step


@pytest.mark.parametrize(
    ("entries", "version"),
    [
        ([add(1, 5)], Version(1, 9)),
        ([add(1, 4)], Version(1, 9)),
        ([add(1, 7), add(2, 6)], Version(1, 9)),
        ([add(1, 6), add(2, 6)], Version(1, 9)),
        ([add(1, 9)], Version(1, 8)),
        ([], Version(1, 4)),
        ([], Version(0, 9)),
    ],
    ids=["repeated", "older", "falling", "equal", "beyond", "back", "older epoch"],
)
def test_an_owner_whose_stamps_do_not_rise_is_refused(
    entries: list[Entry], version: Version
) -> None:
    elements = OriginSet()
    elements.advance([add(1, 2), add(7, 5)], version=Version(1, 5), floor=0)
    before = picture(elements)
    with pytest.raises(StaleError):
        elements.advance(entries, version=version, floor=0)
    assert picture(elements) == before


def test_an_owner_may_publish_the_same_state_in_a_new_epoch() -> None:
    elements = OriginSet()
    elements.advance([add(1, 5)], version=Version(1, 5), floor=0)
    root = elements.root()
    elements.advance([], version=Version(2, 5), floor=0)
    assert (elements.version, elements.root()) == (Version(2, 5), root)


def test_long_churn_keeps_the_log_short_and_right() -> None:
    owner, replica = OwnerHistory(), OriginSet()
    owner.publish([add(number, number + 1) for number in range(20)])
    pull(replica, owner.elements, owner.head)
    for turn in range(400):
        number, stamp = turn % 7, owner.stamp + 1
        owner.publish([remove(number, stamp), add(number, stamp + 1, turn)][turn % 2 :][:1])
        if turn % 2:
            owner.publish([remove(number + 20, owner.stamp + 1)])
        if turn % 50 == 49:
            owner.publish(stamp=owner.stamp + 1, floor=owner.stamp - 3)
        pull(replica, owner.elements, owner.head)
        for elements in (owner.elements, replica):
            limit = 2 * len(elements) + 64
            assert len(elements._log) <= limit
            assert len(elements._tombstones) <= limit
    assert picture(replica) == picture(owner.elements)


def test_flapping_without_a_floor_move_does_not_grow_the_tombstone_queue() -> None:
    elements = OriginSet()
    for stamp in range(1, 2001):
        entry = add(1, stamp) if stamp % 2 else remove(1, stamp)
        elements.advance([entry], version=Version(1, stamp), floor=0)
    assert len(elements._tombstones) <= 70
    elements.advance([], version=Version(1, 2001), floor=2001)
    assert (len(elements), elements.live_count) == (0, 0)


# What is mended


def test_a_staging_that_mends_replaces_its_own_version_and_no_lower_one() -> None:
    owner = OwnerHistory()
    former = owner.publish([add(number, number + 1, 7) for number in range(4)])
    head = owner.publish([add(1, 9, 8)])
    whole = [(key, *stored) for key, stored in owner.states[head.version].items()]
    replica = at_head(owner, head)
    name, stamp, op, _ = whole[0]
    replica._entries[name] = stored_of(stamp, op, b"rotten")

    def staging(*, mends: bool) -> Staging:
        made = Staging(epoch=head.epoch, start=0, replaces=True, mends=mends)
        made.add(0, head.stamp, whole)
        return made

    with pytest.raises(StaleError):
        replica.commit(staging(mends=False), head)
    with pytest.raises(StaleError):
        replica.commit(staging(mends=True), former)
    (change,) = replica.commit(staging(mends=True), head)
    assert (change.element, change.before) == (name, b"rotten")
    assert state_of(replica) == owner.states[head.version]
    assert replica.root() == head.root
