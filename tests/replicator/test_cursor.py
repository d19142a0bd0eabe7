"""What a peer must be sent next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdt import ZERO, Base, Head, Origin, Version
from crdt.buckets import Cover
from replicator.cursor import Cursor

ROOT = b"r" * 32


def head(
    stamp: int, *, epoch: int = 1, floor: int = 0, base: Base | None = None, issued: int = 0
) -> Head:
    """A head of fjord."""
    return Head(Origin("fjord"), epoch, base, stamp, floor, 1, ROOT, issued or stamp, 0, b"k")


def aimed(cursor: Cursor, at: Head) -> tuple[bool, int, int]:
    """(snapshot, position, epoch) of the next chunk."""
    cursor.aim(at)
    return (cursor.snapshot, cursor.position, cursor.epoch)


def test_a_peer_that_has_nothing_gets_a_snapshot() -> None:
    cursor = Cursor(ZERO)
    assert cursor.has_work(head(9))
    assert aimed(cursor, head(9)) == (True, 0, 1)


def test_a_peer_that_is_behind_gets_what_came_since() -> None:
    assert aimed(Cursor(Version(1, 5)), head(9)) == (False, 5, 1)


def test_a_peer_that_asks_for_a_snapshot_gets_one() -> None:
    assert aimed(Cursor(Version(1, 5), snapshot=True), head(9)) == (True, 0, 1)
    assert Cursor(Version(1, 9), snapshot=True).has_work(head(9))


@pytest.mark.parametrize(("floor", "snapshot"), [(4, False), (5, False), (6, True)])
def test_a_floor_above_what_a_peer_has_takes_a_snapshot(floor: int, *, snapshot: bool) -> None:
    assert aimed(Cursor(Version(1, 5)), head(9, floor=floor))[0] is snapshot


@pytest.mark.parametrize(
    ("base", "snapshot"),
    [
        (None, True),
        (Base(1, 5, ROOT), False),
        (Base(1, 7, ROOT), False),
        (Base(1, 4, ROOT), True),
        (Base(2, 7, ROOT), True),
        (Base(1, 10, ROOT), True),
    ],
)
def test_a_delta_leads_into_an_epoch_that_continues_from_what_the_peer_has(
    base: Base | None, *, snapshot: bool
) -> None:
    # A base beyond its own head is a lie of the origin; it must not make us send a chunk backwards.
    cursor = Cursor(Version(1, 5))
    assert aimed(cursor, head(9, epoch=3, base=base)) == (snapshot, 0 if snapshot else 5, 3)


def test_a_peer_that_has_more_than_we_gets_nothing() -> None:
    assert not Cursor(Version(1, 10)).has_work(head(9))
    assert not Cursor(Version(2, 1)).has_work(head(9))


def test_a_transfer_goes_on_to_the_head_that_is_served_meanwhile() -> None:
    cursor = Cursor(Version(1, 5))
    cursor.aim(head(9))
    cursor.sent(7, None)
    assert aimed(cursor, head(12)) == (False, 7, 1)
    cursor.sent(12, head(12))
    assert not cursor.has_work(head(12))
    assert aimed(cursor, head(15)) == (False, 12, 1)


def test_a_delta_under_way_starts_over_when_the_epoch_changes() -> None:
    cursor = Cursor(Version(1, 5))
    cursor.aim(head(9))
    cursor.sent(7, None)
    assert aimed(cursor, head(9, epoch=2, base=Base(1, 6, ROOT))) == (False, 5, 2)


def test_a_snapshot_under_way_goes_on_while_it_lacks_no_tombstone() -> None:
    cursor = Cursor(ZERO)
    cursor.aim(head(9))
    cursor.sent(4, None)
    assert aimed(cursor, head(12, floor=9)) == (True, 4, 1)
    assert aimed(cursor, head(13, floor=10)) == (True, 0, 1)
    assert cursor.first == 13


def test_a_snapshot_under_way_starts_over_when_the_epoch_changes() -> None:
    cursor = Cursor(ZERO)
    cursor.aim(head(9))
    cursor.sent(4, None)
    assert aimed(cursor, head(9, epoch=2)) == (True, 0, 2)


def test_a_later_issue_of_the_same_head_is_news_once() -> None:
    cursor = Cursor(Version(1, 9))
    assert cursor.has_work(head(9))
    cursor.aim(head(9))
    cursor.sent(9, head(9))
    assert not cursor.has_work(head(9))
    assert cursor.has_work(head(9, issued=20))


def test_another_state_signed_for_the_same_version_is_news_even_if_issued_earlier() -> None:
    cursor = Cursor(Version(1, 9))
    cursor.aim(head(9))
    cursor.sent(9, head(9))
    assert cursor.has_work(replace(head(9, issued=1), root=b"s" * 32))


def lending(version: Version, *indexes: int) -> Cursor:
    """A cursor of a peer that mends what it holds."""
    return Cursor(version, cover=Cover(indexes))


def test_behind_buckets_a_delta_begins_at_the_version_they_were_told_at() -> None:
    """What the peer holds of the other buckets is of that version."""
    cursor = lending(Version(1, 5), 1)
    assert cursor.has_work(head(5))
    assert aimed(cursor, head(9)) == (False, 0, 1)
    cursor.lent(7, last=False)
    assert aimed(cursor, head(9)) == (False, 7, 1)
    assert cursor.cover is not None
    cursor.lent(9, last=True)
    assert cursor.cover is None
    assert aimed(cursor, head(9)) == (False, 5, 1)
    assert cursor.has_work(head(5))


@pytest.mark.parametrize(
    "later", [head(9, floor=6), head(9, epoch=2), head(9, epoch=2, base=Base(1, 7, ROOT))]
)
def test_where_no_delta_can_follow_buckets_a_snapshot_is_sent_instead(later: Head) -> None:
    cursor = lending(Version(1, 5), 1)
    assert aimed(cursor, head(8)) == (False, 0, 1)
    cursor.lent(7, last=False)
    assert aimed(cursor, later) == (True, 0, later.epoch)
    assert cursor.cover is None


def test_nobody_lends_before_it_has_what_it_told_of() -> None:
    assert not lending(Version(1, 5), 1).has_work(head(4))
