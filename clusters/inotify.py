"""Which entries below a folder were closed after writing, moved, made or deleted.

A thin wrapper of Linux's inotify by ctypes, since the well-kept libraries either poll, batch for
longer than 50 ms, or hide ``IN_CLOSE_WRITE``, without which a file could be read half written.
Reports paths, never contents; a lost event (queue overflow) is reported as the folder itself,
meaning "look at all".

Source: inotify(7).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from pathlib import Path
from typing import NamedTuple, Self

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_OVERFLOW, _ISDIR, _ONLYDIR = 0x4000, 0x40000000, 0x01000000
_MASK = (
    _CLOSE_WRITE
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
    | _ONLYDIR
)
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class FolderEvent(NamedTuple):
    """One thing that happened; ``settled`` is False for a file that may still be written to."""

    path: Path
    folder: bool
    settled: bool


class Inotify:
    """Watches folders; use as a context manager on the event loop's thread."""

    def __init__(self) -> None:
        """Raises OSError where the system has no inotify."""
        if not sys.platform.startswith("linux"):
            message = "inotify is Linux only"
            raise OSError(message)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, Path] = {}
        self._ready = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._descriptor, self._ready.set)

    def watch(self, folder: Path) -> None:
        """Watch one folder (not what is below it); a folder that is gone is no error."""
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _MASK)
        if number >= 0:
            self._folders[number] = folder
        elif not isinstance(
            OSError(ctypes.get_errno(), ""), FileNotFoundError | NotADirectoryError
        ):
            error = ctypes.get_errno()
            raise OSError(error, f"cannot watch {folder}: {os.strerror(error)}")

    async def events(self) -> list[FolderEvent]:
        """Wait for something to happen and return it."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                continue
            if found := list(self._parsed(data)):
                return found

    def _parsed(self, data: bytes) -> list[FolderEvent]:
        found: list[FolderEvent] = []
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            folder = self._folders.get(number)
            if mask & _OVERFLOW:
                found += [FolderEvent(path, folder=True, settled=True) for path in self._tops()]
            elif folder is not None and mask & (_DELETE_SELF | _MOVE_SELF):
                found.append(FolderEvent(folder, folder=True, settled=True))
            elif folder is not None and name:
                path = folder / os.fsdecode(name)
                settled = not mask & _CREATE
                found.append(FolderEvent(path, bool(mask & _ISDIR), settled))
        return found

    def _tops(self) -> list[Path]:
        return sorted(set(self._folders.values()))[:1]

    def close(self) -> None:
        """End all watches."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
