"""A :class:`~clusters.folder.Folder` that runs, with every state in which it was ever announced."""

from __future__ import annotations

import asyncio
import codecs
import importlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from clusters.base import Clock
from clusters.catalog import ServiceCatalog, Touched
from clusters.folder import Folder
from clusters.inotify import Inotify
from clusters.model import Endpoint, ServiceKey
from clusters.settings import ExportMode, NamespaceFilter
from replicator.system_clock import SystemClock
from tests.integration.scripted_api import eventually

CART = ServiceKey("shop", "cart")
MARKER = ServiceKey("shop", "marker")
_NOBODY = 65534


def text_of(*addresses: str, service: str = "cart", name: str | None = None) -> str:
    """A slice as YAML; one address a line at the end, so that half of it is a slice, too."""
    lines = [f"- addresses: ['{address}']" for address in addresses]
    return "\n".join(
        [
            "apiVersion: discovery.k8s.io/v1",
            "kind: EndpointSlice",
            "metadata:",
            f"  name: {name or f'{service}-aa1'}",
            "  namespace: shop",
            f"  labels: {{kubernetes.io/service-name: {service}}}",
            "addressType: IPv4",
            "ports: [{name: http, port: 8080}]",
            "endpoints:",
            *lines,
            "",
        ]
    )


class FolderBed:
    """The folder, and what was announced of it."""

    def __init__(self, root: Path, clock: Clock, watcher: Callable[[], Inotify]) -> None:
        catalog = ServiceCatalog(
            cluster="fjord", export=ExportMode.ALL, namespaces=NamespaceFilter()
        )
        self.root = root
        self.folder = Folder(root, catalog, clock, self._announce, watcher=watcher)
        self.history: list[tuple[ServiceKey, tuple[str, ...]]] = []
        self._markers = 0

    def _announce(self, touched: Touched) -> None:
        for key in sorted(touched.local):
            self.history.append((key, tuple(self.addresses(key))))

    def endpoints(self, key: ServiceKey = CART) -> tuple[Endpoint, ...]:
        return self.folder.catalog.local(key).endpoints

    def addresses(self, key: ServiceKey = CART) -> list[str]:
        return [endpoint.address for endpoint in self.endpoints(key)]

    @property
    def error(self) -> str:
        return self.folder.present_error or ""

    def write(self, name: str, *addresses: str) -> Path:
        """Write a file in place, as a shell does."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(*addresses))
        return path

    async def has(self, *addresses: str, key: ServiceKey = CART) -> None:
        """Wait until the service has exactly these addresses."""
        await eventually(
            lambda: self.addresses(key) == list(addresses),
            f"has {self.addresses(key)}, {self.error}",
        )

    async def until(self, condition: Callable[[], object]) -> None:
        await eventually(condition, f"never; error: {self.error}")

    async def catch_up(self) -> None:
        """Return when everything that happened until now has been followed."""
        self._markers += 1
        address = f"10.99.{self._markers // 250}.{self._markers % 250 + 1}"
        (self.root / "zz-marker.yaml").write_text(text_of(address, service="marker"))
        await self.has(address, key=MARKER)


@asynccontextmanager
async def following(
    root: Path,
    clock: Clock | None = None,
    watcher: Callable[[], Inotify] = Inotify,
    *,
    synced: bool = True,
) -> AsyncIterator[FolderBed]:
    """A folder that is followed as long as this."""
    bed = FolderBed(root, clock or SystemClock(), watcher)
    task = asyncio.create_task(bed.folder.follow())
    try:
        if synced:
            await asyncio.wait_for(bed.folder.synced.wait(), 10)
        yield bed
    finally:
        ended = task.done()
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        assert not ended, f"it ended by itself: {outcome!r}"


@contextmanager
def unprivileged() -> Iterator[None]:
    """Without the right to look into everything, should the tests be run by root.

    What Python imports late is imported before, since its own files may be out of reach, too.
    """
    importlib.import_module("concurrent.futures.thread")
    for encoding in ("ascii", "utf-8-sig"):
        codecs.lookup(encoding)
    former = os.geteuid()
    if former == 0:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if former == 0:
            os.seteuid(former)
