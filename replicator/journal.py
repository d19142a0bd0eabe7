"""What an agent must not forget, in two SQLite files of the state folder.

``own.db`` holds our origin's state and is fsynced with every batch, before anything of the batch
is sent; ``remote.db`` holds what others published and is atomic but not fsynced, since it can be
pulled again.  Each file has a thread of its own, so own commits never wait for bulk.

Invariant: version and entries of an origin move in one transaction, so after a crash at any instant
a file holds a prefix of what was persisted, and never a version ahead of its entries (rule C11).
A damaged, foreign, read-only or full folder is an error with its cure; nothing is ever reset.
The folder is locked: two agents cannot share one.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from crdt import Entry
from replicator.errors import JournalError
from replicator.journal_database import Database, check_of, corrupt, explain_os

_ROWS_AT_ONCE = (512, 32, 1)
_REMOVE = 1
_OWN_SCHEMA = f"""
CREATE TABLE own (
    id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL, ceiling INTEGER NOT NULL,
    last_stamp INTEGER NOT NULL, head BLOB, crc INTEGER NOT NULL);
CREATE TABLE entries (
    element BLOB PRIMARY KEY, stamp INTEGER NOT NULL, op INTEGER NOT NULL, value BLOB NOT NULL,
    crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX tombstones ON entries (stamp) WHERE op = {_REMOVE};
CREATE TABLE facts (
    name TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
"""
_REMOTE_SCHEMA = f"""
CREATE TABLE origins (
    id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, shard INTEGER NOT NULL, head BLOB NOT NULL,
    record BLOB NOT NULL, crc INTEGER NOT NULL, UNIQUE (cluster, shard));
CREATE TABLE entries (
    origin INTEGER NOT NULL, element BLOB NOT NULL, stamp INTEGER NOT NULL, op INTEGER NOT NULL,
    value BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (origin, element)) WITHOUT ROWID;
CREATE INDEX tombstones ON entries (origin, stamp) WHERE op = {_REMOVE};
"""
_COLLECT = f"DELETE FROM entries WHERE origin = ? AND op = {_REMOVE} AND stamp <= ?"  # noqa: S608
_NEXT_ORIGIN = "SELECT min(origin) FROM entries WHERE origin > ?"


@dataclass(frozen=True, slots=True)
class OwnState:
    """Our own origin as last persisted."""

    epoch: int
    ceiling: int
    last_stamp: int
    head: bytes | None
    entries: list[Entry]
    """Sorted by stamp."""


@dataclass(frozen=True, slots=True)
class RemoteState:
    """One remote origin as last persisted: exactly its owner's state at ``head``."""

    cluster: str
    shard: int
    head: bytes
    record: bytes
    entries: list[Entry]
    """Sorted by stamp."""


@dataclass(frozen=True, slots=True)
class OwnBatch:
    """One durable step of our own origin; own tombstones with stamp <= ``floor`` are dropped."""

    epoch: int
    ceiling: int
    last_stamp: int
    head: bytes | None
    """None keeps the stored one: entries may be journaled before the head that covers them."""
    entries: tuple[Entry, ...]
    floor: int
    replace: bool = False
    """What was held of our own origin before is deleted first."""


@dataclass(frozen=True, slots=True)
class RemoteCommit:
    """One commit of a remote origin; tombstones with stamp <= ``floor`` are dropped."""

    cluster: str
    shard: int
    head: bytes
    record: bytes
    entries: tuple[Entry, ...]
    floor: int
    replace: bool
    """A snapshot: what was held of the origin before is deleted first."""


class Journal:
    """The journal of one state folder; made by :meth:`open`.

    Calls may be made concurrently; those on one file happen in the order of the calls.  A call that
    raises :class:`JournalError` changed nothing and may be repeated.
    """

    def __init__(self, folder: Path, lock: int, own: Database, remote: Database) -> None:
        """Use :meth:`open`."""
        self._folder = folder
        self._lock = lock
        self._own = own
        self._remote = remote

    @classmethod
    async def open(cls, folder: Path) -> Journal:
        """Lock ``folder`` (made if missing) and open its files.

        Raises :class:`JournalError` with one of the codes ``journal_not_a_folder``,
        ``journal_read_only``, ``journal_full``, ``journal_locked``, ``journal_newer``,
        ``journal_corrupt``, ``journal_failed``.
        """
        lock = _lock_folder(folder)
        own = Database(folder / "own.db", _OWN_SCHEMA, synchronous="FULL")
        remote = Database(folder / "remote.db", _REMOTE_SCHEMA, synchronous="NORMAL")
        journal = cls(folder, lock, own, remote)
        try:
            await own.open()
            await remote.open()
        except BaseException:
            await journal.close()
            raise
        return journal

    async def load(self) -> tuple[OwnState | None, list[RemoteState]]:
        """Everything persisted; None for our own origin if it never was (first start, disk loss).

        Raises :class:`JournalError` ``journal_corrupt`` when a row is not what was written.
        """
        own = await self._own.read(lambda rows: _load_own(rows, self._own.path))
        remotes = await self._remote.read(lambda rows: _load_remotes(rows, self._remote.path))
        return own, remotes

    async def persist_own(self, batch: OwnBatch) -> float:
        """Persist ``batch``; on return it is on disk.  Returns the seconds the commit took."""
        return await self._own.write_timed(lambda rows: _store_own(rows, batch))

    async def persist_remote(self, commits: Sequence[RemoteCommit]) -> None:
        """Persist ``commits`` in order, as one transaction."""
        await self._remote.write(lambda rows: _store_remotes(rows, commits))

    async def begin_remote(self) -> int:
        """Begin to store an origin whole, in parts; returns the number of the draft.

        There is one draft at a time: any former one is lost, as it is at the next start.
        """
        return await self._remote.write(_begin_draft)

    async def draft_remote(self, number: int, entries: Sequence[Entry]) -> None:
        """Put ``entries`` into a draft; nothing of it is loaded before it is finished."""
        await self._remote.write(lambda rows: _put(rows, f"{number}, ?, ?, ?, ?, ?", entries))

    async def finish_remote(self, number: int, commit: RemoteCommit) -> None:
        """Put the rest of the entries in, and the draft in place of what was held of the origin."""
        await self._remote.write(lambda rows: _finish_draft(rows, number, commit))

    async def drop_remote(self, clusters: Iterable[tuple[str, int]]) -> None:
        """Keep nothing of these origins, given as (cluster, shard), any more; one transaction."""
        gone = tuple(clusters)
        await self._remote.write(lambda rows: _drop_remotes(rows, gone))

    async def remember(self, key: str, value: bytes) -> None:
        """Keep a small fact; on return it is on disk."""
        row = (key, value, check_of(key.encode(), value))
        await self._own.write(lambda rows: rows.execute("REPLACE INTO facts VALUES (?, ?, ?)", row))

    async def recall(self, key: str) -> bytes | None:
        """The fact kept under ``key``."""
        query = "SELECT value, crc FROM facts WHERE name = ?"
        row = await self._own.read(lambda rows: rows.execute(query, (key,)).fetchone())
        if row is None:
            return None
        value: bytes = row[0]
        if check_of(key.encode(), value) != row[1]:
            raise corrupt(self._own.path, f"the fact {key!r} is not what was written")
        return value

    async def close(self) -> None:
        """Finish what runs, close the files and unlock the folder; may be called twice."""
        await self._own.close()
        await self._remote.close()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            (self._folder / "agent.pid").unlink(missing_ok=True)
            os.close(lock)


def _lock_folder(folder: Path) -> int:
    """Lock ``folder`` for this process; returns the descriptor that holds the lock."""
    note = folder / "agent.pid"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise explain_os(error, folder) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        note.write_text(f"{os.getpid()}\n", "ascii")
    except BlockingIOError as error:
        os.close(descriptor)
        raise _in_use(folder, note) from error
    except OSError as error:
        os.close(descriptor)
        raise explain_os(error, folder) from error
    return descriptor


def _in_use(folder: Path, note: Path) -> JournalError:
    try:
        holder = f"process {int(note.read_text('ascii'))}"
    except (OSError, ValueError):
        holder = "another agent"
    message = f"the state folder {folder} is in use by {holder}"
    cure = "end that agent, or give this one a state folder of its own"
    return JournalError(message, cure=cure, code="journal_locked")


def _put(rows: sqlite3.Connection, row: str, entries: Sequence[Entry]) -> None:
    """Write ``entries`` in few statements: ``row`` is what one row is made of.

    The interpreter is let go with each statement, and while the event loop is busy taking it back
    costs milliseconds: row by row, a big batch took seconds.
    """
    at = 0
    for size in _ROWS_AT_ONCE:
        statement = f"REPLACE INTO entries VALUES {', '.join([f'({row})'] * size)}"  # noqa: S608
        while len(entries) - at >= size:
            some = entries[at : at + size]
            rows.execute(statement, [part for one in some for part in (*one, check_of(*one))])
            at += size


def _checked(rows: Iterable[tuple[bytes, int, int, bytes, int]], path: Path) -> list[Entry]:
    entries = []
    for element, stamp, op, value, crc in rows:
        try:
            good = check_of(element, stamp, op, value) == crc
        except TypeError:
            good = False
        if not good:
            raise corrupt(path, "an entry is not what was written")
        entries.append((element, stamp, op, value))
    return entries


def _load_own(rows: sqlite3.Connection, path: Path) -> OwnState | None:
    row = rows.execute("SELECT epoch, ceiling, last_stamp, head, crc FROM own").fetchone()
    query = "SELECT element, stamp, op, value, crc FROM entries ORDER BY stamp"
    entries = _checked(rows.execute(query), path)
    if row is None:
        if entries:
            raise corrupt(path, "it holds entries without their version")
        return None
    epoch, ceiling, last_stamp, head, crc = row
    if check_of(epoch, ceiling, last_stamp, head or b"") != crc:
        raise corrupt(path, "the version is not what was written")
    return OwnState(epoch, ceiling, last_stamp, head, entries)


def _store_own(rows: sqlite3.Connection, batch: OwnBatch) -> None:
    head = batch.head
    if head is None:
        stored = rows.execute("SELECT head FROM own").fetchone()
        head = None if stored is None else stored[0]
    crc = check_of(batch.epoch, batch.ceiling, batch.last_stamp, head or b"")
    version = (batch.epoch, batch.ceiling, batch.last_stamp, head, crc)
    rows.execute("REPLACE INTO own VALUES (1, ?, ?, ?, ?, ?)", version)
    if batch.replace:
        rows.execute("DELETE FROM entries")
    _put(rows, "?, ?, ?, ?, ?", batch.entries)
    query = f"DELETE FROM entries WHERE op = {_REMOVE} AND stamp <= ?"  # noqa: S608 - a constant
    rows.execute(query, (batch.floor,))


def _load_remotes(rows: sqlite3.Connection, path: Path) -> list[RemoteState]:
    states = []
    origins = rows.execute(
        "SELECT id, cluster, shard, head, record, crc FROM origins ORDER BY cluster, shard"
    ).fetchall()
    query = "SELECT element, stamp, op, value, crc FROM entries WHERE origin = ? ORDER BY stamp"
    for number, cluster, shard, head, record, crc in origins:
        if check_of(cluster.encode(), shard, head, record) != crc:
            raise corrupt(path, f"the version of {cluster} is not what was written")
        entries = _checked(rows.execute(query, (number,)), path)
        states.append(RemoteState(cluster, shard, head, record, entries))
    return states


def _store_remotes(rows: sqlite3.Connection, commits: Sequence[RemoteCommit]) -> None:
    for commit in commits:
        number = _store_origin(rows, commit)
        if commit.replace:
            rows.execute("DELETE FROM entries WHERE origin = ?", (number,))
        _put(rows, f"{number}, ?, ?, ?, ?, ?", commit.entries)
        rows.execute(_COLLECT, (number, commit.floor))


def _begin_draft(rows: sqlite3.Connection) -> int:
    """Delete what was drafted; returns a number that no origin has, nor a new one will get."""
    known = {number for (number,) in rows.execute("SELECT id FROM origins")}
    at = -(1 << 63)
    while (at := rows.execute(_NEXT_ORIGIN, (at,)).fetchone()[0]) is not None:
        if at not in known:
            rows.execute("DELETE FROM entries WHERE origin = ?", (at,))
    return min(known | {0}) - 1


def _finish_draft(rows: sqlite3.Connection, number: int, commit: RemoteCommit) -> None:
    _put(rows, f"{number}, ?, ?, ?, ?, ?", commit.entries)
    former = _store_origin(rows, commit)
    rows.execute("DELETE FROM entries WHERE origin = ?", (former,))
    rows.execute("UPDATE origins SET id = ? WHERE id = ?", (number, former))
    rows.execute(_COLLECT, (number, commit.floor))


def _store_origin(rows: sqlite3.Connection, commit: RemoteCommit) -> int:
    crc = check_of(commit.cluster.encode(), commit.shard, commit.head, commit.record)
    row = (commit.cluster, commit.shard, commit.head, commit.record, crc)
    found = rows.execute(
        "INSERT INTO origins (cluster, shard, head, record, crc) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (cluster, shard) DO UPDATE SET head = excluded.head,"
        " record = excluded.record, crc = excluded.crc RETURNING id",
        row,
    ).fetchone()
    number: int = found[0]
    return number


def _drop_remotes(rows: sqlite3.Connection, origins: Sequence[tuple[str, int]]) -> None:
    where = "cluster = ? AND shard = ?"
    for origin in origins:
        query = f"DELETE FROM entries WHERE origin IN (SELECT id FROM origins WHERE {where})"  # noqa: S608
        rows.execute(query, origin)
        rows.execute(f"DELETE FROM origins WHERE {where}", origin)  # noqa: S608
