"""LWW-Element-Set, the textbook type, kept compact.

Textbook: an add set A and a remove set R of (element, stamp); an element is present iff its newest
stamp is an add.  Only the greatest stamp per element can matter, so one entry per element is kept
and merge is the maximum in a total order.  Hence, for all sets a, b, c (held by ``tests/crdt``):

    a.merge(b) == b.merge(a)                            commutative
    a.merge(b).merge(c) == a.merge(b.merge(c))          associative
    a.merge(a) == a                                     idempotent
    lookups equal those of the full A and R sets        compaction

The order of entries: stamp (nanotime, then cluster bytes); on an exact tie a remove beats an add (a
dead endpoint does more harm than a missing one), then the larger canonical value bytes.
Concurrency plays no part: a later remove wins over an earlier add even if its writer never saw that
add.

Source: Shapiro, Preguica, Baquero, Zawirski, "A comprehensive study of Convergent and Commutative
Replicated Data Types", INRIA RR-7506 (2011), section 3.3.3.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from crdt.canonical import pack
from crdt.stamp import Stamp

E = TypeVar("E", bound=Hashable)


@dataclass(frozen=True, slots=True)
class LWWEntry:
    """The newest statement about one element; ``value`` is any value with a canonical form."""

    stamp: Stamp
    removed: bool
    value: object = None

    def order(self) -> tuple[int, bytes, bool, bytes]:
        """Position in the total order that merge takes the maximum of."""
        return (*self.stamp.sort_key(), self.removed, pack(self.value))


class LWWElementSet(Generic[E]):
    """A set whose elements were last added or removed at a stamp."""

    __slots__ = ("_entries", "same_stamp_conflicts")

    def __init__(self) -> None:
        """An empty set."""
        self._entries: dict[E, LWWEntry] = {}
        self.same_stamp_conflicts = 0
        """How often two different entries met under one stamp: a writer's defect, never ours."""

    def add(self, element: E, stamp: Stamp, value: object = None) -> bool:
        """State that ``element`` is present; True if that changed the set."""
        return self.put(element, LWWEntry(stamp, removed=False, value=value))

    def remove(self, element: E, stamp: Stamp) -> bool:
        """State that ``element`` is absent; True if that changed the set."""
        return self.put(element, LWWEntry(stamp, removed=True))

    def put(self, element: E, entry: LWWEntry) -> bool:
        """Keep the greater of ``entry`` and what is known; True if that changed the set.

        Raises :class:`~crdt.errors.CanonicalError` when its value has no canonical form.
        """
        known, theirs = self._entries.get(element), entry.order()
        if known is not None:
            mine = known.order()
            if mine[:2] == theirs[:2] and mine != theirs:
                self.same_stamp_conflicts += 1
            if theirs <= mine:
                return False
        self._entries[element] = entry
        return True

    def merge(self, other: LWWElementSet[E]) -> LWWElementSet[E]:
        """A new set holding the greater entry of each element; neither argument changes."""
        result: LWWElementSet[E] = LWWElementSet()
        result._entries = dict(self._entries)
        for element, entry in other._entries.items():
            result.put(element, entry)
        return result

    def delta(self, known: LWWElementSet[E]) -> LWWElementSet[E]:
        """The entries that ``known`` lacks: ``known.merge(self.delta(known))`` is their merge."""
        result: LWWElementSet[E] = LWWElementSet()
        for element, entry in self._entries.items():
            theirs = known._entries.get(element)
            if theirs is None or theirs.order() < entry.order():
                result._entries[element] = entry
        return result

    def entry(self, element: E) -> LWWEntry | None:
        """The newest statement about ``element``, or None."""
        return self._entries.get(element)

    def entries(self) -> Iterator[tuple[E, LWWEntry]]:
        """All statements, removed elements included, in no particular order."""
        return iter(self._entries.items())

    def __contains__(self, element: object) -> bool:
        """Whether the newest statement about ``element`` is an add."""
        entry = self._entries.get(element)  # type: ignore[arg-type]  # any object may be asked for
        return entry is not None and not entry.removed

    def __iter__(self) -> Iterator[E]:
        """Present elements, in no particular order."""
        return (element for element, entry in self._entries.items() if not entry.removed)

    def __len__(self) -> int:
        """Number of present elements."""
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        """Equal when every element has the same entry in the total order."""
        if not isinstance(other, LWWElementSet):
            return NotImplemented
        mine = {element: entry.order() for element, entry in self._entries.items()}
        return mine == {element: entry.order() for element, entry in other._entries.items()}

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        """Present elements and the number of statements."""
        return f"LWWElementSet(present={list(self)!r}, entries={len(self._entries)})"
