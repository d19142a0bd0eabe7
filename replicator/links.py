"""Runs the links: one reader and one writer task a link, one dialling task a configured peer.

Thin: what to say and to whom is the replica's.  Dialling never stops: a peer that does not answer
is tried again every second (half to one and a half), one that refuses with full-jitter back-off
from 1 s to 60 s; the name is resolved anew each time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import structlog

from clusters.base import Clock
from replicator.config import Peer
from replicator.effects import Effect
from replicator.errors import RefusedError, ReplicatorError
from replicator.overlay import Overlay
from replicator.recorder import Recorder
from replicator.replica import Replica
from replicator.transport.base import GOING_AWAY, NORMAL, Dialer, Link, LinkClosed

_REDIAL_SECONDS = 1.0
_DIAL_TIMEOUT_SECONDS = 5.0
_REFUSED_CAP_SECONDS = 60.0
_ATTEMPT_CAP = 6
_REVIEW_SECONDS = 2.0
_log = structlog.get_logger()


@dataclass(slots=True)
class PeerStatus:
    """What is shown of one configured peer."""

    peer: Peer
    state: str = "never_connected"
    connected_once: bool = False
    attempts: int = 0
    error: ReplicatorError | None = None


@dataclass(slots=True)
class _Running:
    link: Link
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    closing: tuple[int, str] | None = None


class Links:
    """All links of one agent."""

    def __init__(
        self,
        replica: Replica,
        recorder: Recorder,
        clock: Clock,
        rng: random.Random,
        perform: Callable[[list[Effect]], None],
        others: Collection[str] = (),
    ) -> None:
        """``perform`` carries out the replica's effects; it must not block.

        ``others`` are the clusters that may be dialled: all of them, or some near and some far.
        """
        self._replica = replica
        self._recorder = recorder
        self._clock = clock
        self._rng = rng
        self._perform = perform
        self._running: dict[int, _Running] = {}
        self.peers: dict[str, PeerStatus] = {}
        self._gone = asyncio.Event()
        self.draining = False
        self.overlay = Overlay(replica.me.cluster, others)
        self._rechosen = asyncio.Event()
        self._review_at = 0.0

    def wake(self, number: int) -> None:
        """Session ``number`` has something to send."""
        running = self._running.get(number)
        if running is not None:
            running.wake.set()

    def close(self, number: int, code: int, reason: str) -> None:
        """Send what waits on session ``number``, then close it."""
        running = self._running.get(number)
        if running is not None:
            running.closing = running.closing or (code, reason)
            running.wake.set()

    def link_of(self, number: int) -> Link | None:
        """The link of a session, for its counters."""
        running = self._running.get(number)
        return None if running is None else running.link

    def connected(self, cluster: str) -> bool:
        """Whether a session with ``cluster`` has got its hello."""
        sessions = self._replica.sessions.values()
        return any(s.cluster == cluster and s.peer is not None for s in sessions)

    def review(self, others: Collection[str]) -> None:
        """Every few seconds: choose anew whom to keep dialled, and let go of who is not needed.

        Not before the first head, which waits for the answers of those chosen at the start.
        """
        now = self._clock.monotonic()
        if now < self._review_at or self._replica.own.head is None:
            return
        self._review_at = now + _REVIEW_SECONDS
        former, sessions = self.overlay.chosen, self._replica.sessions.values()
        lost = {name for name, status in self.peers.items() if status.error is not None}
        for number in self.overlay.review(others, sessions, lost):
            self.close(number, NORMAL, "not needed")
        if self.overlay.chosen != former:
            self._rechosen.set()
            self._rechosen = asyncio.Event()

    async def serve(self, link: Link) -> None:
        """Run one established link until it ends."""
        cluster = link.identity.cluster
        number, effects = self._replica.open_session(
            cluster, dialled=link.dialled, now=self._clock.monotonic()
        )
        running = self._running[number] = _Running(link)
        running.wake.set()
        reason = "closed"
        try:
            self._perform(effects)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(number, link))
                group.create_task(self._write(number, running))
        except* LinkClosed as group_error:
            reason = str(group_error.exceptions[0])
        finally:
            await link.close(GOING_AWAY if self.draining else NORMAL, "shutting down")
            del self._running[number]
            self._perform(self._replica.close_session(number, self._clock.monotonic()))
            self._gone.set()
            self._gone = asyncio.Event()
        _log.info("link_closed", peer=cluster, reason=reason)

    async def _read(self, number: int, link: Link) -> None:
        while True:
            frame = await link.receive()
            now, wall_ns = self._clock.monotonic(), self._clock.wall_ns()
            self._perform(self._replica.receive(number, frame, now, wall_ns))
            await self._recorder.room()

    async def _write(self, number: int, running: _Running) -> None:
        while True:
            await running.wake.wait()
            running.wake.clear()
            while frames := self._replica.pull(number):
                for frame in frames:
                    await running.link.send(frame)
            if running.closing is not None:
                code, reason = running.closing
                await running.link.close(code, reason)
                raise LinkClosed(code, reason)

    async def keep_dialled(self, peer: Peer, dialer: Dialer) -> None:
        """Keep a link to ``peer``, dialled by either side, for ever, while it is chosen."""
        status = self.peers[peer.cluster] = PeerStatus(peer)
        refusals = 0
        while not self.draining:
            if self.connected(peer.cluster):
                status.connected_once = True
                await self._gone.wait()
                continue
            if self._replica.members.forgotten(peer.cluster):
                await self._clock.sleep(_REDIAL_SECONDS)
                continue
            if peer.cluster not in self.overlay.chosen:
                status.state, status.error = "not_chosen", None
                await self._rechosen.wait()
                continue
            if status.state == "not_chosen":
                status.state = "never_connected"
            status.attempts += 1
            if status.connected_once:
                status.state = "backoff"
            try:
                link = await dialer.dial(peer.url, peer.cluster, _DIAL_TIMEOUT_SECONDS)
            except RefusedError as error:
                refusals = min(refusals + 1, _ATTEMPT_CAP)
                self._failed(status, error, "refused")
                cap = min(_REFUSED_CAP_SECONDS, 2.0**refusals)
                await self._clock.sleep(self._rng.uniform(1.0, cap))
            except ReplicatorError as error:
                self._failed(status, error, None)
                await self._clock.sleep(_REDIAL_SECONDS * self._rng.uniform(0.5, 1.5))
            else:
                refusals = 0
                status.error = None
                await self._dialled(link)

    async def _dialled(self, link: Link) -> None:
        began = self._clock.monotonic()
        await self.serve(link)
        if self._clock.monotonic() - began < _REDIAL_SECONDS:
            # Closed at once: a duplicate of a link the peer dialled, or a rejected hello.
            await self._clock.sleep(_REDIAL_SECONDS * self._rng.uniform(0.5, 1.5))

    @staticmethod
    def _failed(status: PeerStatus, error: ReplicatorError, state: str | None) -> None:
        if status.error is None or status.error.code != error.code:
            _log.warning("peer_unreachable", peer=status.peer.cluster, why=str(error))
        status.error = error
        if state is not None:
            status.state = state
        elif not status.connected_once:
            status.state = "never_connected"
