"""Which clusters were heard in this life: until then nothing newly written comes from old state.

What is stored of other clusters may be older than what this replica showed before it was killed,
since nothing waits for that to be on disk.  Written anew, it would bring back what was deleted.  So
a stored cluster that was not heard in this life is *unconfirmed*: what is written of it stays as it
is, and nothing of it is added.  After ten seconds without a word it is written as it was stored,
which is told as a doubt; nothing of it is taken away before it is heard.

Pure; readings are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

STATIC_SECONDS = 10.0
"""How long after the start a cluster is waited for."""


class Confirmation:
    """Which of the clusters that were stored may be written."""

    def __init__(self, start: float, stored: Iterable[str]) -> None:
        """``start`` is the monotonic time at which this life began, with ``stored`` clusters."""
        self._until = start + STATIC_SECONDS
        self.unconfirmed = frozenset(stored)
        """Clusters of which nothing may be written, changed or taken away yet."""
        self._unheard = self.unconfirmed
        self.doubtful: frozenset[str] = frozenset()
        """Clusters written as they were stored, although they were not heard in this life."""

    @property
    def pending(self) -> bool:
        """Whether a review may still change something."""
        return bool(self._unheard)

    def review(self, fresh_at: Mapping[str, float | None], now: float) -> list[str]:
        """Take when each known cluster was last heard (None: not in this life).

        Returns those that are to be looked at again: confirmed, written in doubt, or heard after
        that.  Clusters left out are forgotten.
        """
        heard = {cluster for cluster in self._unheard if fresh_at.get(cluster, now) is not None}
        released = self.unconfirmed if now >= self._until else frozenset()
        self._unheard -= heard
        self.unconfirmed -= heard | released
        self.doubtful = self._unheard - self.unconfirmed
        return sorted(heard | released)
