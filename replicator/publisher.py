"""From changed to sent: seals batches, makes them durable, publishes heads.

An idle origin publishes at once; under load one head per window.  One batch is in flight at a
time: what changes meanwhile waits for the next.  A batch that cannot be stored is tried again
until it can, and nothing of it is sent before.  Whoever ceases to lead meanwhile sends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from clusters.base import Clock
from crdt import Change
from replicator.codec import encode_head
from replicator.effects import Effect
from replicator.errors import JournalError
from replicator.journal import Journal
from replicator.journal import OwnBatch as StoredBatch
from replicator.replica import Replica

WINDOW_SECONDS = 0.010
WINDOW_PER_CLUSTER_SECONDS = 0.001
_RETRY_SECONDS = 1.0
_log = structlog.get_logger()


class Publisher:
    """Publishes our own origin."""

    def __init__(
        self,
        replica: Replica,
        journal: Journal,
        clock: Clock,
        perform: Callable[[list[Effect]], None],
        announce: Callable[[tuple[Change, ...]], None],
        allowed: Callable[[], bool] = lambda: True,
        timed: Callable[[float, float], None] = lambda _, __: None,
    ) -> None:
        """``perform`` carries out effects, ``announce`` shows own changes; neither may block.

        Nothing is published unless ``allowed``; :meth:`wake` has that looked at again.  ``timed``
        is told of each batch the seconds of its transaction, and those from when its first change
        was seen until it was published.
        """
        self._replica = replica
        self._journal = journal
        self._clock = clock
        self._perform = perform
        self._announce = announce
        self._allowed = allowed
        self._timed = timed
        self._dirty = asyncio.Event()
        self.failing: str | None = None
        """Why the journal refuses our batches at present."""
        self.commit_seconds = 0.0
        """How long the last durable commit took."""
        self.heads = 0

    def wake(self) -> None:
        """Something may have to be published."""
        self._dirty.set()

    @property
    def due(self) -> bool:
        """Whether there is something that may be published now."""
        return self._replica.own.dirty and self._allowed()

    async def run(self) -> None:
        """Publish for ever; the first head is published even of an empty cluster."""
        while True:
            if self.due:
                began = self._clock.monotonic()
                await self.publish()
                spent = self._clock.monotonic() - began
                await self._clock.sleep(max(0.0, self._window() - spent))
                continue
            self._dirty.clear()
            await self._dirty.wait()

    def _window(self) -> float:
        clusters = len(self._replica.remotes) + 1
        return max(WINDOW_SECONDS, clusters * WINDOW_PER_CLUSTER_SECONDS)

    async def publish(self) -> None:
        """Seal what waits, store it, send it."""
        own = self._replica.own
        batch = own.seal(self._clock.wall_ns())
        stored = StoredBatch(
            epoch=batch.epoch,
            ceiling=batch.ceiling,
            last_stamp=batch.last_stamp,
            head=encode_head(batch.head),
            entries=batch.entries,
            floor=batch.floor,
            replace=batch.replace,
        )
        while True:
            try:
                self.commit_seconds = await self._journal.persist_own(stored)
                break
            except JournalError as error:
                self.failing = str(error)
                _log.exception("own_batch_not_stored", code=error.code)
                await self._clock.sleep(_RETRY_SECONDS)
                if own.head is not batch.head:
                    break  # of a term that is over
        self.failing = None
        if own.head is not batch.head:
            return
        self._perform(self._replica.published(self._clock.monotonic()))
        if own.published_head is batch.head:
            self.heads += 1
            waited = (self._clock.wall_ns() - batch.head.observed_at) * 1e-9
            self._timed(self.commit_seconds, waited)
            self._announce(batch.changes)
