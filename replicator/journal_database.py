"""One SQLite file, one thread: opening it without ever resetting it, and short write transactions.

A new file is built under another name and renamed into place when its schema is on disk.  So a file
that exists but is empty, or holds no schema row, was damaged: it is refused and never rebuilt.  The
same holds for a write-ahead log that outlived its file, which SQLite would replay into a new one.

SQLite checks the frames of the log but not the pages of the file, hence :func:`check_of`: callers
keep it beside every row, and a flipped bit shows when the row is read.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from replicator.errors import JournalError

T = TypeVar("T")

SCHEMA_VERSION = 1
_QUICK_CHECK_BYTES = 256 << 20
_WAL_PAGES = 4000
"""The log is folded into the file at 16 MiB, four times SQLite's figure: a fourth of the fsyncs."""
_WAL_LIMIT_BYTES = 16 << 20
_BUSY_SECONDS = 2.0
_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
_CURE_CORRUPT = (
    "stop the agent, move the whole state folder aside and start again: "
    "the state is taken anew from the cluster and its peers"
)
_CURE_READ_ONLY = "make the state folder and the files in it writable for the agent's user"
_CURE_FULL = "free space on the disk of the state folder; the agent tries again by itself"


def check_of(*parts: bytes | int) -> int:
    """CRC-32 of a row, to be kept beside it (guards against bit rot, not against people)."""
    total = 0
    for part in parts:
        total = crc32(part if isinstance(part, bytes) else b"%d;" % part, total)
    return total


def corrupt(path: Path, detail: str) -> JournalError:
    """The error for a damaged file."""
    return JournalError(f"{path} is damaged: {detail}", cure=_CURE_CORRUPT, code="journal_corrupt")


def explain(error: sqlite3.Error, path: Path) -> JournalError:
    """What SQLite's ``error`` on ``path`` means to the operator."""
    primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    match primary:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return corrupt(path, str(error))
        case sqlite3.SQLITE_FULL:
            return JournalError(f"no space for {path}", cure=_CURE_FULL, code="journal_full")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            message = f"{path} cannot be written: {error}"
            return JournalError(message, cure=_CURE_READ_ONLY, code="journal_read_only")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            message = f"{path} is held by another program"
            cure = "end the program that has the file open"
            return JournalError(message, cure=cure, code="journal_locked")
        case sqlite3.SQLITE_IOERR:
            message = f"the disk failed on {path}: {error}"
            return JournalError(message, cure="check the disk of the state folder")
        case _:
            message = f"{path} cannot be used: {error}"
            return JournalError(message, cure="report this as a defect, with the agent's log")


def explain_os(error: OSError, path: Path) -> JournalError:
    """What the operating system's ``error`` on ``path`` means to the operator."""
    reason = error.strerror or str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        message = f"the state folder {path} is not a folder"
        cure = "name a folder in `state:` of the configuration"
        return JournalError(message, cure=cure, code="journal_not_a_folder")
    if error.errno == errno.ENOSPC:
        return JournalError(f"no space for {path}", cure=_CURE_FULL, code="journal_full")
    message = f"{path} cannot be written: {reason}"
    return JournalError(message, cure=_CURE_READ_ONLY, code="journal_read_only")


def sync_folder(folder: Path) -> None:
    """Make names that were created or renamed in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Database:
    """One SQLite file in WAL mode, used from one thread of its own."""

    def __init__(self, path: Path, schema: str, *, synchronous: str) -> None:
        """``schema`` (statements ended by semicolons) makes a new file.

        ``synchronous`` is FULL (fsync at each commit) or NORMAL (none).
        """
        self.path = path
        self._schema = schema
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"journal-{path.stem}")

    async def open(self) -> None:
        """Open the file, making it if the folder has none; :class:`JournalError` otherwise."""
        await self._submit(self._open)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in the file's thread."""
        return await self._submit(lambda: work(self._ready()))

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` as one transaction: all of it is kept, or nothing and an error is raised.

        With ``synchronous`` FULL it is on disk on return.
        """
        return await self._submit(lambda: self._transaction(work))

    async def write_timed(self, work: Callable[[sqlite3.Connection], object]) -> float:
        """As :meth:`write`; returns the seconds from its begin to its end, without the waiting."""

        def timed() -> float:
            began = time.perf_counter()
            self._transaction(work)
            return time.perf_counter() - began

        return await self._submit(timed)

    async def close(self) -> None:
        """Finish what runs, fold the log into the file and close; may be called twice."""
        with suppress(JournalError):
            await self._submit(self._close)
        self._thread.shutdown()

    async def _submit(self, work: Callable[[], T]) -> T:
        try:
            future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError as error:
            raise self._closed() from error
        try:
            return await future
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        except OSError as error:
            raise explain_os(error, self.path) from error

    def _closed(self) -> JournalError:
        return JournalError(f"{self.path} is closed", cure="open the journal again")

    def _ready(self) -> sqlite3.Connection:
        if self._connection is None:
            raise self._closed()
        return self._connection

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._ready()
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _open(self) -> None:
        if not self.path.exists():
            self._create()
        if self.path.stat().st_size == 0:
            raise corrupt(self.path, "it is empty")
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_SECONDS)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._check_schema(connection)
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise JournalError(f"{self.path} cannot keep a log", cure=_CURE_READ_ONLY)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        if self.path.stat().st_size <= _QUICK_CHECK_BYTES:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise corrupt(self.path, found)
        # An empty write transaction: a read-only file or disk is found now, not at the first batch.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE meta SET value = value WHERE name = 'schema'")
        connection.execute("COMMIT")

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        try:
            row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR:
                raise corrupt(self.path, "it has no schema") from error
            raise
        if row is None:
            raise corrupt(self.path, "its schema row is missing")
        if row[0] > SCHEMA_VERSION:
            message = f"{self.path} has schema {row[0]}, this program reads up to {SCHEMA_VERSION}"
            cure = "run the newer program that wrote it, or move the state folder aside"
            raise JournalError(message, cure=cure, code="journal_newer")

    def _create(self) -> None:
        log = self.path.with_name(self.path.name + "-wal")
        if log.exists():
            raise corrupt(self.path, f"the file is missing but {log.name} is there")
        draft = self.path.with_name(self.path.name + ".new")
        draft.unlink(missing_ok=True)
        connection = sqlite3.connect(draft, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in (_META + self._schema).split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('schema', ?)", (SCHEMA_VERSION,))
            connection.execute("COMMIT")
        finally:
            connection.close()
        draft.rename(self.path)
        sync_folder(self.path.parent)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
