"""A transfer on its way to a commit: what was received, and the state it will lead to.

A :class:`Staging` takes chunks.  A :class:`Draft` is the state after the commit, worked out beside
the committed one as the chunks come in, digest included, so that the commit itself only has to
compare and to swap.  Nothing of either is visible to readers of the set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from crdt.digest import MerkleDigest, key_hash
from crdt.entries import (
    Entry,
    Stored,
    live_value,
    stamp_of,
    stored_digest,
    stored_of,
)
from crdt.entry_log import EntryLog
from crdt.errors import GapError
from crdt.version_vector import Version


class Change(NamedTuple):
    """What a commit did to one element; None where there was, or is, no live value."""

    element: bytes
    before: bytes | None
    after: bytes | None
    stamp: int


class Received(NamedTuple):
    """An entry that a chunk brought, and what had been staged of its element before."""

    entry: Entry
    stored: Stored
    former: Stored | None


@dataclass(slots=True)
class Base:
    """The committed state that a draft starts from; not frozen, since its parts move on."""

    version: Version
    entries: Mapping[bytes, Stored]
    digest: MerkleDigest
    live: int
    tombstones: EntryLog


class Draft:
    """The state that a commit leads to.

    ``put`` lies over the entries of ``base``; a snapshot's base is empty.
    """

    __slots__ = (
        *("base", "count", "digest", "dropped", "in_order", "last", "live"),
        *("left", "log", "put", "seen", "tombstones"),
    )

    def __init__(self, base: Base, put: dict[bytes, Stored], *, seen: int) -> None:
        """``put`` gets the entries that :meth:`take` is told of; up to ``seen`` all is known."""
        self.base = base
        self.put = put
        self.seen = self.last = seen
        self.digest = base.digest
        self.count = len(base.entries)
        self.live = base.live
        self.left: dict[bytes, Stored | None] = {}
        """What the base of a delta has of the elements put or dropped."""
        self.log = EntryLog()
        self.tombstones = EntryLog()
        self.dropped: list[bytes] = []
        self.in_order = True
        """All that was taken was new, in the order of stamps; else the draft is worthless."""

    def follow(self, received: Iterable[Received]) -> Iterator[Change]:
        """Put what came last, as long as all is new and in the order of stamps.

        An entry at or below ``seen`` is either the one already here, or one that was seen and is
        absent, hence dead (C8).  Neither is new.
        """
        for entry, stored, former in received:
            if entry[1] <= self.last:
                self.in_order = False
            if not self.in_order:
                return
            change = self.take(entry, stored, former)
            if change is not None:
                yield change

    def take(self, entry: Entry, stored: Stored, former: Stored | None) -> Change | None:
        """Put an entry whose element had ``former`` in this transfer; what readers will see."""
        element, stamp, _, _ = entry
        old = self._leave(element) if former is None else former
        self.digest.replace(
            key_hash(element),
            None if old is None else lambda: stored_digest(element, old),
            stored_digest(element, stored),
        )
        self.last = stamp
        self.log.append(stamp, element)
        before, after = live_value(old), live_value(stored)
        if after is None:
            self.tombstones.append(stamp, element)
        self.count += old is None
        self.live += (after is not None) - (before is not None)
        return None if before == after else Change(element, before, after, stamp)

    def _leave(self, element: bytes) -> Stored | None:
        """What the base has of an element that is put for the first time."""
        old = self.base.entries.get(element)
        if self.seen >= 0:
            self.left[element] = old
        return old

    def collect(self, floor: int) -> None:
        """Drop tombstones up to ``floor``."""
        put, entries = self.put, self.base.entries
        for stamp, element in chain(self.base.tombstones.after(-1), self.tombstones.after(-1)):
            if stamp > floor:
                break
            stored = put.get(element) or entries.get(element)
            if stored is not None and stamp_of(stored) == stamp:
                self._drop(element, stored)

    def _drop(self, element: bytes, stored: Stored) -> None:
        self.dropped.append(element)
        self.left[element] = stored
        self.digest.replace(key_hash(element), lambda: stored_digest(element, stored), None)
        self.count -= 1


class Staging:
    """Chunks of one transfer on their way to a commit.

    ``position`` is what has been received without a gap.  A delta continues from the committed
    version; a snapshot starts at nothing and will replace everything.  One that ``mends`` does so
    even at the committed version, because what is held is not what its head says.
    """

    __slots__ = (
        *("draft", "entries", "epoch", "lent", "mends", "position", "replaces", "waiting"),
    )

    def __init__(self, *, epoch: int, start: int, replaces: bool, mends: bool = False) -> None:
        """A transfer in ``epoch`` from ``start`` (0 for a snapshot)."""
        self.epoch = epoch
        self.mends = mends
        self.lent = False
        """Some of the entries did not come in chunks: nothing can be prepared."""
        self.position = start
        self.replaces = replaces
        self.entries: dict[bytes, Stored] = {}
        self.draft: Draft | None = None
        """What the set has prepared; the set's own business."""
        self.waiting: list[Received] = []
        """Received, and not in the draft yet."""

    def lend(self, entries: Iterable[tuple[bytes, Stored]]) -> None:
        """Take entries as another set keeps them, before any chunk."""
        self.entries.update(entries)
        self.lent = True

    def add(self, start: int, to: int, entries: Iterable[Entry]) -> None:
        """Take a chunk covering (``start``, ``to``]; repeats are harmless.

        Raises :class:`GapError` when it starts after :attr:`position` (rule C2).
        """
        if start > self.position:
            message = f"chunk starts at {start}, but only {self.position} is staged"
            raise GapError(message)
        staged, waiting = self.entries, self.waiting
        for entry in entries:
            element, stamp, op, value = entry
            known = staged.get(element)
            if known is None or stamp_of(known) < stamp:
                staged[element] = stored = stored_of(stamp, op, value)
                waiting.append(Received(entry, stored, known))
        self.position = max(self.position, to)

    def is_prepared(self, last: int) -> bool:
        """Whether all that was received is in the draft, and none of it is after stamp ``last``."""
        draft = self.draft
        ready = draft is not None and draft.in_order and not self.waiting
        return ready and draft is not None and draft.last <= last
