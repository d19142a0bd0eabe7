"""The three lease stores for the contract suite.

``other`` is the same lease as another process sees it.  ``spoil`` and ``delete`` are what people
and disks do to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from clusters.lease import LeaseStore
from clusters.lease_file import LEASE_FILE, FileLease
from clusters.lease_memory import MemoryLease
from tests.integration.kubernetes_bed import Bed, bed_of

NAMESPACE, NAME = "shop", "crdt-replicator-fjord"


@dataclass
class MemoryHarness:
    store: MemoryLease

    def other(self) -> LeaseStore:
        return self.store

    def delete(self) -> None:
        self.store.delete()


@dataclass
class FileHarness:
    store: LeaseStore
    folder: Path

    def other(self) -> LeaseStore:
        return FileLease([self.folder])

    def delete(self) -> None:
        (self.folder / LEASE_FILE).unlink()


@dataclass
class KubernetesHarness:
    store: LeaseStore
    bed: Bed

    def other(self) -> LeaseStore:
        return self.bed.cluster.lease(NAMESPACE, NAME)

    def delete(self) -> None:
        self.bed.memory.remove("leases", NAMESPACE, NAME)


@asynccontextmanager
async def memory_lease() -> AsyncIterator[MemoryHarness]:
    """A lease in memory."""
    yield MemoryHarness(MemoryLease())


@asynccontextmanager
async def file_lease() -> AsyncIterator[FileHarness]:
    """A lease in a folder."""
    with TemporaryDirectory() as folder:
        yield FileHarness(FileLease([Path(folder)]), Path(folder))


@asynccontextmanager
async def kubernetes_lease() -> AsyncIterator[KubernetesHarness]:
    """A Lease object, over HTTP; its cluster's watches are not needed and do not run."""
    async with bed_of(run=False) as bed:
        yield KubernetesHarness(bed.cluster.lease(NAMESPACE, NAME), bed)
