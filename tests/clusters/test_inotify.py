"""The wrapper of inotify: which events come, in which order, and what is left out."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clusters.inotify import FolderEvent, Inotify, What


@pytest.fixture
async def inotify() -> AsyncIterator[Inotify]:
    with Inotify() as made:
        yield made


async def test_a_file_is_made_written_and_settled(inotify: Inotify, tmp_path: Path) -> None:
    inotify.watch(tmp_path)
    path = tmp_path / "a.yaml"
    with path.open("w") as file:
        assert inotify.take() == [FolderEvent(path, What.MADE)]
        for _ in range(3):
            file.write("x")
            file.flush()
        assert inotify.take() == [FolderEvent(path, What.WRITING)], "repeats are one"
    assert inotify.take() == [FolderEvent(path, What.SETTLED)]
    path.read_text()
    assert inotify.take() == [], "readers are no news"
    path.rename(tmp_path / "b.yaml")
    (tmp_path / "b.yaml").unlink()
    assert inotify.take() == [
        FolderEvent(path, What.SETTLED),
        FolderEvent(tmp_path / "b.yaml", What.SETTLED),
    ]


async def test_folders_are_told_as_such(inotify: Inotify, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    inotify.watch(tmp_path)
    inotify.watch(folder)
    (tmp_path / "other").mkdir()
    assert inotify.take() == [FolderEvent(tmp_path / "other", What.FOLDER)]
    folder.rename(tmp_path / "moved")
    assert [event.what for event in inotify.take()] == [What.FOLDER] * 3
    (tmp_path / "moved").rmdir()
    assert inotify.take()
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "x").touch()
    assert [event.path for event in inotify.take()] == [tmp_path / "moved"], "it is not watched"


async def test_it_wakes_who_waits(inotify: Inotify, tmp_path: Path) -> None:
    inotify.watch(tmp_path)
    assert not inotify.ready.is_set()
    (tmp_path / "a").touch()
    await asyncio.wait_for(inotify.ready.wait(), 5)
    assert inotify.take()
    assert not inotify.ready.is_set()


async def test_of_a_folder_above_one_name_counts(inotify: Inotify, tmp_path: Path) -> None:
    inotify.watch(tmp_path, only="source")
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("x")
    assert inotify.take() == []
    (tmp_path / "source").symlink_to("other")
    assert inotify.take() == [FolderEvent(tmp_path / "source", What.FOLDER)]


async def test_only_what_is_kept_is_watched(inotify: Inotify, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    kept = inotify.watch(one)
    assert inotify.watch(two) != kept
    assert inotify.watch(one) == kept, "the same folder has the same number"
    inotify.keep({kept})
    (one / "a").touch()
    (two / "a").touch()
    assert {event.path for event in inotify.take()} == {one / "a"}


async def test_what_cannot_be_watched_is_no_error(inotify: Inotify, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert inotify.watch(tmp_path / "missing") is None
    assert inotify.watch(tmp_path / "file") is None
    assert inotify.watch(tmp_path) is not None


async def test_names_need_not_be_text(inotify: Inotify, tmp_path: Path) -> None:
    inotify.watch(tmp_path)
    name = os.fsencode(tmp_path) + b"/\xff"
    os.close(os.open(name, os.O_CREAT))
    (event,) = inotify.take()
    assert os.fsencode(event.path) == name


async def test_there_is_none_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(OSError, match="Linux only"):
        Inotify()


class FullSystem:
    """Stands for a libc whose system has no room."""

    def __init__(self, *, descriptor: int) -> None:
        self._descriptor = descriptor

    def inotify_init1(self, flags: int) -> int:
        ctypes.set_errno(errno.EMFILE)
        return self._descriptor

    def inotify_add_watch(self, descriptor: int, path: bytes, mask: int) -> int:
        ctypes.set_errno(errno.ENOSPC)
        return -1


async def test_no_room_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: FullSystem(descriptor=-1))
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        Inotify()
    ours, theirs = os.pipe()
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: FullSystem(descriptor=ours))
    with Inotify() as full, pytest.raises(OSError, match="cannot watch"):
        full.watch(tmp_path)
    os.close(theirs)
