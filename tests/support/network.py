"""One face for the two transports, so that one suite runs on both; and TLS on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cryptography import x509

from replicator.config import Tls
from replicator.identity import PeerIdentity
from replicator.pki import Authority, Issued
from replicator.transport.base import Admit, Dialer, Link, Listener, admit_all
from replicator.transport.dialer import TlsDialer
from replicator.transport.doorway import Bounds
from replicator.transport.memory import MemoryNetwork
from replicator.transport.reload import LiveTls
from replicator.transport.server import TlsListener
from tests.support import certificates
from tests.support.certificates import CLUSTERSET, now

FRAME_LIMIT = 256 << 10
DIAL_SECONDS = 10.0


def identity(cluster: str) -> PeerIdentity:
    """A cluster of the tests' clusterset."""
    return PeerIdentity(CLUSTERSET, cluster)


def tls_files(folder: Path) -> Tls:
    """The three files in ``folder``."""
    return Tls(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")


def live_tls(
    folder: Path,
    issuer: Authority,
    cluster: str,
    *,
    trust: tuple[x509.Certificate, ...] | None = None,
    issued: Issued | None = None,
) -> LiveTls:
    """Write a pair of ``cluster`` into ``folder`` and load it."""
    roots = (issuer.certificate,) if trust is None else trust
    certificates.write(folder, issued or certificates.pair(issuer, cluster), roots)
    return LiveTls(tls_files(folder), identity(cluster), now)


class Wire(Protocol):
    """A transport under test."""

    def listener(
        self, cluster: str, admit: Admit = admit_all, bounds: Bounds | None = None
    ) -> Listener:
        """A listener of ``cluster``."""
        ...

    def dialer(self, cluster: str) -> Dialer:
        """A dialer for ``cluster``."""
        ...


class MemoryWire:
    """The twin in memory."""

    def __init__(self) -> None:
        self.network = MemoryNetwork(max_frame=FRAME_LIMIT)

    def listener(
        self, cluster: str, admit: Admit = admit_all, bounds: Bounds | None = None
    ) -> Listener:
        return self.network.listener(identity(cluster), admit, bounds)

    def dialer(self, cluster: str) -> Dialer:
        return self.network.dialer(identity(cluster))


class TlsWire:
    """Mutual TLS on loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._issuer = certificates.authority()
        self._live: dict[str, LiveTls] = {}

    def _tls(self, cluster: str) -> LiveTls:
        if cluster not in self._live:
            self._live[cluster] = live_tls(self._folder / cluster, self._issuer, cluster)
        return self._live[cluster]

    def listener(
        self, cluster: str, admit: Admit = admit_all, bounds: Bounds | None = None
    ) -> Listener:
        tls = self._tls(cluster)
        return TlsListener("127.0.0.1", 0, tls, admit=admit, bounds=bounds, max_frame=FRAME_LIMIT)

    def dialer(self, cluster: str) -> Dialer:
        return TlsDialer(self._tls(cluster), now, max_frame=FRAME_LIMIT)


def url_of(listener: Listener) -> str:
    """Where a started listener is dialled."""
    host, port = listener.address
    return f"https://{host}:{port}"


class Meeting:
    """A handler of links that hands them to the test and keeps them until the test lets go."""

    def __init__(self) -> None:
        self._links: asyncio.Queue[Link] = asyncio.Queue()
        self._over = asyncio.Event()
        self.ended = 0

    async def __call__(self, link: Link) -> None:
        self._links.put_nowait(link)
        try:
            await self._over.wait()
        finally:
            self.ended += 1

    async def link(self) -> Link:
        """The next link."""
        async with asyncio.timeout(DIAL_SECONDS):
            return await self._links.get()

    def end(self) -> None:
        """Let all handlers return."""
        self._over.set()


async def echo(link: Link) -> None:
    """A handler that sends back what it gets."""
    while True:
        await link.send(await link.receive())


async def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Return once ``condition`` holds; it is looked at whenever the loop gets round to it."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - conditions of any kind
            await asyncio.sleep(0.005)
