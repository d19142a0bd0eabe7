"""A folder as a cluster: manifests in, EndpointSlices out, without Kubernetes.

The source folder is what the cluster itself says; the target folder holds what we write, one YAML
file an object, ``NAMESPACE/NAME.yaml``, replaced by rename.  Only files whose object is marked as
ours are changed or deleted.  The cluster's uid lies in a hidden file beside the source, so it
survives the agent's state.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path

import yaml

from clusters.base import Clock, ClusterHealth, KeySink, ResourceHealth
from clusters.catalog import ServiceCatalog, Touched
from clusters.errors import ClusterUnavailableError, WriteError
from clusters.folder import Folder, folders_below, read_objects
from clusters.inotify import Inotify
from clusters.model import ChangeOp, LocalService, Manifest, ServiceKey, SliceChange
from clusters.settings import ExportMode, NamespaceFilter
from clusters.slice_names import is_ours

UID_FILE = ".replicator-uid"
_ENDING = ".yaml"
_NAME_BYTES = 255
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _ignore(_: ServiceKey) -> None:
    """A sink for keys of the other role."""


class DirectoryCluster:
    """Implements :class:`clusters.base.Cluster` over one or two folders."""

    def __init__(
        self,
        *,
        cluster: str,
        source: Path | None,
        target: Path | None,
        export: ExportMode,
        namespaces: NamespaceFilter,
        clock: Clock,
    ) -> None:
        """Read ``source``, write ``target``; either may be None, not both.

        The source is waited for when it does not exist, the target is made.
        """
        if source is None and target is None:
            message = "a directory cluster needs a source or a target folder"
            raise ValueError(message)
        self._uid_file = (source or target or Path()) / UID_FILE

        def folder(root: Path | None, *, keep: bool) -> Folder | None:
            if root is None:
                return None
            catalog = ServiceCatalog(cluster=cluster, export=export, namespaces=namespaces)
            return Folder(root, catalog, clock, keep_last_good=keep)

        self._source = folder(source, keep=True)
        self._target = folder(target, keep=False)
        self._owned: KeySink = _ignore

    # ---- watching ------------------------------------------------------------------------------

    async def run(self, local: KeySink, owned: KeySink) -> None:
        """See :class:`clusters.base.Cluster`."""
        self._owned = owned
        async with asyncio.TaskGroup() as group:
            if self._source is not None:
                group.create_task(self._follow(self._source, local, _ignore))
            if self._target is not None:
                group.create_task(self._follow(self._target, _ignore, owned))

    async def _follow(self, folder: Folder, local: KeySink, owned: KeySink) -> None:
        if folder is self._target:
            with contextlib.suppress(OSError):
                folder.root.mkdir(parents=True, exist_ok=True)
        while True:
            await folder.wait_for_root()
            with contextlib.ExitStack() as stack:
                inotify = self._watcher(stack, folder)
                self._announce(await folder.scan(), local, owned)
                folder.synced.set()
                while folder.root.is_dir():
                    self._announce(await folder.changes(inotify), local, owned)

    @staticmethod
    def _watcher(stack: contextlib.ExitStack, folder: Folder) -> Inotify | None:
        """Watches on the folder and all below it, None where the system has no room for them."""
        try:
            inotify = stack.enter_context(Inotify())
            for below in folders_below(folder.root):
                inotify.watch(below)
        except OSError:
            return None
        return inotify

    @staticmethod
    def _announce(touched: Iterable[Touched], local: KeySink, owned: KeySink) -> None:
        for one in touched:
            for key in sorted(one.local):
                local(key)
            for key in sorted(one.owned):
                owned(key)

    async def wait_synced(self) -> None:
        """See :class:`clusters.base.Cluster`."""
        for folder in (self._source, self._target):
            if folder is not None:
                await folder.synced.wait()

    async def uid(self) -> str:
        """The content of the hidden uid file, made on first use."""
        return await asyncio.to_thread(self._read_uid)

    def _read_uid(self) -> str:
        path = self._uid_file
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self._make_uid(path)
            text = path.read_text().strip()
            return str(uuid.UUID(text))
        except OSError as error:
            message = f"cannot read or make {path}: {error.strerror}"
            cure = "make its folder writable for the agent once"
            raise ClusterUnavailableError(message, cure=cure) from error
        except ValueError as error:
            message = f"{path} does not hold a uid"
            cure = "restore it, or delete it to make this a new cluster"
            raise ClusterUnavailableError(message, cure=cure) from error

    @staticmethod
    def _make_uid(path: Path) -> None:
        """Put a whole file in place or find one there: a reader never sees half of it."""
        if path.exists():
            return
        fresh = path.with_name(f"{UID_FILE}.{uuid.uuid4()}")
        with fresh.open("x") as file:
            file.write(f"{uuid.uuid4()}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        finally:
            fresh.unlink()

    # ---- reading -------------------------------------------------------------------------------

    def services(self) -> frozenset[ServiceKey]:
        """See :class:`clusters.base.Cluster`."""
        return frozenset() if self._source is None else self._source.catalog.services()

    def local(self, key: ServiceKey) -> LocalService:
        """See :class:`clusters.base.Cluster`."""
        return LocalService(key) if self._source is None else self._source.catalog.local(key)

    def owned_services(self) -> frozenset[ServiceKey]:
        """See :class:`clusters.base.Cluster`."""
        return frozenset() if self._target is None else self._target.catalog.owned_services()

    def owned(self, key: ServiceKey) -> tuple[Manifest, ...]:
        """See :class:`clusters.base.Cluster`."""
        return () if self._target is None else self._target.catalog.owned(key)

    def health(self) -> ClusterHealth:
        """See :class:`clusters.base.Cluster`."""
        resources, errors = [], 0
        for name, folder in (("source", self._source), ("target", self._target)):
            if folder is not None:
                error = folder.present_error
                resources.append(ResourceHealth(name, folder.synced.is_set(), None, error))
                errors += folder.file_errors if folder is self._source else 0
        return ClusterHealth(tuple(resources), {"source_file_errors": errors})

    # ---- writing -------------------------------------------------------------------------------

    async def apply(self, change: SliceChange) -> None:
        """See :class:`clusters.base.Cluster`."""
        folder = self._target
        if folder is None:
            message = "this cluster has no target folder"
            raise WriteError(message, cure="set target.path", retryable=False)
        path = folder.root / change.namespace / f"{change.name}{_ENDING}"
        if len(os.fsencode(path.name)) > _NAME_BYTES:
            message = f"{change.name} is too long for a file's name"
            raise WriteError(message, retryable=False)
        try:
            if change.op is ChangeOp.DELETE:
                await asyncio.to_thread(self._delete, path)
            else:
                await asyncio.to_thread(self._write, path, change.manifest)
        except OSError as error:
            message = f"cannot write {path}: {error.strerror}"
            cure = "make room on the disk, or the folder writable for the agent"
            code = "target_unwritable"
            raise WriteError(message, cure=cure, code=code, retryable=True) from error
        self._announce(await folder.load(path), _ignore, self._owned)

    @staticmethod
    def _check_ours(path: Path) -> None:
        """Refuse to touch a file that holds anything but one object of ours; damage is ours."""
        objects = read_objects(path).objects
        if objects and not all(is_ours(manifest) for manifest in objects.values()):
            message = f"{path} exists and is not ours"
            raise WriteError(message, cure="move that file away", code="not_ours", retryable=False)

    def _delete(self, path: Path) -> None:
        self._check_ours(path)
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()

    def _write(self, path: Path, manifest: Manifest) -> None:
        self._check_ours(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, default_flow_style=False)
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".new", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
