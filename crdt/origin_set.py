"""One origin's elements at one committed version: intervals, staging, commit (rules C1-C8).

The owner advances its set with each head it publishes; a replica stages what it receives and
commits only at heads whose count and root it reproduces.  So every committed state is exactly the
owner's at that head, and a reader never sees half a batch.

A commit is worked out beside the committed state (:class:`~crdt.staging.Draft`), chunk by chunk if
the caller prepares each, and then swapped in; one that does not add up has changed nothing.

Invariants: the digest covers exactly ``_entries``; stamps are unique and increasing within the
origin, so the order of the log is history; no tombstone at or below ``floor`` is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from crdt.digest import MerkleDigest, key_hash
from crdt.entries import (
    Entry,
    Stored,
    is_remove,
    live_value,
    opened,
    record_of,
    stamp_of,
    stored_digest,
    stored_of,
)
from crdt.entry_log import EntryLog
from crdt.errors import ContinuityError, GapError, MismatchError, StaleError
from crdt.former import Former
from crdt.head import Head
from crdt.staging import Base, Change, Draft, Staging
from crdt.version_vector import ZERO, Version

_OVERHEAD = 24
"""Bytes an entry takes in a chunk beside its element and value, at most."""
_HEADER = 9
"""Bytes of what is stored of an entry beside its value."""
_NOTHING: Stored = b"\xff" * 8
"""The stamp of no entry."""


class Chunk(NamedTuple):
    """A prefix of what lies after some stamp, cut in stamp order (rules C3, C4)."""

    entries: list[Entry]
    to: int
    complete: bool
    """Nothing remains: ``to`` is the head's stamp."""


class OriginSet:
    """The committed elements of one origin."""

    __slots__ = ("_digest", "_entries", "_live", "_log", "_tombstones", "floor", "version")

    def __init__(self) -> None:
        """Nothing, at version zero."""
        self.version: Version = ZERO
        self.floor = 0
        self._entries: dict[bytes, Stored] = {}
        self._digest = MerkleDigest()
        self._log = EntryLog()
        self._tombstones = EntryLog()
        self._live = 0

    @classmethod
    def restored(cls, version: Version, floor: int, entries: Iterable[Entry]) -> OriginSet:
        """The set as a journal kept it; the caller checks count and root against the head."""
        result = cls()
        result.version, result.floor = version, floor
        kept = result._entries
        for element, stamp, op, value in sorted(entries, key=itemgetter(1)):
            kept[element] = stored = stored_of(stamp, op, value)
            result._note(stamp, element, stored)
        result._digest = MerkleDigest(record_of(*item) for item in kept.items())
        result._live = sum(1 for stored in kept.values() if not is_remove(stored))
        return result

    def __len__(self) -> int:
        """Entries kept: live elements and tombstones above the floor (a head's ``count``)."""
        return len(self._entries)

    @property
    def live_count(self) -> int:
        """Number of live elements."""
        return self._live

    @property
    def tombstone_count(self) -> int:
        """Number of tombstones kept."""
        return len(self._entries) - self._live

    def floor_keeping(self, number: int) -> int:
        """The least floor that leaves at most ``number`` tombstones; 0 when that many are kept."""
        surplus = self.tombstone_count - number
        if surplus <= 0:
            return 0
        get = self._entries.get
        kept = (
            stamp
            for stamp, element in self._tombstones.after(-1)
            if stamp_of(get(element, _NOTHING)) == stamp
        )
        return next(islice(kept, surplus - 1, None))

    def root(self) -> bytes:
        """The digest of all entries (a head's ``root``)."""
        return self._digest.root()

    def nodes(self, depth: int) -> bytes:
        """The digest cut at ``depth``: what its buckets are (see :mod:`crdt.buckets`)."""
        return self._digest.nodes(depth)

    def held(self) -> Mapping[bytes, Stored]:
        """What is kept, by element; a view that moves with the set."""
        return MappingProxyType(self._entries)

    def vouched(self, element: bytes) -> bool:
        """Whether what is kept of ``element`` is what log and digest say; so is what is gone."""
        stored = self._entries.get(element)
        if stored is None:
            return True
        logged = self._log.holds(stamp_of(stored), element)
        return logged and self._digest.holds(record_of(element, stored))

    def sound(self, part: int) -> bool:
        """Whether a sixteenth of the digest is what its records give, and there are as many.

        As many as entries, that is; see :meth:`crdt.digest.SetDigest.sound`.
        """
        return len(self._digest) == len(self._entries) and self._digest.sound(part)

    def get(self, element: bytes) -> tuple[int, bytes] | None:
        """(stamp, value) of a live element, or None."""
        stored = self._entries.get(element)
        value = live_value(stored)
        return None if stored is None or value is None else (stamp_of(stored), value)

    def entry(self, element: bytes) -> Entry | None:
        """The newest entry of ``element``, tombstones included."""
        stored = self._entries.get(element)
        return None if stored is None else opened(element, stored)

    def live(self) -> Iterator[tuple[bytes, int, bytes]]:
        """(element, stamp, value) of every live element, in no particular order."""
        for element, stored in self._entries.items():
            value = live_value(stored)
            if value is not None:
                yield element, stamp_of(stored), value

    def entries(self) -> Iterator[Entry]:
        """Every entry, tombstones included, in no particular order."""
        for element, stored in self._entries.items():
            yield opened(element, stored)

    def since(self, after: int, budget: int) -> Chunk:
        """Entries after stamp ``after`` in stamp order, about ``budget`` bytes of them.

        At least one entry is taken if any remains, so a transfer always moves on (C4: ``to`` is the
        last stamp taken, or the committed stamp when nothing remains).
        """
        taken: list[Entry] = []
        entries = self._entries
        for stamp, element in self._log.after(after):
            stored = entries.get(element)
            if stored is None or stamp_of(stored) != stamp:
                continue
            budget -= len(element) + len(stored) - _HEADER + _OVERHEAD
            if budget < 0 and taken:
                return Chunk(taken, taken[-1][1], complete=False)
            taken.append(opened(element, stored))
        return Chunk(taken, self.version.stamp, complete=True)

    def advance(self, entries: Sequence[Entry], *, version: Version, floor: int) -> None:
        """The owner's step to its next head: put ``entries``, then move the floor.

        Raises :class:`StaleError`, with nothing changed, unless the stamps rise strictly from the
        present version's to at most ``version``'s, and the version does not move back.
        """
        stamps = [self.version.stamp, *(entry[1] for entry in entries)]
        rises = all(before < after for before, after in pairwise(stamps))
        if not rises or stamps[-1] > version.stamp or version < self.version:
            message = f"stamps do not rise from {self.version} to {version}"
            raise StaleError(message)
        for element, stamp, op, value in entries:
            stored = stored_of(stamp, op, value)
            self._note(stamp, element, stored)
            self._set(element, stored)
        for stamp, element in self._tombstones.after(-1):
            if stamp > floor:
                break
            if stamp_of(self._entries.get(element, _NOTHING)) == stamp:
                self._set(element, None)
        self._tombstones.forget(floor)
        self.version, self.floor = version, floor
        self._sweep(len(entries))

    def _sweep(self, put: int) -> None:
        """Keep the logs short, some positions at a time."""
        self._log.sweep(self._entries, len(self._entries), put)
        self._tombstones.sweep(self._entries, self.tombstone_count, put)

    def _note(self, stamp: int, element: bytes, stored: Stored) -> None:
        self._log.append(stamp, element)
        if is_remove(stored):
            self._tombstones.append(stamp, element)

    def _set(self, element: bytes, stored: Stored | None) -> None:
        """Replace an element's entry in the dictionary, the digest and the live count."""
        old = self._entries.get(element)
        self._digest.replace(
            key_hash(element),
            None if old is None else lambda: stored_digest(element, old),
            None if stored is None else stored_digest(element, stored),
        )
        if stored is None:
            self._entries.pop(element, None)
        else:
            self._entries[element] = stored
            self._live += not is_remove(stored)
        if old is not None:
            self._live -= not is_remove(old)

    # ---- commits -------------------------------------------------------------------------------

    def _continues(self, staging: Staging, head: Head) -> None:
        # Two states signed for one version (equivocation): the larger (root, floor, count) wins,
        # by snapshot, so that all replicas end on the same one (``Head.outdoes``).  What does not
        # add up to its head is replaced at its own version.
        mine = (self.root(), self.floor, len(self))
        larger = (head.root, head.floor, head.count) > mine
        replaces = staging.replaces and head.version == self.version
        outdoes = replaces and (staging.mends or larger)
        if head.version <= self.version and not outdoes:
            message = f"head {head.version} is not after the committed {self.version}"
            raise StaleError(message)
        if staging.epoch != head.epoch or staging.position < head.stamp:
            message = f"staged to ({staging.epoch}, {staging.position}), head is {head.version}"
            raise GapError(message)
        if not staging.replaces and not self.can_continue(head):
            message = f"head {head.version} does not continue from the committed {self.version}"
            raise ContinuityError(message)

    def can_continue(self, head: Head) -> bool:
        """Whether a delta may lead from the committed version to ``head`` (rules C7, C10)."""
        if self.version == ZERO or head.floor > self.version.stamp:
            return False
        if head.epoch == self.version.epoch:
            return True
        base = head.base
        if base is None or base.epoch != self.version.epoch:
            return False
        if not self.version.stamp <= base.stamp <= head.stamp:
            return False
        return self.version.stamp < base.stamp or base.root == self.root()

    def commit(self, staging: Staging, head: Head) -> list[Change]:
        """Move to ``head`` in one step, or raise and stay as before.

        Returns what changed for readers, in element order.  Raises :class:`StaleError`,
        :class:`GapError`, :class:`ContinuityError`, or :class:`MismatchError` when count or root
        differ from the head's, in which case the staging is worthless.
        """
        former = self.swap(staging, head)
        return sorted(former.differences(), key=itemgetter(0))

    def swap(self, staging: Staging, head: Head) -> Former:
        """As :meth:`commit`, without telling the changes: they are told by what is returned.

        After :meth:`prepare` for each chunk this takes a few steps for a snapshot of any size, and
        a dictionary update for a delta.
        """
        self._continues(staging, head)
        draft = self._draft_for(staging, head)
        draft.collect(head.floor)
        if draft.count != head.count or draft.digest.root() != head.root:
            draft.in_order = False  # tombstones are gone from it
            message = f"entries do not add up to count {head.count} and root {head.root.hex()[:16]}"
            raise MismatchError(message)
        self.version, self.floor = head.version, head.floor
        staging.entries = {}  # what was staged is ours now; it takes nothing more
        return self._replace(draft) if staging.replaces else self._merge(draft)

    def prepare(self, staging: Staging) -> list[Change]:
        """Do now what the commit of ``staging`` would have to do for what it has received so far.

        Returns what readers will see differently from the state prepared before, in stamp order;
        of a snapshot's base they will see nothing.
        """
        waiting, staging.waiting = staging.waiting, []
        draft = staging.draft
        if draft is None or draft.base.version != self.version:
            known, draft = draft, self._begin(staging, staging.entries)
            draft.in_order = known is None and not staging.lent
            staging.draft = draft
        found = list(draft.follow(waiting))
        self._sweep(len(waiting))
        draft.digest.root()
        return found

    def _begin(self, staging: Staging, put: dict[bytes, Stored]) -> Draft:
        if staging.replaces:
            nothing = Base(self.version, {}, MerkleDigest(), 0, EntryLog())
            return Draft(nothing, put, seen=-1)
        mine = (self._entries, self._digest.fork(), self._live, self._tombstones)
        return Draft(Base(self.version, *mine), put, seen=self.version.stamp)

    def _draft_for(self, staging: Staging, head: Head) -> Draft:
        """The state at ``head``: as prepared, or made anew when what came was out of order."""
        self.prepare(staging)
        draft = staging.draft
        assert draft is not None  # noqa: S101 - it was just prepared
        if draft.in_order and draft.last <= head.stamp:
            return draft
        seen, last = draft.seen, head.stamp
        fresh = [
            opened(*item) for item in staging.entries.items() if seen < stamp_of(item[1]) <= last
        ]
        put: dict[bytes, Stored] = {}
        draft = self._begin(staging, put)
        for entry in sorted(fresh, key=itemgetter(1)):
            put[entry[0]] = stored = stored_of(*entry[1:])
            draft.take(entry, stored, None)
        return draft

    def _replace(self, draft: Draft) -> Former:
        """Become a snapshot."""
        left = self._entries
        for element in draft.dropped:
            del draft.put[element]
        self._entries, self._digest, self._live = draft.put, draft.digest, draft.live
        self._log, self._tombstones = draft.log, draft.tombstones
        self._tombstones.forget(self.floor)
        return Former(left, self._entries, self.version.stamp, self._log)

    def _merge(self, draft: Draft) -> Former:
        """Move on by a delta.

        The floor is at or below what was committed (C7): nothing just put is dropped.
        """
        entries = self._entries
        entries.update(draft.put)
        for element in draft.dropped:
            del entries[element]
        self._tombstones.forget(self.floor)
        self._tombstones.extend(draft.tombstones)
        self._digest, self._live = draft.digest, draft.live
        self._log.extend(draft.log)
        return Former(draft.left, entries, self.version.stamp)
