"""A transport in memory for tests: the same links and answers, and a network that can be cut.

Frames stay bytes and obey the same limits; a sender waits when ``HIGH_WATER`` bytes are under way.
A cut holds frames as TCP would and delivers them when it is healed; dials fail at once while either
direction is cut.  There are no clocks and no dice: what happens depends on the calls alone.
"""

from __future__ import annotations

import asyncio
from collections import deque

from replicator.errors import RefusedError, TransportError
from replicator.identity import PeerIdentity
from replicator.transport.admission import (
    DRAINING,
    body_of,
    error_from,
    headers_of,
    judge,
    own_headers,
)
from replicator.transport.base import (
    GOING_AWAY,
    HIGH_WATER,
    MAX_FRAME,
    NORMAL,
    TOO_BIG,
    Admit,
    Link,
    LinkClosed,
    OnLink,
    admit_all,
)
from replicator.transport.doorway import Bounds, Doorway
from replicator.transport.supervision import supervise
from replicator.transport.websocket import frame_bytes


class _Pipe:
    """One direction of one link."""

    def __init__(self, network: MemoryNetwork, source: str, target: str) -> None:
        self.network, self.source, self.target = network, source, target
        self.frames: deque[bytes] = deque()
        self.waiting = 0
        self.changed = asyncio.Event()

    def wake(self) -> None:
        """Let both ends look again."""
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def open(self) -> bool:
        """Frames pass at present."""
        return not self.network.is_cut(self.source, self.target)


class MemoryLink:
    """:class:`~replicator.transport.base.Link` in memory."""

    def __init__(
        self,
        identity: PeerIdentity,
        outgoing: _Pipe,
        incoming: _Pipe,
        *,
        dialled: bool,
        max_frame: int,
    ) -> None:
        """Made by the dialer, in pairs."""
        self.identity = identity
        self.peer_certificate = b""
        self.peer_expires_ns: int | None = None
        self.own_expires_ns: int | None = None
        self.dialled = dialled
        self.remote = f"memory:{identity.cluster}"
        self.bytes_sent = 0
        self.bytes_received = 0
        self.other: MemoryLink | None = None
        self._out, self._in = outgoing, incoming
        self._max_frame = max_frame
        self._end: LinkClosed | None = None
        self._last: LinkClosed | None = None
        """How the peer ended the link; seen after the frames it sent before."""

    async def send(self, frame: bytes) -> None:
        """See :class:`~replicator.transport.base.Link`."""
        if len(frame) > self._max_frame:
            message = f"a frame of {len(frame)} bytes is above the limit of {self._max_frame}"
            raise ValueError(message)
        self._raise_if_over()
        self._out.frames.append(frame)
        self._out.waiting += len(frame)
        self.bytes_sent += frame_bytes(len(frame), masked=self.dialled)
        self._out.wake()
        await asyncio.sleep(0)
        while self._out.waiting > HIGH_WATER:
            self._raise_if_over()
            await self._out.changed.wait()

    def _raise_if_over(self) -> None:
        over = self._end
        if over is None and self._in.open:
            over = self._last
        if over is not None:
            raise over

    async def receive(self) -> bytes:
        """See :class:`~replicator.transport.base.Link`."""
        while self._end is None:
            if self._in.open and self._in.frames:
                return await self._take(self._in.frames.popleft())
            if self._in.open and self._last is not None:
                self._end = self._last
                break
            await self._in.changed.wait()
        raise self._end

    async def _take(self, frame: bytes) -> bytes:
        self._in.waiting -= len(frame)
        self._in.wake()
        if len(frame) > self._max_frame:
            await self.close(TOO_BIG, "frame above the limit")
            raise self._end or LinkClosed(TOO_BIG, "")
        self.bytes_received += frame_bytes(len(frame), masked=not self.dialled)
        return frame

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """See :class:`~replicator.transport.base.Link`."""
        self._finish(LinkClosed(code, reason))

    def sever(self) -> None:
        """Break both ends, as a reset does: frames under way are lost."""
        for link in (self, self.other):
            if link is not None:
                link.lose()

    def lose(self) -> None:
        """Break this end."""
        self._in.frames.clear()
        self._finish(LinkClosed(None, "the peer is gone"))

    def peer_closed(self, end: LinkClosed) -> None:
        """The peer ended the link; frames it sent before are still received."""
        self._last = self._last or end

    def _finish(self, end: LinkClosed) -> None:
        if self._end is None:
            self._end = end
            if self.other is not None:
                self.other.peer_closed(end)
        self._out.wake()
        self._in.wake()

    def wake(self) -> None:
        """Look again whether frames pass."""
        self._in.wake()

    def over(self) -> bool:
        """This end is closed."""
        return self._end is not None


class MemoryListener:
    """:class:`~replicator.transport.base.Listener` in memory."""

    def __init__(
        self,
        network: MemoryNetwork,
        identity: PeerIdentity,
        port: int,
        admit: Admit,
        bounds: Bounds,
    ) -> None:
        """Made by :meth:`MemoryNetwork.listener`."""
        self._network = network
        self._port = port
        self.identity = identity
        self.admit = admit
        self.door = Doorway(bounds)
        self.draining = False
        self.on_link: OnLink | None = None
        self._running: dict[asyncio.Task[None], MemoryLink] = {}

    @property
    def address(self) -> tuple[str, int]:
        """See :class:`~replicator.transport.base.Listener`."""
        return "memory", self._port

    async def start(self, on_link: OnLink) -> None:
        """See :class:`~replicator.transport.base.Listener`."""
        self.on_link = on_link
        self._network.listeners[self._port] = self

    def drain(self) -> None:
        """See :class:`~replicator.transport.base.Listener`."""
        self.draining = True

    def take(self, link: MemoryLink) -> None:
        """Run ``on_link`` for a link just made."""
        task = asyncio.create_task(self._run(link))
        self._running[task] = link
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.door.give_back(self._running.pop(task).identity.cluster)

    async def _run(self, link: MemoryLink) -> None:
        assert self.on_link is not None  # noqa: S101 - set before the network knows the listener
        await supervise(self.on_link, link)

    async def stop(self, grace: float) -> None:
        """See :class:`~replicator.transport.base.Listener`."""
        self.drain()
        running = list(self._running.items())
        for _, link in running:
            await link.close(GOING_AWAY, "shutting down")
        tasks = [task for task, _ in running]
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=grace * 0.9)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._network.listeners.pop(self._port, None)


class MemoryDialer:
    """:class:`~replicator.transport.base.Dialer` in memory."""

    def __init__(self, network: MemoryNetwork, identity: PeerIdentity) -> None:
        """Made by :meth:`MemoryNetwork.dialer`."""
        self._network = network
        self._identity = identity

    async def dial(self, url: str, cluster: str, timeout: float) -> Link:  # noqa: ASYNC109 - see base
        """See :class:`~replicator.transport.base.Dialer`; takes no time."""
        del timeout
        await asyncio.sleep(0)
        network, own = self._network, self._identity
        listener = network.listeners.get(int(url.rpartition(":")[2]))
        peer = f"{cluster} at {url}"
        if listener is None or not network.can_dial(own.cluster, listener.identity.cluster):
            raise TransportError(f"{peer} cannot be reached", cure="heal the network")
        if listener.identity.clusterset != own.clusterset:
            message = f"{peer} is of clusterset {listener.identity.clusterset}"
            raise RefusedError(message, cure="correct the url", code="clusterset_mismatch")
        if listener.identity.cluster != cluster:
            message = f"{listener.identity.cluster} answers where {peer} was dialled"
            raise RefusedError(message, cure="correct the url", code="identity_mismatch")
        refusal = DRAINING if listener.draining else None
        refusal = refusal or judge(own, own_headers(own), listener.identity, listener.admit)
        refusal = refusal or listener.door.take(own.cluster)
        if refusal is not None:
            raise error_from(refusal.status, headers_of(refusal), body_of(refusal), peer)
        ours, theirs = network.pair(own, listener.identity)
        listener.take(theirs)
        return ours


class MemoryNetwork:
    """All links of one test."""

    def __init__(self, *, max_frame: int = MAX_FRAME) -> None:
        """A network without faults."""
        self.listeners: dict[int, MemoryListener] = {}
        self.expiries: dict[str, int] = {}
        """When (Unix ns) the certificate that a cluster shows from now on is over."""
        self._max_frame = max_frame
        self._ports = 0
        self._cut: set[tuple[str, str]] = set()
        self._firewalls: set[tuple[str, str]] = set()
        self._links: list[MemoryLink] = []

    def listener(
        self, identity: PeerIdentity, admit: Admit = admit_all, bounds: Bounds | None = None
    ) -> MemoryListener:
        """A listener of ``identity``, dialled at ``https://memory:PORT``."""
        self._ports += 1
        return MemoryListener(self, identity, self._ports, admit, bounds or Bounds())

    def dialer(self, identity: PeerIdentity) -> MemoryDialer:
        """A dialer for ``identity``."""
        return MemoryDialer(self, identity)

    def is_cut(self, source: str, target: str) -> bool:
        """Whether frames from ``source`` to ``target`` are held."""
        return (source, target) in self._cut

    def can_dial(self, source: str, target: str) -> bool:
        """Whether a dial gets through."""
        both = {(source, target), (target, source)}
        return not (both & self._cut) and (source, target) not in self._firewalls

    def cut(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Hold frames between two clusters; ``one_way``: only those from ``one`` to ``other``."""
        self._cut |= {(one, other)} if one_way else {(one, other), (other, one)}

    def heal(self, one: str, other: str) -> None:
        """Let frames pass again, the held ones first."""
        self._cut -= {(one, other), (other, one)}
        for link in self._links:
            link.wake()

    def firewall(self, source: str, target: str, *, up: bool = True) -> None:
        """Let no dial from ``source`` to ``target`` through; links that exist go on."""
        (self._firewalls.add if up else self._firewalls.discard)((source, target))

    def sever(self, one: str, other: str) -> None:
        """Break all links between two clusters."""
        for link in list(self._links):
            if link.other is not None and {link.identity.cluster, link.other.identity.cluster} == {
                one,
                other,
            }:
                link.sever()

    def pair(
        self, dialling: PeerIdentity, listening: PeerIdentity
    ) -> tuple[MemoryLink, MemoryLink]:
        """Both ends of a new link."""
        there = _Pipe(self, dialling.cluster, listening.cluster)
        back = _Pipe(self, listening.cluster, dialling.cluster)
        limit = self._max_frame
        ours = MemoryLink(listening, there, back, dialled=True, max_frame=limit)
        theirs = MemoryLink(dialling, back, there, dialled=False, max_frame=limit)
        ours.other, theirs.other = theirs, ours
        ours.own_expires_ns = theirs.peer_expires_ns = self.expiries.get(dialling.cluster)
        ours.peer_expires_ns = theirs.own_expires_ns = self.expiries.get(listening.cluster)
        self._links = [link for link in self._links if not link.over()]
        self._links += [ours, theirs]
        return ours, theirs
