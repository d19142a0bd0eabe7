"""A folder as a cluster: manifests in, EndpointSlices out, without Kubernetes.

The source folder is what the cluster itself says (:mod:`clusters.folder`); the target folder holds
what we write (:mod:`clusters.own_files`).  Each is followed, so that what others do to our files is
announced like any other change, and repaired by whoever plans.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from clusters.base import Clock, ClusterHealth, KeySink, ResourceHealth
from clusters.catalog import ServiceCatalog, Touched
from clusters.errors import WriteError
from clusters.folder import Folder
from clusters.lease_file import FileLease
from clusters.model import LocalService, Manifest, ServiceKey, SliceChange
from clusters.own_files import OwnFiles
from clusters.settings import ExportMode, NamespaceFilter
from clusters.uid_file import UID_FILE, read_or_make_uid

__all__ = ["UID_FILE", "DirectoryCluster"]


def _ignore(_: ServiceKey) -> None:
    """A sink while nobody listens."""


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
        self._folders = [folder for folder in (source, target) if folder is not None]
        if not self._folders:
            message = "a directory cluster needs a source or a target folder"
            raise ValueError(message)
        self._local_sink: KeySink = _ignore
        self._owned_sink: KeySink = _ignore

        def catalog() -> ServiceCatalog:
            return ServiceCatalog(cluster=cluster, export=export, namespaces=namespaces)

        self._source = self._target = None
        if source is not None:
            self._source = Folder(source, catalog(), clock, self._touched_local)
        if target is not None:
            self._files = OwnFiles(target)
            self._target = Folder(
                target, catalog(), clock, self._touched_owned, belongs=self._files.belongs
            )

    # ---- watching ------------------------------------------------------------------------------

    async def run(self, local: KeySink, owned: KeySink) -> None:
        """See :class:`clusters.base.Cluster`."""
        self._local_sink, self._owned_sink = local, owned
        async with asyncio.TaskGroup() as group:
            if self._source is not None:
                group.create_task(self._source.follow())
            if self._target is not None:
                await asyncio.to_thread(self._files.sweep)
                group.create_task(self._target.follow())

    def _touched_local(self, touched: Touched) -> None:
        for key in sorted(touched.local):
            self._local_sink(key)

    def _touched_owned(self, touched: Touched) -> None:
        for key in sorted(touched.owned):
            self._owned_sink(key)

    async def wait_synced(self) -> None:
        """See :class:`clusters.base.Cluster`."""
        for folder in (self._source, self._target):
            if folder is not None:
                await folder.synced.wait()

    async def reread(self) -> None:
        """See :class:`clusters.base.Cluster`."""
        for folder in (self._source, self._target):
            if folder is not None:
                await folder.reread()

    async def uid(self) -> str:
        """The content of the hidden uid file, made on first use.

        In the source, or where that may not be written to, in the target.
        """
        return await asyncio.to_thread(self._read_uid)

    def lease(self) -> FileLease:
        """The lease that the agents of this cluster share; it lies beside the uid."""
        return FileLease(self._folders)

    def _read_uid(self) -> str:
        if self._source is None:
            with contextlib.suppress(OSError):
                self._files.root.mkdir(parents=True, exist_ok=True)
        return read_or_make_uid(self._folders)

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
        resources = [
            ResourceHealth(
                name, folder.synced.is_set(), folder.last_event_age, folder.present_error
            )
            for name, folder in (("source", self._source), ("target", self._target))
            if folder is not None
        ]
        errors = 0 if self._source is None else self._source.file_errors
        return ClusterHealth(tuple(resources), {"source_file_errors": errors})

    # ---- writing -------------------------------------------------------------------------------

    async def apply(self, change: SliceChange) -> None:
        """See :class:`clusters.base.Cluster`."""
        if self._target is None:
            message = "this cluster has no target folder"
            raise WriteError(message, cure="set target.path", retryable=False)
        path, written = await asyncio.to_thread(self._files.carry_out, change)
        await self._target.reload(path, written)
