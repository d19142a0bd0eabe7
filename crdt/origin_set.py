"""One origin's elements at one committed version: intervals, staging, commit (rules C1-C8).

The owner advances its set with each head it publishes; a replica stages what it receives and
commits only at heads whose count and root it reproduces.  So every committed state is exactly the
owner's at that head, and a reader never sees half a batch.

Entries are plain tuples (element, stamp, op, value): ``element`` and ``value`` canonical bytes,
``op`` 0 for an add and 1 for a remove.  Stamps are unique and increasing within the origin, so
stamp order is history order.  Making a tuple takes a sixth of the time of a frozen object
(``bench/crdt.py``).

Invariants: the digest covers exactly ``_entries``; every live log position is in stamp order; no
tombstone at or below ``floor`` is kept.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from crdt.canonical import pack_int
from crdt.digest import MerkleDigest, entry_digest, key_hash
from crdt.errors import ContinuityError, GapError, MismatchError, StaleError
from crdt.head import Head
from crdt.version_vector import ZERO, Version

ADD = 0
REMOVE = 1

Entry = tuple[bytes, int, int, bytes]
"""(element, stamp, op, value)."""
Stored = tuple[int, int, bytes]
"""What is kept per element: (stamp, op, value)."""
_Touched = tuple[bytes, Stored | None]
"""An element and what was kept of it before."""

NIL = b"\xc0"
"""The value of a remove."""
_NOTHING: Stored = (-1, ADD, NIL)
"""Never equal to what a log position holds."""
_OVERHEAD = 24
"""Bytes an entry takes in a chunk beside its element and value, at most."""
_LOG_SLACK = 64


_SPLICED = {
    bytes((0x90 | size, kind)): bytes((0x95, kind, 0x90 | size - 1))
    for size in range(1, 16)
    for kind in range(0x80)
}
"""How [kind, *key] begins -> how [kind, [*key], ...] begins."""


def entry_bytes(element: bytes, stamp: int, op: int, value: bytes) -> bytes:
    """Canonical bytes of an entry: MessagePack of [kind, key, stamp, op, value].

    ``element`` is MessagePack of [kind, *key], so its bytes are spliced, not packed again.  One
    with a kind above 127 or more than 15 items stays whole: [element, stamp, op, value].
    """
    spliced = _SPLICED.get(element[:2])
    key = b"\x94" + element if spliced is None else spliced + element[2:]
    return key + pack_int(stamp) + pack_int(op) + value


def _digest_of(element: bytes, stored: Stored) -> bytes:
    return entry_digest(entry_bytes(element, *stored))


class Chunk(NamedTuple):
    """A prefix of what lies after some stamp, cut in stamp order (rules C3, C4)."""

    entries: list[Entry]
    to: int
    complete: bool
    """Nothing remains: ``to`` is the head's stamp."""


class Change(NamedTuple):
    """What a commit did to one element; None where there was, or is, no live value."""

    element: bytes
    before: bytes | None
    after: bytes | None
    stamp: int


class Staging:
    """Chunks of one transfer on their way to a commit.

    ``position`` is what has been received without a gap.  A delta continues from the committed
    version; a snapshot starts at nothing and will replace everything.  One that ``mends`` does so
    even at the committed version, because what is held is not what its head says.
    """

    __slots__ = ("entries", "epoch", "mends", "position", "replaces")

    def __init__(self, *, epoch: int, start: int, replaces: bool, mends: bool = False) -> None:
        """A transfer in ``epoch`` from ``start`` (0 for a snapshot)."""
        self.epoch = epoch
        self.mends = mends
        self.position = start
        self.replaces = replaces
        self.entries: dict[bytes, Stored] = {}

    def add(self, start: int, to: int, entries: Iterable[Entry]) -> None:
        """Take a chunk covering (``start``, ``to``]; repeats are harmless.

        Raises :class:`GapError` when it starts after :attr:`position` (rule C2).
        """
        if start > self.position:
            message = f"chunk starts at {start}, but only {self.position} is staged"
            raise GapError(message)
        staged = self.entries
        for element, stamp, op, value in entries:
            known = staged.get(element)
            if known is None or known[0] < stamp:
                staged[element] = (stamp, op, value)
        self.position = max(self.position, to)


class OriginSet:
    """The committed elements of one origin."""

    __slots__ = (
        "_digest",
        "_entries",
        "_keys",
        "_live",
        "_stamps",
        "_tombstones",
        "floor",
        "version",
    )

    def __init__(self) -> None:
        """Nothing, at version zero."""
        self.version: Version = ZERO
        self.floor = 0
        self._entries: dict[bytes, Stored] = {}
        self._digest = MerkleDigest()
        self._stamps = array("q")
        self._keys: list[bytes] = []
        self._tombstones: deque[tuple[int, bytes]] = deque()
        self._live = 0

    @classmethod
    def restored(cls, version: Version, floor: int, entries: Iterable[Entry]) -> OriginSet:
        """The set as a journal kept it; the caller checks count and root against the head."""
        result = cls()
        result.version, result.floor = version, floor
        in_order = sorted(entries, key=itemgetter(1))
        kept = {element: (stamp, op, value) for element, stamp, op, value in in_order}
        result._entries = kept
        result._digest = MerkleDigest(
            key_hash(element) + _digest_of(element, stored) for element, stored in kept.items()
        )
        result._live = sum(1 for stored in kept.values() if stored[1] == ADD)
        result._log(list(kept))
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
        kept = (stamp for stamp, element in self._tombstones if get(element, (0,))[0] == stamp)
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
        at = bisect_right(self._stamps, stored[0]) - 1
        logged = at >= 0 and (self._stamps[at], self._keys[at]) == (stored[0], element)
        return logged and self._digest.holds(key_hash(element) + _digest_of(element, stored))

    def sound(self, part: int) -> bool:
        """Whether a sixteenth of the digest is what its records give, and there are as many.

        As many as entries, that is; see :meth:`crdt.digest.SetDigest.sound`.
        """
        return len(self._digest) == len(self._entries) and self._digest.sound(part)

    def get(self, element: bytes) -> tuple[int, bytes] | None:
        """(stamp, value) of a live element, or None."""
        stored = self._entries.get(element)
        return None if stored is None or stored[1] == REMOVE else (stored[0], stored[2])

    def entry(self, element: bytes) -> Entry | None:
        """The newest entry of ``element``, tombstones included."""
        stored = self._entries.get(element)
        return None if stored is None else (element, *stored)

    def live(self) -> Iterator[tuple[bytes, int, bytes]]:
        """(element, stamp, value) of every live element, in no particular order."""
        for element, (stamp, op, value) in self._entries.items():
            if op == ADD:
                yield element, stamp, value

    def entries(self) -> Iterator[Entry]:
        """Every entry, tombstones included, in no particular order."""
        for element, stored in self._entries.items():
            yield (element, *stored)

    def since(self, after: int, budget: int) -> Chunk:
        """Entries after stamp ``after`` in stamp order, about ``budget`` bytes of them.

        At least one entry is taken if any remains, so a transfer always moves on (C4: ``to`` is the
        last stamp taken, or the committed stamp when nothing remains).
        """
        taken: list[Entry] = []
        stamps, keys, entries = self._stamps, self._keys, self._entries
        for at in range(bisect_right(stamps, after), len(stamps)):
            element = keys[at]
            stored = entries.get(element)
            if stored is None or stored[0] != stamps[at]:
                continue
            budget -= len(element) + len(stored[2]) + _OVERHEAD
            if budget < 0 and taken:
                return Chunk(taken, taken[-1][1], complete=False)
            taken.append((element, *stored))
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
            self._put(element, (stamp, op, value))
        self._collect(floor)
        self.version, self.floor = version, floor
        self._compact()

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
        self._continues(staging, head)
        if staging.replaces:
            return self._replace(staging, head)
        # An entry at or below the committed version is either the one already here, or one that was
        # seen and is absent, hence dead (C8).  Neither is new.
        seen, last, logged = self.version.stamp, head.stamp, len(self._stamps)
        fresh = [item for item in staging.entries.items() if seen < item[1][0] <= last]
        fresh.sort(key=lambda item: item[1][0])
        # Each element is touched once: the floor is at or below what was committed (C7), so what
        # is collected is never an entry just put.
        touched = [(element, self._put(element, stored)) for element, stored in fresh]
        dropped, collected = self._collect(head.floor)
        touched += dropped
        if len(self) != head.count or self.root() != head.root:
            self._undo(touched, collected, logged)
            raise MismatchError(self._mismatch(head))
        self.version, self.floor = head.version, head.floor
        self._compact()
        return self._changes(touched)

    @staticmethod
    def _mismatch(head: Head) -> str:
        return f"entries do not add up to count {head.count} and root {head.root.hex()[:16]}"

    def _replace(self, staging: Staging, head: Head) -> list[Change]:
        kept = [
            (element, *stored)
            for element, stored in staging.entries.items()
            if stored[0] <= head.stamp and not (stored[1] == REMOVE and stored[0] <= head.floor)
        ]
        fresh = OriginSet.restored(head.version, head.floor, kept)
        if len(fresh) != head.count or fresh.root() != head.root:
            raise MismatchError(self._mismatch(head))
        known, new = self._entries, fresh._entries  # noqa: SLF001 - of this class
        touched = [
            (element, known.get(element))
            for element in known.keys() | new.keys()
            if known.get(element) != new.get(element)
        ]
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))
        return self._changes(touched)

    def _changes(self, touched: list[_Touched]) -> list[Change]:
        """What readers see differently from before."""
        changes = []
        for element, old in sorted(touched, key=itemgetter(0)):
            new = self._entries.get(element)
            before = old[2] if old is not None and old[1] == ADD else None
            after = new[2] if new is not None and new[1] == ADD else None
            if before != after:
                stamp = new[0] if new is not None else self.version.stamp
                changes.append(Change(element, before, after, stamp))
        return changes

    def _put(self, element: bytes, stored: Stored) -> Stored | None:
        """Put a new entry and log it; returns the former one."""
        self._stamps.append(stored[0])
        self._keys.append(element)
        if stored[1] == REMOVE:
            self._tombstones.append((stored[0], element))
        return self._set(element, stored)

    def _set(self, element: bytes, stored: Stored | None) -> Stored | None:
        """Replace an element's entry in the dictionary, the digest and the live count."""
        old = self._entries.get(element)
        self._digest.replace(
            key_hash(element),
            None if old is None else lambda: _digest_of(element, old),
            None if stored is None else _digest_of(element, stored),
        )
        if stored is None:
            self._entries.pop(element, None)
        else:
            self._entries[element] = stored
            self._live += stored[1] == ADD
        if old is not None:
            self._live -= old[1] == ADD
        return old

    def _collect(self, floor: int) -> tuple[list[_Touched], list[tuple[int, bytes]]]:
        """Drop tombstones up to ``floor``; what was dropped, and what left the tombstone queue."""
        dropped: list[_Touched] = []
        collected: list[tuple[int, bytes]] = []
        while self._tombstones and self._tombstones[0][0] <= floor:
            stamp, element = self._tombstones.popleft()
            collected.append((stamp, element))
            stored = self._entries.get(element)
            if stored is not None and stored[0] == stamp:
                dropped.append((element, self._set(element, None)))
        return dropped, collected

    def _undo(
        self, touched: list[_Touched], collected: list[tuple[int, bytes]], logged: int
    ) -> None:
        """Take back a commit that put and dropped, with ``logged`` log positions before it."""
        for element, stored in touched:
            self._set(element, stored)
        del self._stamps[logged:]
        del self._keys[logged:]
        self._tombstones.extendleft(reversed(collected))
        while self._tombstones and self._tombstones[-1][0] > self.version.stamp:
            self._tombstones.pop()

    def _compact(self) -> None:
        """Forget superseded log positions once they outnumber the current ones."""
        if len(self._stamps) <= 2 * len(self._entries) + _LOG_SLACK:
            return
        get = self._entries.get
        positions = zip(self._keys, self._stamps, strict=True)
        self._log([key for key, stamp in positions if get(key, _NOTHING)[0] == stamp])

    def _log(self, elements: list[bytes]) -> None:
        """Make the log exactly these elements, given in stamp order."""
        entries = self._entries
        self._keys = elements
        self._stamps = array("q", [entries[element][0] for element in elements])
        self._tombstones = deque(
            (entries[element][0], element) for element in elements if entries[element][1] == REMOVE
        )
