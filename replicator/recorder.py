"""Keeps remote commits on disk, behind the replica.

Remote state can be pulled again, so nothing waits for it, but what is stored must never be a
version ahead of its entries (rule C11): after a failed write an origin is stored whole, in place
of the deltas that were lost.  The backlog is bounded: readers wait for :meth:`Recorder.room`.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

import structlog

from clusters.base import Clock
from crdt import Origin
from replicator.codec import encode_head, encode_record
from replicator.effects import Drop, Remember, Store
from replicator.errors import JournalError
from replicator.journal import Journal, RemoteCommit
from replicator.remote_origin import RemoteOrigin

_BACKLOG = 512
_RETRY_SECONDS = 5.0
_log = structlog.get_logger()


class Recorder:
    """Writes stores to the journal in batches."""

    def __init__(self, journal: Journal, remotes: dict[Origin, RemoteOrigin], clock: Clock) -> None:
        """``remotes`` is the replica's, read when an origin has to be stored whole."""
        self._journal = journal
        self._remotes = remotes
        self._clock = clock
        self._waiting: list[Store] = []
        self._facts: dict[str, bytes] = {}
        self._torn: set[Origin] = set()
        self._dropped: set[Origin] = set()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.failing: str | None = None

    def keep(self, effect: Store | Drop | Remember) -> None:
        """Queue what an effect says."""
        match effect:
            case Store():
                self.store(effect)
            case Drop(origin):
                self.drop(origin)
            case Remember(key, value):
                self.remember(key, value)
            case _ as unreachable:
                assert_never(unreachable)

    def store(self, commit: Store) -> None:
        """Queue one commit."""
        self._waiting.append(commit)
        if len(self._waiting) >= _BACKLOG:
            self._room.clear()
        self._wake.set()

    def drop(self, origin: Origin) -> None:
        """Queue the end of an origin; what waits of it is not written any more."""
        self._waiting = [store for store in self._waiting if store.origin != origin]
        self._torn.discard(origin)
        self._dropped.add(origin)
        self._wake.set()

    def remember(self, key: str, value: bytes) -> None:
        """Queue one small fact."""
        self._facts[key] = value
        self._wake.set()

    async def room(self) -> None:
        """Return when the backlog is short enough to take more."""
        await self._room.wait()

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not await self.flush():
                await self._clock.sleep(_RETRY_SECONDS)
                self._wake.set()

    async def flush(self) -> bool:
        """Write everything that waits; False when the journal refused (see :attr:`failing`)."""
        batch, self._waiting = self._waiting, []
        facts, self._facts = self._facts, {}
        dropped, self._dropped = self._dropped, set()
        self._room.set()
        torn = [self._remotes[origin] for origin in sorted(self._torn) if origin in self._remotes]
        commits = [self._whole(remote) for remote in torn if remote.known]
        commits += [self._commit(store) for store in batch if store.origin not in self._torn]
        try:
            for key, value in sorted(facts.items()):
                await self._journal.remember(key, value)
            if dropped:
                await self._journal.drop_remote(sorted(dropped))
            if commits:
                await self._journal.persist_remote(commits)
        except JournalError as error:
            self._torn |= {store.origin for store in batch}
            self._facts = {**facts, **self._facts}
            self._dropped |= dropped
            self.failing = str(error)
            _log.exception("remote_commit_not_stored", code=error.code)
            return False
        self._torn.clear()
        self.failing = None
        return True

    @staticmethod
    def _commit(store: Store) -> RemoteCommit:
        return RemoteCommit(
            cluster=store.origin.cluster,
            shard=store.origin.shard,
            head=store.head,
            record=store.record,
            entries=store.entries,
            floor=store.floor,
            replace=store.replace,
        )

    @staticmethod
    def _whole(remote: RemoteOrigin) -> RemoteCommit:
        assert remote.head is not None  # noqa: S101 - it was committed once
        assert remote.record is not None  # noqa: S101
        return RemoteCommit(
            cluster=remote.origin.cluster,
            shard=remote.origin.shard,
            head=encode_head(remote.head),
            record=encode_record(remote.record),
            entries=tuple(remote.elements.entries()),
            floor=remote.head.floor,
            replace=True,
        )
