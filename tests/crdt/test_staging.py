"""Commits worked out beside the committed state: prepared or not, the same comes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdt import MismatchError, OriginSet, Staging
from crdt.digest import MerkleDigest
from crdt.entries import record_of, stored_of
from tests.crdt.origin import OwnerHistory, add, picture, remove, staged, transfer


def prepared(
    replica: OriginSet, owner: OwnerHistory, start: int, *, replaces: bool, budget: int = 40
) -> Staging:
    """A transfer of small chunks to the owner's head, each prepared as it came."""
    staging = Staging(epoch=owner.head.epoch, start=start, replaces=replaces)
    for first, to, entries in transfer(owner.elements, start, budget):
        staging.add(first, to, entries)
        replica.prepare(staging)
    return staging


@pytest.mark.parametrize("replaces", [True, False])
def test_a_prepared_commit_is_the_commit(*, replaces: bool) -> None:
    owner = OwnerHistory()
    owner.publish([add(number, number + 1) for number in range(80)])
    one, other = owner.replica(), owner.replica()
    stamp = owner.stamp
    owner.publish([remove(3, stamp + 1), add(3, stamp + 2, "again"), remove(5, stamp + 3)])
    owner.publish([add(200, owner.stamp + 1), remove(200, owner.stamp + 2)])
    start = 0 if replaces else one.version.stamp
    staging = prepared(one, owner, start, replaces=replaces)
    assert staging.is_prepared(owner.head.stamp)
    assert not staging.is_prepared(owner.head.stamp - 1)
    whole = staged(owner.head, start, transfer(owner.elements, start), replaces=replaces)
    assert not whole.is_prepared(owner.head.stamp)
    assert one.commit(staging, owner.head) == other.commit(whole, owner.head)
    assert picture(one) == picture(other) == picture(owner.elements)


def test_what_is_prepared_is_not_seen_and_is_told_step_by_step() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1), add(2, 2)])
    replica, before = owner.replica(), picture(owner.elements)
    owner.publish([add(1, 3, "x"), remove(2, 4), add(3, 5)])
    staging = Staging(epoch=1, start=2, replaces=False)
    told = []
    for first, to, entries in transfer(owner.elements, 2, 1):
        staging.add(first, to, entries)
        told.append(replica.prepare(staging))
        assert replica.prepare(staging) == []
        assert picture(replica) == before
    assert [len(changes) for changes in told] == [1, 1, 1]
    changes = replica.commit(staging, owner.head)
    assert sorted(change for some in told for change in some) == changes


def test_a_chunk_that_comes_after_the_commit_of_a_snapshot_changes_nothing() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1), add(2, 2)])
    staging = staged(owner.head, 0, transfer(owner.elements, 0), replaces=True)
    replica = OriginSet()
    replica.commit(staging, owner.head)
    before = picture(replica)
    staging.add(0, owner.head.stamp, [add(3, 1), add(1, 9)])
    assert picture(replica) == before


def test_a_transfer_out_of_order_is_committed_all_the_same() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1), add(2, 2), add(3, 3)])
    replica = OriginSet()
    staging = Staging(epoch=1, start=0, replaces=True)
    staging.add(0, 3, [add(3, 3)])
    replica.prepare(staging)
    staging.add(0, 3, [add(1, 1), add(2, 2)])
    replica.prepare(staging)
    assert not staging.is_prepared(3)
    replica.commit(staging, owner.head)
    assert picture(replica) == picture(owner.elements)


def test_what_was_prepared_for_another_version_is_made_anew() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1)])
    replica = owner.replica()
    owner.publish([add(2, 2)])
    middle, early = owner.head, transfer(owner.elements, 1)
    owner.publish([add(3, 3)])
    staging = prepared(replica, owner, 1, replaces=False, budget=1)
    replica.commit(staged(middle, 1, early), middle)
    staging.add(3, 3, [])
    assert not replica.prepare(staging)
    replica.commit(staging, owner.head)
    assert picture(replica) == picture(owner.elements)


def test_what_did_not_add_up_can_be_committed_under_the_right_head() -> None:
    owner = OwnerHistory()
    owner.publish([add(1, 1), remove(2, 2)])
    replica = owner.replica()
    owner.publish([add(3, 3)], stamp=4, floor=2)
    staging = prepared(replica, owner, 2, replaces=False)
    before = picture(replica)
    with pytest.raises(MismatchError):
        replica.commit(staging, replace(owner.head, root=bytes(32)))
    assert picture(replica) == before
    replica.commit(staging, owner.head)
    assert picture(replica) == picture(owner.elements)


@pytest.mark.parametrize("floor", [True, False])
def test_a_commit_is_told_in_slices(*, floor: bool) -> None:
    owner = OwnerHistory()
    owner.publish([add(number, number + 1) for number in range(30)])
    replica = owner.replica()
    stamp = owner.stamp
    owner.publish([add(number, stamp + number, "x") for number in range(5, 15)])
    owner.publish(
        [remove(20, owner.stamp + 1), remove(21, owner.stamp + 2), add(40, owner.stamp + 3)]
    )
    if floor:
        owner.publish(stamp=owner.stamp + 1, floor=owner.stamp)
    start = 0 if floor else stamp
    former = replica.swap(prepared(replica, owner, start, replaces=floor), owner.head)
    slices = []
    while not former.told:
        slices.append(former.differences(4))
        assert len(slices[-1]) <= 4
    changed = {change.element: change for some in slices for change in some}
    assert len(changed) == sum(map(len, slices)) == 13
    assert former.differences(4) == []


@given(
    st.lists(st.binary(min_size=1, max_size=6), unique=True, min_size=1, max_size=200), st.data()
)
def test_a_fork_of_a_digest_and_the_digest_go_their_own_ways(
    keys: list[bytes], data: st.DataObject
) -> None:
    stored = stored_of(1, 0, b"\x01")
    digest = MerkleDigest(record_of(key, stored) for key in keys)
    root = digest.root()
    fork = digest.fork()
    gone = data.draw(st.sampled_from(keys))
    fork.replace(record_of(gone, stored)[:8], lambda: record_of(gone, stored)[8:], None)
    left = [key for key in keys if key != gone]
    assert fork.root() == MerkleDigest(record_of(key, stored) for key in left).root()
    assert digest.root() == root
    new = b"a new element"
    digest.replace(record_of(new, stored)[:8], None, record_of(new, stored)[8:])
    assert digest.root() == MerkleDigest(record_of(key, stored) for key in [*keys, new]).root()
    assert fork.root() == MerkleDigest(record_of(key, stored) for key in left).root()
