"""Logs of a set: elements in the order of their stamps, so a delta is cut without a search.

One holds all elements, another the removed ones, for the floor.  A position is (stamp, element); it
is superseded when its element has a newer stamp by now: whoever reads the log skips it, and
sweeping forgets it.  Sweeping goes round a few positions with every put, so that no put has to
rewrite the whole log; the log stays within about twice the set.

Positions are kept in segments of plain arrays and lists: 16 bytes each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping

from crdt.entries import Stored, stamp_of

SEGMENT = 1024
"""Positions in a segment, at most."""
_SLACK = 64
_SWEPT = 8
"""Positions looked at for each one put, while there is much to forget."""
_NOTHING: Stored = b"\xff" * 8
"""The stamp of no position."""


class _Segment:
    __slots__ = ("elements", "stamps")

    def __init__(self) -> None:
        self.stamps = array("q")
        self.elements: list[bytes] | tuple[bytes, ...] = []
        """A tuple once the segment is full: the garbage collector then has nothing to look at."""

    def add(self, stamp: int, element: bytes) -> None:
        """Put a position behind the others."""
        self.stamps.append(stamp)
        self.elements = [*self.elements] if isinstance(self.elements, tuple) else self.elements
        self.elements.append(element)

    def seal(self) -> None:
        """Nothing is added to it for now."""
        self.elements = tuple(self.elements)

    def forget(self, to: int) -> int:
        """Take out the positions up to stamp ``to``; returns how many there were."""
        count = bisect_right(self.stamps, to)
        del self.stamps[:count]
        self.elements = self.elements[count:]
        return count

    def keep_current(self, entries: Mapping[bytes, Stored]) -> None:
        get = entries.get
        kept = [
            (stamp, element)
            for stamp, element in zip(self.stamps, self.elements, strict=True)
            if stamp_of(get(element, _NOTHING)) == stamp
        ]
        self.stamps = array("q", [stamp for stamp, _ in kept])
        self.elements = tuple(element for _, element in kept)


class EntryLog:
    """Positions in the order of their stamps."""

    __slots__ = ("_credit", "_length", "_next", "_segments")

    def __init__(self) -> None:
        """Empty."""
        self._segments = [_Segment()]
        self._length = 0
        self._next = 0
        self._credit = 0

    def __len__(self) -> int:
        """Positions kept, superseded ones included."""
        return self._length

    def holds(self, stamp: int, element: bytes) -> bool:
        """Whether there is this position."""
        return next(self.after(stamp - 1), None) == (stamp, element)

    def append(self, stamp: int, element: bytes) -> None:
        """Put a position behind all others; ``stamp`` is above theirs."""
        last = self._segments[-1]
        if len(last.stamps) >= SEGMENT:
            last.seal()
            last = _Segment()
            self._segments.append(last)
        last.add(stamp, element)
        self._length += 1

    def extend(self, other: EntryLog) -> None:
        """Put all of ``other`` behind; its stamps are above ours, and it is given away."""
        if len(other) < SEGMENT:
            for stamp, element in other.after(-1):
                self.append(stamp, element)
        else:
            self._segments += other._segments
            self._length += len(other)

    def after(self, stamp: int) -> Iterator[tuple[int, bytes]]:
        """The positions after ``stamp``, superseded ones included."""
        segments = self._segments
        low, high = 0, len(segments)
        while low < high:
            middle = (low + high) // 2
            # An empty segment may only stand first: see ``_sweep_segment``.
            if not segments[middle].stamps or segments[middle].stamps[-1] <= stamp:
                low = middle + 1
            else:
                high = middle
        for at in range(low, len(segments)):
            stamps, elements = segments[at].stamps, segments[at].elements
            start = bisect_right(stamps, stamp) if at == low else 0
            yield from zip(stamps[start:], elements[start:], strict=True)

    def forget(self, to: int) -> None:
        """Take out the positions up to stamp ``to``."""
        segments = self._segments
        while segments[0].stamps and segments[0].stamps[0] <= to:
            first = segments[0]
            self._length -= first.forget(to)
            if not first.stamps and len(segments) > 1:
                del segments[0]

    def sweep(self, entries: Mapping[bytes, Stored], needed: int, put: int) -> None:
        """``put`` positions were added: forget some of the superseded ones, if there are many.

        ``needed`` of all are not superseded.
        """
        if self._length <= needed + needed // 4 + _SLACK:
            self._credit = 0
            return
        self._credit = min(self._credit + _SWEPT * put, self._length)
        while self._credit > 0:
            if self._next >= len(self._segments):
                self._next = 0
            self._credit -= max(1, self._sweep_segment(entries))

    def _sweep_segment(self, entries: Mapping[bytes, Stored]) -> int:
        """Look at the next segment; returns the positions looked at."""
        segment = self._segments[self._next]
        before = len(segment.stamps)
        segment.keep_current(entries)
        self._length -= before - len(segment.stamps)
        former = self._segments[self._next - 1] if self._next else None
        if former is None or len(former.stamps) + len(segment.stamps) > SEGMENT:
            self._next += 1
        else:
            former.stamps.extend(segment.stamps)
            former.elements = (*former.elements, *segment.elements)
            del self._segments[self._next]
        return before
