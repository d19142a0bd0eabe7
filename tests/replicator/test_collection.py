"""When our own tombstones may go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdt import Origin, OriginSet, StampClock, Version
from crdt.entries import ADD, NIL, REMOVE
from replicator.collection import (
    COLLECTED_AT_ONCE,
    LAG_SECONDS,
    Acknowledged,
    Collection,
    new_floor,
)
from replicator.own_origin import OwnOrigin
from tests.support.signers import FakeSigner

EPOCH = 3
NOW = 10_000.0
KEPT_ALWAYS = 10_000


def owned(live: int, dead: int, floor: int = 0) -> OriginSet:
    """Live elements at stamps 1.., then tombstones at the stamps after them."""
    entries = [(b"l%d" % number, number, ADD, b"v") for number in range(1, live + 1)]
    entries += [
        (b"d%d" % number, number, REMOVE, NIL) for number in range(live + 1, live + dead + 1)
    ]
    version = Version(EPOCH, live + dead + 1)
    elements = OriginSet.restored(version, 0, entries)
    elements.advance([], version=version, floor=floor)
    return elements


def at(stamp: int, *, epoch: int = EPOCH, ago: float = 0.0) -> Acknowledged:
    """A member that has committed up to ``stamp`` and said so ``ago`` seconds before now."""
    return Acknowledged(Version(epoch, stamp), NOW - ago)


def test_without_tombstones_nothing_moves() -> None:
    assert new_floor(OriginSet(), [], NOW) is None
    assert new_floor(owned(5, 0), [at(5)], NOW) is None


def test_alone_there_is_nobody_to_keep_tombstones_for() -> None:
    elements = owned(2, 3)
    assert new_floor(elements, [], NOW) == elements.version.stamp


@pytest.mark.parametrize(
    ("members", "floor"),
    [
        ([at(4), at(6)], 4),
        ([at(6), at(4), at(5)], 4),
        ([at(3)], 3),
        ([at(99)], 6),
        ([at(2), at(6)], None),
        ([at(0)], None),
    ],
)
def test_the_floor_follows_the_member_that_is_furthest_behind(
    members: list[Acknowledged], floor: int | None
) -> None:
    assert new_floor(owned(2, 3), members, NOW) == floor


def test_a_floor_that_frees_nothing_stays() -> None:
    elements = owned(2, 3, floor=4)
    assert elements.tombstone_count == 1
    assert new_floor(elements, [at(4)], NOW) is None
    assert new_floor(elements, [at(5)], NOW) == 5


def test_what_was_acknowledged_of_another_epoch_counts_as_nothing() -> None:
    assert new_floor(owned(2, 3), [at(6), at(6, epoch=EPOCH - 1)], NOW) is None
    assert new_floor(owned(2, 3), [at(6), at(6, epoch=EPOCH + 1)], NOW) is None


def test_a_member_that_said_nothing_for_an_hour_is_not_waited_for() -> None:
    elements = owned(2, 3)
    assert new_floor(elements, [at(6), at(1, ago=LAG_SECONDS - 1)], NOW) is None
    assert new_floor(elements, [at(6), at(1, ago=LAG_SECONDS)], NOW) == 6
    assert new_floor(elements, [at(1, ago=LAG_SECONDS)], NOW) == 6


def test_ten_thousand_tombstones_are_kept_for_whoever_lags_and_no_more() -> None:
    behind = [at(0)]
    assert new_floor(owned(0, KEPT_ALWAYS), behind, NOW) is None
    elements = owned(0, KEPT_ALWAYS + 7)
    assert new_floor(elements, behind, NOW) == 7
    assert new_floor(elements, [at(5)], NOW) == 7
    assert new_floor(elements, [at(9)], NOW) == 9


def test_a_fifth_of_the_live_elements_is_kept_where_that_is_more() -> None:
    live = 5 * (KEPT_ALWAYS + 10)
    elements = owned(live, KEPT_ALWAYS + 13)
    assert new_floor(elements, [at(0)], NOW) == live + 3
    elements.advance([], version=elements.version, floor=live + 3)
    assert new_floor(elements, [at(0)], NOW) is None


def test_many_tombstones_go_in_several_steps() -> None:
    elements = owned(0, 2 * COLLECTED_AT_ONCE + 5)
    left = []
    while (floor := new_floor(elements, [at(1 << 40)], NOW)) is not None:
        elements.advance([], version=elements.version, floor=floor)
        left.append(elements.tombstone_count)
    assert left == [COLLECTED_AT_ONCE + 5, 5, 0]


def test_a_collection_that_leaves_many_goes_on_at_the_next_look() -> None:
    elements = owned(0, 2 * COLLECTED_AT_ONCE + 5)
    own = OwnOrigin(
        *(Origin("fjord"), FakeSigner("fjord")), epoch=EPOCH, clock=StampClock(), elements=elements
    )
    collection = Collection(own, {}, {}, {})
    left = []
    for look in range(4):
        collection.tick(NOW + look / 10, 1_000_000)
        if own.dirty:
            own.seal(1_000_000)
            own.published()
        left.append(elements.tombstone_count)
    assert left == [COLLECTED_AT_ONCE + 5, 5, 0, 0]


members = st.builds(
    Acknowledged,
    st.builds(Version, st.integers(EPOCH - 1, EPOCH + 1), st.integers(0, 40)),
    st.floats(NOW - 2 * LAG_SECONDS, NOW),
)


@given(
    live=st.integers(0, 10), dead=st.integers(0, 10), many=st.lists(members), kept=st.integers(0, 9)
)
def test_a_floor_only_rises_within_what_is_stated_and_passes_nobody_who_is_waited_for(
    live: int, dead: int, many: list[Acknowledged], kept: int
) -> None:
    elements = owned(live, dead, floor=kept)
    before = elements.tombstone_count
    floor = new_floor(elements, many, NOW)
    if floor is None:
        return
    assert elements.floor < floor <= elements.version.stamp
    waited_for = [member.version for member in many if NOW - member.at < LAG_SECONDS]
    assert all(version.epoch == EPOCH and version.stamp >= floor for version in waited_for)
    elements.advance([], version=Version(EPOCH, elements.version.stamp + 1), floor=floor)
    assert elements.tombstone_count < before
