"""The clock that issues one origin's stamps.

``nanotime = max(previous + 1, wall)``: stamps rise strictly whatever the wall clock does, and no
stamp of another cluster ever moves it, so one bad clock cannot infect the set.  A durable *ceiling*
bounds what was ever issued: the caller makes it durable together with the batch that needs it,
before any of it is sent, and a restarted clock starts at it, so no stamp is used twice within an
epoch.

Does not read a clock: wall readings are arguments.
"""

from __future__ import annotations

from crdt.errors import StampError
from crdt.stamp import MAX_NANOTIME

CEILING_STEP_NS = 5_000_000_000


class StampClock:
    """Issues strictly rising nanotimes for one origin and epoch."""

    __slots__ = ("_ceiling", "_last")

    def __init__(self, *, last: int = 0, ceiling: int = 0) -> None:
        """Start above ``last`` (exact, after a clean stop) and above the durable ``ceiling``."""
        self._last = max(last, ceiling)
        self._ceiling = self._last

    @property
    def last(self) -> int:
        """The newest nanotime issued (or the one started from)."""
        return self._last

    @property
    def ceiling(self) -> int:
        """The bound that must be durable before the newest stamp may leave the process."""
        return self._ceiling

    def next(self, wall_ns: int) -> int:
        """Issue one nanotime; raises :class:`StampError` at the end of time (year 2262)."""
        nanotime = max(self._last + 1, wall_ns)
        if nanotime > MAX_NANOTIME:
            message = "the clock is beyond what a stamp can hold (year 2262): set it right"
            raise StampError(message)
        self._last = nanotime
        if nanotime > self._ceiling:
            self._ceiling = min(nanotime + CEILING_STEP_NS, MAX_NANOTIME)
        return nanotime
