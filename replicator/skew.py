"""Clocks that are wrong by hours: whose heads wait, and whether the wrong clock is our own.

A head whose stamp is ahead of our wall clock by more than an hour is held back and the last good
one stays (a *quarantine*): taken in, it would pin every later change of that origin behind a
stamp from the future.  A replica for which more than half of its origins are ahead blames its own
clock and holds nobody back.  No stamp ever moves a clock.

The owner learns it from notices (who says so, and by how much), which are relayed.  It opens a new
epoch with sane stamps when its own clock is back and most of the peers it is connected to find its
stamps ahead of theirs.  What they find is reckoned from the clocks in their beats, not from who
holds it back: a peer that knew no other origin took the head from the future, one that finds most
origins ahead takes all, and neither ever complains, though the others wait.
Pure; readings are wall-clock nanoseconds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from crdt import Origin

NORMAL_NS = 5_500_000_000
"""The ceiling step and half a second: how far an honest origin may be ahead."""
LIMIT_NS = 3600 * 10**9
"""Ahead by more than this is held back."""


def ahead_ns(stamp: int, wall_ns: int) -> int:
    """How far ``stamp`` is in the future of ``wall_ns``; 0 when it is not."""
    return max(0, stamp - wall_ns)


def most_find_ahead(stamp: int, clocks: Collection[int | None]) -> bool:
    """Whether most of these wall ``clocks`` (None: not known) find ``stamp`` too far ahead."""
    finding = sum(clock is not None and ahead_ns(stamp, clock) > LIMIT_NS for clock in clocks)
    return 2 * finding > len(clocks)


class Skews:
    """The newest verified stamps of all origins against our clock."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._newest: dict[Origin, int] = {}

    def saw(self, origin: Origin, stamp: int) -> None:
        """A verified head of ``origin`` is at ``stamp``: the one that counts from now on."""
        self._newest[origin] = stamp

    def keep(self, known: Collection[Origin]) -> None:
        """Only these origins count; the others are gone."""
        for origin in self._newest.keys() - known:
            del self._newest[origin]

    def ahead(self, origin: Origin, wall_ns: int) -> int:
        """Nanoseconds by which the newest head of ``origin`` is ahead of our wall clock."""
        stamp = self._newest.get(origin)
        return 0 if stamp is None else ahead_ns(stamp, wall_ns)

    def own_clock_is_wrong(self, wall_ns: int) -> bool:
        """Whether more than half of the origins are too far ahead: then it is we who are behind."""
        wrong = len(self._too_far_ahead(wall_ns))
        return 2 * wrong > len(self._newest)

    def held_back(self, wall_ns: int) -> set[Origin]:
        """The origins whose newest head must wait."""
        if self.own_clock_is_wrong(wall_ns):
            return set()
        return self._too_far_ahead(wall_ns)

    def any_too_far(self, wall_ns: int) -> bool:
        """Whether any newest head is ahead by more than the limit."""
        return max(self._newest.values(), default=0) > wall_ns + LIMIT_NS

    def _too_far_ahead(self, wall_ns: int) -> set[Origin]:
        newest = self._newest.items()
        return {origin for origin, stamp in newest if ahead_ns(stamp, wall_ns) > LIMIT_NS}


@dataclass(slots=True)
class Complaints:
    """Which clusters say of an origin that its clock is ahead, and by how many nanoseconds."""

    offsets: dict[tuple[Origin, str], int] = field(default_factory=dict)

    def say(self, origin: Origin, author: str, offset_ns: int) -> bool:
        """``author`` holds ``origin`` back for ``offset_ns`` (0: no longer); whether this is new.

        Offsets that differ by less than a minute are the same news.
        """
        key = (origin, author)
        before = self.offsets.get(key, 0)
        if offset_ns <= 0:
            return self.offsets.pop(key, None) is not None
        if before and abs(before - offset_ns) < 60 * 10**9:
            return False
        self.offsets[key] = offset_ns
        return True

    def about(self, origin: Origin) -> dict[str, int]:
        """Author to offset."""
        return {author: ns for (about, author), ns in self.offsets.items() if about == origin}
