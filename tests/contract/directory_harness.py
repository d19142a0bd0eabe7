"""The directory cluster for the contract suite: on real folders, files and inotify.

A cluster of folders has its objects in two places: what users state is read from the source, what
is written goes to the target.  An object that a user puts therefore lies in both, so that it can
be read as local where that is wrong, and stands in the way of a write where it should.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from clusters.base import Clock
from clusters.directory import DirectoryCluster
from clusters.model import ServiceKey
from clusters.settings import ExportMode, NamespaceFilter
from replicator.system_clock import SystemClock
from tests.integration.scripted_api import eventually


def replace_file(path: Path, data: bytes | str) -> None:
    """Put a whole file in place, as every careful writer does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.tmp")
    fresh.write_bytes(data if isinstance(data, bytes) else data.encode())
    fresh.replace(path)


class DirectoryHarness:
    """One cluster over two folders, with its keys as announced."""

    def __init__(
        self,
        source: Path | None,
        target: Path | None,
        clock: Clock | None = None,
        export: ExportMode = ExportMode.ALL,
    ) -> None:
        self.cluster = DirectoryCluster(
            cluster="fjord",
            source=source,
            target=target,
            export=export,
            namespaces=NamespaceFilter(),
            clock=clock or SystemClock(),
        )
        self.folders = [folder for folder in (source, target) if folder is not None]
        self.local_keys: list[ServiceKey] = []
        self.owned_keys: list[ServiceKey] = []

    def _paths(self, kind: str, namespace: str, name: str) -> list[Path]:
        file = f"{name}.yaml" if kind == "EndpointSlice" else f"{name}.{kind.lower()}.yaml"
        return [folder / namespace / file for folder in self.folders]

    async def put(self, manifest: dict[str, Any]) -> None:
        """Create or replace an object as a user of the cluster."""
        metadata = manifest["metadata"]
        for path in self._paths(manifest["kind"], metadata["namespace"], metadata["name"]):
            replace_file(path, yaml.safe_dump(manifest))

    async def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object as a user of the cluster."""
        for path in self._paths(kind, namespace, name):
            path.unlink(missing_ok=True)

    async def stored(self, kind: str = "EndpointSlice") -> list[dict[str, Any]]:
        """All objects of a kind where the cluster writes."""
        found = [yaml.safe_load(path.read_text()) for path in self.folders[-1].rglob("*.yaml")]
        return [manifest for manifest in found if manifest["kind"] == kind]

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait until the cluster has followed."""
        await eventually(condition, what)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The cluster runs as long as this."""
        run = self.cluster.run(self.local_keys.append, self.owned_keys.append)
        task = asyncio.create_task(run)
        try:
            yield task
        finally:
            ended = task.done()
            task.cancel()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            assert not ended, f"run() ended by itself: {outcome!r}"
            assert isinstance(outcome, asyncio.CancelledError)


@asynccontextmanager
async def directory() -> AsyncIterator[DirectoryHarness]:
    """A running, empty, synced cluster."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        source.mkdir()
        harness = DirectoryHarness(source, target)
        async with harness.running():
            await harness.cluster.wait_synced()
            yield harness
