"""When the API server, or one collection of it, may be asked again (kubernetes.md W13).

One :class:`BackOff` is shared by every list and watch of one API server, so that together they are
as gentle as one; each collection has another for troubles of its own (a missing right, a bad line).

The wait is drawn from 0 to a ceiling that doubles from 1 s to 60 s ("full jitter"), and failures
are forgotten after two minutes of health.  Attempts that were under way when the wait began
belong to the same outage: they neither lengthen nor raise it.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from clusters.kubernetes.settings import WatchSettings

_MOST_DOUBLINGS = 32


class Dice(Protocol):
    """What is used of :class:`random.Random`."""

    def uniform(self, a: float, b: float) -> float:
        """Draw a number between ``a`` and ``b``."""
        ...


class BackOff:
    """Failures in, the earliest time of the next attempt out.  Times are monotonic seconds."""

    def __init__(self, settings: WatchSettings, rng: Dice) -> None:
        """Nothing has failed yet."""
        self._settings = settings
        self._rng = rng
        self._level = 0
        self._failed_at = -inf
        self._healthy_since: float | None = None
        self.not_before = 0.0
        """Nothing may be tried before this time."""

    @property
    def ceiling(self) -> float:
        """Most that the present wait could have been; 0 when nothing failed."""
        if self._level == 0:
            return 0.0
        doubled = self._settings.back_off_first * 2.0 ** min(self._level - 1, _MOST_DOUBLINGS)
        return min(self._settings.back_off_most, doubled)

    def succeeded(self, now: float) -> None:
        """An attempt went well."""
        if self._healthy_since is None:
            self._healthy_since = now

    def failed(self, now: float, *, began: float, at_least: float = 0.0) -> None:
        """An attempt begun at ``began`` failed; ``at_least`` is the wait the server asked for."""
        asked = now + min(at_least, self._settings.retry_after_most)
        if began < self._failed_at and self._healthy_since is None:
            self.not_before = max(self.not_before, asked)
            return
        if self._healthy_since is not None:
            if now - self._healthy_since >= self._settings.healthy_seconds:
                self._level = 0
            self._healthy_since = None
        self._level += 1
        self._failed_at = now
        self.not_before = max(self.not_before, asked + self._rng.uniform(0.0, self.ceiling))
