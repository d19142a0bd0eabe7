"""Keeps remote commits on disk, behind the replica.

Remote state can be pulled again, so nothing waits for it, but what is stored must never be a
version ahead of its entries (rule C11): after a failed write an origin is stored whole, in place
of the deltas that were lost.  The backlog is bounded: readers wait for :meth:`Recorder.room`.

An origin is stored whole as a peer would be sent it: slice by slice out of the set, which may move
on meanwhile, into a draft that takes the place of what was stored with the slice that reaches the
head.  Commits of other origins are written between two slices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import structlog

from clusters.base import Clock
from crdt import Entry, Origin
from replicator.codec import encode_head, encode_record
from replicator.effects import Drop, Remember, Store
from replicator.errors import JournalError
from replicator.journal import Journal, RemoteCommit
from replicator.remote_origin import RemoteOrigin

_BACKLOG = 512
SLICE_BYTES = 256 * 1024
"""Of elements and values in one write of an origin that is stored whole."""
_RETRY_SECONDS = 5.0
_log = structlog.get_logger()


@dataclass(slots=True)
class _Draft:
    """An origin that is being stored whole."""

    remote: RemoteOrigin
    number: int
    """The journal's, of the draft."""
    first: int
    """Stamp of the head when the first slice was cut: a floor above it may hide what went (C7)."""
    epoch: int
    replacements: int
    position: int = 0

    def goes_on(self, remote: RemoteOrigin | None) -> bool:
        """Whether what is in the draft is part of what ``remote`` is now."""
        if remote is not self.remote or remote.head is None:
            return False
        epoch, floor = remote.head.epoch, remote.head.floor
        same = (epoch, remote.replacements) == (self.epoch, self.replacements)
        return same and floor <= self.first


class Recorder:
    """Writes stores to the journal in batches."""

    def __init__(
        self,
        journal: Journal,
        remotes: dict[Origin, RemoteOrigin],
        clock: Clock,
        slice_bytes: int = SLICE_BYTES,
        timed: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``remotes`` is the replica's, read when an origin has to be stored whole.

        ``timed`` is told the seconds of each transaction of commits.
        """
        self._timed = timed
        self._slice_bytes = slice_bytes
        self._journal = journal
        self._remotes = remotes
        self._clock = clock
        self._waiting: list[Store] = []
        self._facts: dict[str, bytes] = {}
        self._torn: set[Origin] = set()
        """Origins of which what is stored is not all: they are stored whole."""
        self._draft: _Draft | None = None
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
        if commit.entries is None:
            self._torn.add(commit.origin)
        else:
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
            if not await self.step():
                await self._clock.sleep(_RETRY_SECONDS)
                self._wake.set()
            elif self._torn:
                self._wake.set()

    async def flush(self) -> bool:
        """Write everything that waits; False when the journal refused (see :attr:`failing`)."""
        good = await self.step()
        while good and self._torn:
            good = await self.step()
        return good

    async def step(self) -> bool:
        """Write what waits, and one slice of an origin that is stored whole; as :meth:`flush`."""
        batch, self._waiting = self._waiting, []
        facts, self._facts = self._facts, {}
        dropped, self._dropped = self._dropped, set()
        self._room.set()
        commits = [self._commit(store) for store in batch if store.origin not in self._torn]
        try:
            for key, value in sorted(facts.items()):
                await self._journal.remember(key, value)
            if dropped:
                await self._journal.drop_remote(sorted(dropped))
            if commits:
                began = self._clock.monotonic()
                await self._journal.persist_remote(commits)
                self._timed(self._clock.monotonic() - began)
            await self._store_slice()
        except JournalError as error:
            self._torn |= {store.origin for store in batch}
            self._facts = {**facts, **self._facts}
            self._dropped |= dropped
            self._draft = None
            self.failing = str(error)
            _log.exception("remote_commit_not_stored", code=error.code)
            return False
        self.failing = None
        return True

    async def _store_slice(self) -> None:
        """Write the next slice of the first origin that is to be stored whole."""
        self._torn = {o for o in self._torn if o in self._remotes and self._remotes[o].known}
        if not self._torn:
            return
        draft = self._draft
        if draft is None or not draft.goes_on(self._remotes.get(draft.remote.origin)):
            number = await self._journal.begin_remote()
            draft = self._draft = self._begun(number)
        if draft is None:
            return
        remote = draft.remote
        chunk = remote.elements.since(draft.position, self._slice_bytes)
        if chunk.complete:
            await self._finish(draft, self._last(remote, tuple(chunk.entries)))
        else:
            draft.position = chunk.to
            await self._journal.draft_remote(draft.number, chunk.entries)

    async def _finish(self, draft: _Draft, last: RemoteCommit) -> None:
        # What is committed from here on is not in the draft.
        self._draft = None
        self._torn.discard(draft.remote.origin)
        try:
            await self._journal.finish_remote(draft.number, last)
        except JournalError:
            self._torn.add(draft.remote.origin)
            raise

    def _begun(self, number: int) -> _Draft | None:
        """A draft of the first origin that is to be stored whole, if it is still there."""
        remote = self._remotes.get(min(self._torn)) if self._torn else None
        if remote is None or remote.head is None:
            return None
        head = remote.head
        return _Draft(remote, number, head.stamp, head.epoch, remote.replacements)

    @staticmethod
    def _commit(store: Store) -> RemoteCommit:
        assert store.entries is not None  # noqa: S101 - others are not queued
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
    def _last(remote: RemoteOrigin, entries: tuple[Entry, ...]) -> RemoteCommit:
        assert remote.head is not None  # noqa: S101 - it was committed once
        assert remote.record is not None  # noqa: S101
        return RemoteCommit(
            cluster=remote.origin.cluster,
            shard=remote.origin.shard,
            head=encode_head(remote.head),
            record=encode_record(remote.record),
            entries=entries,
            floor=remote.head.floor,
            replace=True,
        )
