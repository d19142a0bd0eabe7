"""A journal in memory, for tests of what stands on one: the same answers, and faults on demand.

What is persisted lives in a :class:`Disk`, which outlives the journal as a real disk outlives an
agent: open a second journal on the same disk to see what a restart would find.  A full or failing
disk is asked for with :meth:`MemoryJournal.fail`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from crdt import Entry
from replicator.errors import JournalError
from replicator.journal import Journal, OwnBatch, OwnState, RemoteCommit, RemoteState

_REMOVE = 1


@dataclass(slots=True)
class _Remote:
    head: bytes
    record: bytes
    entries: dict[bytes, Entry] = field(default_factory=dict)


@dataclass(slots=True)
class _Contents:
    version: tuple[int, int, int] | None = None
    head: bytes | None = None
    entries: dict[bytes, Entry] = field(default_factory=dict)
    remotes: dict[tuple[str, int], _Remote] = field(default_factory=dict)
    facts: dict[str, bytes] = field(default_factory=dict)
    draft: dict[bytes, Entry] = field(default_factory=dict)


class Disk:
    """What survives a journal that is closed or dropped."""

    def __init__(self) -> None:
        """An empty disk."""
        self.contents = _Contents()
        self.locked = False


class MemoryJournal(Journal):
    """:class:`Journal` without files.  Shares nothing with it but the interface."""

    def __init__(self, disk: Disk | None = None) -> None:
        """Lock ``disk`` (a new one if none is given); ``journal_locked`` if another holds it."""
        self.disk = Disk() if disk is None else disk
        if self.disk.locked:
            message = "the disk is in use by another journal"
            raise JournalError(message, cure="close that one first", code="journal_locked")
        self.disk.locked = True
        self.commits = 0
        """Transactions that were kept."""
        self._failures: list[JournalError] = []
        self._open = True

    def fail(self, error: JournalError, *, times: int = 1) -> None:
        """Let the next ``times`` writes raise ``error`` and change nothing."""
        self._failures += [error] * times

    def _begin(self) -> _Contents:
        self._check()
        if self._failures:
            raise self._failures.pop(0)
        return deepcopy(self.disk.contents)

    def _commit(self, contents: _Contents) -> None:
        self.disk.contents = contents
        self.commits += 1

    def _check(self) -> None:
        if not self._open:
            message = "the journal is closed"
            raise JournalError(message, cure="open the journal again")

    async def load(self) -> tuple[OwnState | None, list[RemoteState]]:
        """See :class:`Journal`."""
        self._check()
        contents = self.disk.contents
        own = None
        if contents.version is not None:
            own = OwnState(*contents.version, contents.head, _sorted(contents.entries))
        remotes = [
            RemoteState(cluster, shard, kept.head, kept.record, _sorted(kept.entries))
            for (cluster, shard), kept in sorted(contents.remotes.items())
        ]
        return own, remotes

    async def persist_own(self, batch: OwnBatch) -> float:
        """See :class:`Journal`; takes no time."""
        contents = self._begin()
        contents.version = (batch.epoch, batch.ceiling, batch.last_stamp)
        contents.head = contents.head if batch.head is None else batch.head
        if batch.replace:
            contents.entries.clear()
        _apply(contents.entries, batch.entries, batch.floor)
        self._commit(contents)
        return 0.0

    async def persist_remote(self, commits: Sequence[RemoteCommit]) -> None:
        """See :class:`Journal`."""
        contents = self._begin()
        for commit in commits:
            kept = _Remote(commit.head, commit.record)
            former = contents.remotes.get((commit.cluster, commit.shard))
            if former is not None and not commit.replace:
                kept.entries = former.entries
            _apply(kept.entries, commit.entries, commit.floor)
            contents.remotes[commit.cluster, commit.shard] = kept
        self._commit(contents)

    async def begin_remote(self) -> int:
        """See :class:`Journal`."""
        contents = self._begin()
        contents.draft = {}
        self._commit(contents)
        return 1

    async def draft_remote(self, number: int, entries: Sequence[Entry]) -> None:  # noqa: ARG002
        """See :class:`Journal`."""
        contents = self._begin()
        _apply(contents.draft, entries, 0)
        self._commit(contents)

    async def finish_remote(self, number: int, commit: RemoteCommit) -> None:  # noqa: ARG002
        """See :class:`Journal`."""
        contents = self._begin()
        kept = _Remote(commit.head, commit.record, contents.draft)
        _apply(kept.entries, commit.entries, commit.floor)
        contents.remotes[commit.cluster, commit.shard], contents.draft = kept, {}
        self._commit(contents)

    async def drop_remote(self, clusters: Iterable[tuple[str, int]]) -> None:
        """See :class:`Journal`."""
        contents = self._begin()
        for origin in clusters:
            contents.remotes.pop(origin, None)
        self._commit(contents)

    async def remember(self, key: str, value: bytes) -> None:
        """See :class:`Journal`."""
        contents = self._begin()
        contents.facts[key] = value
        self._commit(contents)

    async def recall(self, key: str) -> bytes | None:
        """See :class:`Journal`."""
        self._check()
        return self.disk.contents.facts.get(key)

    async def close(self) -> None:
        """See :class:`Journal`."""
        if self._open:
            self._open = False
            self.disk.locked = False


def _apply(kept: dict[bytes, Entry], entries: Sequence[Entry], floor: int) -> None:
    kept.update({entry[0]: entry for entry in entries})
    for element, stamp, op, _ in list(kept.values()):
        if op == _REMOVE and stamp <= floor:
            del kept[element]


def _sorted(entries: dict[bytes, Entry]) -> list[Entry]:
    return sorted(entries.values(), key=lambda entry: entry[1])
