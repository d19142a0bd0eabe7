"""Damaged, foreign, full, read-only and shared state folders: one error with its cure, no reset."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from replicator.errors import JournalError
from replicator.journal import Journal, OwnBatch, RemoteCommit
from replicator.journal_database import explain

NOBODY = 65_534


def batch(first: int, count: int = 400, size: int = 100) -> OwnBatch:
    entries = tuple((b"element %d" % n, n, 0, b"v" * size) for n in range(first, first + count))
    return OwnBatch(1, first + count, first + count, b"head", entries, 0)


def remote(first: int, count: int = 400) -> RemoteCommit:
    entries = tuple((b"element %d" % n, n, 0, b"w" * 100) for n in range(first, first + count))
    return RemoteCommit("mesa", 0, b"head", b"record", entries, 0, replace=False)


async def filled(folder: Path) -> None:
    journal = await Journal.open(folder)
    await journal.persist_own(batch(1))
    await journal.persist_remote([remote(1)])
    await journal.remember("uid", b"12345")
    await journal.close()


async def refusal(folder: Path) -> JournalError:
    """The error of opening or loading ``folder``."""
    with pytest.raises(JournalError) as caught:
        await read_all(folder)
    assert caught.value.cure
    return caught.value


async def read_all(folder: Path) -> object:
    journal = await Journal.open(folder)
    try:
        return await journal.load(), await journal.recall("uid")
    finally:
        await journal.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.db"))}


@pytest.mark.parametrize("name", ["own.db", "remote.db"])
@pytest.mark.parametrize("size", [0, 1, 100, 4096, 8192, 20_000])
async def test_a_truncated_file_is_refused_and_left_alone(
    tmp_path: Path, name: str, size: int
) -> None:
    await filled(tmp_path)
    os.truncate(tmp_path / name, size)
    before = contents(tmp_path)
    error = await refusal(tmp_path)
    assert error.code == "journal_corrupt"
    assert name in error.message
    assert "move the whole state folder aside" in error.cure
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["own.db", "remote.db"])
async def test_a_flipped_bit_anywhere_is_found_or_harmless(tmp_path: Path, name: str) -> None:
    """Every 397th byte: either the error, or exactly what was written (free space was hit)."""
    await filled(tmp_path)
    path = tmp_path / name
    good, expected = path.read_bytes(), await read_all(tmp_path)
    found = 0
    for offset in range(0, len(good), 397):
        damaged = bytearray(good)
        damaged[offset] ^= 0x10
        path.write_bytes(damaged)
        found += await _detected(tmp_path, expected)
    assert found > len(good) / 397 / 2


async def _detected(folder: Path, expected: object) -> bool:
    try:
        seen = await read_all(folder)
    except JournalError as error:
        return error.code in {"journal_corrupt", "journal_newer"}
    assert seen == expected
    return False


async def test_a_text_file_in_place_of_the_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.db").write_bytes(b"not a database at all" * 400)
    assert (await refusal(tmp_path)).code == "journal_corrupt"


async def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "own.db")) as other:
        other.execute("CREATE TABLE theirs (a)")
        other.commit()
    assert "no schema" in (await refusal(tmp_path)).message


async def test_a_lost_schema_row_is_refused(tmp_path: Path) -> None:
    await filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "own.db")) as other:
        other.execute("DELETE FROM meta")
        other.commit()
    assert "schema row is missing" in (await refusal(tmp_path)).message


async def test_a_newer_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    await filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "remote.db")) as other:
        other.execute("UPDATE meta SET value = 7")
        other.commit()
    error = await refusal(tmp_path)
    assert error.code == "journal_newer"
    assert "has schema 7, this program reads up to 1" in error.message


async def test_a_log_without_its_file_is_refused_not_replayed(tmp_path: Path) -> None:
    await filled(tmp_path)
    (tmp_path / "own.db").rename(tmp_path / "own.db-wal")
    error = await refusal(tmp_path)
    assert error.code == "journal_corrupt"
    assert not (tmp_path / "own.db").exists()


async def test_a_draft_left_by_a_crash_during_creation_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "own.db.new").write_bytes(b"half")
    assert await read_all(tmp_path) == ((None, []), None)


@pytest.mark.parametrize("tail", [0, 1, 31, 33, 4000, 4152])
async def test_a_torn_log_yields_a_whole_prefix(tmp_path: Path, tail: int) -> None:
    """Bytes cut from the end of the log take whole batches with them, never parts of one."""
    journal = await Journal.open(tmp_path / "live")
    for number in range(5):
        await journal.persist_own(batch(number * 10 + 1, count=10))
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in ("own.db", "own.db-wal"):
        (folder / name).write_bytes((tmp_path / "live" / name).read_bytes())
    await journal.close()
    log = folder / "own.db-wal"
    os.truncate(log, log.stat().st_size - tail)
    journal = await Journal.open(folder)
    own, _ = await journal.load()
    await journal.close()
    assert own is not None
    assert len(own.entries) == own.last_stamp - 1
    assert own.last_stamp == (51 if tail == 0 else 41)


async def test_a_file_as_state_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert (await refusal(path)).code == "journal_not_a_folder"
    assert (await refusal(path / "below")).code == "journal_not_a_folder"


@contextmanager
def unprivileged() -> Iterator[Path]:
    """A folder that anybody may look into, seen without root's rights."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        was = os.geteuid()
        try:
            if was == 0:
                os.seteuid(NOBODY)
            yield folder
        finally:
            os.seteuid(was)
            for path in [folder, *folder.rglob("*")]:
                path.chmod(0o755)


async def test_a_folder_that_cannot_be_written_is_refused() -> None:
    with unprivileged() as folder:
        os.seteuid(os.getuid())
        (folder / "state").mkdir(mode=0o555)
        if os.getuid() == 0:
            os.seteuid(NOBODY)
        error = await refusal(folder / "state")
        missing = await refusal(folder / "state" / "below")
    assert error.code == missing.code == "journal_read_only"
    assert "writable" in error.cure


async def test_files_that_cannot_be_written_are_refused_at_the_start() -> None:
    with unprivileged() as folder:
        os.seteuid(os.getuid())
        state = folder / "state"
        await filled(state)
        for path in [state, *state.iterdir()]:
            path.chmod(0o777 if path == state else 0o444)
        if os.getuid() == 0:
            os.seteuid(NOBODY)
        error = await refusal(state)
    assert error.code == "journal_read_only"


async def test_a_failing_disk_loses_the_batch_whole_and_the_journal_goes_on(tmp_path: Path) -> None:
    """A file size limit stands for the disk: writes beyond it fail as on a broken one."""
    journal = await Journal.open(tmp_path)
    await journal.persist_own(batch(1, count=10))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "own.db-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, limits[1]))
    try:
        with pytest.raises(JournalError, match="disk failed") as caught:
            await journal.persist_own(batch(100, count=1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.cure
    own, _ = await journal.load()
    assert own is not None
    assert (own.last_stamp, len(own.entries)) == (11, 10)
    await journal.persist_own(batch(100, count=1000))
    await journal.close()
    journal = await Journal.open(tmp_path)
    own, _ = await journal.load()
    await journal.close()
    assert own is not None
    assert len(own.entries) == 1010


def _fill(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 3")
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (zeroblob(100000))")


def _write_read_only(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = on")
    connection.execute("CREATE TABLE t (a)")


def _misspell(connection: sqlite3.Connection) -> None:
    connection.execute("SELEKT")


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (_fill, "journal_full"),
        (_write_read_only, "journal_read_only"),
        (_misspell, "journal_failed"),
    ],
)
def test_each_error_of_the_store_is_explained_with_its_cure(
    work: Callable[[sqlite3.Connection], None], code: str
) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(sqlite3.Error) as caught:
            work(connection)
        error = explain(caught.value, Path("own.db"))
    assert error.code == code
    assert "own.db" in error.message
    assert error.cure


async def test_a_file_held_by_another_program_is_named(tmp_path: Path) -> None:
    await filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "own.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        error = await refusal(tmp_path)
    assert error.code == "journal_locked"
    assert "own.db" in error.message


_HOLD = """
import asyncio, sys
from pathlib import Path
from replicator.journal import Journal
async def main():
    await Journal.open(Path(sys.argv[1]))
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


def _holder(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_a_second_agent_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with _holder(tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        error = await refusal(tmp_path)
        assert error.code == "journal_locked"
        assert f"process {other.pid}" in error.message
        (tmp_path / "agent.pid").write_text("?")
        assert "another agent" in (await refusal(tmp_path)).message
        other.kill()
    assert await read_all(tmp_path) == ((None, []), None)


async def test_the_log_stays_bounded(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path)
    for _ in range(60):
        await journal.persist_remote([remote(1, count=3000)])
    size = (tmp_path / "remote.db-wal").stat().st_size
    await journal.close()
    assert size < 24 << 20
    assert not (tmp_path / "remote.db-wal").exists()
