"""The uid of a cluster of folders: made once, the same for everybody, never guessed."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from clusters.errors import ClusterUnavailableError
from clusters.uid_file import UID_FILE, read_or_make_uid
from tests.clusters.folder_bed import unprivileged
from tests.contract.directory_harness import DirectoryHarness


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody may reach."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def test_it_is_made_once_and_stays(tmp_path: Path) -> None:
    uid = read_or_make_uid([tmp_path])
    assert str(uuid.UUID(uid)) == uid
    assert read_or_make_uid([tmp_path]) == uid
    assert names_in(tmp_path) == [UID_FILE]
    (tmp_path / "other").mkdir()
    assert read_or_make_uid([tmp_path / "other"]) != uid


async def test_all_who_make_it_at_once_read_the_same(tmp_path: Path) -> None:
    made = await asyncio.gather(
        *(asyncio.to_thread(read_or_make_uid, [tmp_path]) for _ in range(32))
    )
    assert len(set(made)) == 1
    assert names_in(tmp_path) == [UID_FILE]


@pytest.mark.parametrize("content", [b"", b"not a uid\n", b"\xff\xfe\0", b"a" * 100_000])
def test_a_spoiled_one_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / UID_FILE
    path.write_bytes(content)
    with pytest.raises(ClusterUnavailableError, match="does not hold a uid; restore it"):
        read_or_make_uid([tmp_path])
    assert path.read_bytes() == content


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / UID_FILE)
    with pytest.raises(ClusterUnavailableError, match="does not hold a uid"):
        read_or_make_uid([tmp_path])


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnavailableError, match="does not exist; create it"):
        read_or_make_uid([tmp_path / "source", tmp_path])
    (tmp_path / "file").touch()
    with pytest.raises(ClusterUnavailableError, match="does not exist"):
        read_or_make_uid([tmp_path / "file"])
    assert names_in(tmp_path) == ["file"]


def test_where_the_first_is_read_only_the_second_holds_it(open_folder: Path) -> None:
    first, second = open_folder / "first", open_folder / "second"
    for folder in (first, second):
        folder.mkdir()
    first.chmod(0o555)
    second.chmod(0o777)
    with unprivileged():
        with pytest.raises(ClusterUnavailableError, match="make the folder writable"):
            read_or_make_uid([first])
        uid = read_or_make_uid([first, second])
        assert read_or_make_uid([first, second]) == uid
    first.chmod(0o755)
    assert read_or_make_uid([first, second]) == uid, "also when the first could hold one later"
    assert list(first.iterdir()) == []


def test_one_that_may_not_be_read_is_not_replaced(open_folder: Path) -> None:
    uid = read_or_make_uid([open_folder])
    open_folder.chmod(0o777)
    (open_folder / UID_FILE).chmod(0)
    with (
        unprivileged(),
        pytest.raises(ClusterUnavailableError, match="Permission denied; let the agent read it"),
    ):
        read_or_make_uid([open_folder])
    (open_folder / UID_FILE).chmod(0o644)
    assert read_or_make_uid([open_folder]) == uid


def test_a_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    uid = read_or_make_uid([tmp_path])
    assert read_or_make_uid([tmp_path]) == uid


async def test_a_cluster_has_it_beside_its_source(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with pytest.raises(ClusterUnavailableError, match="does not exist"):
        await DirectoryHarness(source, target).cluster.uid()
    assert not source.exists()
    source.mkdir()
    uid = await DirectoryHarness(source, target).cluster.uid()
    assert (source / UID_FILE).read_text().strip() == uid
    assert await DirectoryHarness(source, None).cluster.uid() == uid


async def test_a_target_alone_holds_it_too(tmp_path: Path) -> None:
    uid = await DirectoryHarness(None, tmp_path / "target").cluster.uid()
    assert await DirectoryHarness(None, tmp_path / "target").cluster.uid() == uid
    (tmp_path / "file").touch()
    with pytest.raises(ClusterUnavailableError):
        await DirectoryHarness(None, tmp_path / "file").cluster.uid()
