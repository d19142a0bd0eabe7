"""Whether a set still is what its digest says: against bits that flipped and defects of ours.

The digest is kept up to date by what each change says of itself, so it does not notice an entry
that changed without one.  An audit makes every entry's record anew and looks for it in the digest,
hashes the digest anew from its records, and compares the numbers.  It goes in slices; changes
between them do no harm, since each slice compares what is there at one moment.

Does not know whether the digest is the right one: that is the signed head's matter.
"""

from __future__ import annotations

from crdt.origin_set import OriginSet

SLICE = 1000
"""Entries of a step: some five milliseconds."""
_PARTS = 16


class Audit:
    """One pass over one set."""

    __slots__ = ("_at", "_names", "_part", "elements")

    def __init__(self, elements: OriginSet) -> None:
        """Begin with the elements there are now; what comes later is left for the next time."""
        self.elements = elements
        self._names = list(elements.held())
        self._at = 0
        self._part = 0

    def step(self, limit: int = SLICE) -> bool | None:
        """Look at the next slice: False when something is wrong, True at the end, else None."""
        if self._at < len(self._names):
            names = self._names[self._at : self._at + limit]
            self._at += limit
            return None if all(map(self.elements.vouched, names)) else False
        if not self.elements.sound(self._part):
            return False
        self._part += 1
        return True if self._part == _PARTS else None
