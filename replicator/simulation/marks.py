"""Fingerprints of live states, cheap to keep up to date and to compare.

A sum of hashes can be forged, which is why digests are Merkle roots; a simulation forges nothing.
The hashes are this process's own: they are compared, never shown.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdt import Change, OriginSet

Mark = tuple[int, int]
"""How many elements are live, and the sum of the hashes of (element, value)."""
NOTHING: Mark = (0, 0)


def mark_of(items: Iterable[tuple[bytes, bytes]]) -> Mark:
    """The fingerprint of a live state, from nothing."""
    hashes = [hash(item) for item in items]
    return len(hashes), sum(hashes)


def moved(mark: Mark, changes: Iterable[Change]) -> Mark:
    """The fingerprint after ``changes``."""
    count, total = mark
    for element, before, after, _ in changes:
        if before is not None:
            count, total = count - 1, total - hash((element, before))
        if after is not None:
            count, total = count + 1, total + hash((element, after))
    return count, total


def together(one: Mark, other: Mark) -> Mark:
    """The fingerprint of two states that share no element."""
    return one[0] + other[0], one[1] + other[1]


def live_mark(elements: OriginSet) -> Mark:
    """The fingerprint of what readers see of a set."""
    return mark_of((element, value) for element, _, value in elements.live())
