"""Cluster to replica: a level-based controller.

For each touched service it looks at what the cluster says now and makes our origin state exactly
that. An unchanged service costs no stamp.  Nothing may be published before
:attr:`Exporter.synced`, so that a restarted agent never announces a half-read cluster.  The same
holds for each term as the cluster's writer: what was taken over is compared with all of the cluster
first, read anew, since our watch may be behind what the former writer saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from clusters.base import Clock, Cluster
from clusters.errors import ClusterError
from clusters.model import LocalService, ServiceKey
from clusters.work_queue import WorkQueue
from replicator.own_origin import OwnOrigin
from replicator.projection import Projector
from replicator.race import race

_SLICE_SECONDS = 0.01
_REREAD_SECONDS = 10.0
"""Without an answer for so long a term begins with what our watch has brought."""
_log = structlog.get_logger()


class Exporter:
    """Moves one cluster's services into one origin."""

    def __init__(
        self,
        cluster: Cluster,
        own: OwnOrigin,
        queue: WorkQueue[ServiceKey],
        clock: Clock,
        on_change: Callable[[], None],
        about: Mapping[bytes, bytes] | None = None,
        timed: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``on_change`` is called after a reconcile that changed something; it must not block.

        ``about`` is what our origin states of the cluster itself; ``timed`` is told the seconds of
        each reconcile.
        """
        self._cluster = cluster
        self._own = own
        self._queue = queue
        self._clock = clock
        self._on_change = on_change
        self._about = about or {}
        self._timed = timed
        self._projector = Projector(own.origin.cluster)
        self._skipped: dict[ServiceKey, LocalService] = {}
        self._term = asyncio.Event()
        self._term.set()
        self._lags = False
        self.synced = asyncio.Event()
        """All of the cluster was looked at in this term."""
        self.changes = 0
        """Elements added, changed or removed since the start."""

    def begin(self) -> None:
        """A term as the writer begins: look at everything again."""
        self.synced.clear()
        self._lags = True
        self._term.set()

    async def run(self) -> None:
        """Reconcile everything once the cluster has been listed, then what is touched; for ever."""
        await self._cluster.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._begin_terms())
            group.create_task(self._follow())

    async def _begin_terms(self) -> None:
        while True:
            await self._term.wait()
            self._term.clear()
            if self._lags:
                await self._reread()
            await self._look_at_all()
            if not self._term.is_set():
                self.synced.set()
                self._on_change()

    async def _reread(self) -> None:
        reading = asyncio.ensure_future(self._cluster.reread())
        await race(reading, self._clock.sleep(_REREAD_SECONDS))
        if reading.cancelled():
            _log.warning("source_not_read_anew", seconds=_REREAD_SECONDS)

    async def _look_at_all(self) -> None:
        began = self._clock.monotonic()
        self._own.state(None, self._about, self._clock.wall_ns())
        for key in sorted(self._cluster.services() | self._own.stated_services):
            self.reconcile(key)
            if self._clock.monotonic() - began > _SLICE_SECONDS:
                await asyncio.sleep(0)
                began = self._clock.monotonic()

    async def _follow(self) -> None:
        began = self._clock.monotonic()
        while True:
            key = await self._queue.get()
            self.reconcile(key)
            self._queue.done(key)
            if self._clock.monotonic() - began > _SLICE_SECONDS:
                await asyncio.sleep(0)
                began = self._clock.monotonic()

    def reconcile(self, key: ServiceKey) -> None:
        """Make our origin say of ``key`` what the cluster says now."""
        began = self._clock.monotonic()
        self._reconcile(key)
        self._timed(self._clock.monotonic() - began)

    def _reconcile(self, key: ServiceKey) -> None:
        try:
            local = self._cluster.local(key)
        except ClusterError as error:
            _log.warning("service_unreadable", service=str(key), code=error.code, detail=str(error))
            return
        stated = self._projector.elements_of(local)
        if local.skipped:
            self._skipped[key] = local
        else:
            self._skipped.pop(key, None)
        changed = self._own.state(key, stated, self._clock.wall_ns())
        self.changes += changed
        if changed:
            self._on_change()

    def skipped_by_reason(self) -> dict[str, int]:
        """How many objects or endpoints are left out at present, by reason."""
        counts: dict[str, int] = {}
        for local in self._skipped.values():
            for skipped in local.skipped:
                counts[skipped.reason] = counts.get(skipped.reason, 0) + 1
        return counts
