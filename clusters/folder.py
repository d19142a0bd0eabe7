"""A folder of manifests, kept in a :class:`~clusters.catalog.ServiceCatalog`.

A file counts when it was closed after writing or renamed into place; while somebody writes to it,
what it held before stays.  One that does not parse keeps its last good content and is counted, so
a half-written file never removes anything; deleting the file removes, and so does deleting its
folder.  What cannot be looked at (rights, I/O) is not gone.  The same object in two files is an
error that names both; the first path in order keeps it.

Hidden files and folders, and links to folders, are not followed, except that a hidden link that
moved (how Kubernetes swaps a mounted volume) makes everything be looked at.  Pipes and devices are
never opened.  Every few seconds everything is looked at again, in case an event was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusters.base import Clock
from clusters.catalog import KINDS, ServiceCatalog, Touched
from clusters.folder_walk import Walk, walk_below
from clusters.inotify import FolderEvent, Inotify, What
from clusters.manifest_file import (
    ManifestFile,
    Outcome,
    Signature,
    Written,
    counts,
    read_manifests,
)
from clusters.manifests import Reference
from clusters.model import Manifest

RESCAN_SECONDS = 10.0
"""How often everything is looked at although nothing was reported."""
POLL_SECONDS = 0.5
"""The same without inotify, and for a missing folder."""
GRACE_SECONDS = 0.02
"""How long a file must be gone to be deleted: some editors put the old one away and write anew."""


@dataclass(slots=True)
class _File:
    signature: Signature | None = None
    objects: dict[Reference, Manifest] = field(default_factory=dict)
    error: str | None = None
    """What is wrong with the content; the objects are of an earlier one unless that was good."""
    digest: bytes = b""
    growing: Signature | None = None
    """What it looked like when it might still have been written to."""
    open_since: float | None = None
    """Since when it is known to be open for writing."""


Belongs = Callable[[Path, Manifest | None], bool]
"""Whether an object, or (None) whatever is wrong, in that file is any business of ours."""


class Folder:
    """Follows one folder; answers through its catalog."""

    def __init__(
        self,
        root: Path,
        catalog: ServiceCatalog,
        clock: Clock,
        announce: Callable[[Touched], None],
        *,
        belongs: Belongs | None = None,
        watcher: Callable[[], Inotify] = Inotify,
    ) -> None:
        """``announce`` is told of every change of the catalog.

        ``belongs`` restricts the folder to what we wrote into it: the rest is ignored, a broken
        file counts as deleted, and the folder is made when it is missing.  ``watcher`` may raise
        OSError where there is no inotify.
        """
        self.root = root
        self.catalog = catalog
        self.synced = asyncio.Event()
        """Set once everything was looked at."""
        self.file_errors = 0
        """How often a file could not be taken, since the start."""
        self._clock = clock
        self._announce = announce
        self._belongs = belongs
        self._watcher = watcher
        self._files: dict[Path, _File] = {}
        self._holders: dict[Reference, set[Path]] = {}
        self._doubled: set[Reference] = set()
        self._unreadable: dict[Path, str] = {}
        self._open: dict[Path, int] = {}
        self._seen = 0
        self._events: list[FolderEvent] = []
        self._news = asyncio.Event()
        """Set while there are events that nobody followed yet, whoever took them."""
        self._inotify: Inotify | None = None
        self._missing: str | None = None
        self._unwatched: str | None = None
        self._last_event: float | None = None
        self._lock = asyncio.Lock()
        self._asked = self._answered = 0
        """How many looks at everything were asked for, and how many of those were done."""
        self._ask = asyncio.Event()
        self._answer = asyncio.Event()

    # ---- answers -------------------------------------------------------------------------------

    @property
    def present_error(self) -> str | None:
        """What is wrong with the folder or its files now, None when all is well."""
        problems = list(self._problems())
        if not problems:
            return None
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        # A file's name may be no text at all.
        return problems[0].encode("utf-8", "backslashreplace").decode() + more

    def _problems(self) -> Iterator[str]:
        if self._missing is not None:
            yield self._missing
        yield from self._unreadable.values()
        for path in sorted(self._files):
            yield from self._file_problems(path, self._files[path])
        for named in sorted(self._doubled):
            names = " and ".join(str(holder) for holder in sorted(self._holders[named]))
            yield f"{named} is in {names}; the first counts: remove it from the others"
        if self._unwatched is not None:
            yield f"{self._unwatched}; looking every {POLL_SECONDS} s: raise fs.inotify limits"

    def _file_problems(self, path: Path, file: _File) -> Iterator[str]:
        if file.error is not None:
            yield file.error
        if file.open_since is not None:
            seconds = self._clock.monotonic() - file.open_since
            if seconds >= RESCAN_SECONDS:
                yield f"{path} is open for writing for {seconds:.0f} s; it counts once it is closed"

    @property
    def last_event_age(self) -> float | None:
        """Seconds since the folder was last seen to change; None before the first look."""
        return None if self._last_event is None else self._clock.monotonic() - self._last_event

    # ---- following -----------------------------------------------------------------------------

    async def follow(self) -> None:
        """Follow the folder until cancelled; waits for it while it is missing."""
        while True:
            await self._wait_for_root()
            with self._watches():
                await self._look_at_all()
                self.synced.set()
                while await asyncio.to_thread(self._why_missing) is None:
                    if self._answered < self._asked:
                        await self._look_at_all()
                    else:
                        await self._next_change()
                await self._look_at_all()

    async def reread(self) -> None:
        """Return once everything was looked at that is there now; waits for a missing folder."""
        self._asked += 1
        mine = self._asked
        self._ask.set()
        while self._answered < mine:
            await self._answer.wait()

    async def reload(self, path: Path, written: Written | None) -> None:
        """Take what is in one file now, which we have put there, or (None) deleted, ourselves."""
        await self._load(path, settled=True, ours=True, written=written)

    async def _wait_for_root(self) -> None:
        while (missing := await asyncio.to_thread(self._why_missing)) is not None:
            self._missing = missing
            await self._clock.sleep(POLL_SECONDS)
        self._missing = None

    def _why_missing(self) -> str | None:
        try:
            if self._belongs is not None:
                self.root.mkdir(parents=True, exist_ok=True)
            os.stat(f"{self.root}/.")  # noqa: PTH116 - a Path would lose the dot: is it a folder?
        except FileNotFoundError:
            return f"the folder {self.root} does not exist; create it"
        except (FileExistsError, NotADirectoryError):
            return f"{self.root} is not a folder; put one in its place"
        except OSError as error:
            return f"cannot look into {self.root}: {error.strerror}; let the agent read it"
        return None

    @contextlib.contextmanager
    def _watches(self) -> Iterator[None]:
        """Events for as long as this lasts, where the system has any."""
        self._unwatched = None
        try:
            self._inotify = self._watcher()
        except OSError as error:
            self._unwatched = error.strerror or str(error)
        try:
            yield
        finally:
            self._stop_watching()

    def _stop_watching(self) -> None:
        self._drain()
        if self._inotify is not None:
            self._inotify.close()
        self._inotify = None
        self._open.clear()

    def _drain(self) -> None:
        """Take the events there are; from now on it is known which files are being written."""
        if self._inotify is None:
            return
        for event in self._inotify.take():
            self._events.append(event)
            self._seen += 1
            if event.what in {What.MADE, What.WRITING}:
                if counts(event.path):
                    self._open[event.path] = self._seen
            elif event.what is What.SETTLED:
                self._open.pop(event.path, None)
            elif event.what is What.LOST:
                self._open.clear()
        if self._events:
            self._news.set()

    async def _next_change(self) -> None:
        """Wait for the next change, or for the next look in any case, and follow it."""
        self._drain()
        if not self._events:
            await self._pause()
            if self._ask.is_set():
                return
            self._drain()
        events, self._events = self._events, []
        self._news.clear()
        tops = {self.root} if not events else set(filter(None, map(self._top_of, events)))
        gone: list[Path] = []
        for top in {self.root} if self.root in tops else tops:
            gone += await self._look_below(top)
        for path, what in {event.path: event.what for event in events}.items():
            if not counts(path) or what not in {What.MADE, What.SETTLED}:
                continue
            link = what is What.MADE and await asyncio.to_thread(_is_link, path)
            if link:
                self._open.pop(path, None)
            if not await self._load(path, settled=link or what is What.SETTLED):
                gone.append(path)
        await self._forget(gone)

    def _top_of(self, event: FolderEvent) -> Path | None:
        """The folder below which an event makes everything be looked at; None for one file's."""
        if event.what is What.LOST or event.path.name.startswith(".."):
            return self.root
        if event.what is not What.FOLDER:
            return None
        inner = event.path.relative_to(self.root).parts
        return None if any(part.startswith(".") for part in inner) else event.path

    async def _pause(self) -> None:
        seconds = POLL_SECONDS if self._inotify is None else RESCAN_SECONDS
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._clock.sleep(seconds)),
            asyncio.ensure_future(self._ask.wait()),
            asyncio.ensure_future(self._news.wait()),
        ]
        if self._inotify is not None:
            waits.append(asyncio.ensure_future(self._inotify.ready.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # ---- looking at all ------------------------------------------------------------------------

    async def _look_at_all(self) -> None:
        asked = self._asked
        self._ask.clear()
        await self._forget(await self._look_below(self.root))
        self._answered = asked
        self._answer.set()
        self._answer = asyncio.Event()

    async def _look_below(self, top: Path) -> list[Path]:
        """Look at every file there, read those that look otherwise, return those that are gone."""
        walk = await asyncio.to_thread(self._walk, top)
        if walk.no_room is not None:
            self._stop_watching()
            self._unwatched = walk.no_room
        elsewhere = {
            folder: error
            for folder, error in self._unreadable.items()
            if not folder.is_relative_to(top)
        }
        self._unreadable = {**elsewhere, **walk.unreadable}
        changed = [path for path, now in walk.found.items() if self._looks_otherwise(path, now)]
        for path in sorted(changed):
            await self._load(path, settled=False)
        return [path for path in self._files if path not in walk.found and walk.speaks_of(path)]

    def _looks_otherwise(self, path: Path, now: Signature | None) -> bool:
        known = self._files.get(path)
        return known is None or now is None or known.signature != now

    def _walk(self, top: Path) -> Walk:
        """Look below ``top``; below the root, stale watches end, and the root itself is watched."""
        inotify = self._inotify
        walk = walk_below(top, inotify)
        if inotify is not None and top == self.root and walk.no_room is None:
            if self.root.name:
                walk.watches.add(inotify.watch(self.root.parent, only=self.root.name))
            inotify.keep(walk.watches)
        return walk

    # ---- taking in -----------------------------------------------------------------------------

    async def _forget(self, gone: Iterable[Path]) -> None:
        """Delete what these files held, unless they are there again; after what came was taken."""
        known = [path for path in gone if path in self._files]
        if known:
            await self._clock.sleep(GRACE_SECONDS)
        for path in known:
            await self._load(path, settled=False, final=True)

    async def _load(
        self,
        path: Path,
        *,
        settled: bool,
        ours: bool = False,
        written: Written | None = None,
        final: bool = False,
    ) -> bool:
        """Read one file and follow, unless it is being written to; returns whether it is there.

        ``settled`` says that an event told of its end, otherwise the kernel is asked; ``ours`` that
        it was us who put it there, and ``written`` what.  Only with one of ``ours`` and ``final`` a
        missing file is forgotten.
        """
        async with self._lock:
            self._drain()
            if ours:
                self._open.pop(path, None)
            opened = self._open.get(path)
            if settled and opened is not None:
                return True
            known = self._files.get(path, _File())
            read = await asyncio.to_thread(
                read_manifests, path, known.digest, written, ask_writers=not settled
            )
            self._drain()
            if read.outcome is Outcome.ABSENT:
                if ours or final:
                    self._exchange(path, self._files.pop(path, known), {})
                return False
            if self._open.get(path, opened) != opened:
                return True  # Written to since; its end will be told.
            self._files[path] = known
            if settled or not self._may_grow(path, known, read):
                self._open.pop(path, None)
                self._took(path, known, read)
            return True

    def _may_grow(self, path: Path, file: _File, read: ManifestFile) -> bool:
        """Whether the file is, or could be, half written; it is then looked at again."""
        if read.outcome is Outcome.OPEN:
            if file.open_since is None:
                file.open_since = self._clock.monotonic()
            return True
        polling = self._inotify is None and self.synced.is_set()
        doubtful = not read.certainly_closed and (polling or path in self._open)
        if doubtful and file.growing != read.signature:
            file.growing = read.signature
            return True
        return False

    def _took(self, path: Path, file: _File, read: ManifestFile) -> None:
        """Follow what a file was found to hold."""
        self._last_event = self._clock.monotonic()
        file.growing = file.open_since = None
        known = file.signature, file.error
        file.signature = read.signature
        if read.outcome is Outcome.SAME:
            return
        file.digest, file.error = read.digest, read.error
        if read.outcome is Outcome.GOOD:
            objects, file.error = self._objects(path, read)
            self._exchange(path, file, objects)
        elif self._belongs is not None:
            if not self._belongs(path, None):
                file.error = None
            if read.outcome is Outcome.BROKEN:
                self._exchange(path, file, {})
        if file.error is not None and known != (file.signature, file.error):
            self.file_errors += 1

    def _objects(
        self, path: Path, read: ManifestFile
    ) -> tuple[dict[Reference, Manifest], str | None]:
        """The objects to take from a file, and what is wrong with it nevertheless."""
        objects: dict[Reference, Manifest] = {}
        error = None
        for named, located in read.objects:
            manifest = located.manifest
            if not _is_known(manifest):
                continue
            if self._belongs is not None and not self._belongs(path, manifest):
                continue
            if named in objects:
                error = f"{located.place}: {named} for the second time; the last counts: keep one"
            objects[named] = _unversioned(manifest)
        return objects, error

    def _exchange(self, path: Path, file: _File, objects: dict[Reference, Manifest]) -> None:
        before, file.objects = file.objects, objects
        for named in sorted({*before, *objects}):
            holders = self._holders.setdefault(named, set())
            (holders.add if named in objects else holders.discard)(path)
            (self._doubled.add if len(holders) > 1 else self._doubled.discard)(named)
            if holders:
                first = min(holders)
                held = objects if first == path else self._files[first].objects
                self._announce(self.catalog.upsert(held[named]))
            else:
                del self._holders[named]
                self._announce(self.catalog.delete(before[named]))


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink() or path.stat().st_nlink > 1
    except OSError:
        return False


def _is_known(manifest: Manifest) -> bool:
    """Whether the catalog reads such objects; of the others it may be told by any number of files.

    Two groups may use one kind (a Service of Knative is none of ours), so the group counts too.
    """
    version = manifest.get("apiVersion")
    group = KINDS.get(manifest["kind"])
    return group is not None and (version is None or str(version).startswith(group))


def _unversioned(manifest: Manifest) -> Manifest:
    """Without uid and version: a dump that was edited by hand still carries those of the server."""
    metadata = dict(manifest["metadata"])
    for name in ("resourceVersion", "uid"):
        metadata.pop(name, None)
    return {**manifest, "metadata": metadata}
