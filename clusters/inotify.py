"""Which entries of watched folders were closed after writing, moved, made, written to or deleted.

A thin wrapper of Linux's inotify by ctypes, since the well-kept libraries either poll, batch for
longer than 50 ms, or hide ``IN_CLOSE_WRITE``, without which a file could be read half written.
Reports paths, never contents.  Events of one file keep their order; a lost event (queue overflow)
is reported as :attr:`What.LOST`, meaning "look at all".

Source: inotify(7).
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Container
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple, Self

_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED, _ISDIR, _ONLYDIR = 0x2000, 0x4000, 0x8000, 0x40000000, 0x01000000
_NAMES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
_ALL = _NAMES | _MODIFY | _CLOSE_WRITE | _DELETE_SELF | _MOVE_SELF
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024
_OUT_OF_ROOM = frozenset({errno.ENOSPC, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class What(Enum):
    """What happened to a path."""

    FOLDER = auto()
    """A folder came, went or moved: look at all."""
    LOST = auto()
    """Events were lost: look at all; the path means nothing."""
    MADE = auto()
    """A file is there now and may still be written to."""
    WRITING = auto()
    """A file was written to; it will be closed later."""
    SETTLED = auto()
    """A file was closed after writing, moved here or away, or deleted."""


class FolderEvent(NamedTuple):
    """One thing that happened."""

    path: Path
    what: What


class Inotify:
    """Watches folders for the running event loop; a context manager."""

    def __init__(self) -> None:
        """Raises OSError where the system has no inotify, or no room for another."""
        if not sys.platform.startswith("linux"):
            message = "inotify is Linux only"
            raise OSError(message)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"no inotify: {os.strerror(number)}")
        self._folders: dict[int, tuple[Path, str | None]] = {}
        self._pending: list[FolderEvent] = []
        self.ready = asyncio.Event()
        """Set while :meth:`take` has something to give."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def watch(self, folder: Path, *, only: str | None = None) -> int | None:
        """Watch one folder (not what is below it) and return the watch's number.

        With ``only`` nothing counts but that entry's coming and going.  None for a folder that is
        gone or may not be read.  Raises OSError when the system has no room for more watches.
        """
        mask = _ALL if only is None else _NAMES
        number: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask)
        if number >= 0:
            self._folders[number] = (folder, only)
            return number
        error = ctypes.get_errno()
        if error in _OUT_OF_ROOM:
            raise OSError(error, f"cannot watch {folder}: {os.strerror(error)}")
        return None

    def keep(self, numbers: Container[int | None]) -> None:
        """End all watches but these."""
        for number in [known for known in self._folders if known not in numbers]:
            del self._folders[number]
            self._libc.inotify_rm_watch(self._descriptor, number)

    def take(self) -> list[FolderEvent]:
        """Everything that has happened until now and was not taken before, in order."""
        self._read()
        taken, self._pending = self._pending, []
        self.ready.clear()
        return taken

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                break
            self._parse(data)
        if self._pending:
            self.ready.set()

    def _parse(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            event = self._event(number, mask, os.fsdecode(name))
            if event is not None and self._pending[-1:] != [event]:
                self._pending.append(event)

    def _event(self, number: int, mask: int, name: str) -> FolderEvent | None:
        if mask & _OVERFLOW:
            return FolderEvent(Path(), What.LOST)
        if number not in self._folders:
            return None
        folder, only = self._folders[number]
        if mask & _IGNORED:
            del self._folders[number]
            return None
        if only is not None and name != only:
            return None
        if only is not None or mask & (_DELETE_SELF | _MOVE_SELF | _UNMOUNT | _ISDIR):
            return FolderEvent(folder / name, What.FOLDER)
        what = What.MADE if mask & _CREATE else What.WRITING if mask & _MODIFY else What.SETTLED
        return FolderEvent(folder / name, what)

    def close(self) -> None:
        """End all watches."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
