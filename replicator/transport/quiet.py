"""Says whether something should be logged again: the same thing at most once in ten minutes.

Pure; bounded, so peers cannot make it grow by inventing new things to complain about.
"""

from __future__ import annotations

from collections.abc import Hashable

QUIET_SECONDS = 600.0
_LIMIT = 1024


class Seldom:
    """When each thing was last said."""

    def __init__(self) -> None:
        self._said: dict[Hashable, float] = {}

    def due(self, what: Hashable, now: float) -> bool:
        """Whether ``what`` may be said at ``now`` (monotonic seconds); if so it counts as said."""
        last = self._said.get(what)
        if last is not None and now - last < QUIET_SECONDS:
            return False
        self._said.pop(what, None)
        if len(self._said) >= _LIMIT:
            del self._said[next(iter(self._said))]
        self._said[what] = now
        return True
