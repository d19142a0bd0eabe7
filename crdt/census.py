"""The buckets of a set as its entries make them, whatever its digest says.

Where a digest can no longer be believed, the nodes of :mod:`crdt.buckets` are made anew from the
entries, to be compared with those of another replica.  It goes in slices, since a million entries
take seconds; the set must not change meanwhile, nor while :meth:`Census.outside` is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from crdt.buckets import ROOT_INDEX, Nodes, level_of
from crdt.digest import (
    KEY_SIZE,
    LEAF_RECORDS,
    branch_digest,
    key_hash,
    records_digest,
)
from crdt.entries import Stored, record_of

SLICE = 3000
"""Entries of a step: some ten milliseconds."""


class Census:
    """One pass over the entries of one set."""

    __slots__ = (
        "_at",
        "_counts",
        "_digests",
        "_elements",
        "_entries",
        "_names",
        "_records",
        "_waiting",
        "depth",
    )

    def __init__(self, entries: Mapping[bytes, Stored], depth: int) -> None:
        """Begin with these entries, to be told apart by nodes of at most ``depth``."""
        self.depth = depth
        self._entries = entries
        self._names = list(entries)
        self._at = 0
        self._elements: dict[int, list[bytes]] = {}
        self._records: dict[int, list[bytes]] = {}
        self._counts: dict[int, int] = {}
        self._waiting: list[int] | None = None
        self._digests: dict[int, bytes] = {}

    def step(self, limit: int = SLICE) -> bool:
        """Do the next slice; whether all is done."""
        if self._at < len(self._names):
            self._sort(self._names[self._at : self._at + limit])
            self._at += limit
            return False
        if self._waiting is None:
            self._count()
        while self._waiting and limit > 0:
            index = self._waiting.pop()
            self._digests[index] = self._digest(index)
            limit -= self._counts[index]
        return not self._waiting

    def _sort(self, names: Iterable[bytes]) -> None:
        shift, lead = 8 * KEY_SIZE - 4 * self.depth, 1 << 4 * self.depth
        for element in names:
            key = key_hash(element)
            bucket = lead | int.from_bytes(key, "big") >> shift
            record = record_of(element, self._entries[element])
            self._elements.setdefault(bucket, []).append(element)
            self._records.setdefault(bucket, []).append(record)

    def _count(self) -> None:
        """Work out how much lies under each node, and which nodes there are."""
        for bucket, records in self._records.items():
            index = bucket
            while index >= ROOT_INDEX:
                self._counts[index] = self._counts.get(index, 0) + len(records)
                index >>= 4
        self._waiting = []
        nodes = [ROOT_INDEX]
        while nodes:
            index = nodes.pop()
            if level_of(index) == self.depth or self._counts.get(index, 0) <= LEAF_RECORDS:
                self._counts.setdefault(index, 0)
                self._waiting.append(index)
            else:
                nodes += [index << 4 | digit for digit in range(16)]

    def _digest(self, index: int) -> bytes:
        records: list[bytes] = []
        free = 4 * (self.depth - level_of(index))
        for bucket in range(index << free, index + 1 << free):
            records += self._records.get(bucket, ())
        return records_digest(b"".join(sorted(records)), level_of(index))

    @property
    def nodes(self) -> Nodes:
        """The nodes found; complete once :meth:`step` has said so, in no particular order."""
        return self._digests

    def root(self, index: int = ROOT_INDEX) -> bytes:
        """What all hash up to: the root that a digest of these entries has."""
        found = self._digests.get(index)
        if found is not None:
            return found
        return branch_digest(b"".join(self.root(index << 4 | digit) for digit in range(16)))

    def outside(self, indexes: Iterable[int]) -> Iterator[tuple[bytes, Stored]]:
        """What is kept of the elements that lie in none of the nodes ``indexes``."""
        inside = frozenset(indexes)
        for bucket, elements in self._elements.items():
            index = bucket
            while index >= ROOT_INDEX and index not in inside:
                index >>= 4
            if index < ROOT_INDEX:
                yield from ((element, self._entries[element]) for element in elements)
