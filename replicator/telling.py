"""Telling of commits too large for one step: who follows the changes hears of them in slices.

The state itself is taken at once; a reader sees all of it from then on.  Only those that act on
each change (the importer's queue, the stream of changes) come to it a little later.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdt import Origin
from replicator.effects import Changed, Effect
from replicator.remote_origin import RemoteOrigin
from replicator.service_index import touched


class Telling:
    """The origins whose last commits are not told to the end."""

    def __init__(self, remotes: Mapping[Origin, RemoteOrigin]) -> None:
        """All is told; ``remotes`` are the replica's: what is no more among them is not told of."""
        self._remotes = remotes
        self._untold: dict[Origin, RemoteOrigin] = {}

    @property
    def has_more(self) -> bool:
        """Whether :meth:`more` has something to tell."""
        return bool(self._untold)

    def committed(self, remote: RemoteOrigin) -> None:
        """``remote`` committed: note whether it told all of it."""
        if remote.untold:
            self._untold[remote.origin] = remote

    def more(self) -> list[Effect]:
        """The next slice, in which nothing may have changed.

        To be called again, with a break between, while :attr:`has_more`.
        """
        if not self._untold:
            return []
        origin, remote = next(iter(self._untold.items()))
        if self._remotes.get(origin) is not remote:
            del self._untold[origin]
            return []
        changes = remote.tell()
        if not remote.untold:
            del self._untold[origin]
        if not changes:
            return []
        remote.changes += len(changes)
        return [Changed(origin, touched(changes), tuple(changes), None)]
