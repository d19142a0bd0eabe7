"""A folder of manifests, kept in a :class:`~clusters.catalog.ServiceCatalog`.

A file counts when it was closed after writing or renamed into place.  One that does not parse
keeps its last good content and is counted, so a half-written file never removes anything;
deleting the file removes.  The same object in two files is an error that names both; the first
path in order keeps it.

Hidden files are ignored, except that a hidden link that moved (how Kubernetes mounts are swapped)
makes everything be looked at.  Pipes and devices are never opened.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from clusters.base import Clock
from clusters.catalog import ServiceCatalog, Touched
from clusters.errors import ManifestError
from clusters.inotify import FolderEvent, Inotify
from clusters.manifests import Reference, parse_manifests, reference
from clusters.model import Manifest

ENDINGS = (".yaml", ".yml", ".json")
_RESCAN_SECONDS = 10.0
_POLL_SECONDS = 0.5
_SIZE_LIMIT = 16 << 20


class Signature(NamedTuple):
    """What changes when a file is written or replaced."""

    device: int
    inode: int
    size: int
    modified_ns: int


@dataclass(slots=True)
class _File:
    signature: Signature | None = None
    objects: dict[Reference, Manifest] = field(default_factory=dict)
    error: str | None = None


class _Read(NamedTuple):
    signature: Signature | None
    """None when there is no such file."""
    objects: dict[Reference, Manifest] | None
    error: str | None


def _signature(path: Path) -> Signature | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Signature(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def counts(path: Path) -> bool:
    """Whether a path is, by its name, a manifest file."""
    return path.suffix in ENDINGS and not path.name.startswith(".")


def read_objects(path: Path) -> _Read:
    """Read and parse one file; what is wrong with it becomes ``error``."""
    signature = _signature(path)
    if signature is None:
        return _Read(None, None, None)
    if signature.size > _SIZE_LIMIT:
        return _Read(signature, None, f"{path} is larger than {_SIZE_LIMIT} bytes; split the file")
    try:
        objects: dict[Reference, Manifest] = {}
        for located in parse_manifests(path.read_bytes(), str(path)):
            objects[reference(located.manifest)] = located.manifest
    except (ManifestError, OSError) as error:
        return _Read(signature, None, str(error))
    return _Read(signature, objects, None)


def files_below(root: Path) -> Iterator[Path]:
    """Manifest files below ``root``, hidden folders left out, in order."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            if counts(path):
                yield path


def folders_below(root: Path) -> Iterator[Path]:
    """``root`` and the folders below it that are not hidden."""
    for folder, folders, _ in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(folder)


class Folder:
    """Follows one folder; answers through its catalog."""

    def __init__(
        self, root: Path, catalog: ServiceCatalog, clock: Clock, *, keep_last_good: bool
    ) -> None:
        """``keep_last_good`` False makes an unreadable file count as deleted (our own output)."""
        self.root = root
        self.catalog = catalog
        self._clock = clock
        self._keep_last_good = keep_last_good
        self._files: dict[Path, _File] = {}
        self._holders: dict[Reference, set[Path]] = {}
        self.synced = asyncio.Event()
        self.error: str | None = None
        self.file_errors = 0
        """How often a file could not be taken, since the start."""

    @property
    def present_error(self) -> str | None:
        """What is wrong with the folder or one of its files now, None when all is well."""
        if self.error is not None:
            return self.error
        broken = next((f.error for _, f in sorted(self._files.items()) if f.error), None)
        return broken or self._twice()

    def _twice(self) -> str | None:
        for named, holders in sorted(self._holders.items()):
            if len(holders) > 1:
                names = " and ".join(str(holder) for holder in sorted(holders))
                return f"{named} is in {names}; the first counts: remove it from the others"
        return None

    async def scan(self) -> list[Touched]:
        """Look at every file; those that look as before are not read again."""
        found = await asyncio.to_thread(self._signatures)
        touched: list[Touched] = []
        for path in sorted({*self._files, *found}):
            known = self._files.get(path)
            if known is None or known.signature != found.get(path):
                touched += await self.load(path)
        return touched

    def _signatures(self) -> dict[Path, Signature | None]:
        return {path: _signature(path) for path in files_below(self.root)}

    async def load(self, path: Path) -> list[Touched]:
        """Read one file (or find it gone) and follow."""
        read = await asyncio.to_thread(read_objects, path)
        file = self._files.setdefault(path, _File())
        file.signature = read.signature
        if read.error is not None:
            file.error = read.error
            self.file_errors += 1
            return [] if self._keep_last_good else self._take(path, file, {})
        file.error = None
        touched = self._take(path, file, read.objects or {})
        if read.signature is None:
            del self._files[path]
        return touched

    def _take(self, path: Path, file: _File, objects: dict[Reference, Manifest]) -> list[Touched]:
        before, file.objects = file.objects, objects
        touched: list[Touched] = []
        for named in sorted({*before, *objects}):
            holders = self._holders.setdefault(named, set())
            (holders.add if named in objects else holders.discard)(path)
            if holders:
                manifest = self._files[min(holders)].objects[named]
                touched.append(self.catalog.upsert(manifest))
            else:
                del self._holders[named]
                touched.append(self.catalog.delete(before[named]))
        return touched

    async def wait_for_root(self) -> None:
        """Return once the folder exists; until then say so in :attr:`error`."""
        while not self.root.is_dir():
            self.error = f"the folder {self.root} does not exist; create it"
            await self._clock.sleep(_POLL_SECONDS)
        self.error = None

    async def changes(self, inotify: Inotify | None) -> list[Touched]:
        """Wait for the next change and follow it; the periodic rescan is the backstop."""
        if inotify is None:
            await self._clock.sleep(_POLL_SECONDS)
            return await self.scan()
        waiting = asyncio.ensure_future(inotify.events())
        pause = asyncio.ensure_future(self._clock.sleep(_RESCAN_SECONDS))
        try:
            await asyncio.wait({waiting, pause}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return await self.scan()
            return await self._follow(waiting.result(), inotify)
        finally:
            waiting.cancel()
            pause.cancel()

    async def _follow(self, events: list[FolderEvent], inotify: Inotify) -> list[Touched]:
        touched: list[Touched] = []
        everything = False
        for event in dict.fromkeys(events):
            if event.folder or event.path.name.startswith(".."):
                everything = True
            elif counts(event.path) and (event.settled or self._is_link(event.path)):
                touched += await self.load(event.path)
        if everything:
            for folder in folders_below(self.root):
                inotify.watch(folder)
            touched += await self.scan()
        return touched

    @staticmethod
    def _is_link(path: Path) -> bool:
        """A link is whole once it is there; a new file is whole once it was closed."""
        try:
            found = path.lstat()
        except OSError:
            return False
        return stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1)
