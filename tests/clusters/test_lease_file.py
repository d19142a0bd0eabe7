"""The lease in a file, where the disk or somebody is in the way; the rest is the contract's."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path

import pytest

from clusters.errors import ClusterUnavailableError
from clusters.lease import LeaseClaim
from clusters.lease_file import LEASE_FILE, LOCK_FILE, FileLease

CLAIM = LeaseClaim("one", 1, 15.0)
GOOD = '{"holder": "one", "transitions": 1, "duration": 15.0, "mark": "x"}'


async def code_of_read(store: FileLease) -> str:
    with pytest.raises(ClusterUnavailableError) as caught:
        await store.read()
    assert caught.value.cure
    return caught.value.code


async def code_of_write(store: FileLease) -> str:
    with pytest.raises(ClusterUnavailableError) as caught:
        await store.write(CLAIM, None)
    assert caught.value.cure
    return caught.value.code


@pytest.mark.parametrize(
    "content",
    [
        "",
        "spoiled",
        "[]",
        "{}",
        GOOD.replace('"one"', "1"),
        GOOD.replace('"transitions": 1', '"transitions": true'),
        GOOD.replace('"x"', "null"),
        GOOD.replace("15.0", "0"),
        GOOD.replace("15.0", "NaN"),
        GOOD.replace("15.0", '"long"'),
        f"{' ' * 4096}{GOOD}",
    ],
)
async def test_a_file_that_holds_no_lease_is_no_free_one(tmp_path: Path, content: str) -> None:
    store = FileLease([tmp_path])
    (tmp_path / LEASE_FILE).write_text(GOOD)
    assert await store.read() is not None
    (tmp_path / LEASE_FILE).write_text(content)
    assert await code_of_read(store) == "lease_spoiled"
    assert await code_of_write(store) == "lease_spoiled"
    assert (tmp_path / LEASE_FILE).read_text() == content


async def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / LEASE_FILE).symlink_to(LEASE_FILE)
    assert await code_of_read(FileLease([tmp_path])) == "lease_unreadable"


async def test_what_cannot_be_written_leaves_the_lease_as_it_was(tmp_path: Path) -> None:
    store = FileLease([tmp_path])
    written = await store.write(CLAIM, None)
    (tmp_path / f"{LEASE_FILE}.new").mkdir()
    with pytest.raises(ClusterUnavailableError) as caught:
        await store.write(LeaseClaim("two", 2, 15.0), written)
    assert caught.value.code == "lease_unwritable"
    assert await store.read() == written


async def test_a_lock_that_cannot_be_made_is_a_failed_write(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).mkdir()
    assert await code_of_write(FileLease([tmp_path])) == "lease_unwritable"


async def test_a_lock_that_another_process_keeps_is_not_waited_for_without_end(
    tmp_path: Path,
) -> None:
    store = FileLease([tmp_path])
    with (tmp_path / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await code_of_write(store) == "lease_locked"
        assert await store.read() is None
        writing = asyncio.create_task(store.write(CLAIM, None))
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert (await writing).holder == "one"


async def test_a_folder_that_is_not_there_holds_no_lease(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnavailableError, match="does not exist"):
        await FileLease([tmp_path / "gone"]).read()
